"""Sliding window of records with utilities, among which new records are ranked."""

from collections.abc import Callable

import numpy as np

from streamboost.query.compiled import query_kernels


class UtilityWindow:
    """Sliding window of the newest `size` records, with features and utilities.

    All utilities are computed with the same version of the committee. Utilities of different
    committees are not comparable, as margins grow with the committee. So the features are stored,
    and the whole window is rescored when the version changes.
    """

    def __init__(self, size: int) -> None:
        self._X = np.empty((size, 0), dtype=np.float32)
        self._utility = np.empty(2 * size)  # stored twice, so that the newest are contiguous
        self._count = 0
        self._next = 0
        self._version = 0

    def __len__(self) -> int:
        return self._count

    def push(self, row: np.ndarray, utility: float) -> None:
        """Add one record's features (D,) and utility; a full window evicts the oldest."""
        self.extend(row[None], np.array([utility]))

    def extend(self, X: np.ndarray, utility: np.ndarray) -> None:
        """Add the features (n, D) and utilities (n,) of records in order."""
        size, done = len(self._X), 0
        while done < len(X):
            n = min(len(X) - done, size - self._next)
            rows, at = slice(done, done + n), self._next
            self._X[at : at + n] = X[rows]
            self._utility[at : at + n] = self._utility[size + at : size + at + n] = utility[rows]
            self._next = (at + n) % size
            done += n
        self._count = min(self._count + done, size)

    def rank_batch(self, utility: np.ndarray) -> "RankedBatch":
        """Return the ranking of n arriving records, with utilities (n,), among the stored ones."""
        return RankedBatch(np.concatenate([self.utilities, utility]), self._count, len(self._X))

    def rescore(self, version: int, measure: Callable[[np.ndarray], np.ndarray]) -> None:
        """Recompute the utilities with `measure` if they are from another committee `version`.

        `measure` maps features (n, D), oldest first, to utilities (n,).
        """
        if version != self._version and self._count:
            order = self._indices_oldest_first()
            self._utility[order] = self._utility[order + len(self._X)] = measure(self._X[order])
        self._version = version

    @property
    def utilities(self) -> np.ndarray:
        """The stored utilities (n,), oldest first."""
        start = (self._next - self._count) % len(self._X)
        return self._utility[start : start + self._count]

    def _indices_oldest_first(self) -> np.ndarray:
        """Return the indices of the records in the arrays, oldest first."""
        return (np.arange(self._count) + self._next - self._count) % len(self._X)

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored records get NaN in new columns."""
        missing = n_features - self._X.shape[1]
        filler = np.full((len(self._X), missing), np.nan, dtype=np.float32)
        self._X = np.hstack([self._X, filler])

    @property
    def n_features(self) -> int:
        """Number of features per record."""
        return int(self._X.shape[1])

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return the committee version and the records as arrays, oldest first."""
        order = self._indices_oldest_first()
        return self._version, {"X": self._X[order], "utility": self._utility[order]}

    def resume(self, version: int, arrays: dict[str, np.ndarray]) -> None:
        """Set the state to one that `state` returned for a window of equal size."""
        X, utility = arrays["X"], arrays["utility"]
        self.set_n_features(X.shape[1])
        self._count = self._next = 0
        self.extend(X, utility)
        self._version = version


class RankedBatch:
    """Ranks each arriving record among the window's records at the time of its arrival.

    Parameters
    ----------
    utilities
        float64 (m + n,), utilities of the window's records, followed by those of the arriving
        records.
    count
        m, the number of records in the window.
    size
        The largest number of records in the window.
    """

    def __init__(self, utilities: np.ndarray, count: int, size: int) -> None:
        self._utilities = utilities
        self._count = count
        self._size = size

    def utilities_at(self, i: int) -> np.ndarray:
        """Return the window's utilities when record `i` arrives; the last is the utility of `i`."""
        end = self._count + i
        return self._utilities[max(end - self._size, 0) : end + 1]

    def ranks(self) -> np.ndarray:
        """Return the rank interval (low, high) of each arriving record, in [0, 1], float64 (n, 2).

        With m records in the window, including the arriving record, the highest utility has the
        interval (0, 1/m). Tied records have the same interval, the union of their intervals.
        """
        n = len(self._utilities) - self._count
        low, high = np.empty(n), np.empty(n)
        query_kernels().rank_in_window(self._utilities, self._count, self._size, low, high)
        return np.column_stack([low, high])
