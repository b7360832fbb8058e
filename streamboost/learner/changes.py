"""Changes of the stream that the experts "young" have detected, and their history."""

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from typing import Any

__all__ = ["Change", "Changes"]

_NEWEST = 20


@dataclass(frozen=True, slots=True)
class Change:
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


class Changes:
    """The newest 20 detected changes, oldest first, and the number of all.

    Attributes
    ----------
    total
        Number of changes detected so far.
    """

    def __init__(self) -> None:
        self._newest: deque[Change] = deque(maxlen=_NEWEST)
        self.total = 0

    def __iter__(self) -> Iterator[Change]:
        return iter(self._newest)

    @property
    def newest(self) -> Change | None:
        """The change detected last; None if there is none."""
        return self._newest[-1] if self._newest else None

    def add(self, change: Change) -> None:
        """Add a newly detected change; of more than 20, the oldest is dropped."""
        self._newest.append(change)
        self.total += 1

    def newer_than(self, total: int) -> list[Change]:
        """Return the changes detected after the first `total` ones, of the 20 that are stored."""
        n = min(self.total - total, len(self._newest))
        return [self._newest[i - n] for i in range(n)]

    def to_json(self) -> dict[str, Any]:
        """Return the number of changes and the newest one, as JSON values."""
        newest = self.newest
        return {"total": self.total, "newest": None if newest is None else asdict(newest)}

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {"total": self.total, "newest": [astuple(change) for change in self._newest]}

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self.total = state["total"]
        self._newest = deque((Change(*one) for one in state["newest"]), maxlen=_NEWEST)
