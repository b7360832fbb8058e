"""Completes the docstrings of estimators with the entries that their base classes describe."""

import inspect
import re

__all__ = ["with_inherited_descriptions"]

_DESCRIBED = re.compile(r"^(\w+(?:, \w+)*)\n((?: {4}.*(?:\n|\Z))+)", re.MULTILINE)
_BARE = re.compile(r"^(\w+(?:, \w+)*)$(?!\n {4})", re.MULTILINE)


def with_inherited_descriptions(cls: type) -> str | None:
    """Return a class's docstring, with undescribed parameters completed from base classes.

    An entry is a line that names parameters or attributes, as in numpydoc. An entry is bare if no
    indented line follows. None: the class has no docstring, as under ``python -OO``.
    """
    if cls.__doc__ is None:
        return None
    inherited: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        described = _DESCRIBED.findall(inspect.cleandoc(base.__doc__ or ""))
        inherited |= {names: text.rstrip("\n") for names, text in described}

    def complete_entry(entry: re.Match[str]) -> str:
        text = inherited.get(entry[1])
        return entry[1] if text is None else f"{entry[1]}\n{text}"

    return _BARE.sub(complete_entry, inspect.cleandoc(cls.__doc__))
