"""Judging a committee that may replace the one that serves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label, as_array
from streamboost.stream.scoring import labels_of

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Shadow", "shadow_error"]


class Labelled(Protocol):
    """Rows with their labels."""

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Features, float32 (n, D)."""

    @property
    def y(self) -> np.ndarray:
        """Labels (n,)."""


def shadow_error(committee: "Committee", rows: Labelled) -> float:
    """Return the share of `rows` whose label `committee` does not predict.

    Rows that it was trained on flatter it: give rows that came later.
    """
    return float(np.mean(labels_of(committee, rows.X) != rows.y))


class Shadow:
    """The first labels to come after a training's rows were taken, up to `most` of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._rows: list[np.ndarray] = []
        self._labels: list[Label] = []

    @property
    def is_full(self) -> bool:
        """Whether there are as many as were waited for."""
        return len(self._labels) >= self.most

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Features, float32 (n, D): D of the widest, the others missing the rest."""
        width = max(map(len, self._rows), default=0)
        X = np.full((len(self._rows), width), np.nan, dtype=np.float32)
        for row, kept in zip(X, self._rows, strict=True):
            row[: len(kept)] = kept
        return X

    @property
    def y(self) -> np.ndarray:
        """Labels (n,)."""
        return as_array(self._labels)

    def add(self, row: np.ndarray, label: Label) -> None:
        """Keep a row (D,) and its label, if there is room."""
        if not self.is_full:
            self._rows.append(row.copy())
            self._labels.append(label)

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another, or none: those rows judge nothing then."""
        now = [into if one == label else one for one in self._labels]
        self._rows = [row for row, one in zip(self._rows, now, strict=True) if one is not None]
        self._labels = [one for one in now if one is not None]

    def state(self) -> tuple[list[Label], Arrays]:
        """Return labels and features, for `resume`."""
        return list(self._labels), {"X": self.X}

    @classmethod
    def resume(cls, most: int, labels: Sequence[Label], arrays: Arrays) -> "Shadow":
        """Return what `state` took apart."""
        shadow = cls(most)
        shadow._rows = list(arrays["X"])
        shadow._labels = list(labels)
        return shadow
