"""Writing TOML, which the standard library only reads."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["key_of", "render", "write"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return `sections` as TOML; keys whose value is None are left out, TOML having no null.

    A table within one has a header of its own, and one within that stands in a line.

    >>> print(write({"query": {"strategy": "margin", "budget": 0.1, "loan": None}}), end="")
    [query]
    strategy = "margin"
    budget = 0.1
    >>> print(write({"a": {"b": {"c.d": {"e": 1}}}}), end="")
    [a]
    <BLANKLINE>
    [a.b]
    "c.d" = { e = 1 }
    """
    blocks = []
    for name, values in sections.items():
        tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
        lines = [_line(k, v) for k, v in values.items() if v is not None and k not in tables]
        blocks.append(f"[{name}]\n" + "".join(lines))
        for key, table in tables.items():
            lines = [_line(k, v) for k, v in table.items() if v is not None]
            blocks.append(f"[{name}.{key_of(key)}]\n" + "".join(lines))
    return "\n".join(blocks)


def _line(key: str, value: Any) -> str:
    return f"{key_of(key)} = {render(value)}\n"


def key_of(name: str) -> str:
    """Return the name of a key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else render(name)


def render(value: Any) -> str:
    """Return one value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but TOML also wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(render(item) for item in value) + "]"
    if isinstance(value, Mapping):
        given = [(key, item) for key, item in value.items() if item is not None]
        inner = ", ".join(f"{key_of(key)} = {render(item)}" for key, item in given)
        return f"{{ {inner} }}" if inner else "{}"
    raise TypeError(f"a {type(value).__name__} cannot be written as TOML: {value!r}")
