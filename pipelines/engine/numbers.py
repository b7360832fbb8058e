"""How a pipeline stands, in numbers: its committee, and fields that came later."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from streamboost.features import Features
from streamboost.stream.learner import StreamLearner

__all__ = ["FieldCounts", "committee_in_numbers"]

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


def committee_in_numbers(learner: StreamLearner) -> dict[str, int]:
    """Return how the committee stands, and what is being trained."""
    trainer = learner.trainer
    numbers = {
        "labels": learner.n_labels,
        "version": 0,
        "rounds": 0,
        "trees": 0,
        "classes": 0,
        "running": trainer.running.version if trainer.running else 0,
        "challenger": trainer.challenger.version if trainer.challenger else 0,
        "paused": int(trainer.paused),
    }
    if (committee := learner.committee) is not None:
        numbers |= {
            "version": committee.version,
            "rounds": committee.n_rounds,
            "trees": committee.n_trees,
            "classes": len(committee.classes),
        }
    return numbers
