"""What experts said of records on their arrival, until the labels come."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import repeat
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


class Memory:
    """Remembers what was said of records by their ids."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, Said] = OrderedDict()
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
        self._put({id: said})

    def note_all(self, ids: Sequence[str], before: int, scored: Scored) -> None:
        """Remember what was said of the records of `scored`, by their `ids`."""
        self._file()
        assert scored.experts is not None
        assert scored.known is not None
        logs = scored.experts.transpose(1, 0, 2).astype(np.float32, order="C")
        own = [one.copy() for one in logs]  # none keeps the others in memory
        self._put(
            dict(zip(ids, map(Said, repeat(before), own, repeat(scored.known)), strict=False))
        )

    def _put(self, said: dict[str, Said]) -> None:
        for id in said.keys() & self._said.keys():
            self.take(id)
        self._said.update(said)
        if said:  # all of a batch are of a size
            self._bytes += len(said) * next(iter(said.values())).logs.nbytes
        while len(self._said) > _MOST or self._bytes > _MOST_BYTES:
            _, oldest = self._said.popitem(last=False)
            self._bytes -= oldest.logs.nbytes

    def take(self, id: str) -> Said | None:
        """Return, and forget, what was said of the record `id`; None if it is not known."""
        if self._newest is not None and self._newest[0] == id:
            (_, before, scored), self._newest = self._newest, None
            return Said.of(before, scored)
        said = self._said.pop(id, None)
        if said is not None:
            self._bytes -= said.logs.nbytes
        return said

    def state(self) -> tuple[list[Any], Arrays]:
        """Return all there is: one part as JSON can hold it, the other as arrays.

        Records that follow one another with the same newest label and classes are told of together.
        """
        self._file()
        together: list[tuple[list[str], Said]] = []
        before: Said | None = None
        for id, said in self._said.items():
            if before is None or before.before != said.before or not _alike(before, said):
                together.append(([], said))
            together[-1][0].append(id)
            before = said
        about = [
            (ids, one.before, one.logs.shape, np.flatnonzero(~one.known).tolist())
            for ids, one in together
        ]
        logs = b"".join([one.logs.tobytes() for one in self._said.values()])
        return about, {"logs": np.frombuffer(logs, dtype=np.float32)}

    def resume(self, about: list[Any], arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._said, self._bytes, self._newest, start = OrderedDict(), 0, None, 0
        for ids, before, shape, unknown in about:
            known = np.ones(shape[1], dtype=bool)
            known[unknown] = False
            end = start + len(ids) * shape[0] * shape[1]
            for id, logs in zip(
                ids, arrays["logs"][start:end].reshape(len(ids), *shape).copy(), strict=True
            ):
                self.note(id, Said(before, logs, known))
            start = end


def _alike(one: Said, other: Said) -> bool:
    """Tell whether the committees of both knew the same; those of a batch share an array."""
    return one.known is other.known or np.array_equal(one.known, other.known)
