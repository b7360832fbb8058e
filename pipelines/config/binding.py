"""What ties a state to the configuration it was made with.

Between two runs on the same state these may change: `state` (the folder may be moved),
`batch_records`, `batch_labels`, `poll_interval`, `checkpoint_every`, `checkpoint_copy`, `on_gap`
and `keep_versions` of [pipeline], `follow` and `on_corrupt` of [source] and [labels], all but
`transactions` of [kafka], [schema_registry], [monitor], [serve], [label_studio], [decision], and
where [predictions], [requests] and [dead_letters] go and in which format, unless a dataset or a
file answers what stands there, and what predictions repeat. To [schema.fields] a field may be
added, which older records miss, and [schema] classes may change. All else decides what the state
means, and a change is refused, also one of an environment variable's value. Paths are the same when
they lead to the same place.
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
from streamboost.pipelines.config.field_changes import field_changes
from streamboost.pipelines.config.file import LEARNER, Config, Tables
from streamboost.pipelines.endpoints.registry import as_written, sections_for
from streamboost.pipelines.state.folder import State

__all__ = [
    "adopt",
    "bound",
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
    "on_gap",
    "keep_versions",
}
_ASIDE = {"decision", "label_studio", "schema_registry", "serve"}
"""Sections that say nothing of the pipeline itself: they may come, change and go."""

_OF_FIELDS = {
    "schema": ("exclude",),
    "labels": ("fields", "on_conflict"),
    "bootstrap": ("committee",),
}
"""Keys that are not there where they say nothing."""

_PATHS = {"": ("path",), "bootstrap": ("path", "committee")}
"""Keys that name a file or folder, by section; "" for all others."""

_ITERATIONS = 100_000
"""Of the fingerprint's hash, so that a guess at a value in it costs something."""


def bound(config: Config) -> Tables:
    """Return the part of the configuration that must not change between runs, masked.

    What it says of fields is there, too, which may only grow.
    """
    fields = config.written["schema"].get("fields")
    tables = _bound(config, config.written)
    return tables | {"schema": tables["schema"] | ({"fields": fields} if fields else {})}


def fingerprint(config: Config, salt: str, *, learner: Tables | None = None) -> str:
    """Return `salt` and a hash of all that must not change between runs, values included.

    With `learner`, that with these sections of it.
    """
    tables = _bound(config, config.resolved() | (learner or {}))
    for section, values in tables.items():
        for key in _paths(section):
            if values.get(key) is not None:
                values[key] = _place(config, values[key])
    return f"{salt}:{_digest(json.dumps(tables, sort_keys=True), salt)}"


@lru_cache(maxsize=16)
def _digest(binding: str, salt: str) -> str:
    """Return the hash of a fingerprint, which takes 15 ms and is wanted several times."""
    return hashlib.pbkdf2_hmac("sha256", binding.encode(), salt.encode(), _ITERATIONS).hex()


def adopt(config: Config, state: State, *, begun: bool) -> None:
    """Note that `state` belongs to `config`.

    Raises StateError as `verify` does.
    """
    assert config.has_core, "a state belongs to a whole configuration, the learner's included"
    if not verify(config, state, begun=begun):
        state.forget_schema()
    state.keep_configuration(config.to_toml(), fingerprint(config, _salt(state.fingerprint())))


def verify(config: Config, state: State, *, begun: bool) -> bool:
    """Tell whether `state` was made by `config`, changing nothing.

    A `config` without the learner's sections is taken to have those that the state was made with.

    Raises StateError if it was not and has `begun`, holding what another one led to.
    """
    kept, schema = state.fingerprint(), state.schema()
    learner = {} if config.has_core else _only(_kept(state), LEARNER)
    same = bool(kept) and _made(config, kept, learner)
    if begun and not state.is_made:
        again = f"`streamboost {'learn' if config.scores_apart else 'run'} --rebuild`"
        raise StateError(
            f"{state.path} is empty, though batches of {config.name} are committed: put it back "
            f"from a copy, or have it made again from the journal by {again}"
            + ("; to begin anew, give another [pipeline] name" if config.commits_to_kafka else "")
        )
    if begun and not kept:
        raise StateError(
            f"{state.path / 'fingerprint'} is missing, so nobody can tell whether this state was "
            f"made by this configuration: put it back from a copy. {state.begin_anew()}"
        )
    if begun and not same:
        raise _made_by_another(config, state, _kept(state))
    changes = field_changes(config, schema, _kept(state)) if same else []
    if begun and changes:
        raise _refused(config, state, changes)
    return same and not changes


