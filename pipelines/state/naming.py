"""Classes and versions that commands name: whether they are there."""

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args

from streamboost.connectors.messages.labels import LabelKind, nearest, read_label
from streamboost.errors import StateError
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.versions import Versions

__all__ = ["NEW", "as_label", "refuse_unknown", "refuse_unknown_class", "refuse_unmerged"]

NEW = "; confirm a class that is to be new with --new (`new` in the API)"
"""The remedy where a class may be one that no label has had yet."""

_ALIKE = 0.6
"""How like the name of a class another must be to be proposed."""

_NAMED = 10
"""Classes that an error names."""

Label = str | int


def as_label(text: str, kind: LabelKind | None) -> Label:
    """Return the label that a command names; StateError where labels are of another kind."""
    if kind is None:
        raise StateError("no label has come yet that would tell what labels are: wait for one")
    label, fault = read_label(text, kind)
    if label is None:
        raise StateError(f"the class named {fault}")
    return label


def refuse_unknown_class(label: Label, known: Collection[Label], remedy: str = "") -> None:
    """Raise StateError with the nearest name where a class is none of the `known` ones."""
    if label in known:
        return
    near = nearest(label, known, _ALIKE)
    if near is not None:
        hint = f"; did you mean {near!r}?"
    else:
        hint = f": the classes are {_listed(known)}" if known else ": no label has come yet"
    raise StateError(f"there is no class {label!r}{hint}{remedy}")


def refuse_unmerged(label: Label, merged: Collection[Label]) -> None:
    """Raise StateError where a class is none of those that were merged into others."""
    if label not in merged:
        names = f"{_listed(merged)} {'are' if len(merged) > 1 else 'is'}" if merged else "none is"
        raise StateError(f"the class {label!r} is not merged into another: {names}")


def refuse_unknown(state: Path, command: Command, documents: Mapping[str, Any]) -> None:
    """Raise StateError where a command names a version or a class that is not there.

    `documents` are those that the pipeline whose state folder is `state` has published, without
    which only files are looked at. They may be a second old: the pipeline checks a command again
    with the batch that it enters.
    """
    learner = documents.get("learner") or {}
    if command.version is not None:
        files = State(state)
        kept = {*Versions(files.versions, sys.maxsize).numbers}
        kept |= {one["version"] for one in learner.get("versions", [])}
        if command.version not in kept and (learner or not files.is_running()):
            names = ", ".join(map(str, sorted(kept))) or "none"
            raise StateError(f"version {command.version} is not kept: there are {names}")
    known, kind = learner.get("known_classes"), (documents.get("pipeline") or {}).get("label_type")
    if known is None or kind not in get_args(LabelKind):
        return
    if command.command == "unmerge" and command.label is not None:
        refuse_unmerged(as_label(command.label, kind), learner["merged_classes"])
    elif command.label is not None:
        refuse_unknown_class(as_label(command.label, kind), known)
    for name in () if command.new else command.may_be_new:
        refuse_unknown_class(as_label(name, kind), known, NEW)


def _listed(classes: Collection[Label]) -> str:
    return ", ".join(map(repr, list(classes)[:_NAMED])) + ", ..." * (len(classes) > _NAMED)
