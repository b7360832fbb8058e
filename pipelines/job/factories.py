"""Models that a pipeline file names by their factories: importing, making and trying them."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.engine.models.model import Classifier, Model
from streamboost.pipelines.engine.models.models import Models
from streamboost.pipelines.state.folder import State

__all__ = ["STEADY", "is_steady", "make", "models_of", "named", "tried"]

STEADY = "the same whatever the seed of Python's hashes"
_MOST = 100
"""Records by which models are compared."""

_PATIENCE = 120
"""Seconds that making and trying models may take."""


def named(config: Config) -> dict[str, str]:
    """Return the factories that the file names, by the places where it does."""
    sections = config.sections
    found = {} if sections.model is None else {"[model]": sections.model.river}
    return found | {f"[rivals.{name}]": one.river for name, one in (sections.rivals or {}).items()}


def make(place: str, factory: str, folder: Path) -> Classifier:
    """Return what a factory makes, `module:function`, of a module in `folder` or installed.

    ConfigurationError where it cannot be imported or called, or makes no classifier; `place` is
    where the file names it.
    """
    where = f"{place} river = {factory!r}"
    module, _, function = factory.partition(":")
    if not module or not function:
        raise ConfigurationError(f'{where}: write "module:function"')
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        made = getattr(import_module(module), function)()
    except Exception as error:  # whatever stands in the file
        raise ConfigurationError(
            f"{where} cannot be made: {type(error).__name__}: {error}; modules are looked for in "
            f"{folder} and where packages are installed"
        ) from error
    lacking = [name for name in ("predict_proba_one", "learn_one") if not hasattr(made, name)]
    if lacking:
        raise ConfigurationError(
            f"{where} makes a {type(made).__name__}, which has no {lacking[0]}: give a River "
            "classifier with probabilities, those of scikit-learn in river.compat's wrapper"
        )
    classifier: Classifier = made
    return classifier


def models_of(config: Config, schema: Schema, state: State) -> Models | None:
    """Return the models that the file names, which know nothing yet; None where it names none."""
    if not (factories := named(config)):
        return None
    _close(state.path)
    made = {
        place: Model(make(place, factory, config.folder), schema.features)
        for place, factory in factories.items()
    }
    rivals = {name: made[f"[rivals.{name}]"] for name in config.sections.rivals or {}}
    block = config.core.learner(schema, 0).evaluation.block
    samples = partial(_samples, made)
    return Models(
        made.get("[model]"),
        rivals,
        block,
        state.path,
        _release(),
        lambda: is_steady(config, samples()),
    )


def _close(folder: Path) -> None:
    """Let nobody but its owner look into the state folder; StateError where others may write."""
    found = folder.stat()
    if found.st_mode & 0o022 or found.st_uid != os.geteuid():
        raise StateError(
            f"{folder}: others may write there, or own it, and River's models are pickles, which "
            f"run what stands in them: `chmod 700 {folder}`, if nobody but you has written there"
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def is_steady(config: Config, records: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether two processes whose hashes differ make models that say the same of `records`."""
    told = {
        "factories": named(config),
        "folder": str(config.folder),
        "records": list(records[:_MOST]),
    }
    found = set()
    for seed in ("1", "2"):
        around = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import told; told()"],
            input=json.dumps(told),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env=around,
            check=False,
        )
        if process.returncode:
            said = (process.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            raise ConfigurationError(f"River's models cannot be tried: {said}")
        found.add(process.stdout.strip().splitlines()[-1])
    return len(found) == 1


def told() -> None:
    """Print a hash of what models say that were made and taught in this process."""
    given = json.load(sys.stdin)
    said = []
    for place, factory in given["factories"].items():
        model = make(place, factory, Path(given["folder"]))
        for n, record in enumerate(given["records"]):
            chances = model.predict_proba_one(record)
            said.append(sorted((str(label), float(p)) for label, p in chances.items()))
            model.learn_one(record, "ab"[n % 2])
    print(hashlib.sha256(json.dumps(said).encode()).hexdigest())


def tried(config: Config, records: Sequence[Mapping[str, Any]]) -> str:
    """Say that models can be made, and whether a replay of them is compared."""
    for place, factory in named(config).items():
        make(place, factory, config.folder)
    if is_steady(config, records):
        return f"{len(named(config))} made; {STEADY}, by {min(len(records), _MOST)} records"
    return (
        f"{len(named(config))} made; not {STEADY}, so that replays are not compared: sort what "
        "they go through in the order of a set"
    )


def _samples(models: Mapping[str, Model]) -> list[dict[str, Any]]:
    return next(iter(models.values())).newest(_MOST)


def _release() -> str:
    try:
        return f"river {version('river')}"
    except PackageNotFoundError:
        return "no river"
