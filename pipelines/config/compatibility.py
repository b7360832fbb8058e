"""Test whether a changed configuration is compatible with an existing state.

This includes schema evolution: fields that are added to [schema.fields].

A change of a key that `_changeable_keys` does not list is rejected, including a change of an
environment variable's value. Two paths are equal if they have the same name in the same folder. A
path may be a symbolic link with a changed target: sources identify their files by content.
"""

import hashlib
import json
import os
import tomllib
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

from streamboost.errors import StateError
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.connectors.registry import (
    build_unvalidated_section,
    section_classes,
)
from streamboost.pipelines.config.field_changes import forbidden_field_changes
from streamboost.pipelines.config.file import LEARNER, Config, Tables
from streamboost.pipelines.state.folder import State

_PIPELINE = {
    "state",
    "batch_records",
    "batch_labels",
    "poll_interval",
    "checkpoint_every",
    "checkpoint_copy",
    "retention",
    "on_data_loss",
    "keep_versions",
    "encoder_threads",
}
_IRRELEVANT_SECTIONS = {"decision", "label_studio", "notify", "schema_registry", "serve"}
"""Sections that do not affect the state: they may be added, changed and removed."""

_OMITTED_DEFAULTS = {
    "schema": ("exclude",),
    "labels": ("fields", "on_conflict"),
    "initial_data": ("committee",),
}
"""Maps a section to its keys that are not stored if they have their default."""

_FILE_PATH_KEYS = {"": ("path",), "initial_data": ("path", "committee")}
"""Maps a section to its keys that name a file or folder; "" is for all other sections."""

_ITERATIONS = 100_000
"""Iterations of the fingerprint's hash (PBKDF2), which make guesses of secrets expensive."""


def unchangeable_settings(config: Config) -> Tables:
    """Return the sections with only the settings that must not change between runs, secrets masked.

    The result includes [schema.fields], to which fields may only be added.
    """
    fields = config.written["schema"].get("fields")
    tables = _remove_changeable_settings(config, config.written)
    return tables | {"schema": tables["schema"] | ({"fields": fields} if fields else {})}


def fingerprint(config: Config, salt: str, *, learner: Tables | None = None) -> str:
    """Return `salt`, a colon and a hash of the settings that must not change between runs.

    The settings include secrets, so the hash has many iterations (PBKDF2) against guessing. If
    `learner` is given, it replaces the learner's sections of `config`.
    """
    tables = _remove_changeable_settings(config, config.tables_with_defaults() | (learner or {}))
    for section, values in tables.items():
        for key in _file_path_keys(section):
            if values.get(key) is not None:
                values[key] = _normalize_path_for_comparison(config, values[key])
    return f"{salt}:{_salted_hash(json.dumps(tables, sort_keys=True), salt)}"


@lru_cache(maxsize=16)
def _salted_hash(json_text: str, salt: str) -> str:
    """Return a salted hash in hexadecimal digits; cached, as a hash takes 15 ms."""
    return hashlib.pbkdf2_hmac("sha256", json_text.encode(), salt.encode(), _ITERATIONS).hex()


def store_config(config: Config, state: State, *, state_has_begun: bool) -> None:
    """Store the configuration and fingerprint of `config` in `state`.

    `state_has_begun` is whether the state has committed batches or checkpoints. Raises StateError
    if this is so, and the state is incompatible with `config`.
    """
    assert config.has_learner_config, (
        "a state belongs to a whole configuration, the learner's included"
    )
    if not verify_compatibility(config, state, state_has_begun=state_has_begun):
        state.delete_schema()
    state.write_configuration(
        config.to_toml(), fingerprint(config, _parse_or_create_salt(state.fingerprint()))
    )


def verify_compatibility(config: Config, state: State, *, state_has_begun: bool) -> bool:
    """Return whether `config` is compatible with `state`, without changing `state`.

    If `config` was loaded without the learner's sections, those of the state are used.
    `state_has_begun` is whether the state has committed batches or checkpoints. Without them, False
    is returned instead of an error.

    Raises
    ------
    StateError
        If the state has begun, and is incompatible, incomplete or lost.
    """
    kept, schema = state.fingerprint(), state.schema()
    stored = {} if config.has_learner_config else _load_stored_config(state)
    learner = {name: stored[name] for name in LEARNER if name in stored}
    same = bool(kept) and _matches_fingerprint(config, kept, learner)
    if state_has_begun and not state.has_files:
        again = f"`streamboost {'learn' if config.is_distributed else 'run'} --rebuild`"
        raise StateError(
            f"{state.path} is empty, although batches of {config.name} are committed: restore the "
            f"folder from a copy, or rebuild it from the journal by {again}"
            + (
                "; to start with an empty state, set another [pipeline] name"
                if config.commits_to_kafka
                else ""
            )
        )
    if state_has_begun and not kept:
        raise StateError(
            f"{state.path / 'fingerprint'} is missing, so this state cannot be compared with the "
            f"configuration: put the file back from a copy. "
            f"{state.fresh_start_instruction()}"
        )
    if state_has_begun and not same:
        raise _changed_config_error(config, state, _load_stored_config(state))
    changes = forbidden_field_changes(config, schema, _load_stored_config(state)) if same else []
    if state_has_begun and changes:
        raise _incompatible_error(config, state, changes)
    return same and not changes


def _matches_fingerprint(
    config: Config, stored_fingerprint: str, learner: Tables | None = None
) -> bool:
    return (
        fingerprint(config, _parse_or_create_salt(stored_fingerprint), learner=learner)
        == stored_fingerprint
    )


def refuse_incompatible_config(
    config: Config, state: State, stored_fingerprint: str, configuration: str
) -> None:
    """Raise StateError if `stored_fingerprint` does not match `config`.

    `configuration` is the stored configuration as TOML, to describe the differences.
    """
    if not _matches_fingerprint(config, stored_fingerprint):
        raise _changed_config_error(config, state, tomllib.loads(configuration))


