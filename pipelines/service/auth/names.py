"""Names of users: validation, and a key under which similar spellings are equal."""

import re
import unicodedata
from html import unescape

from streamboost.connectors.messages.labels import unprintable_character_fault
from streamboost.errors import DataError

LONGEST_NAME = 100

_WRITTEN_TOGETHER = {
    "BOPOMOFO": "CJK",
    "HANGUL": "CJK",
    "HIRAGANA": "CJK",
    "KATAKANA": "CJK",
    "KATAKANA-HIRAGANA": "CJK",
}
"""Scripts that may be mixed in one name, as in Japanese and Korean."""


def validated_name(raw_name: str) -> str:
    """Return a person's name in Unicode's compatibility form (NFKC), with single spaces inside.

    Raises DataError if the name is empty, too long, or has control characters, invisible characters
    or markup. A name with letters of two scripts is rejected, too: a Cyrillic letter among Latin
    ones could imitate another name.

    >>> validated_name(" Zoe\\u0308  \\uff2d. "), validated_name("Tom & Ann")
    ('Zoë M.', 'Tom & Ann')
    """
    name = _nfkc_normalized(raw_name)
    if not name or len(name) > LONGEST_NAME or unprintable_character_fault(name):
        raise DataError(
            f"the name {raw_name!r} is invalid: give 1 to {LONGEST_NAME} characters without "
            "control or invisible characters"
        )
    if {"<", ">"} & {*name} or unescape(name) != name:
        raise DataError(
            f"the name {raw_name!r} holds markup: leave out <, > and entities like &lt;"
        )
    scripts = {
        _script_of_letter(letter) for letter in name if unicodedata.category(letter) in _LETTERS
    }
    if len(scripts) > 1:
        found = " and ".join(sorted(script.capitalize() for script in scripts))
        raise DataError(
            f"the name {raw_name!r} mixes letters of {found}, and may imitate another name: "
            "write it in one script"
        )
    return name


def comparison_key(name: str) -> str:
    """Return a key that is equal for names differing only in case, width and spaces.

    >>> comparison_key("Ann Lee") == comparison_key("\\uff41nn  LEE")
    True
    >>> comparison_key("Wei\\xdf") == comparison_key("Weiss")
    False
    """
    # `str.casefold` alone replaces some letters by two, so that different surnames become equal.
    folded = (
        letter.casefold() if len(letter.casefold()) == 1 else letter.lower()
        for letter in _nfkc_normalized(name)
    )
    return unicodedata.normalize("NFKC", "".join(folded))


def _nfkc_normalized(name: str) -> str:
    return re.sub(" +", " ", unicodedata.normalize("NFKC", name.strip())).strip()


_LETTERS = {"Lu", "Ll", "Lt", "Lo"}


def _script_of_letter(letter: str) -> str:
    # The Unicode name of a letter begins with its script; Python has no other source for it.
    word = unicodedata.name(letter, "UNNAMED").partition(" ")[0]
    return _WRITTEN_TOGETHER.get(word, word)
