"""Prediction cache: keeps the experts' predictions on arrival until the labels arrive."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streamboost.predictions import Scored
from streamboost.storage import Arrays

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


_Entry = tuple[int, bytes, tuple[int, ...], bytes]
"""Newest class, bytes of the known classes, and shape and bytes of a record's log probabilities.

Python's garbage collector does not track such a tuple, so that entries do not slow it down.
"""


class PredictionCache:
    """Cache of the experts' predictions by record id.

    An entry has a copy of its own predictions, so that the arrays of its batch can be freed.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
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
        newest_class, logs, known = prediction
        self._insert_entries({id: (newest_class, known.tobytes(), logs.shape, logs.tobytes())})

    def put_all(self, ids: Sequence[str], newest_class: int, scored: Scored) -> None:
        """Cache the predictions for the records in `scored` by their `ids`.

        `newest_class` is the class index of the newest known label.
        """
        self._store_newest_record()
        assert scored.experts is not None
        assert scored.known is not None
        logs = scored.experts.transpose(1, 0, 2).astype(np.float32, order="C")
        self._insert_batch(ids, newest_class, scored.known, logs)

    def _insert_batch(
        self, ids: Sequence[str], newest_class: int, known: np.ndarray, logs: np.ndarray
    ) -> None:
        """Insert an entry for each of the `ids` (n,), with `logs` float32 (n, E, K), C-order."""
        own = _split_bytes(logs.tobytes(), len(logs))
        same = repeat(newest_class), repeat(known.tobytes()), repeat(logs.shape[1:])
        self._insert_entries(dict(zip(ids, zip(*same, own, strict=False), strict=False)))

    def _insert_entries(self, entries: dict[str, _Entry]) -> None:
        if not entries.keys().isdisjoint(self._entries.keys()):
            for id in entries:
                self.pop(id)
        self._entries.update(entries)
        if entries:  # all entries of a batch have the same size
            self._bytes += len(entries) * len(next(iter(entries.values()))[-1])
        while len(self._entries) > _MOST or self._bytes > _MOST_BYTES:
            self._bytes -= len(self._entries.popitem(last=False)[1][-1])

    def pop(self, id: str) -> CachedPrediction | None:
        """Remove and return the predictions of the record `id`, or None."""
        if self._newest is not None and self._newest[0] == id:
            (_, newest_class, scored), self._newest = self._newest, None
            return CachedPrediction.from_scored(newest_class, scored)
        found = self._entries.pop(id, None)
        if found is None:
            return None
        newest_class, known, shape, logs = found
        self._bytes -= len(logs)
        # A copy, because kernels are compiled for writable arrays.
        own = np.frombuffer(logs, np.float32).reshape(shape).copy()
        return CachedPrediction(newest_class, own, np.frombuffer(known, dtype=bool))

    def state(self) -> tuple[list[Any], Arrays]:
        """Return the complete state for `resume`: JSON values, and arrays by name.

        Consecutive records with the same newest known label and classes are stored as one group.
        """
        self._store_newest_record()
        ids = iter(self._entries)
        about = [
            (
                list(islice(ids, len(list(group)))),
                newest_class,
                shape,
                np.flatnonzero(~np.frombuffer(known, dtype=bool)).tolist(),
            )
            for (newest_class, known, shape), group in groupby(
                self._entries.values(), key=itemgetter(0, 1, 2)
            )
        ]
        logs = b"".join(map(itemgetter(-1), self._entries.values()))
        return about, {"logs": np.frombuffer(logs, dtype=np.float32)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._entries, self._bytes, self._newest, start = OrderedDict(), 0, None, 0
        for ids, newest_class, shape, unknown in about:
            known = np.ones(shape[1], dtype=bool)
            known[unknown] = False
            end = start + len(ids) * shape[0] * shape[1]
            logs = arrays["logs"][start:end].astype(np.float32).reshape(len(ids), *shape)
            self._insert_batch(ids, newest_class, known, logs)
            start = end


def _split_bytes(data: bytes, n: int) -> list[bytes]:
    """Return `data` split into `n` parts of equal length."""
    each = len(data) // n if n else 0
    return [data[i * each : (i + 1) * each] for i in range(n)]
