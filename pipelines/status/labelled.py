"""What the newest labelled records tell whoever answers: which are near, and what is typical.

Only columns that mean the same whatever is learned are compared. Distances are Euclidean in
standard deviations of the labelled records, a missing value lying at the mean.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamboost.stream.checks import Label, as_wide

__all__ = [
    "LABELLED",
    "SMALL_IMAGE",
    "LabelledNow",
    "Looks",
    "near",
    "nearest",
    "quartiles",
    "typical",
]

LABELLED = 1_000
"""The newest labelled records, among which to look."""

NEAR = 3
"""Records that are shown as the nearest."""

FEWEST = 3
"""Labelled records of a class from which on something is typical of it."""

MOST_CLASSES = 50

MOST_NUMBERS = 5_000
"""Typical values that are published: of many classes only those of the first columns."""


SMALL_IMAGE = 20_000
"""Characters of an image that may stand beside other records."""

MOST_LOOKS = 4_000_000
"""Characters kept of such images."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledNow:
    """The newest labelled records as of one moment.

    Attributes
    ----------
    ids, labels
        Of each.
    X
        float32 (n, D).
    steady
        The columns to be compared, by their names.
    """

    ids: list[str]
    labels: list[Label]
    X: np.ndarray
    steady: Mapping[str, int]


class Looks:
    """What the newest records that were asked about look like, to be shown beside their likes."""

    def __init__(self) -> None:
        self._images: OrderedDict[str, str] = OrderedDict()
        self._held = 0

    def note(self, id: str, fields: Mapping[str, Any]) -> None:
        """Keep a record's first image, if it has a small one."""
        for value in fields.values():
            if isinstance(value, str) and value.startswith("data:image/"):
                if len(value) <= SMALL_IMAGE:
                    self._held += len(value) - len(self._images.pop(id, ""))
                    self._images[id] = value
                break
        while self._held > MOST_LOOKS:
            self._held -= len(self._images.popitem(last=False)[1])

    def of(self, id: str) -> dict[str, str]:
        """Return what is kept of a record's looks, under the name of `picture`."""
        image = self._images.get(id)
        return {} if image is None else {"picture": image}


def near(known: LabelledNow, rows: Mapping[str, np.ndarray]) -> dict[str, list[dict[str, Any]]]:
    """Return, for each record of `rows` (D,) by its id, those of `known` nearest to it."""
    columns = list(known.steady.values())
    if not rows or not columns or not known.ids:
        return {}
    wanted = as_wide(list(rows.values()), known.X.shape[1])[:, columns]
    places, _ = nearest(wanted, known.X[:, columns], NEAR + 1)  # one may be the record itself
    found = {}
    for id, row in zip(rows, places.tolist(), strict=True):
        others = [place for place in row if known.ids[place] != id][:NEAR]
        found[id] = [{"id": known.ids[place], "label": known.labels[place]} for place in others]
    return found


def nearest(wanted: np.ndarray, there: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows of `there` (n, D) are nearest to each that is `wanted` (m, D), and how far.

    Both are (m, min(most, n)), the nearest first. How far: by how many standard deviations their
    columns differ, the root of the mean square.
    """
    mean, deviation = _spread(there.astype(np.float64))
    a, b = (_or_zero((part - mean) / deviation).astype(np.float32) for part in (wanted, there))
    # Short of the term that is the same for all of a row. `@` would wake BLAS's threads, which then
    # turn idly for longer than this takes.
    distances = (b * b).sum(1) - 2.0 * np.einsum("md,nd->mn", a, b)
    some = np.argpartition(distances, min(most, len(b)) - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(distances, some, axis=1), axis=1, kind="stable")
    places = np.take_along_axis(some, order, axis=1)
    return places, np.sqrt(((a[:, None] - b[places]) ** 2).mean(axis=2))


def _or_zero(X: np.ndarray) -> np.ndarray:
    """Return values with 0 where they are missing, and none whose square would overflow."""
    return np.clip(np.where(np.isnan(X), 0.0, X), -1e9, 1e9)


def _spread(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each column (n, D), of constant ones 1."""
    there = ~np.isnan(X)
    n = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, X, 0.0).sum(axis=0) / n
    deviation = np.sqrt((np.where(there, X - mean, 0.0) ** 2).sum(axis=0) / n)
    return mean, np.where(deviation > 0, deviation, 1.0)


def typical(known: LabelledNow) -> dict[str, Any]:
    """Return the medians of each class: `classes`, `names` of columns, `medians` by both."""
    labels = np.array(known.labels, dtype=object)
    counts = {label: int((labels == label).sum()) for label in dict.fromkeys(known.labels)}
    common = sorted(counts, key=lambda label: -counts[label])[:MOST_CLASSES]
    classes = [label for label in common if counts[label] >= FEWEST]
    names = list(known.steady)[: MOST_NUMBERS // max(len(classes), 1)]
    columns = [known.steady[name] for name in names]
    medians = [_medians(known.X[labels == label][:, columns]) for label in classes]
    return {"classes": classes, "names": names, "medians": medians}


def _medians(X: np.ndarray) -> list[float | None]:
    return [None if found is None else found[1] for found in quartiles(X)]


def quartiles(X: np.ndarray) -> list[Sequence[float] | None]:
    """Return the three quartiles of each column (n, D); None where all values are missing.

    >>> quartiles(np.array([[3.0], [1.0], [np.nan], [2.0], [5.0], [4.0]]))
    [(2.0, 3.0, 4.0)]
    """
    ordered = np.sort(X, axis=0)  # what is missing stands last
    counts = (~np.isnan(X)).sum(axis=0).tolist()
    return [
        tuple(_short(column[round(part * (n - 1))]) for part in (0.25, 0.5, 0.75)) if n else None
        for column, n in zip(ordered.T, counts, strict=True)
    ]


def _short(value: Any) -> float:
    """Return a number to be shown, with six digits that count."""
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else number
