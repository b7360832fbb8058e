"""The newest records of a stream, in arrays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamboost.connectors.base import Carried
from streamboost.connectors.messages.written import Time
from streamboost.pipelines.span import Moment, Span
from streamboost.stream.checks import Label, as_wide

__all__ = [
    "HeldRecord",
    "Label",
    "Window",
    "carried_as_json",
    "carried_of_json",
]


_NOTHING_CARRIED = Carried()


class HeldRecord(NamedTuple):
    """One record as it arrived, with the prediction made then and the time it bears."""

    x: np.ndarray
    arrived: Moment
    predicted: Label | None
    time: Time = None
    values: bytes | None = None
    """Its fields' values as they came (`packed`), where it has fields of several kinds; behind
    them, on a line of its own, the record of which a transformer made them (`whole_of`)."""
    carried: Carried = _NOTHING_CARRIED
    """What its message bore, where it may be asked about later."""


def carried_as_json(carried: Mapping[str, Carried]) -> dict[str, Any]:
    """Return what messages bore, for `carried_of_json`."""
    return {
        id: [_as_text(one.key), [[name, _as_text(held)] for name, held in one.headers], one.time]
        for id, one in carried.items()
    }


def carried_of_json(state: Mapping[str, Any]) -> dict[str, Carried]:
    """Return what `carried_as_json` was given."""
    return {
        id: Carried(_of_text(key), tuple((name, _of_text(held) or b"") for name, held in h), time)
        for id, (key, h, time) in state.items()
    }


def _as_text(held: bytes | None) -> str | None:
    return None if held is None else held.decode("latin-1")


def _of_text(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


class Window:
    """Records in order of arrival: added at the end, leaving at the front, found by id.

    The live rows are `[_start, _end)` of arrays with room at their end. When that room is used
    up, the live rows move to the front, or into arrays twice the size if they fill half of them:
    a constant cost per record.
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self._start = 0
        self._end = 0
        self._base = 0  # number of the record that would stand at row 0
        self._number: dict[str, int] = {}
        self._ids: list[str] = []
        self._predicted: list[Label | None] = []
        self._times: list[Time] = []
        self._values: list[bytes | None] = []
        self._carried: dict[str, Carried] = {}
        self._X = np.empty((256, n_features), dtype=np.float32)
        self._records = np.empty(256, dtype=np.int64)
        self._ticks = np.empty(256, dtype=np.int64)

    def __len__(self) -> int:
        return self._end - self._start

    def __contains__(self, id: str) -> bool:
        return id in self._number

    def __getitem__(self, id: str) -> HeldRecord:
        return self._arrival(self._number[id] - self._base)

    def add(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        predicted: Sequence[Label | None],
        now: Moment,
        times: Sequence[Time] | None = None,
        values: Sequence[bytes | None] | None = None,
    ) -> None:
        """Append records that arrive one after the other, the first right after `now`."""
        records = np.arange(now.records, now.records + len(ids)) + 1
        ticks = np.full(len(ids), now.tick)
        none = [None] * len(ids)
        self._append(ids, X, predicted, times or none, values or none, records, ticks)

    def carry(self, carried: Mapping[str, Carried]) -> None:
        """Keep what the messages of records bore, by the ids of these."""
        self._carried |= carried

    def leave(self, span: Span, now: Moment) -> Iterator[str]:
        """Remove the records whose `span` is over at `now`, oldest first, and give their ids.

        Each is held still while its id is looked at.
        """
        for id in self._ids[self._start : self._start + self._n_over(span, now)]:
            yield id
            del self._number[id]
            self._carried.pop(id, None)
            self._start += 1

    def _n_over(self, span: Span, now: Moment) -> int:
        """Return how many records, from the oldest on, have been held for all of `span`."""
        live = slice(self._start, self._end)
        began, end = self._ticks[live], now.tick - (span.milliseconds or 0)
        if span.records is not None:
            began, end = self._records[live], now.records - span.records
        return int(np.searchsorted(began, end, side="right"))

    def has_any(self, ids: Iterable[str]) -> bool:
        """Tell whether one of these records is held."""
        return not self._number.keys().isdisjoint(ids)

    def rows(self) -> np.ndarray:
        """Return the features of the records held, float32 of shape (n, n_features)."""
        return self._X[self._start : self._end].copy()

    def values(self) -> list[bytes | None]:
        """Return the values of the records held."""
        return self._values[self._start : self._end]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the features, for `restore`."""
        live = slice(self._start, self._end)
        return {
            "ids": self._ids[live],
            "predicted": self._predicted[live],
            "times": self._times[live],
            "records": self._records[live].tolist(),
            "ticks": self._ticks[live].tolist(),
            "carried": carried_as_json(self._carried),
        }

    @classmethod
    def restore(
        cls, state: dict[str, Any], X: np.ndarray, values: Sequence[bytes | None]
    ) -> "Window":
        """Return a window that holds what `to_json` and `rows` gave."""
        window = cls(X.shape[1])
        window._append(
            state["ids"],
            X,
            state["predicted"],
            state["times"],
            values,
            state["records"],
            state["ticks"],
        )
        window.carry(carried_of_json(state["carried"]))
        return window

    def _arrival(self, row: int) -> HeldRecord:
        x, arrived, values = self._X[row].copy(), self._arrived(row), self._values[row]
        carried = self._carried.get(self._ids[row], _NOTHING_CARRIED)
        return HeldRecord(x, arrived, self._predicted[row], self._times[row], values, carried)

    def _arrived(self, row: int) -> Moment:
        return Moment(int(self._records[row]), int(self._ticks[row]))

    def _append(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        predicted: Sequence[Label | None],
        times: Sequence[Time],
        values: Sequence[bytes | None],
        records: Any,
        ticks: Any,
    ) -> None:
        self._widen(X.shape[1])
        self._make_room(len(ids))
        rows = slice(self._end, self._end + len(ids))
        first = self._base + self._end
        X = as_wide(X, self.n_features)
        self._X[rows], self._records[rows], self._ticks[rows] = X, records, ticks
        self._ids += ids
        self._predicted += predicted
        self._times += times
        self._values += values
        self._number.update(zip(ids, range(first, first + len(ids)), strict=True))
        self._end = rows.stop

    def _widen(self, n_features: int) -> None:
        """Let rows have at least so many features; the ones held miss the new ones."""
        if n_features > self.n_features:
            self._X = as_wide(self._X, n_features)
            self.n_features = n_features

    def _make_room(self, n: int) -> None:
        if self._end + n <= len(self._X):
            return
        live = slice(self._start, self._end)
        needed = len(self) + n
        capacity = len(self._X)
        while capacity < 2 * needed:
            capacity *= 2
        for name in ("_X", "_records", "_ticks"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: len(self)] = old[live]
            setattr(self, name, new)
        for held in (self._ids, self._predicted, self._times, self._values):
            del held[: self._start]
        self._base += self._start
        self._start, self._end = 0, live.stop - live.start
