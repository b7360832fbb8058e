"""Counts fields that the schema does not have."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from streamboost.features import Features

__all__ = ["FieldCounts"]

MOST_NAMES = 1_000
"""Names that are told apart: a record whose names never come again cannot fill the memory."""

OTHERS = "further names"


class FieldCounts:
    """How many records had a value in each field that the schema does not know.

    >>> counts = FieldCounts()
    >>> counts.add({"city": 3})
    >>> counts.unknown
    Counter({'city': 3})
    """

    def __init__(self, unknown: Mapping[str, int] | None = None) -> None:
        self.unknown: Counter[str] = Counter(unknown or {})

    def add(self, found: Mapping[str, int]) -> None:
        """Count what a batch showed."""
        for name, n in found.items():
            is_told = name in self.unknown or len(self.unknown) < MOST_NAMES
            self.unknown[name if is_told else OTHERS] += n

    def learn(self, names: Mapping[str, Any]) -> None:
        """Take it that these are known from now on."""
        for name in names:
            self.unknown.pop(name, None)

    def in_numbers(self, features: Features | None) -> dict[str, dict[str, int]]:
        """Return them, and how many values of each field of `features` could not be read."""
        unreadable = {} if features is None else features.unreadable
        return {
            "unknown": dict(self.unknown),
            "unreadable": {str(name): n for name, n in unreadable.items()},
        }
