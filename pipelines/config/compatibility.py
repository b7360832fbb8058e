"""Compatibility of a configuration with an existing state.

Keys that may change between two runs on the same state:

- [pipeline]: `state` (the folder may be moved), `batch_records`, `batch_labels`, `poll_interval`,
  `checkpoint_every`, `checkpoint_copy`, `on_data_loss`, `keep_versions`
- [source] and [labels]: `follow`, `on_corrupt`
- [kafka]: all keys except `transactions`
- [schema_registry], [monitor], [serve], [label_studio], [decision]: all keys
- [predictions], [requests], [dead_letters]: location, format and included fields, except outputs
  that an oracle or a dataset reads
- [schema.fields]: added fields, which older records lack; [schema] `classes`

Any other change is rejected, including a change of an environment variable's value. Two paths are
equal if they have the same name in the same folder. A path may be a symbolic link with a changed
target: sources identify their files by content.
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

from streamboost.errors import StateError
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.connectors.registry import configured_name, sections_for
from streamboost.pipelines.config.field_changes import field_changes
from streamboost.pipelines.config.file import LEARNER, Config, Tables
from streamboost.pipelines.state.folder import State

__all__ = [
    "adopt_config",
    "bound_config",
    "commits_to_kafka",
    "fingerprint",
    "name_of",
    "refuse_another",
    "units",
    "verify",
]

_PIPELINE = {
    "state",
    "batch_records",
    "batch_labels",
    "poll_interval",
    "checkpoint_every",
    "checkpoint_copy",
    "on_data_loss",
    "keep_versions",
}
_ASIDE = {"decision", "label_studio", "schema_registry", "serve"}
"""Sections that do not affect the state: they may be added, changed and removed."""

_OF_FIELDS = {
    "schema": ("exclude",),
    "labels": ("fields", "on_conflict"),
    "initial_data": ("committee",),
}
"""Keys that are absent if they have their default."""

_PATHS = {"": ("path",), "initial_data": ("path", "committee")}
"""Keys that name a file or folder, by section; "" for all others."""

_ITERATIONS = 100_000
"""Iterations of the fingerprint's hash (PBKDF2), which make guesses of secrets expensive."""


def bound_config(config: Config) -> Tables:
    """Return the binding part of the configuration (no changes between runs), secrets masked.

    The result includes [schema.fields], to which fields may only be added.
    """
    fields = config.written["schema"].get("fields")
    tables = _bound(config, config.written)
    return tables | {"schema": tables["schema"] | ({"fields": fields} if fields else {})}


def fingerprint(config: Config, salt: str, *, learner: Tables | None = None) -> str:
    """Return `salt` and a hash of the binding part of the configuration, secrets included.

    `learner` replaces the learner's sections, if given.
    """
    tables = _bound(config, config.resolved() | (learner or {}))
    for section, values in tables.items():
        for key in _paths(section):
            if values.get(key) is not None:
                values[key] = _place(config, values[key])
    return f"{salt}:{_digest(json.dumps(tables, sort_keys=True), salt)}"


@lru_cache(maxsize=16)
def _digest(binding: str, salt: str) -> str:
    """Return the hash of a fingerprint; cached, as the computation takes 15 ms."""
    return hashlib.pbkdf2_hmac("sha256", binding.encode(), salt.encode(), _ITERATIONS).hex()


def adopt_config(config: Config, state: State, *, begun: bool) -> None:
    """Store the configuration and fingerprint of `config` in `state`.

    Raises StateError as `verify` does.
    """
    assert config.has_core, "a state belongs to a whole configuration, the learner's included"
    if not verify(config, state, begun=begun):
        state.delete_schema()
    state.write_configuration(config.to_toml(), fingerprint(config, _salt(state.fingerprint())))


def verify(config: Config, state: State, *, begun: bool) -> bool:
    """Return whether `config` is compatible with `state`; write nothing.

    If `config` was loaded without the learner's sections, those of the state are used. `begun` is
    whether the state has committed batches or checkpoints.

    Raises
    ------
    StateError
        If the state has `begun` and is incompatible, incomplete or lost.
    """
    kept, schema = state.fingerprint(), state.schema()
    learner = {} if config.has_core else _only_keys(_kept(state), LEARNER)
    same = bool(kept) and _build(config, kept, learner)
    if begun and not state.has_files:
        again = f"`streamboost {'learn' if config.is_distributed else 'run'} --rebuild`"
        raise StateError(
            f"{state.path} is empty, though batches of {config.name} are committed: put it back "
            f"from a copy, or have it made again from the journal by {again}"
            + (
                "; to start with an empty state, give another [pipeline] name"
                if config.commits_to_kafka
                else ""
            )
        )
    if begun and not kept:
        raise StateError(
            f"{state.path / 'fingerprint'} is missing, so nobody can tell whether this state was "
            f"made by this configuration: put it back from a copy. "
            f"{state.empty_state_instruction()}"
        )
    if begun and not same:
        raise _other_release(config, state, _kept(state))
    changes = field_changes(config, schema, _kept(state)) if same else []
    if begun and changes:
        raise _refused(config, state, changes)
    return same and not changes


def _build(config: Config, print_: str, learner: Tables | None = None) -> bool:
    """Return whether a fingerprint was made from `config`."""
    return fingerprint(config, _salt(print_), learner=learner) == print_