def pipeline_name(state: State) -> str | None:
    """Return the name of the state's pipeline, or None if the configuration is missing."""
    name = _load_stored_config(state).get("pipeline", {}).get("name")
    return None if name is None else str(name)


def refuse_other_pipeline(config: Config, state: State) -> None:
    """Raise StateError if `state` belongs to a pipeline with another name."""
    if (name := pipeline_name(state)) not in (None, config.name):
        raise StateError(
            f"{state.path} is the state of the pipeline {name!r}, and this is {config.name!r}: "
            "give the file of that pipeline"
        )


def commits_to_kafka(state: State) -> bool:
    """Return whether the journal of the state's pipeline is kept in Kafka."""
    return bool(_load_stored_config(state).get("kafka", {}).get("transactions", False))


def position_units(state: State) -> dict[str, str]:
    """Map each source name to the unit of its positions ("records", "bytes", ...)."""
    kept = _load_stored_config(state)
    units = {"records": "records", "labels": "labels", "commands": "commands"}
    sources = (("records", "source", "input"), ("labels", "labels", "labels"))
    for source, name, use in (*sources, ("initial_data", "initial_data", "input")):
        # Not validated: a masked variable may be no valid value.
        table = kept.get(name)
        if table and (name != "initial_data" or "path" in table):
            section = build_unvalidated_section(use, {"connector": "files"} | table)
            units[source] = section.position_unit or units[source]
    return units


def _remove_changeable_settings(config: Config, tables: Tables) -> Tables:
    free = _changeable_keys(config)
    return {
        section: {k: v for k, v in values.items() if k not in free.get(section, ())}
        for section, values in tables.items()
        if section not in _IRRELEVANT_SECTIONS
    }


def _changeable_keys(config: Config) -> dict[str, set[str]]:
    read = {key for section in section_classes("input") for key in section.changeable}
    outputs = (*section_classes("output"), *section_classes("predictions"))
    written = {key for section in outputs for key in section.model_fields}
    free = {"pipeline": _PIPELINE, "schema": {"fields", "classes"}, "source": read, "labels": read}
    free |= dict.fromkeys(("predictions", "requests", "dead_letters"), written)
    free["monitor"] = set(type(config.sections.monitor).model_fields)
    if config.sections.kafka is not None:
        free["kafka"] = set(config.sections.kafka.model_dump()) - {"transactions"}
    for name in config.sections.labels.outputs_read_by_oracle:
        del free[name]  # the position of the labels is one in these
    return free


def _file_path_keys(section: str) -> tuple[str, ...]:
    return _FILE_PATH_KEYS.get(section, _FILE_PATH_KEYS[""])


def _normalize_path_for_comparison(config: Config, path: str) -> str:
    """Return a form of `path` that is equal for all spellings of one file name in one folder.

    The form is relative to the pipeline file's folder if the path is inside, otherwise absolute.
    """
    whole = Path(os.path.abspath(config.resolve_path(path)))
    place, folder = Path(os.path.realpath(whole.parent), whole.name), config.folder.resolve()
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def _parse_or_create_salt(fingerprint: str) -> str:
    return fingerprint.partition(":")[0] or token_hex(16)


def _load_stored_config(state: State) -> Tables:
    """Return the sections of the state's stored configuration; {} if missing or invalid."""
    try:
        return tomllib.loads(state.configuration() or "")
    except ValueError:
        return {}


def _changed_config_error(config: Config, state: State, stored: Tables) -> StateError:
    return _incompatible_error(config, state, _describe_changes(config, state, stored))


def _incompatible_error(config: Config, state: State, changes: list[str]) -> StateError:
    free = ", ".join(
        f"[{section}] {' '.join(sorted(names))}"
        for section, names in _changeable_keys(config).items()
        if section != "schema"
    )
    anew = "and name to new ones" if config.commits_to_kafka else "to a new folder"
    return StateError(
        f"{state.path}: this state was made by another configuration: "
        f"{'; '.join(changes)}. Undo the change, or set [pipeline] state {anew} to start with an "
        f"empty state. On an existing state these may change: {free}; [schema] classes; and "
        "fields may be added to [schema.fields]"
    )


def _describe_changes(config: Config, state: State, stored: Tables) -> list[str]:
    if not stored:
        return [f"{state.config} cannot be read, so the changes are unknown"]
    changes = []
    for section, values in _remove_changeable_settings(config, config.written).items():
        known = stored.get(section, {})
        gone = [
            key for key in _OMITTED_DEFAULTS.get(section, ()) if key in known and key not in values
        ]
        for key in [*values, *gone]:
            before, now = _tuple_to_list(known.get(key)), _tuple_to_list(values.get(key))
            is_path = key in _file_path_keys(section)
            if before == now or (is_path and _is_same_path(config, before, now)):
                continue
            now = config.written[section].get(key, now)
            changes.append(
                f"[{section}] {key} was {_format_value(before)} and is {_format_value(now)}"
            )
    left = {"model", "shadow_models", "features"} & (stored.keys() - config.written.keys())
    changes += [f"[{section}] was set and is not" for section in sorted(left)]
    names = ", ".join(config.variables.used_names)
    if changes or not names:
        return changes or ["its paths refer to other files now"]
    return [f"an environment variable it names ({names}) has another value"]


def _tuple_to_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_same_path(config: Config, before: Any, now: Any) -> bool:
    return None not in (before, now) and _normalize_path_for_comparison(
        config, before
    ) == _normalize_path_for_comparison(config, now)


def _format_value(value: Any) -> str:
    return "not set" if value is None else toml.format_value(value)
