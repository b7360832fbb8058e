"""Prediction cache: keeps the experts' predictions on arrival until the labels arrive."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streamboost.predictions import Scored
from streamboost.storage import Arrays

__all__ = ["CachedPrediction", "PredictionCache"]

_MOST_BYTES = 8 * 2**20
_MOST = 20_000
"""Limits of the cache in bytes and in records; the oldest records are evicted first."""


class CachedPrediction(NamedTuple):
    """Predictions for one record by all experts, made on its arrival."""

    newest_class: int
    """Class index of the newest label known when the record arrived; -1: none."""
    logs: np.ndarray
    """Log probabilities of K classes by E experts, float32 (E, K)."""
    known: np.ndarray
    """Whether the committee had each class, bool (K,)."""

    @classmethod
    def from_scored(cls, newest_class: int, scored: Scored) -> "CachedPrediction":
        """Return the predictions for the only record in `scored`.

        `newest_class` is the class index of the newest known label on the record's arrival.
        """
        assert scored.experts is not None
        assert scored.known is not None
        return cls(newest_class, scored.experts[:, 0].astype(np.float32), scored.known)


class _Batch:
    """Newest class, shape and known classes of records cached together; compared by identity."""

    __slots__ = ("known", "newest_class", "shape")

    def __init__(self, newest_class: int, shape: tuple[int, ...], known: np.ndarray) -> None:
        self.newest_class, self.shape, self.known = newest_class, shape, known

    def matches(self, other: "_Batch") -> bool:
        """Return whether `other` has the same newest label and the same classes."""
        return self.newest_class == other.newest_class and np.array_equal(self.known, other.known)


class PredictionCache:
    """Cache of the experts' predictions by record id.

    An entry refers to its batch and has a copy of its own predictions, so that the arrays of the
    batch can be freed.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[_Batch, bytes]] = OrderedDict()
        self._bytes = 0
        self._newest: tuple[str, int, Scored] | None = None

    def __len__(self) -> int:
        return len(self._entries) + (self._newest is not None)

    def put_scored(self, id: str, newest_class: int, scored: Scored) -> None:
        """Cache the predictions for the only record in `scored`, whose label probably arrives next.

        `newest_class` is the class index of the newest known label.
        """
        self._store_newest_record()
        self.pop(id)
        self._newest = id, newest_class, scored

    def _store_newest_record(self) -> None:
        """Convert the newest record's predictions, if there is one, to an entry like the others."""
        if self._newest is not None:
            (id, newest_class, scored), self._newest = self._newest, None
            self.put(id, CachedPrediction.from_scored(newest_class, scored))

    def put(self, id: str, prediction: CachedPrediction) -> None:
        """Cache `prediction` for the record `id`, in place of an older one."""
        self._store_newest_record()
        batch = _Batch(prediction.newest_class, prediction.logs.shape, prediction.known)
        self._insert_entries({id: (batch, prediction.logs.tobytes())})

    def put_all(self, ids: Sequence[str], newest_class: int, scored: Scored) -> None:
        """Cache the predictions for the records in `scored` by their `ids`.

        `newest_class` is the class index of the newest known label.
        """
        self._store_newest_record()
        assert scored.experts is not None
        assert scored.known is not None
        logs = scored.experts.transpose(1, 0, 2).astype(np.float32, order="C")
        batch = _Batch(newest_class, logs.shape[1:], scored.known)
        own = _split_bytes(logs.tobytes(), len(logs))
        self._insert_entries(dict(zip(ids, zip(repeat(batch), own, strict=False), strict=False)))

    def _insert_entries(self, entries: dict[str, tuple[_Batch, bytes]]) -> None:
        for id in entries.keys() & self._entries.keys():
            self.pop(id)
        self._entries.update(entries)
        if entries:  # all entries of a batch have the same size
            self._bytes += len(entries) * len(next(iter(entries.values()))[1])
        while len(self._entries) > _MOST or self._bytes > _MOST_BYTES:
            _, (_, oldest) = self._entries.popitem(last=False)
            self._bytes -= len(oldest)

    def pop(self, id: str) -> CachedPrediction | None:
        """Remove and return the predictions of the record `id`, or None."""
        if self._newest is not None and self._newest[0] == id:
            (_, newest_class, scored), self._newest = self._newest, None
            return CachedPrediction.from_scored(newest_class, scored)
        found = self._entries.pop(id, None)
        if found is None:
            return None
        batch, logs = found
        self._bytes -= len(logs)
        # A copy, because kernels are compiled for writable arrays.
        return CachedPrediction(
            batch.newest_class,
            np.frombuffer(logs, np.float32).reshape(batch.shape).copy(),
            batch.known,
        )

    def state(self) -> tuple[list[Any], Arrays]:
        """Return the complete state for `resume`: JSON values, and arrays by name.

        Consecutive records with the same newest known label and classes are stored as one group.
        """
        self._store_newest_record()
        groups: list[tuple[list[str], _Batch]] = []
        ids = iter(self._entries)
        for batch, records in groupby(self._entries.values(), key=itemgetter(0)):
            if not groups or not groups[-1][1].matches(batch):
                groups.append(([], batch))
            groups[-1][0].extend(islice(ids, len(list(records))))
        about = [
            (ids, one.newest_class, one.shape, np.flatnonzero(~one.known).tolist())
            for ids, one in groups
        ]
        logs = b"".join([logs for _, logs in self._entries.values()])
        return about, {"logs": np.frombuffer(logs, dtype=np.float32)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._entries, self._bytes, self._newest, start = OrderedDict(), 0, None, 0
        for ids, newest_class, shape, unknown in about:
            known = np.ones(shape[1], dtype=bool)
            known[unknown] = False
            end = start + len(ids) * shape[0] * shape[1]
            own = _split_bytes(arrays["logs"][start:end].astype(np.float32).tobytes(), len(ids))
            batch = _Batch(newest_class, tuple(shape), known)
            self._insert_entries(dict(zip(ids, zip(repeat(batch), own, strict=False), strict=True)))
            start = end


def _split_bytes(data: bytes, n: int) -> list[bytes]:
    """Return `data` split into `n` parts of equal length."""
    each = len(data) // n if n else 0
    return [data[i * each : (i + 1) * each] for i in range(n)]
