"""Writing TOML, which the standard library only reads."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["render", "write"]


def write(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return `sections` as TOML; keys whose value is None are left out, TOML having no null.

    >>> print(write({"query": {"strategy": "margin", "budget": 0.1, "loan": None}}), end="")
    [query]
    strategy = "margin"
    budget = 0.1
    """
    blocks = []
    for name, values in sections.items():
        lines = [f"{key} = {render(v)}\n" for key, v in values.items() if v is not None]
        blocks.append(f"[{name}]\n" + "".join(lines))
    return "\n".join(blocks)


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
    raise TypeError(f"a {type(value).__name__} cannot be written as TOML: {value!r}")
