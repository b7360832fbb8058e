"""Escaping of text from outside the process, for safe output to a terminal or a log.

A field name, a label or a path may contain control characters. These can control a terminal
(ECMA-48), begin a new line, or change the direction of text, and so fake output.
"""

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_line(text: str) -> str:
    r"""Escape control characters as in JSON, so that the text is one safe line.

    If the text is a JSON or TOML string, its value is unchanged.

    >>> print(escape_line("red \x1b[31m\nINFO trained\u202e"))
    red \u001b[31m\nINFO trained\u202e
    >>> print(escape_line("half a pair \ud800"))
    half a pair \ud800
    """
    return _UNSAFE.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def escape_block(text: str) -> str:
    r"""Escape each line of a text, and indent all lines after the first.

    So no line of the text can be taken for the beginning of another log message.

    >>> print(escape_block("2 problems:\n  a\x1b\n2026-01-01 ERROR forged"))
    2 problems:
      a\u001b
      2026-01-01 ERROR forged
    """
    first, *more = map(escape_line, text.split("\n"))
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in more)])
