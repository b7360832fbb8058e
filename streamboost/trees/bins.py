"""Binning: chooses the cuts between the bins of each feature, and converts values to bins."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.kernels.binning import bin_values, choose_cuts
from streamboost.trees.categories import CategoryBins

MAX_BINS = 255
"""Largest number of bins without the bin of missing values, as codes are uint8."""

_TAILS = np.array([1, 2, 16, 64, 256, 1024, 4096, 16384])
"""Ranks of the tail cuts, counted in distinct values from the lowest and from the highest value.

Cuts at each power of two leave too few cuts for the middle, as on the days of a long stream. In
five-fold cross-validation on training halves, they gave no better accuracy."""

_LEAST_BINS = 64  # least number of bins if it depends on the number of rows
_ROWS_PER_BIN = 125

_SORTED_AT_ONCE = 2**17
"""Number of values that are sorted at once, of several columns if these are short."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Histogram bins of each feature: the cuts of numbers, and the bins of categories.

    Parameters
    ----------
    cuts
        The cuts of each feature, float32, ascending. Bin b ends at cut b, inclusive. Values above
        the last cut are in the last bin. A categorical feature has no cuts.
    missing
        Whether each feature had missing values, bool (D,). Missing values have a bin of their own,
        after the last one.
    categories
        Mapping from the index of each categorical feature to the bins of its categories.
    """

    cuts: list[np.ndarray]
    missing: np.ndarray
    categories: Mapping[int, CategoryBins] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        weight: np.ndarray,
        max_bins: int | None,
        categorical: np.ndarray | None = None,
    ) -> "Bins":
        """Choose at most `max_bins` bins for each column of `X` (n, D), NaN where missing.

        If `max_bins` is None, there is one bin for every 125 rows, at least 64. More bins separate
        only a few rows and cost time. Fewer bins hide patterns of large data, such as the days of a
        long stream.

        The mask `categorical`, bool (D,), marks columns of categories, with one bin per category.

        If a column has more distinct values than bins, there are three kinds of cuts. Tail cuts
        separate the lowest and the highest one, two, 16, 64 and so on of the distinct values. Of
        the other cuts, half are at quantiles of the weighted records, and half are at quantiles of
        the distinct values. Tail cuts separate rare classes if values are continuous. Quantiles of
        distinct values separate rare classes if many records share a few values.

        Raises ConfigurationError if `max_bins` is less than 2 or more than 255.
        """
        if max_bins is None:
            max_bins = min(max(_LEAST_BINS, len(X) // _ROWS_PER_BIN), MAX_BINS)
        if not 2 <= max_bins <= MAX_BINS:
            raise ConfigurationError(f"max_bins={max_bins}: must be between 2 and {MAX_BINS}")
        missing = np.zeros(X.shape[1], dtype=bool)
        cuts = [np.zeros(0, dtype=np.float32)] * X.shape[1]
        categories = {}
        for f in () if categorical is None else np.flatnonzero(categorical).tolist():
            column = np.ascontiguousarray(X[:, f])
            missing[f] = not (column >= 0).all()
            categories[f] = CategoryBins.fit(column, weight)
        numeric = np.array([f for f in range(X.shape[1]) if f not in categories], dtype=np.int64)
        # Some columns at a time, as the sort order of all columns would be twice the size of X.
        step = max(_SORTED_AT_ONCE // max(len(X), 1), 1)
        for start in range(0, len(numeric), step):
            features = numeric[start : start + step]
            found, n_values = _cuts_of_columns(X[:, features].T, weight, max_bins)
            missing[features] = n_values < len(X)
            for f, own in zip(features.tolist(), found, strict=True):
                cuts[f] = own
        return cls(cuts, missing, categories)

    @property
    def n_bins(self) -> np.ndarray:
        """Number of bins of each feature, without the bin of missing values, int64 (D,)."""
        return np.array(
            [
                self.categories[f].n_bins if f in self.categories else len(cuts) + 1
                for f, cuts in enumerate(self.cuts)
            ],
            dtype=np.int64,
        )

    @property
    def categorical(self) -> np.ndarray:
        """Mask of the categorical features, bool (D,)."""
        mask = np.zeros(len(self.cuts), dtype=bool)
        mask[list(self.categories)] = True
        return mask

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the bin index of each value of `X` (n, D), uint8 (D, n): one row per feature."""
        X = np.ascontiguousarray(X, dtype=np.float32)
        codes = np.empty(X.shape[::-1], dtype=np.uint8)
        bin_values(X, *self.concatenated_cuts(), self.missing, codes)
        for f, categories in self.categories.items():
            codes[f] = categories.transform(np.ascontiguousarray(X[:, f]))
        return codes

    def concatenated_cuts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the cuts of all features in one array, float32, and offsets int64 (D + 1,).

        The cuts of feature f are `cuts[offsets[f]:offsets[f + 1]]`.
        """
        return np.concatenate(self.cuts), np.cumsum([0, *map(len, self.cuts)])


def _cuts_of_columns(
    columns: np.ndarray, weight: np.ndarray, max_bins: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the cuts of each of k features, and their numbers of values, int64 (k,).

    `columns` (k, n) has the values, NaN where missing, and `weight` (n,) those of the rows.
    """
    n_values = columns.shape[1] - np.isnan(columns).sum(axis=1)
    if (weight == weight[0]).all():  # a sort of values is about thirty times faster than an argsort
        values, mass = np.sort(columns, axis=1), np.arange(1.0, len(weight) + 1)[None]  # NaN last
    else:
        order = np.argsort(columns, axis=1, kind="stable")
        values = np.take_along_axis(columns, order, axis=1)
        mass = np.cumsum(weight[order], axis=1)
    cuts = np.empty((len(columns), max_bins - 1), dtype=np.float32)
    n_cuts = np.empty(len(columns), dtype=np.int64)
    choose_cuts(values, n_values, mass, max_bins, _TAILS, cuts, n_cuts)
    return [own[:n].copy() for own, n in zip(cuts, n_cuts.tolist(), strict=True)], n_values
