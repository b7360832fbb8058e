"""What labels are: text, whole numbers or true and false, and reading one kind as another."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from streamboost.errors import ConfigurationError

__all__ = [
    "LONGEST_ID",
    "LONGEST_LABEL",
    "LabelFields",
    "LabelKind",
    "as_json",
    "as_text",
    "kind_of",
    "nearest",
    "read_label",
    "shown",
    "tidied",
]

LabelKind = Literal["string", "integer", "boolean"]

LONGEST_LABEL = 1_000
"""Characters of a label: classes stand in arrays as wide as the longest of them, in which a NUL
at the end would be lost."""

LONGEST_ID = 1_000
"""Characters of what names a record, wherever it is named."""

_UNSEEN = {"Cc", "Cf", "Zl", "Zp"}
"""Unicode's categories of control characters, of those without width or that turn the direction of
what is written, and of line ends."""

_BLANK = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
"""Letters and marks that show nothing all the same."""

_COMPARED = 60
"""Characters by which a label is compared with others."""

_WHOLE = re.compile(r"\s*-?\d{1,19}\s*", re.ASCII)
_BOOLEANS: dict[Any, str] = {0: "false", 1: "true", "false": "false", "true": "true"}
_WORDS = {"string": "text", "integer": "whole numbers", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class LabelFields:
    """What id and label are called in label messages, perhaps by dotted paths.

    Without an `id`, that is "id" or what the schema calls the records' own.
    """

    id: str | None = None
    label: str = "label"

    def __post_init__(self) -> None:
        for name in (self.label, *([] if self.id is None else [self.id])):
            if not isinstance(name, str) or not name:
                raise ConfigurationError(
                    f"[labels.fields] names the field {name!r}: a name is text"
                )
        if self.id == self.label:
            raise ConfigurationError(
                f"[labels.fields] names the field {self.id!r} twice: id and label must differ"
            )


def kind_of(value: Any) -> LabelKind | None:
    """Return what kind of label `value` is, None where it can be none.

    >>> kind_of("grass"), kind_of(3), kind_of(3.0), kind_of(True), kind_of(0.5)
    ('string', 'integer', 'integer', 'boolean', None)
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return "integer" if is_whole else None


def read_label(value: Any, kind: LabelKind | None) -> tuple[str | int | None, str]:
    """Return `value` as a label of that kind; None, and what is wrong with it, where it is none.

    Booleans are learned as the text "true" and "false".

    >>> read_label("1", "integer"), read_label(1, "string"), read_label(True, "boolean")
    ((1, ''), ('1', ''), ('true', ''))
    """
    label = None if kind is None else _read(value, kind)
    if label is None:
        if kind is None or kind_of(value) is None:
            return None, "is neither text nor a whole number, nor true or false"
        return None, (
            f"is {shown(value)}, and labels here are {_WORDS[kind]}: write it so, or begin anew "
            f'with [schema] label = "{kind_of(value)}"'
        )
    if isinstance(label, int):
        return (label, "") if -(2**63) <= label < 2**63 else (None, "has more than 64 bits")
    return (None, fault) if (fault := _fault_of(label)) else (label, "")


def _fault_of(label: str | int) -> str | None:
    """Return why a committee cannot keep `label`, or None when it can."""
    if isinstance(label, str) and len(label) > LONGEST_LABEL:
        return f"has {len(label)} characters: give at most {LONGEST_LABEL}"
    if isinstance(label, str) and "\0" in label:
        return "holds a NUL character: leave it out"
    return None


def tidied(label: str) -> tuple[str, str]:
    """Return a text as a class is called, and what is wrong with it, empty where nothing is.

    That is Unicode's composed form (NFC) without outer white space. What nobody sees would make
    two classes of one: it is wrong.

    >>> tidied(" cafe\\u0301 "), tidied("cat\\u200b")[1]
    (('café', ''), 'holds U+200B (ZERO WIDTH SPACE), which nobody sees: leave it out')
    """
    label = label.strip()
    if label.isascii() and label.isprintable():
        return label, ""
    label = unicodedata.normalize("NFC", label)
    for character in label:
        if unicodedata.category(character) in _UNSEEN or character in _BLANK:
            name = unicodedata.name(character, "a control character")
            return label, f"holds U+{ord(character):04X} ({name}), which nobody sees: leave it out"
    return label, ""


def nearest(label: str | int, classes: Iterable[str | int], cutoff: float = 0.0) -> Any:
    """Return the one of `classes` that `label` is most like, None where none is that like it.

    >>> nearest("Gras", ["grass", "path"], 0.6), nearest("tree", ["grass", "path"], 0.6)
    ('grass', None)
    """
    names = {_looks(one): one for one in classes}
    found = get_close_matches(_looks(label), names, n=1, cutoff=cutoff)
    return names[found[0]] if found else None


def _looks(label: str | int) -> str:
    """Return a label without case, accents and further looks, as far as it is compared."""
    parts = unicodedata.normalize("NFKD", str(label)[:_COMPARED]).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


def as_json(label: Any, kind: str | None) -> Any:
    """Return a label as messages have it: true or false where it is one.

    What is neither stays as it is, so that whoever reads it can refuse it.

    >>> as_json("true", "boolean"), as_json("true", "string"), as_json(None, "boolean")
    (True, 'true', None)
    """
    return {"true": True, "false": False}.get(label, label) if kind == "boolean" else label


def as_text(label: Any) -> Any:
    """Return a label of a message as it is learned: true and false as text, others as they are.

    >>> as_text(True), as_text(3), as_text(None)
    ('true', 3, None)
    """
    return str(label).lower() if isinstance(label, bool) else label


def _read(value: Any, kind: LabelKind) -> str | int | None:
    own = kind_of(value)
    if kind == "boolean":
        word = value.strip().lower() if isinstance(value, str) else value
        return None if own is None else _BOOLEANS.get(word)
    if kind == "string":
        if own == "string":
            return str(value)
        return None if own is None else str(value).lower() if own == "boolean" else str(int(value))
    if own == "string":
        return int(value) if _WHOLE.fullmatch(value) else None
    return int(value) if own == "integer" else None


def shown(value: Any) -> str:
    """Return a label as a sentence has it, the beginning of a long one."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
