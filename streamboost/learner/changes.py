"""Changes of the data stream (concept drift) that the experts "young" detected, with history."""

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from typing import Any

_NEWEST = 20


@dataclass(frozen=True, slots=True)
class DetectedChange:
    """A detected change of the stream.

    Records are counted as they arrive, labels as they are learned. Labels are delayed, so later
    records have already arrived when the first label after a change is learned.

    Attributes
    ----------
    records, labels
        Numbers of records and labels when the change was detected.
    since_records, since_labels
        Estimated numbers of records and labels when the first label after the change was learned.
    """

    records: int
    labels: int
    since_records: int
    since_labels: int


class ChangeHistory:
    """History of detected changes: the newest 20, oldest first, and the number of all changes.

    Attributes
    ----------
    n_detected
        Number of changes detected so far.
    """

    def __init__(self) -> None:
        self._newest: deque[DetectedChange] = deque(maxlen=_NEWEST)
        self.n_detected = 0

    def __iter__(self) -> Iterator[DetectedChange]:
        return iter(self._newest)

    @property
    def newest(self) -> DetectedChange | None:
        """The change detected last; None if there is none."""
        return self._newest[-1] if self._newest else None

    def add(self, change: DetectedChange) -> None:
        """Add a newly detected change; if there are more than 20, the oldest is dropped."""
        self._newest.append(change)
        self.n_detected += 1

    def detected_after(self, n_earlier: int) -> list[DetectedChange]:
        """Return the stored changes that were detected after the first `n_earlier` changes."""
        n = min(self.n_detected - n_earlier, len(self._newest))
        return [self._newest[i - n] for i in range(n)]

    def to_json(self) -> dict[str, Any]:
        """Return the number of changes and the newest one, as JSON values."""
        newest = self.newest
        return {"total": self.n_detected, "newest": None if newest is None else asdict(newest)}

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {"total": self.n_detected, "newest": [astuple(change) for change in self._newest]}

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self.n_detected = state["total"]
        self._newest = deque((DetectedChange(*one) for one in state["newest"]), maxlen=_NEWEST)
