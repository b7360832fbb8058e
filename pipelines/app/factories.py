"""Factories of River models and transformers: import, creation, and reproducibility test."""

import hashlib
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.outgoing import Time
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import encode_original_record
from streamboost.encoders import import_function
from streamboost.errors import ConfigurationError, StateError
from streamboost.features.fields import Field
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.models.model import ExternalModel
from streamboost.pipelines.models.models import ExternalModels
from streamboost.pipelines.models.transformer import Transformer, decode_raw_record
from streamboost.pipelines.state.folder import State

_log = logging.getLogger(__name__)

STEADY = "independent of the seed of Python's hashes"
_MOST = 100
"""Maximum number of records in the reproducibility test."""

_PATIENCE = 120
"""Timeout of the reproducibility test in seconds."""

_FEATURES = "[features]"
_REQUIRED_METHODS = {
    _FEATURES: (
        ("transform_one", "learn_one"),
        "a River transformer, or a union or pipeline of some",
    ),
}
_REQUIRED_METHODS_OF_MODELS = (
    ("predict_proba_one", "learn_one"),
    "a River classifier with probabilities, those of scikit-learn in river.compat's wrapper",
)

_MAX_FIELDS = 256
"""Maximum number of fields that a transformer may make; the most frequent ones are kept."""


def river_factories_by_section(config: Config) -> dict[str, str]:
    """Return the factories `module:function` in the pipeline file, keyed by section name."""
    sections = config.sections
    model = None if sections.model is None else sections.model.river
    found = {} if model is None else {"[model]": model}
    found |= {} if sections.features is None else {_FEATURES: sections.features.river}
    return found | {
        f"[shadow_models.{name}]": one.river for name, one in (sections.shadow_models or {}).items()
    }


def call_factory(section_name: str, factory: str, folder: Path) -> Any:
    """Import and call a factory `module:function` from `folder` or installed packages.

    The factory of section "[features]" must return a transformer, and those of other sections a
    classifier. Raises ConfigurationError if the import or call fails, or the result has another
    type.
    """
    where = f"{section_name} river = {factory!r}"
    module, _, function = factory.partition(":")
    if not module or not function:
        raise ConfigurationError(f'{where}: set "module:function"')
    try:
        made = import_function(factory, folder)()
    except Exception as error:  # user code may raise any exception
        raise ConfigurationError(
            f"{where} failed: {type(error).__name__}: {error}; modules are imported from {folder} "
            "and from installed packages"
        ) from error
    asked, what = _REQUIRED_METHODS.get(section_name, _REQUIRED_METHODS_OF_MODELS)
    lacking = [name for name in asked if not hasattr(made, name)]
    if not lacking and isinstance(made, type):
        raise ConfigurationError(
            f"{where} returns a class: return an object, `return {made.__name__}(...)`"
        )
    if lacking:
        raise ConfigurationError(
            f"{where} returns a {type(made).__name__}, which has no {lacking[0]}: return {what}"
        )
    return made


def create_models(config: Config, schema: Schema, state: State) -> ExternalModels | None:
    """Return the untrained external models of the pipeline file; None if it names none."""
    if not (factories := river_factories_by_section(config)):
        return None
    _restrict_folder_permissions(state.path)
    made = {
        section_name: ExternalModel(
            call_factory(section_name, factory, config.folder), schema.features
        )
        for section_name, factory in factories.items()
        if section_name != _FEATURES
    }
    transformer = _create_transformer(config)
    shadow_models = {
        name: made[f"[shadow_models.{name}]"] for name in config.sections.shadow_models or {}
    }
    learner = config.learner_config.build_learner(schema, 0, encoders=config.encoders)
    samples = partial(_recent_input_records, made, transformer)
    return ExternalModels(
        made.get("[model]"),
        shadow_models,
        transformer,
        learner.evaluation.block,
        learner.evaluation.min_labels,
        state.path,
        _river_version_text(),
        lambda: are_models_deterministic(config, samples()),
    )


