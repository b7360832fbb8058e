"""From feature values to small codes, and from codes back to thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.kernels.binning import choose_cuts, code_values
from streamboost.trees.categories import CategoryBins

__all__ = ["MAX_BINS", "Bins"]

MAX_BINS = 255
"""Codes are uint8, and one of them stands for a missing value."""

_TAILS = np.array([1, 2, 16, 64, 256, 1024, 4096, 16384])
"""How many of the lowest and of the highest distinct values are cut off. Every power of two leaves
the middle short of cuts, as days of a long stream showed, and five-fold cross-validation on
training halves was no better for it."""

_LEAST_BINS = 64  # of a number of bins that goes by the rows
_ROWS_PER_BIN = 125


@dataclass(frozen=True, slots=True)
class Bins:
    """The cuts between the bins of each feature.

    Parameters
    ----------
    cuts
        For each feature its cuts, float32, ascending: a value lies in the first bin whose cut it
        does not exceed, or in the last bin. A categorical feature has none.
    missing
        Whether the feature had missing values, bool (D,); their code is the number of bins.
    categories
        The bins of each categorical feature.
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
        """Choose at most `max_bins` bins for each column of `X` (n, D), NaN being missing.

        None: one for every 125 rows, at least 64. More would part few rows and cost time; fewer
        would hide what many rows can show, as the days of a long stream.

        Columns that `categorical`, bool (D,), marks hold categories, which have a bin each.

        Where a column has more distinct values, the lowest and the highest one, two, 16, 64 and so
        on are cut off, and of the other cuts half stand at quantiles of the weighted records and
        half at quantiles of the distinct values. The first and the last let rare classes be cut
        off, where values are continuous and where many records share a few.
        """
        if max_bins is None:
            max_bins = min(max(_LEAST_BINS, len(X) // _ROWS_PER_BIN), MAX_BINS)
        if not 2 <= max_bins <= MAX_BINS:
            raise ConfigurationError(f"max_bins={max_bins}: must be between 2 and {MAX_BINS}")
        cuts, categories = [], {}
        missing = np.zeros(X.shape[1], dtype=bool)
        even = bool((weight == weight[0]).all())
        count, room = np.arange(1.0, len(X) + 1), np.empty(max_bins - 1, dtype=np.float32)
        # One column at a time: an order of all of them would be twice as large as the data.
        for f in range(X.shape[1]):
            column = np.ascontiguousarray(X[:, f])
            if categorical is not None and categorical[f]:
                missing[f] = not (column >= 0).all()
                categories[f] = CategoryBins.fit(column, weight)
                cuts.append(np.zeros(0, dtype=np.float32))
                continue
            present = len(column) - np.count_nonzero(np.isnan(column))
            missing[f] = present < len(column)
            if even:  # sorting values is some thirty times faster than finding their order
                values, mass = np.sort(column)[:present], count[:present]  # NaN last
            else:
                order = np.argsort(column, kind="stable")[:present]
                values, mass = column[order], np.cumsum(weight[order])
            n_cuts = choose_cuts(values, mass, max_bins, _TAILS, room)
            cuts.append(room[:n_cuts].copy())
        return cls(cuts, missing, categories)

    @property
    def n_bins(self) -> np.ndarray:
        """Number of bins of each feature without the missing one, int64 (D,)."""
        return np.array(
            [
                self.categories[f].n_bins if f in self.categories else len(cuts) + 1
                for f, cuts in enumerate(self.cuts)
            ],
            dtype=np.int64,
        )

    @property
    def categorical(self) -> np.ndarray:
        """Which features hold categories, bool (D,)."""
        mask = np.zeros(len(self.cuts), dtype=bool)
        mask[list(self.categories)] = True
        return mask

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the codes of `X` (n, D) feature by feature: uint8 (D, n)."""
        X = np.ascontiguousarray(X, dtype=np.float32)
        codes = np.empty(X.shape[::-1], dtype=np.uint8)
        code_values(X, *self.all_cuts(), self.missing, codes)
        for f, categories in self.categories.items():
            codes[f] = categories.transform(np.ascontiguousarray(X[:, f]))
        return codes

    def all_cuts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the cuts, feature after feature, float32, and where each one's begin and end.

        The latter int64 (D + 1,).
        """
        return np.concatenate(self.cuts), np.cumsum([0, *map(len, self.cuts)])
