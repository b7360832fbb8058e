"""Validation of the classes and versions that operators' commands name."""

import re
import sys
from collections.abc import Collection, Mapping
from html import unescape
from pathlib import Path
from typing import Any, get_args

from streamboost.connectors.messages.labels import (
    LabelKind,
    convert_label,
    most_similar_class,
    normalize_label,
    unprintable_character_fault,
)
from streamboost.errors import StateError
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.versions import CommitteeStore

_NEW = "; confirm a class that is to be new with --new (`new` in the API)"
"""Remedy in errors about commands that may name a class without labels."""

_ALIKE = 0.6
"""Minimum similarity of a class name to be suggested."""

_NAMED = 10
"""Maximum number of classes in an error message."""

_TAG = re.compile("<[a-z/!?]", re.IGNORECASE)
"""The beginning of a tag; a class such as "<=50K" has none."""

Label = str | int


def to_label(class_name: str, label_type: LabelKind | None) -> Label:
    """Convert the class name in a command to a label of type `label_type`.

    Raises StateError if the name has another type, or if `label_type` is None (no label yet).
    """
    if label_type is None:
        raise StateError(
            "the type of labels is unknown before the first label: wait for a label, or set "
            "[schema] label"
        )
    label, fault = convert_label(class_name, label_type)
    if label is None:
        raise StateError(f"the class named {fault}")
    return label


def refuse_unknown_class(label: Label, known_classes: Collection[Label], remedy: str = "") -> None:
    """Raise StateError if a class is not in `known_classes`; the error suggests a similar class.

    `remedy` is appended to the error message.
    """
    if label in known_classes:
        return
    near = most_similar_class(label, known_classes, _ALIKE)
    if near is not None:
        hint = f"; did you mean {near!r}?"
    else:
        hint = (
            f": the classes are {_list_classes(known_classes)}"
            if known_classes
            else ": no label has come yet"
        )
    raise StateError(f"there is no class {label!r}{hint}{remedy}")


def refuse_unconfirmed_class(
    command: Command, label: Label, known_classes: Collection[Label]
) -> None:
    """Raise StateError if a command may not add the class `label`.

    A class that is not in `known_classes` needs the command's option `new`, and a name without
    invisible characters and markup.
    """
    if not command.new:
        refuse_unknown_class(label, known_classes, _NEW)
    if label in known_classes or not isinstance(label, str):
        return
    fault = unprintable_character_fault(label)
    if not fault and (_TAG.search(label) or unescape(label) != label):
        fault = "holds markup: leave out tags and entities such as &lt;"
    elif not fault and (tidy := normalize_label(label)[0]) != label:
        fault = f"is not in Unicode's composed form without outer spaces: write {tidy!r}"
    if fault:
        raise StateError(f"the new class {label!r} {fault}")


def refuse_unknown_annotator(name: str, known: Collection[str]) -> None:
    """Raise StateError if no label has come from the annotator `name`; suggest a similar name."""
    if name in known:
        return
    near = most_similar_class(name, known, _ALIKE)
    names = f": there are {_list_classes(sorted(known))}" if known else ": no label names one"
    hint = names if near is None else f"; did you mean {near!r}?"
    raise StateError(f"there are no labels of the annotator {name!r}{hint}")


def refuse_class_not_merged(label: Label, merged_classes: Collection[Label]) -> None:
    """Raise StateError if class `label` was not merged into another (`merged_classes`)."""
    if label not in merged_classes:
        names = (
            f"{_list_classes(merged_classes)} {'are' if len(merged_classes) > 1 else 'is'}"
            if merged_classes
            else "none is"
        )
        raise StateError(f"the class {label!r} is not merged into another: {names}")


def refuse_unknown_names(
    state_folder: Path, command: Command, status_documents: Mapping[str, Any]
) -> None:
    """Raise StateError if a command names an unknown version, class or annotator.

    `status_documents` are the published status documents of the pipeline with the state folder
    `state_folder`; without documents, only the files of versions are checked. Documents may be a
    second old: the pipeline validates the command again in its batch.
    """
    learner = status_documents.get("learner") or {}
    if command.version is not None:
        files = State(state_folder)
        kept = {*CommitteeStore(files.versions, sys.maxsize).version_numbers}
        kept |= {one["version"] for one in learner.get("versions", [])}
        if command.version not in kept and (learner or not files.is_running()):
            names = ", ".join(map(str, sorted(kept))) or "none"
            raise StateError(f"version {command.version} is not kept: there are {names}")
    if command.annotator is not None and status_documents:
        refuse_unknown_annotator(command.annotator, status_documents.get("annotators") or {})
    known, kind = (
        learner.get("known_classes"),
        (status_documents.get("pipeline") or {}).get("label_type"),
    )
    if known is None or kind not in get_args(LabelKind):
        return
    if command.command == "unmerge" and command.label is not None:
        refuse_class_not_merged(to_label(command.label, kind), learner["merged_classes"])
    elif command.label is not None:
        refuse_unknown_class(to_label(command.label, kind), known)
    for name in command.possible_new_classes:
        refuse_unconfirmed_class(command, to_label(name, kind), known)


def _list_classes(classes: Collection[Label]) -> str:
    return ", ".join(map(repr, list(classes)[:_NAMED])) + ", ..." * (len(classes) > _NAMED)
