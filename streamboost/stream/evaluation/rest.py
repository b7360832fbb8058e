"""Records that nobody was asked about, as sums that were taken elsewhere.

Where others score, the honest figures need of such records only what their probabilities lead to
expect (`Tally`): O(K²) numbers a batch, however many records it has. What the two baselines would
have said is filled in where the labels are known.
"""

import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.evaluation.tally import BINS, MEAN_COLUMNS, Judged, Tally
from streamboost.stream.scoring import Scored

__all__ = ["Blocks", "Rest"]

MOST = 256
"""Batches that wait before neighbours are put together."""

FINEST = 10
"""Neighbours are put together to at most this part of the records that came after them: the newest
stay apart, so that a window can begin between them."""

_MEANS = [
    MEAN_COLUMNS.index(name)
    for name in ("records", "rest", "known", "model", "doubt", "confidence")
]


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """The sums over records that were scored elsewhere, and that nobody asked about.

    Attributes
    ----------
    classes
        The labels that the classes of `tally` stand for.
    tally
        Of the committee's predictions; the baselines gave none.
    """

    classes: list[Label]
    tally: Tally

    @classmethod
    def of(
        cls, scored: Scored, asked: Sequence[int], block: int, chances: np.ndarray | None = None
    ) -> "Rest":
        """Sum up the records of `scored` but for those at the rows `asked`.

        They had the `chances` (n,) of being asked about; None: one in a `block`. Fewer than a
        block nobody stands for.
        """
        classes: list[Label] = scored.classes.tolist()
        rows = np.ones(len(scored), dtype=bool)
        rows[list(asked)] = False
        code = {label: k for k, label in enumerate(classes)}
        predicted = np.full((int(rows.sum()), 3), -1)
        predicted[:, 0] = [code.get(label, -1) for label in scored.labels[rows].tolist()]
        n, tally = len(predicted), Tally(len(classes))
        P = scored.probabilities[rows]
        most = max(block, 1)
        stands = (
            np.full(n, float(most))
            if chances is None
            else 1.0 / np.maximum(chances[rows], 1.0 / most)
        )
        tally.add(Judged(P, predicted, truth=np.full(n, -1), others=stands - 1.0))
        return cls(classes, tally)

    def pack(self) -> bytes:
        """Return the sums, compressed; float32, which is as exact as the scores are."""
        sums = self.tally.sums
        parts = [
            np.array([self.tally.records]),
            sums["truth"],
            sums["predicted"][0],
            sums["cells"][0],
            sums["model"],
            sums["model_own"][0],
            sums["stands"][0],
            self.tally.means[:, _MEANS],
        ]
        return zlib.compress(np.concatenate([p.ravel() for p in parts]).astype("<f4").tobytes(), 1)

    @classmethod
    def unpack(cls, classes: Sequence[Label], packed: bytes) -> "Rest":
        """Return what `pack` packed; ValueError where it is something else."""
        K = len(classes)
        shapes: dict[str, tuple[int, ...]] = {
            "records": (1,),
            "truth": (K,),
            "predicted": (K,),
            "cells": (K, K),
            "model": (K, K),
            "model_own": (K, K),
            "stands": (K, K),
            "means": (BINS + 1 + K, len(_MEANS)),
        }
        try:
            flat = np.frombuffer(zlib.decompress(packed), dtype="<f4").astype(np.float64)
        except zlib.error as error:
            raise ValueError(f"sums that cannot be read: {error}") from error
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        if len(flat) != ends[-1]:
            raise ValueError(f"{len(flat)} sums, and of {K} classes there are {ends[-1]}")
        parts = np.split(flat, ends[:-1])
        found = {n: p.reshape(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        tally = Tally(K)
        tally.sums["counts"][0] = found["records"][0]
        tally.sums["truth"] += found["truth"]
        tally.sums["model"] += found["model"]
        for name in ("predicted", "cells", "model_own", "stands"):
            tally.sums[name][0] += found[name]
        tally.means[:, _MEANS] = found["means"]
        return cls(list(classes), tally)

    def among(self, codes: Sequence[int], n_classes: int, baselines: Sequence[int]) -> Tally:
        """Return the sums with the classes numbered `codes` of `n_classes`.

        `baselines` are the classes that the two of them say of all these records; -1: none.
        """
        places, K = np.asarray(codes, dtype=np.intp), len(codes)
        whole, own = Tally(n_classes), self.tally
        square = np.ix_(places, places)
        whole.sums["counts"] += own.sums["counts"]
        whole.sums["truth"][places] = own.sums["truth"]
        whole.sums["model"][square] = own.sums["model"]
        whole.sums["predicted"][0, places] = own.sums["predicted"][0]
        whole.sums["cells"][0][square] = own.sums["cells"][0]
        whole.sums["model_own"][0][square] = own.sums["model_own"][0]
        whole.sums["stands"][0][square] = own.sums["stands"][0]
        stands = whole.sums["stands"][0].sum(axis=0)
        for j, label in enumerate(baselines, start=1):
            if label >= 0:
                whole.sums["predicted"][j, label] = own.records
                whole.sums["cells"][j, label] = whole.sums["truth"]
                whole.sums["model_own"][j, label] = whole.sums["model"][label]
                whole.sums["stands"][j, label] = stands
        rows = np.concatenate([np.arange(BINS + 1), BINS + 1 + places])
        whole.means[rows] = own.means[: BINS + 1 + K]
        return whole


class Blocks:
    """Sums of batches, each to be counted once the records asked about in it are settled.

    One answer that is long in coming holds up all batches since. Of many, neighbours are put
    together, the coarser the older they are: so there are O(log n) of n that wait (exponential
    histograms, Datar, Gionis, Indyk and Motwani, 2002).
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Tally]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, end: int, tally: Tally) -> None:
        """Add a batch whose last record that was asked about is the one before number `end`."""
        self._waiting.append((end, tally))
        if len(self._waiting) > MOST:
            self._put_together()

    def _put_together(self) -> None:
        """Put neighbours together, where what results is small beside what came after it."""
        kept: deque[tuple[int, Tally]] = deque()
        newer = 0.0  # records after the oldest batch that is kept so far
        while self._waiting:
            end, tally = self._waiting.pop()
            if kept and FINEST * (kept[0][1].records + tally.records) <= newer:
                tally.widen(kept[0][1].n_classes)
                kept[0][1].merge(tally)
                continue
            newer += kept[0][1].records if kept else 0.0
            kept.appendleft((end, tally))
        self._waiting = kept

    def whole(self, settled: int) -> tuple[int, float]:
        """Return up to which number batches are settled as a whole, and how many records' sums.

        All records before number `settled` are.
        """
        number, records = 0, 0.0
        for end, tally in self._settled(settled):
            number, records = end, records + tally.records
        return number, records

    def reached(self, settled: int) -> int:
        """Return `settled`, or where the newest batch ends that is settled as a whole, if one is
        not: its records that were asked about do not count without the others.
        """
        ends = [end for end, _ in self._waiting]
        return settled if not ends or ends[-1] <= settled else self.whole(settled)[0]

    def skip(self, first: int, records: float) -> tuple[int, int]:
        """Return how many batches hold at least so many `records`, and where the last one ends.

        Numbers start with `first`.
        """
        start, n = first, 0
        for end, tally in self._waiting:
            if records <= 0.0:
                break
            records -= tally.records + end - start
            start, n = end, n + 1
        return n, start

    def sums(self, settled: int, n_classes: int, *, skip: int = 0, drop: bool = False) -> Tally:
        """Return the sums of the batches settled as a whole, and forget them with `drop`.

        The oldest `skip` do not count.
        """
        total, found = Tally(n_classes), list(self._settled(settled))
        for _, tally in found[skip:]:
            tally.widen(n_classes)
            total.merge(tally)
        for _ in found if drop else ():
            self._waiting.popleft()
        return total

    def _settled(self, settled: int) -> Iterator[tuple[int, Tally]]:
        return takewhile(lambda one: one[0] <= settled, self._waiting)

    def state(self, first: int) -> tuple[list[int], Arrays]:
        """Return all of it, with numbers from `first` on: one part as JSON can hold it."""
        arrays = {
            f"block{i}.{name}": array
            for i, (_, tally) in enumerate(self._waiting)
            for name, array in tally.state().items()
        }
        return [end - first for end, _ in self._waiting], arrays

    def resume(self, ends: Sequence[int], arrays: Arrays) -> None:
        """Go on from what `state` returned, with numbers from 0 on."""
        self._waiting.clear()
        for i, end in enumerate(ends):
            own: dict[str, Any] = {
                name.removeprefix(f"block{i}."): array
                for name, array in arrays.items()
                if name.startswith(f"block{i}.")
            }
            self._waiting.append((end, Tally.resume(own)))
