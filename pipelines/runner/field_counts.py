"""Counters of unknown fields, which the schema does not have."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from streamboost.features import Features

__all__ = ["FieldCounts"]

MOST_NAMES = 1_000
"""Maximum number of unknown names that are counted separately, as a bound on memory."""

OTHERS = "further names"


class FieldCounts:
    """Number of records with a value, for each field that the schema does not have.

    >>> counts = FieldCounts()
    >>> counts.add({"city": 3})
    >>> counts.unknown
    Counter({'city': 3})
    """

    def __init__(self, unknown: Mapping[str, int] | None = None) -> None:
        self.unknown: Counter[str] = Counter(unknown or {})

    def add(self, found: Mapping[str, int]) -> None:
        """Add the counts of a batch, by field name."""
        for name, n in found.items():
            is_told = name in self.unknown or len(self.unknown) < MOST_NAMES
            self.unknown[name if is_told else OTHERS] += n

    def remove(self, names: Mapping[str, Any]) -> None:
        """Remove the counters of fields that the schema now has."""
        for name in names:
            self.unknown.pop(name, None)

    def in_numbers(self, features: Features | None) -> dict[str, dict[str, int]]:
        """Return the counts of unknown fields, and of unreadable values by field of `features`."""
        unreadable = {} if features is None else features.unreadable
        return {
            "unknown": dict(self.unknown),
            "unreadable": {str(name): n for name, n in unreadable.items()},
        }