def _only_keys(tables: Tables, names: Iterable[str]) -> Tables:
    return {name: tables[name] for name in names if name in tables}


def refuse_another(config: Config, state: State, print_: str, configuration: str) -> None:
    """Raise StateError if the fingerprint `print_` was made from another configuration."""
    if not _build(config, print_):
        raise _other_release(config, state, tomllib.loads(configuration))


def name_of(state: State) -> str | None:
    """Return the name of the state's pipeline, or None if the configuration is missing."""
    name = _kept(state).get("pipeline", {}).get("name")
    return None if name is None else str(name)


def commits_to_kafka(state: State) -> bool:
    """Return whether the journal of the state's pipeline is kept in Kafka."""
    return bool(_kept(state).get("kafka", {}).get("transactions", False))


def units(state: State) -> dict[str, str]:
    """Return the units of the positions, by source (records, bytes, offsets, ...)."""
    kept = _kept(state)
    units = {"records": "records", "labels": "labels", "commands": "commands"}
    sources = (("records", "source", "input"), ("labels", "labels", "labels"))
    for source, section, use in (*sources, ("initial_data", "initial_data", "input")):
        # Not validated: a masked variable may be no valid value.
        table = kept.get(section)
        if table and (section != "initial_data" or "path" in table):
            written = configured_name(use, {"connector": "files"} | table)
            units[source] = written.unit or units[source]
    return units


def _bound(config: Config, tables: Tables) -> Tables:
    free = _changeable(config)
    return {
        section: {k: v for k, v in values.items() if k not in free.get(section, ())}
        for section, values in tables.items()
        if section not in _ASIDE
    }


def _changeable(config: Config) -> dict[str, set[str]]:
    """Return the keys of each section that may change between two runs on one state."""
    read = {key for section in sections_for("input") for key in section.changeable}
    outputs = (*sections_for("output"), *sections_for("predictions"))
    written = {key for section in outputs for key in section.model_fields}
    free = {"pipeline": _PIPELINE, "schema": {"fields", "classes"}, "source": read, "labels": read}
    free |= dict.fromkeys(("predictions", "requests", "dead_letters"), written)
    free["monitor"] = set(type(config.sections.monitor).model_fields)
    if config.sections.kafka is not None:
        free["kafka"] = set(config.sections.kafka.model_dump()) - {"transactions"}
    for name in config.sections.labels.listens_to:
        del free[name]  # the position of the labels is one in these
    return free


def _paths(section: str) -> tuple[str, ...]:
    return _PATHS.get(section, _PATHS[""])


def _place(config: Config, path: str) -> str:
    """Resolve the folder of `path`, relative to the folder of the pipeline file if inside."""
    whole = Path(os.path.abspath(config.resolve(path)))
    place, folder = Path(os.path.realpath(whole.parent), whole.name), config.folder.resolve()
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def _salt(fingerprint: str) -> str:
    return fingerprint.partition(":")[0] or token_hex(16)


def _kept(state: State) -> Tables:
    """Return the stored configuration of the state; empty if unreadable."""
    try:
        return tomllib.loads(state.configuration() or "")
    except ValueError:
        return {}


def _other_release(config: Config, state: State, old: Tables) -> StateError:
    return _refused(config, state, _changes(config, state, old))


def _refused(config: Config, state: State, changes: list[str]) -> StateError:
    free = ", ".join(
        f"[{section}] {' '.join(sorted(names))}"
        for section, names in _changeable(config).items()
        if section != "schema"
    )
    anew = "and name to new ones" if config.commits_to_kafka else "to a new folder"
    return StateError(
        f"{state.path}: this state was made by another configuration: "
        f"{'; '.join(changes)}. Undo the change, or set [pipeline] state {anew} to start with an "
        f"empty state. On an existing state these may change: {free}; [schema] classes; and "
        "fields may be added to [schema.fields]"
    )


def _changes(config: Config, state: State, old: Tables) -> list[str]:
    """Describe the differences from `old`, the stored configuration of the state."""
    if not old:
        return [f"{state.config} cannot be read, so what has changed is not known"]
    changes = []
    for section, values in _bound(config, config.written).items():
        known = old.get(section, {})
        gone = [key for key in _OF_FIELDS.get(section, ()) if key in known and key not in values]
        for key in [*values, *gone]:
            before, now = _to_json(known.get(key)), _to_json(values.get(key))
            is_path = key in _paths(section)
            if before == now or (is_path and _same_place(config, before, now)):
                continue
            now = config.written[section].get(key, now)
            changes.append(f"[{section}] {key} was {_shown(before)} and is {_shown(now)}")
    left = {"model", "shadow_models", "features"} & (old.keys() - config.written.keys())
    changes += [f"[{section}] was set and is not" for section in sorted(left)]
    names = ", ".join(config.variables.names)
    if changes or not names:
        return changes or ["its paths lead elsewhere now"]
    return [f"an environment variable it names ({names}) has another value"]


def _to_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _same_place(config: Config, before: Any, now: Any) -> bool:
    return None not in (before, now) and _place(config, before) == _place(config, now)


def _shown(value: Any) -> str:
    return "not set" if value is None else toml.render(value)
