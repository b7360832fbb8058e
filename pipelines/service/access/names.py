"""What people may be called: names that are read alike are the same."""

import unicodedata

from streamboost.errors import DataError

__all__ = ["LONGEST_NAME", "checked_name"]

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
    """Return a person's name in Unicode's composed form (NFC), without outer white space.

    Raises DataError where it is empty, too long, holds what nobody sees, or has letters of two
    scripts, such as a Cyrillic one among Latin ones, which look like another name.

    >>> checked_name(" Zoe\\u0308 ")
    'Zoë'
    """
    name = unicodedata.normalize("NFC", given.strip())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise DataError(
            f"the name {given!r} cannot be a person's: give 1 to {LONGEST_NAME} letters "
            "without control characters"
        )
    scripts = {_script(letter) for letter in name if unicodedata.category(letter) in _LETTERS}
    if len(scripts) > 1:
        found = " and ".join(sorted(script.capitalize() for script in scripts))
        raise DataError(
            f"the name {given!r} mixes letters of {found}, and may look like somebody else's: "
            "write it in one script"
        )
    return name


_LETTERS = {"Lu", "Ll", "Lt", "Lo"}


def _script(letter: str) -> str:
    # Unicode's names begin with the script, which Python does not tell otherwise.
    word = unicodedata.name(letter, "UNNAMED").partition(" ")[0]
    return _WRITTEN_TOGETHER.get(word, word)