def _made(config: Config, print_: str, learner: Tables | None = None) -> bool:
    """Tell whether a fingerprint is that of `config`."""
    return fingerprint(config, _salt(print_), learner=learner) == print_


def _only(tables: Tables, names: Iterable[str]) -> Tables:
    return {name: tables[name] for name in names if name in tables}


def refuse_another(config: Config, state: State, print_: str, configuration: str) -> None:
    """Raise StateError where a `state` of that fingerprint was not made by `config`."""
    if not _made(config, print_):
        raise _made_by_another(config, state, tomllib.loads(configuration))


def name_of(state: State) -> str | None:
    """Return the name of the pipeline the state was made for, or None."""
    name = _kept(state).get("pipeline", {}).get("name")
    return None if name is None else str(name)


def commits_to_kafka(state: State) -> bool:
    """Tell whether the journal of the pipeline the state was made for is kept in Kafka."""
    return bool(_kept(state).get("kafka", {}).get("transactions", False))


def units(state: State) -> dict[str, str]:
    """Return what the positions of the sources count."""
    kept = _kept(state)
    units = {"records": "records", "labels": "labels", "commands": "commands"}
    sources = (("records", "source", "input"), ("labels", "labels", "labels"))
    for source, section, use in (*sources, ("bootstrap", "bootstrap", "input")):
        # As it is written: what stands for a variable need not pass for its value.
        table = kept.get(section)
        if table and (section != "bootstrap" or "path" in table):
            written = as_written(use, {"connector": "files"} | table)
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
    """Return where `path` leads, seen from the file's folder if it lies within."""
    place, folder = (Path(os.path.realpath(p)) for p in (config.resolve(path), config.folder))
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def _salt(fingerprint: str) -> str:
    return fingerprint.partition(":")[0] or token_hex(16)


def _kept(state: State) -> Tables:
    """Return the configuration the state was made with; empty where it cannot be read."""
    try:
        return tomllib.loads(state.configuration() or "")
    except ValueError:
        return {}


def _made_by_another(config: Config, state: State, old: Tables) -> StateError:
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
        f"{'; '.join(changes)}. Undo the change, or set [pipeline] state {anew} to begin anew. "
        f"On an existing state these may change: {free}; [schema] classes; and fields may be "
        "added to [schema.fields]"
    )


def _changes(config: Config, state: State, old: Tables) -> list[str]:
    """Say what differs from `old`, the configuration the state was made with."""
    if not old:
        return [f"{state.config} cannot be read, so what has changed is not known"]
    changes = []
    for section, values in _bound(config, config.written).items():
        known = old.get(section, {})
        gone = [key for key in _OF_FIELDS.get(section, ()) if key in known and key not in values]
        for key in [*values, *gone]:
            before, now = _plain(known.get(key)), _plain(values.get(key))
            is_path = key in _paths(section)
            if before == now or (is_path and _same_place(config, before, now)):
                continue
            now = config.written[section].get(key, now)
            changes.append(f"[{section}] {key} was {_shown(before)} and is {_shown(now)}")
    left = {"model", "rivals", "features"} & (old.keys() - config.written.keys())
    changes += [f"[{section}] was set and is not" for section in sorted(left)]
    names = ", ".join(config.variables.names)
    if changes or not names:
        return changes or ["its paths lead elsewhere now"]
    return [f"an environment variable it names ({names}) has another value"]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _same_place(config: Config, before: Any, now: Any) -> bool:
    return None not in (before, now) and _place(config, before) == _place(config, now)


def _shown(value: Any) -> str:
    return "not set" if value is None else toml.render(value)
