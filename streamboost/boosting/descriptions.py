"""Docstrings of estimators: copies descriptions of parameters from base classes."""

import inspect
import re

__all__ = ["docstring_with_inherited_descriptions"]

_DESCRIBED = re.compile(r"^(\w+(?:, \w+)*)\n((?: {4}.*(?:\n|\Z))+)", re.MULTILINE)
_BARE = re.compile(r"^(\w+(?:, \w+)*)$(?!\n {4})", re.MULTILINE)


def docstring_with_inherited_descriptions(cls: type) -> str | None:
    """Return the docstring of a class, with missing descriptions copied from its base classes.

    Docstrings are in numpydoc format. A parameter or attribute is undescribed if no indented line
    follows its name. Returns None if the class has no docstring, as under ``python -OO``.
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