def _restrict_folder_permissions(folder: Path) -> None:
    """Restrict the state folder to its owner; StateError if other users may write there."""
    found = folder.stat()
    if found.st_mode & 0o022 or found.st_uid != os.geteuid():
        raise StateError(
            f"{folder} belongs to another user or is writable by others, but River's models are "
            f"pickles, which run code when read: `chmod 700 {folder}` if only you have written "
            "there"
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def _create_transformer(config: Config) -> Transformer | None:
    section = config.sections.features
    made = None if section is None else call_factory(_FEATURES, section.river, config.folder)
    return None if made is None else Transformer(made)


def transform_messages(
    config: Config, schema: Schema, messages: Sequence[Message]
) -> Sequence[Message]:
    """Return `messages`, the first records, with the fields that a new transformer makes of them.

    The `_MAX_FIELDS` most frequent fields are kept. Without a transformer in the pipeline file, the
    messages are returned unchanged. Raises ConfigurationError if no record can be transformed.
    """
    if (transformer := _create_transformer(config)) is None:
        return messages
    if schema.inline_labels:
        messages = schema.split_inline_labels(messages, is_transformed=True).records or messages
    # A schema needs a feature, so this one has a name that no record has.
    bare = replace(schema, fields={f"{schema.id} and nothing else": Field("number")}, named={})
    records = bare.decode(messages).records
    if not len(records):
        return messages
    made = [
        transformer.transform(decode_raw_record(message, schema), time)
        for message, time in zip(records.messages, records.times, strict=True)
    ]
    if transformer.failures == len(made):
        raise ConfigurationError(
            f"{_FEATURES} river = {river_factories_by_section(config)[_FEATURES]!r} failed on all "
            f"{len(made)} of the first records: see the log for the exception, and call the "
            "transformer on one of these records"
        )
    shown = Counter(name for one in made for name in one)
    if len(shown) > _MAX_FIELDS:
        _log.warning(
            "the transformer makes %d fields: only the %d most frequent fields are used",
            len(shown),
            _MAX_FIELDS,
            extra={"event": "transformer_fields_limited"},
        )
    widest = dict(shown.most_common(_MAX_FIELDS))
    found = []
    for id, message, one in zip(records.ids, records.messages, made, strict=True):
        told = {name: value for name, value in one.items() if name in widest}
        payload = json.dumps(told | {schema.id: id}).encode()
        found.append(msgspec.structs.replace(message, payload=payload, size=len(payload)))
    return found


def infer_if_unknown(config: Config, schema: Schema, messages: Sequence[Message]) -> Schema:
    """Return `schema`, with its features inferred from the first `messages` if not known yet."""
    if schema.has_known_features or not messages:
        return schema
    return schema.infer(transform_messages(config, schema, messages)).schema


def are_models_deterministic(
    config: Config, records: Sequence[tuple[Mapping[str, Any], Time]]
) -> bool:
    """Return whether the external models ignore the seed of Python's hashes.

    The models are trained on `records`, pairs of record and timestamp, in two processes with
    different hash seeds. They must give equal predictions.
    """
    told = {
        "factories": river_factories_by_section(config),
        "folder": str(config.folder),
        "records": list(records[:_MOST]),
    }
    found = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import print_model_hash; print_model_hash()"],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env=environment,
            check=False,
        )
        if process.returncode:
            said = (process.stderr.strip().splitlines() or ["the process failed without output"])[
                -1
            ]
            raise ConfigurationError(f"River's models cannot be tried: {said}")
        found.add(process.stdout.strip().splitlines()[-1])
    return len(found) == 1


def print_model_hash() -> None:
    """Create and train the models described on standard input; print a hash of their results."""
    given = json.load(sys.stdin)
    said: list[Any] = []
    factories, folder = given["factories"], Path(given["folder"])
    records = [record for record, _ in given["records"]]
    if (factory := factories.pop(_FEATURES, None)) is not None:
        transformer = Transformer(call_factory(_FEATURES, factory, folder))
        pairs = list(enumerate(given["records"]))
        records = []
        for n, (record, time) in pairs:
            records.append(transformer.transform(record, time))
            transformer.learn(encode_original_record(record, time), n % 2)
        said += records
    for section_name, factory in factories.items():
        model = call_factory(section_name, factory, folder)
        for n, record in enumerate(records):
            chances = model.predict_proba_one(record)
            said.append(sorted((str(label), float(p)) for label, p in chances.items()))
            model.learn_one(record, "ab"[n % 2])
    print(hashlib.sha256(json.dumps(said).encode()).hexdigest())


def check_models(config: Config, records: Sequence[tuple[Mapping[str, Any], Time]]) -> str:
    """Create the models; return a text with their number and whether they are deterministic.

    Raises ConfigurationError if a model cannot be created or tried on `records`.
    """
    factories = river_factories_by_section(config)
    for section_name, factory in factories.items():
        call_factory(section_name, factory, config.folder)
    if are_models_deterministic(config, records):
        n = min(len(records), _MOST)
        return f"{len(factories)} created; {STEADY}, tested on {n} records"
    return (
        f"{len(factories)} created; not {STEADY}, so that replays are not compared: "
        "sort sets before iterating over them"
    )


def _recent_input_records(
    models: Mapping[str, ExternalModel], transformer: Transformer | None
) -> list[tuple[dict[str, Any], Time]]:
    if transformer is not None:
        return transformer.recent_records(_MOST)
    return [(record, None) for record in next(iter(models.values())).recent_records(_MOST)]


def _river_version_text() -> str:
    try:
        return f"river {version('river')}"
    except PackageNotFoundError:
        return "no river"
