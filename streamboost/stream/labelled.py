"""The labelled rows with the classes they belong to."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label, as_array
from streamboost.stream.working_set import SlidingRows, WorkingSet

__all__ = ["LabelledRows", "Sample"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What one training sees.

    Attributes
    ----------
    X
        float32 (n, D), oldest label first; a view that the next label may change.
    y
        (n,), the labels.
    weight
        float64 (n,) with mean 1; None for equal weights.
    classes
        The labels among the rows that weigh anything, in the order the learner first saw them.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    classes: np.ndarray


class LabelledRows:
    """The working set's rows, and the count of every label ever learned."""

    def __init__(self, working_set: WorkingSet) -> None:
        self.working_set = working_set
        self.counts: dict[Label, int] = {}  # in the order first seen
        self.total = 0
        self._codes: dict[Label, int] = {}
        self._rows = SlidingRows(working_set.size, 0)

    @property
    def kind(self) -> type | None:
        """What labels are here, str or int; None before the first."""
        return type(next(iter(self.counts))) if self.counts else None

    @property
    def n_features(self) -> int:
        """Features per row."""
        return self._rows.n_features

    def append(self, row: np.ndarray, label: Label, tick: int, propensity: float) -> None:
        """Add one row (D,) and its label."""
        code = self._codes.setdefault(label, len(self._codes))
        self.counts[label] = self.counts.get(label, 0) + 1
        self.total += 1
        self._rows.append(row, code, tick, propensity)

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features; the ones kept miss the new ones."""
        self._rows.widen(n_features)

    def sample(self) -> Sample:
        """Return the working set's rows, labels and weights."""
        rows = self._rows.view()
        weight = self.working_set.weigh(len(rows.codes))
        # The oldest may weigh so little that it is 0 in floats: training leaves them out.
        codes = rows.codes if weight is None else rows.codes[weight > 0]
        known = as_array(self.counts)
        return Sample(X=rows.X, y=known[rows.codes], weight=weight, classes=known[np.unique(codes)])

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        return {"counts": list(self.counts.items()), "total": self.total}, self._rows.state()

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for the same working set."""
        self.counts = dict(state["counts"])
        self.total = state["total"]
        self._codes = {label: code for code, label in enumerate(self.counts)}
        self._rows = SlidingRows.resume(self.working_set.size, arrays)
