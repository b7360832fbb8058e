"""Docstrings of estimators: adds the parameters and attributes that base classes describe."""

import inspect
import re
from itertools import chain

_SECTIONS = re.compile(r"\n\n(?=\w+\n-+\n)")
_ENTRY = re.compile(r"^(\w+(?:, \w+)*)\n(?!-)((?:(?: {4}.*)?(?:\n|\Z))+)", re.MULTILINE)


def docstring_with_inherited_entries(cls: type) -> str | None:
    """Return the docstring of a class, with the entries that only its base classes describe.

    Docstrings are in numpydoc format. An entry describes one or more parameters or attributes. It
    is inherited if the class has these parameters and describes none of them. Entries that no base
    class has come first. Returns None if the class has no docstring, as under ``python -OO``.
    """
    if cls.__doc__ is None:
        return None
    summary, *others = _SECTIONS.split(inspect.cleandoc(cls.__doc__))
    parameters = {name for base in cls.__mro__ for name in inspect.get_annotations(base)}
    parts = [
        summary,
        _merged_section(cls, "Parameters", parameters),
        _merged_section(cls, "Attributes", None),
        *(each for each in others if not each.startswith(("Parameters", "Attributes"))),
    ]
    return "\n\n".join(filter(None, parts))


def _merged_section(cls: type, header: str, known: set[str] | None) -> str:
    """Return a section with the entries of all base classes, or only those with `known` names."""
    order: list[str] = []
    merged: dict[tuple[str, ...], str] = {}
    for base in reversed(cls.__mro__):
        own = _entries(base, header)
        described = list(chain.from_iterable(own))
        order = [name for name in described if name not in order] + order
        inherited = {names: text for names, text in merged.items() if not {*names} & {*described}}
        merged = inherited | own
    lines = [
        f"{', '.join(names)}\n{merged[names]}"
        for names in sorted(merged, key=lambda names: order.index(names[0]))
        if known is None or known.issuperset(names)
    ]
    return "\n".join([header, "-" * len(header), *lines]) if lines else ""


def _entries(cls: type, header: str) -> dict[tuple[str, ...], str]:
    for section in _SECTIONS.split(inspect.cleandoc(cls.__doc__ or "")):
        if section.startswith(f"{header}\n"):
            found = _ENTRY.findall(section)
            return {tuple(names.split(", ")): text.rstrip("\n") for names, text in found}
    return {}
