"""TOML writer, and a reader that detects text values without quotes."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE = re.compile(r" \(at line (\d+), ")
_WORD = r"(?:\$\{\w+\}|[^\s\"'\[\]{},#=])+"
_SETTING = re.compile(
    rf"\s*([\w.-]+)\s*=\s*(?:({_WORD})|\[((?:\s*{_WORD}\s*,)*\s*{_WORD}\s*,?\s*)\])\s*(?:#.*)?"
)


def format_sections(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return `sections` as TOML; keys with value None are omitted, as TOML has no null.

    A nested table gets its own header; tables nested deeper are written inline.

    >>> print(format_sections({"query": {"initial_credit": None, "budget": 0.1}}), end="")
    [query]
    budget = 0.1
    >>> print(format_sections({"a": {"b": {"c.d": {"e": 1}}}}), end="")
    [a]
    <BLANKLINE>
    [a.b]
    "c.d" = { e = 1 }
    """
    blocks = []
    for name, values in sections.items():
        tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
        lines = [
            _format_setting(k, v) for k, v in values.items() if v is not None and k not in tables
        ]
        blocks.append(f"[{name}]\n" + "".join(lines))
        for key, table in tables.items():
            lines = [_format_setting(k, v) for k, v in table.items() if v is not None]
            blocks.append(f"[{name}.{format_key(key)}]\n" + "".join(lines))
    return "\n".join(blocks)


def _format_setting(key: str, value: Any) -> str:
    return f"{format_key(key)} = {format_value(value)}\n"


def format_key(name: str) -> str:
    """Return the key `name` as TOML, quoted if necessary."""
    return name if _BARE.fullmatch(name) else format_value(name)


def format_value(value: Any) -> str:
    """Return one value as TOML text; TypeError if TOML lacks its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but TOML also wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        given = [(key, item) for key, item in value.items() if item is not None]
        inner = ", ".join(f"{format_key(key)} = {format_value(item)}" for key, item in given)
        return f"{{ {inner} }}" if inner else "{}"
    raise TypeError(f"a {type(value).__name__} cannot be written as TOML: {value!r}")


def parse_allowing_unquoted_words(text: str) -> tuple[dict[str, Any], dict[int, str]]:
    """Parse a TOML text; return its tables, and the keys with unquoted values by line number.

    If a line is invalid because its value is an unquoted word, or a list of words, the words are
    read as text. This way, all such lines are found at once.

    Raises
    ------
    tomllib.TOMLDecodeError
        If the text has another error; the error is that of the original text.

    Examples
    --------
    >>> parse_allowing_unquoted_words("[source]\\nconnector = files")
    ({'source': {'connector': 'files'}}, {2: 'connector'})
    """
    lines, mended = text.split("\n"), dict[int, str]()
    first: tomllib.TOMLDecodeError | None = None
    while True:
        try:
            return tomllib.loads("\n".join(lines)), mended
        except tomllib.TOMLDecodeError as error:
            first = first or error
            place = _LINE.search(str(error))
            number = int(place[1]) if place else 0
            quoted = (
                _quote_words_of_setting(lines[number - 1]) if 0 < number <= len(lines) else None
            )
            if quoted is None or number in mended:
                raise first from None
            mended[number], lines[number - 1] = quoted


def _quote_words_of_setting(line: str) -> tuple[str, str] | None:
    """Return the key and the quoted line of `key = word` or `key = [words]`; None: another line."""
    found = _SETTING.fullmatch(line.rstrip("\r"))
    if found is None:
        return None
    name, word, words = found.groups()
    if word is not None:
        return name, f"{name} = {format_value(word)}"
    items = [_quote_item_if_invalid(one.strip()) for one in words.split(",") if one.strip()]
    return name, f"{name} = [{', '.join(items)}]"


def _quote_item_if_invalid(word: str) -> str:
    """Return an item of a TOML list, in quotes if the item is no valid value without them."""
    try:
        tomllib.loads(f"x = {word}")
    except tomllib.TOMLDecodeError:
        return format_value(word)
    return word
