"""Categories: their bins in one training, and their integer codes in a forest of all trainings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.kernels.traverse import encode_categories

MAX_OWN_BINS = 254
"""Largest number of categories with their own bin; the other categories share one more bin."""

LARGEST = 2**24
"""Bound of category numbers: float32 does not represent larger integers exactly."""


@dataclass(frozen=True, slots=True)
class CategoryBins:
    """Assignment of the categories of one categorical feature to bins, for one training.

    Parameters
    ----------
    values
        The categories in the training data, float32, ascending.
    bins
        The bin of each category, uint8.
    """

    values: np.ndarray
    bins: np.ndarray

    @classmethod
    def fit(cls, column: np.ndarray, weight: np.ndarray) -> "CategoryBins":
        """Assign a bin to each category of `column` (n,); NaN and negative values are missing.

        If there are more than 254 categories, the 254 of the largest weight have their own bins,
        and the others share the last bin. Ties go to the lower category.
        """
        known = column >= 0
        values, codes = np.unique(column[known], return_inverse=True)
        bins = np.arange(len(values))
        if len(values) > MAX_OWN_BINS:
            mass = np.bincount(codes, weights=weight[known])
            own = np.sort(np.argsort(-mass, kind="stable")[:MAX_OWN_BINS])
            bins = np.full(len(values), MAX_OWN_BINS)
            bins[own] = np.arange(MAX_OWN_BINS)
        return cls(values, bins.astype(np.uint8))

    @property
    def n_bins(self) -> int:
        """Number of bins, at least 1, without the bin of missing values."""
        return int(self.bins.max(initial=0)) + 1

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each category in `values`, uint8 (n,).

        Missing values and categories absent from the training data get the bin `n_bins`.
        """
        if len(self.values) == 0:
            return np.full(len(values), self.n_bins, dtype=np.uint8)
        place = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        met = self.values[place] == values
        return np.where(met, self.bins[place], np.uint8(self.n_bins))


class CodeMap(NamedTuple):
    """Map from the category codes of a feature to codes of older trees, and to bins of a training.

    `origin` int32 (codes,) is the older code that trees of earlier trainings treat each code as;
    for a code that they know, the code itself. `bins` uint8 (codes,) is the bin of each code in the
    training, or the bin of missing values if no row of the training has the code.
    """

    origin: np.ndarray
    bins: np.ndarray


@dataclass(frozen=True, slots=True)
class CategoryCodes:
    """Integer codes of the categories of all categorical features in a forest.

    Code 0 is a missing value: NaN, a negative number, or a category absent from all trainings. Each
    other code is one category, or several rare categories that were in the same bin in all
    trainings.

    Parameters
    ----------
    features
        Indices of the c categorical features, int32 (c,), ascending.
    start
        int64 (c + 1,): the categories of feature i are `values[start[i]:start[i + 1]]`.
    values
        The categories of all features, float32, ascending in each feature.
    codes
        The code of each category in `values`, int32, from 1 on.
    """

    features: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    start: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    codes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_codes(self) -> int:
        """Number of codes of the feature with the most codes, with the code of missing values."""
        return int(self.codes.max(initial=0)) + 1

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return `X` float32 (n, D) with each category replaced by its code.

        Missing and unknown categories get code 0. `X` is not changed.
        """
        if len(self) == 0:
            return X
        coded = np.array(X, dtype=np.float32, order="C")
        encode_categories(self.features, self.start, self.values, self.codes, coded)
        return coded

    def merge_categories(
        self, training_bins: Mapping[int, CategoryBins]
    ) -> tuple["CategoryCodes", dict[int, CodeMap]]:
        """Return codes that also cover a training's categories, and a `CodeMap` for each feature.

        `training_bins` maps the index of each categorical feature to its bins in the training. If
        the training has two bins for categories that shared one code, one of the bins gets a new
        code. Trees of earlier trainings send the new code to the same side as the old code, its
        `CodeMap.origin`. Existing codes keep their meaning.
        """
        known = {int(f): i for i, f in enumerate(self.features)}
        features = sorted(known | dict(training_bins))
        if not features:
            return self, {}
        values, codes, readings = [], [], {}
        for f in features:
            at = slice(*self.start[known[f] : known[f] + 2]) if f in known else slice(0, 0)
            old_values, old_codes = self.values[at], self.codes[at]
            now = training_bins.get(f, CategoryBins(old_values[:0], np.zeros(0, dtype=np.uint8)))
            all_values, all_codes, readings[f] = _merge_codes(old_values, old_codes, now)
            values.append(all_values)
            codes.append(all_codes)
        sizes = [len(v) for v in values]
        merged = CategoryCodes(
            np.array(features, dtype=np.int32),
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64),
            np.concatenate([self.values[:0], *values]),
            np.concatenate([self.codes[:0], *codes]),
        )
        return merged, readings

    def validate(self, n_features: int) -> None:
        """Raise ModelFileError if an index or code is out of range, or an array is not sorted."""
        inner = np.ones(max(len(self.values) - 1, 0), dtype=bool)
        ends = self.start[1:-1]
        inner[ends[(ends > 0) & (ends < len(self.values))] - 1] = False
        whole = (
            len(self.start) == len(self) + 1
            and self.start[0] == 0
            and self.start[-1] == len(self.values) == len(self.codes)
            and (np.diff(self.start) >= 0).all()
            and (np.diff(self.features) > 0).all()
            and ((self.features >= 0) & (self.features < n_features)).all()
            and (np.diff(self.values)[inner] > 0).all()
            and ((self.codes > 0) & (self.codes < LARGEST)).all()
        )
        if not whole:
            raise ModelFileError(
                "the table of categories is out of order or range: the file is damaged"
            )


def _merge_codes(
    old_values: np.ndarray, old_codes: np.ndarray, training_bins: CategoryBins
) -> tuple[np.ndarray, np.ndarray, CodeMap]:
    """Return the categories of one feature, their codes, and the `CodeMap` of the codes.

    Categories get the same code if they share the old code and the bin of the training.
    """
    values = np.union1d(old_values, training_bins.values)
    old = np.zeros(len(values), dtype=np.int64)
    old[np.searchsorted(values, old_values)] = old_codes
    n_old = int(old_codes.max(initial=0)) + 1
    # A pair is encoded as one number, as a bin is less than 256.
    pairs, place = np.unique(old << 8 | training_bins.transform(values), return_inverse=True)
    origin, bins = pairs >> 8, pairs & 255
    # The last pair of an old code keeps the code. If values of the code are absent from this
    # training, this is their pair. The origin of new values is code 0.
    keeps = (np.diff(origin, append=-1) != 0) & (origin > 0)
    codes = np.where(keeps, origin, n_old - 1 + np.cumsum(~keeps)).astype(np.int32)
    n_codes = n_old + int((~keeps).sum())
    reading = CodeMap(np.zeros(n_codes, np.int32), np.full(n_codes, training_bins.n_bins, np.uint8))
    reading.origin[codes] = origin
    reading.bins[codes] = bins
    return values, codes[place.ravel()], reading
