"""What experts said of records on their arrival, until the labels come."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.scoring import Scored

__all__ = ["Memory", "Said"]

_MOST_BYTES = 8 * 2**20
_MOST = 20_000
"""Records that are remembered, and what they may take; the oldest are forgotten first."""


class Said(NamedTuple):
    """What the experts said of one record."""

    before: int
    """The number of the newest label known then, -1 where there was none."""
    logs: np.ndarray
    """Float32 (E, K), log probabilities."""
    known: np.ndarray
    """Bool (K,), which classes the committee knew."""

    @classmethod
    def of(cls, before: int, scored: Scored) -> "Said":
        """Return what experts said of the only record of `scored`."""
        assert scored.experts is not None
        assert scored.known is not None
        return cls(before, scored.experts[:, 0].astype(np.float32), scored.known)


class _Batch:
    """What is the same of records that were noted together; no two are equal."""

    __slots__ = ("before", "known", "shape")

    def __init__(self, before: int, shape: tuple[int, ...], known: np.ndarray) -> None:
        self.before, self.shape, self.known = before, shape, known

    def says_like(self, other: "_Batch") -> bool:
        """Tell whether both know the same labels and classes."""
        return self.before == other.before and np.array_equal(self.known, other.known)


class Memory:
    """Remembers what was said of records by their ids.

    Of each there are its own bytes, which keep no others in memory, and its batch.
    """

    def __init__(self) -> None:
        self._said: OrderedDict[str, tuple[_Batch, bytes]] = OrderedDict()
        self._bytes = 0
        self._newest: tuple[str, int, Scored] | None = None

    def __len__(self) -> int:
        return len(self._said) + (self._newest is not None)

    def hold(self, id: str, before: int, scored: Scored) -> None:
        """Remember what was said of the only record of `scored`: its label mostly comes next."""
        self._file()
        self.take(id)
        self._newest = id, before, scored

    def _file(self) -> None:
        """Put the newest among the others."""
        if self._newest is not None:
            (id, before, scored), self._newest = self._newest, None
            self.note(id, Said.of(before, scored))

    def note(self, id: str, said: Said) -> None:
        """Remember what was said of the record `id`; the newest counts."""
        self._file()
        batch = _Batch(said.before, said.logs.shape, said.known)
        self._put({id: (batch, said.logs.tobytes())})

    def note_all(self, ids: Sequence[str], before: int, scored: Scored) -> None:
        """Remember what was said of the records of `scored`, by their `ids`."""
        self._file()
        assert scored.experts is not None
        assert scored.known is not None
        logs = scored.experts.transpose(1, 0, 2).astype(np.float32, order="C")
        batch = _Batch(before, logs.shape[1:], scored.known)
        own = _cut(logs.tobytes(), len(logs))
        self._put(dict(zip(ids, zip(repeat(batch), own, strict=False), strict=False)))

    def _put(self, said: dict[str, tuple[_Batch, bytes]]) -> None:
        for id in said.keys() & self._said.keys():
            self.take(id)
        self._said.update(said)
        if said:  # all of a batch are of a size
            self._bytes += len(said) * len(next(iter(said.values()))[1])
        while len(self._said) > _MOST or self._bytes > _MOST_BYTES:
            _, (_, oldest) = self._said.popitem(last=False)
            self._bytes -= len(oldest)

    def take(self, id: str) -> Said | None:
        """Return, and forget, what was said of the record `id`; None if it is not known."""
        if self._newest is not None and self._newest[0] == id:
            (_, before, scored), self._newest = self._newest, None
            return Said.of(before, scored)
        found = self._said.pop(id, None)
        if found is None:
            return None
        batch, logs = found
        self._bytes -= len(logs)
        # A copy, as kernels know arrays that may be written to.
        return Said(
            batch.before, np.frombuffer(logs, np.float32).reshape(batch.shape).copy(), batch.known
        )

    def state(self) -> tuple[list[Any], Arrays]:
        """Return all there is: one part as JSON can hold it, the other as arrays.

        Records that follow one another with the same newest label and classes are told of together.
        """
        self._file()
        together: list[tuple[list[str], _Batch]] = []
        ids = iter(self._said)
        for batch, records in groupby(self._said.values(), key=itemgetter(0)):
            if not together or not together[-1][1].says_like(batch):
                together.append(([], batch))
            together[-1][0].extend(islice(ids, len(list(records))))
        about = [
            (ids, one.before, one.shape, np.flatnonzero(~one.known).tolist())
            for ids, one in together
        ]
        logs = b"".join([logs for _, logs in self._said.values()])
        return about, {"logs": np.frombuffer(logs, dtype=np.float32)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._said, self._bytes, self._newest, start = OrderedDict(), 0, None, 0
        for ids, before, shape, unknown in about:
            known = np.ones(shape[1], dtype=bool)
            known[unknown] = False
            end = start + len(ids) * shape[0] * shape[1]
            own = _cut(arrays["logs"][start:end].astype(np.float32).tobytes(), len(ids))
            batch = _Batch(before, tuple(shape), known)
            self._put(dict(zip(ids, zip(repeat(batch), own, strict=False), strict=True)))
            start = end


def _cut(data: bytes, n: int) -> list[bytes]:
    """Return `data` in `n` parts of one length."""
    each = len(data) // n if n else 0
    return [data[i * each : (i + 1) * each] for i in range(n)]
