"""Counters of unknown fields, which the schema does not have."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from streamboost.features import Features

MOST_NAMES = 1_000
"""Maximum number of unknown names that are counted separately, as a bound on memory."""

OTHERS = "further names"


class UnknownFieldCounts:
    """Counter of the records with a value, for each field that the schema does not have.

    >>> counts = UnknownFieldCounts()
    >>> counts.add_counts({"city": 3})
    >>> counts.unknown
    Counter({'city': 3})
    """

    def __init__(self, unknown: Mapping[str, int] | None = None) -> None:
        self.unknown: Counter[str] = Counter(unknown or {})

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add `counts`, which maps a field name to the number of records in a batch."""
        for name, n in counts.items():
            is_told = name in self.unknown or len(self.unknown) < MOST_NAMES
            self.unknown[name if is_told else OTHERS] += n

    def remove_known_fields(self, known_fields: Mapping[str, Any]) -> None:
        """Remove the counters of fields that the schema now has."""
        for name in known_fields:
            self.unknown.pop(name, None)

    def to_json(self, features: Features | None) -> dict[str, dict[str, int]]:
        """Return two mappings from field name to count: "unknown" fields and "unreadable" values.

        The unreadable values are those that `features` has counted; None: no such values.
        """
        unreadable = {} if features is None else features.unreadable
        return {
            "unknown": dict(self.unknown),
            "unreadable": {str(name): n for name, n in unreadable.items()},
        }
