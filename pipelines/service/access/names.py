"""What people may be called: names that are read alike are the same."""

import re
import unicodedata
from html import unescape

from streamboost.connectors.messages.labels import tidied
from streamboost.errors import DataError

__all__ = ["LONGEST_NAME", "checked_name", "name_key"]

LONGEST_NAME = 100

_WRITTEN_TOGETHER = {
    "BOPOMOFO": "CJK",
    "HANGUL": "CJK",
    "HIRAGANA": "CJK",
    "KATAKANA": "CJK",
    "KATAKANA-HIRAGANA": "CJK",
}
"""Scripts that one name has side by side, in Japanese and Korean."""


def checked_name(given: str) -> str:
    """Return a person's name in Unicode's compatibility form (NFKC), with single spaces inside.

    Raises DataError where it is empty, too long, holds control characters, markup or invisible
    characters, or has letters of two scripts, such as a Cyrillic one among Latin ones, which look
    like another name.

    >>> checked_name(" Zoe\\u0308  \\uff2d. "), checked_name("Tom & Ann")
    ('Zoë M.', 'Tom & Ann')
    """
    name = _compatible(given)
    is_invisible = bool(tidied(name)[1] or _VARIANTS.search(name))
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or is_invisible:
        raise DataError(
            f"the name {given!r} cannot be a person's: give 1 to {LONGEST_NAME} letters "
            "without control or invisible characters"
        )
    if {"<", ">"} & {*name} or unescape(name) != name:
        raise DataError(f"the name {given!r} holds markup: leave out <, > and entities like &lt;")
    scripts = {_script(letter) for letter in name if unicodedata.category(letter) in _LETTERS}
    if len(scripts) > 1:
        found = " and ".join(sorted(script.capitalize() for script in scripts))
        raise DataError(
            f"the name {given!r} mixes letters of {found}, and may look like somebody else's: "
            "write it in one script"
        )
    return name


def name_key(name: str) -> str:
    """Return what names of one person have in common, whatever their case, width and spaces.

    >>> name_key("Ann Lee") == name_key("\\uff41nn  LEE")
    True
    """
    return unicodedata.normalize("NFKC", _compatible(name).casefold())


def _compatible(name: str) -> str:
    return re.sub(" +", " ", unicodedata.normalize("NFKC", name.strip())).strip()


_VARIANTS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Unicode's variation selectors, which change how a letter looks, if at all."""

_LETTERS = {"Lu", "Ll", "Lt", "Lo"}


def _script(letter: str) -> str:
    # Unicode's names begin with the script, which Python does not tell otherwise.
    word = unicodedata.name(letter, "UNNAMED").partition(" ")[0]
    return _WRITTEN_TOGETHER.get(word, word)
