"""Nearest neighbours of a request among the newest labelled records, and medians by class.

Only columns with a static encoding are compared. Distances are Euclidean, in standard deviations of
the labelled records; missing values count as the mean.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamboost.checks import Label, pad_missing_columns

LABELLED = 1_000
"""Number of the newest labelled records to search."""

NEAR = 3
"""Number of nearest neighbours shown."""

FEWEST = 3
"""Minimum number of labelled records of a class for its medians."""

MOST_CLASSES = 50

MOST_NUMBERS = 5_000
"""Maximum number of published medians: with many classes, only the first columns have some."""


SMALL_IMAGE = 20_000
"""Maximum characters of an image that is shown with other records."""

MOST_LOOKS = 4_000_000
"""Maximum total characters of the kept images."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledIndex:
    """Features and labels of the newest labelled records, for nearest neighbour search.

    Attributes
    ----------
    ids, labels : id and label of each record
    X : features, float32 (n, D)
    steady : index of each column that is compared, keyed by the column's name
    """

    ids: list[str]
    labels: list[Label]
    X: np.ndarray
    steady: Mapping[str, int]


class RecordImages:
    """Keeps one small image per requested record; the oldest images are evicted when full."""

    def __init__(self) -> None:
        self._images: OrderedDict[str, str] = OrderedDict()
        self._held = 0

    def add_image(self, id: str, fields: Mapping[str, Any]) -> None:
        """Store a record's first image, unless it has more than `SMALL_IMAGE` characters."""
        for value in fields.values():
            if isinstance(value, str) and value.startswith("data:image/"):
                if len(value) <= SMALL_IMAGE:
                    self._held += len(value) - len(self._images.pop(id, ""))
                    self._images[id] = value
                break
        while self._held > MOST_LOOKS:
            self._held -= len(self._images.popitem(last=False)[1])

    def image_field(self, id: str) -> dict[str, str]:
        """Return ``{"picture": image}`` for the record `id`; an empty dict without an image."""
        image = self._images.get(id)
        return {} if image is None else {"picture": image}


def nearest_labelled_records(
    index: LabelledIndex, rows: Mapping[str, np.ndarray]
) -> dict[str, list[dict[str, Any]]]:
    """Return the labelled records nearest to each of `rows`, as dicts with `id` and `label`.

    `rows` has the features (D,) of records by record id; the result has the same keys. It is empty
    without labelled records or without columns to compare.
    """
    columns = list(index.steady.values())
    if not rows or not columns or not index.ids:
        return {}
    wanted = pad_missing_columns(list(rows.values()), index.X.shape[1])[:, columns]
    places, _ = nearest_rows(wanted, index.X[:, columns], NEAR + 1)  # one may be the record itself
    found = {}
    for id, row in zip(rows, places.tolist(), strict=True):
        others = [place for place in row if index.ids[place] != id][:NEAR]
        found[id] = [{"id": index.ids[place], "label": index.labels[place]} for place in others]
    return found


def nearest_rows(
    query_rows: np.ndarray, rows_searched: np.ndarray, n_nearest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return indices and distances of the rows nearest to each of `query_rows` (m, D).

    `rows_searched` is (n, D). Both results have the shape (m, min(n_nearest, n)), the nearest
    first. A distance is the root mean square of the column differences, in standard deviations.
    """
    mean, deviation = _mean_and_deviation(rows_searched.astype(np.float64))
    a, b = (
        _replace_missing_and_clip((part - mean) / deviation).astype(np.float32)
        for part in (query_rows, rows_searched)
    )
    # The squared norm of `a` is left out: it is constant in a row. `@` would wake BLAS's threads,
    # which then spin for longer than this computation takes.
    distances = (b * b).sum(1) - 2.0 * np.einsum("md,nd->mn", a, b)
    some = np.argpartition(distances, min(n_nearest, len(b)) - 1, axis=1)[:, :n_nearest]
    order = np.argsort(np.take_along_axis(distances, some, axis=1), axis=1, kind="stable")
    places = np.take_along_axis(some, order, axis=1)
    return places, np.sqrt(((a[:, None] - b[places]) ** 2).mean(axis=2))


def _replace_missing_and_clip(X: np.ndarray) -> np.ndarray:
    """Replace missing values by 0, and clip values whose square would overflow."""
    return np.clip(np.where(np.isnan(X), 0.0, X), -1e9, 1e9)


def _mean_and_deviation(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (D,) of the columns; constant columns have deviation 1."""
    is_known = ~np.isnan(X)
    n = np.maximum(is_known.sum(axis=0), 1)
    mean = np.where(is_known, X, 0.0).sum(axis=0) / n
    deviation = np.sqrt((np.where(is_known, X - mean, 0.0) ** 2).sum(axis=0) / n)
    return mean, np.where(deviation > 0, deviation, 1.0)


def class_medians(index: LabelledIndex) -> dict[str, Any]:
    """Return the most frequent `classes`, the column `names`, and the `medians` of each class.

    `medians` has a list per class, with one median per column.
    """
    labels = np.array(index.labels, dtype=object)
    counts = {label: int((labels == label).sum()) for label in dict.fromkeys(index.labels)}
    common = sorted(counts, key=lambda label: -counts[label])[:MOST_CLASSES]
    classes = [label for label in common if counts[label] >= FEWEST]
    names = list(index.steady)[: MOST_NUMBERS // max(len(classes), 1)]
    columns = [index.steady[name] for name in names]
    medians = [_column_medians(index.X[labels == label][:, columns]) for label in classes]
    return {"classes": classes, "names": names, "medians": medians}


def _column_medians(X: np.ndarray) -> list[float | None]:
    return [None if found is None else found[1] for found in quartiles(X)]


def quartiles(X: np.ndarray) -> list[Sequence[float] | None]:
    """Return the three quartiles of each column of `X` (n, D); None if all values are missing.

    >>> quartiles(np.array([[3.0], [1.0], [np.nan], [2.0], [5.0], [4.0]]))
    [(2.0, 3.0, 4.0)]
    """
    ordered = np.sort(X, axis=0)  # missing values (NaN) are sorted last
    counts = (~np.isnan(X)).sum(axis=0).tolist()
    return [
        tuple(_round_to_six_digits(column[round(part * (n - 1))]) for part in (0.25, 0.5, 0.75))
        if n
        else None
        for column, n in zip(ordered.T, counts, strict=True)
    ]


def _round_to_six_digits(value: Any) -> float:
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else number
