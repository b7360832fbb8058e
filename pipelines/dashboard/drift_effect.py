"""Effect of a feature's shift: its importance, and the change of accuracy since the shift began."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamboost.pipelines.dashboard.recall_by_version import RecallChange, overall_recall
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.status.formatting import NOTHING, percent_text
from streamboost.pipelines.status.reader import LabelledPrediction

LITTLE = 0.05
"""Importance below which a feature matters little, or half of an equal share where that is less."""

TOLERATED = 0.05
"""If the accuracy may have fallen by more than this, the effect of a shift is unclear."""

Verdict = Literal[
    "matters", "does not matter so far", "unclear whether it matters", "low importance"
]


def has_low_importance(view: StatusSnapshot, feature: str) -> bool:
    """Return whether the committee hardly uses a feature; false if importances are unknown."""
    shares: Mapping[str, float] = view.document("importances")
    n = len(view.document("features").get("features") or ())
    return bool(shares) and shares.get(feature, 0.0) < min(LITTLE, 0.5 / max(n, 1))


@dataclass(frozen=True, slots=True)
class ShiftEffect:
    """Effect of the first shift of a feature.

    `importance` is the feature's share in the committee, from 0 to 1, and `rank` its place among
    all features, 1 for the largest; None if they are unknown. `change` is the change of the
    accuracy since the shift began.
    """

    importance: float | None
    rank: int | None
    is_unimportant: bool
    change: RecallChange

    @classmethod
    def from_view(cls, view: StatusSnapshot, feature: Mapping[str, Any]) -> "ShiftEffect":
        """Return the effect of the shift of a feature, given its statistics, with a `began`.

        The labelled records after the start are compared with as many records before the start.
        """
        name, shares = str(feature["name"]), view.document("importances")
        importance = shares.get(name, 0.0) if shares else None
        rank = None
        if importance is not None:
            rank = 1 + sum(share > importance for share in shares.values())
        start = (feature.get("started") or (0, feature["began"]))[1]
        evidence = view.evidence
        change = evidence.cache.get_or_compute(
            ("shift", start), lambda: _accuracy_change(start, evidence.predictions)
        )
        return cls(importance, rank, has_low_importance(view, name), change)

    @property
    def verdict(self) -> Verdict:
        """Whether the shift matters, as far as labels show."""
        if self.is_unimportant:
            return "low importance"
        if self.change.has_fallen:
            return "matters"
        interval = self.change.interval
        if interval is None or self.change.has_few_labels or interval[0] < -TOLERATED:
            return "unclear whether it matters"
        return "does not matter so far"

    @property
    def change_text(self) -> str:
        """Text of the change of accuracy with its 95 % interval, in points."""
        interval = self.change.interval
        if interval is None or self.change.has_few_labels:
            return "too few labels"
        value = self.change.percentage_points
        low, high = (100.0 * end for end in interval)
        if self.change.has_fallen:
            return f"accuracy fell {-value:.1f} points ({-high:.1f} to {-low:.1f})"
        return f"accuracy {value:+.1f} points ({low:+.1f} to {high:+.1f})"

    @property
    def importance_text(self) -> str:
        """Text of the feature's importance and its place among all features."""
        if self.importance is None:
            return NOTHING
        place = "the largest of all" if self.rank == 1 else f"number {self.rank}"
        return f"{percent_text(self.importance)}, {place}"

    @property
    def text(self) -> str:
        """Text of the verdict and its reason, such as "matters: accuracy fell 4.0 points"."""
        if self.is_unimportant and self.change.has_fallen:
            return f"low importance; {self.change_text}, probably by another cause"
        return f"{self.verdict}: {self.change_text}"

    def notice(self, feature: str) -> str:
        """Return a text on whether the shift of the feature named `feature` matters."""
        if self.verdict in ("matters", "does not matter so far"):
            return f"{feature} {self.text}"
        return f"{feature}: {self.text}"


def _accuracy_change(start: int, evidence: Sequence[LabelledPrediction]) -> RecallChange:
    """Return the change of the accuracy since `start`, in milliseconds since the epoch."""
    later = [found for found in evidence if found.arrived >= start]
    earlier = [found for found in evidence if found.arrived < start][-len(later) :] if later else []
    return RecallChange("Accuracy", overall_recall(earlier), overall_recall(later))
