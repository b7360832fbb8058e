"""The utilities of the newest records, against which one more is ranked."""

from collections.abc import Callable

import numpy as np

__all__ = ["UtilityWindow"]


class UtilityWindow:
    """The newest `size` records with their utilities under one committee version.

    The features are kept because utilities of different committees cannot be compared: margins
    grow with the committee. When the version changes, the whole window is measured again.
    """

    def __init__(self, size: int) -> None:
        self._X = np.empty((size, 0), dtype=np.float32)
        self._utility = np.empty(size)
        self._count = 0
        self._next = 0
        self._version = 0

    def __len__(self) -> int:
        return self._count

    def push(self, row: np.ndarray, utility: float) -> None:
        """Add one record's features (D,) and utility; the oldest goes when the window is full."""
        self._X[self._next] = row
        self._utility[self._next] = utility
        self._next = (self._next + 1) % len(self._X)
        self._count = min(self._count + 1, len(self._X))

    def extend(self, X: np.ndarray, utility: np.ndarray) -> None:
        """Add the features (n, D) and utilities (n,) of records, one after the other."""
        size = len(self._X)
        places = (self._next + np.arange(len(X))[-size:]) % size
        self._X[places] = X[-size:]
        self._utility[places] = utility[-size:]
        self._next = (self._next + len(X)) % size
        self._count = min(self._count + len(X), size)

    def rank(self, utility: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the parts of [0, 1) that records of `utility` (n,) take up among the others.

        They arrive in turn, and each is ranked among those before it. The most useful record
        stands at 0. Records that tie share the part that they fill together, so that none is
        preferred. O(n size).
        """
        kept, count = self.before(utility)
        above = np.count_nonzero(kept > utility[:, None], axis=1)
        ties = np.count_nonzero(kept == utility[:, None], axis=1)
        return above / (count + 1), (above + ties + 1) / (count + 1)

    def before(self, utility: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the utilities (n, m) that each of n records finds as they arrive in turn.

        Beside them, how many each finds (n,); NaN stands for what it lacks of the `m`.
        """
        n, size = len(utility), len(self._utility)
        most = min(self._count + n - 1, size)
        lacking = np.full(most - self._count, np.nan)
        line = np.concatenate([lacking, self._utility[self._order()], utility])
        step = line.itemsize
        windows = np.ndarray((n, most), line.dtype, line, 0, (step, step))
        return windows, np.minimum(np.arange(self._count, self._count + n), size)

    def follow(self, version: int, measure: Callable[[np.ndarray], np.ndarray]) -> None:
        """Measure the records again if their utilities are not those of `version`.

        `measure` maps features (n, D), oldest first, to utilities (n,).
        """
        if version != self._version and self._count:
            order = self._order()
            self._utility[order] = measure(self._X[order])
        self._version = version

    @property
    def utilities(self) -> np.ndarray:
        """The kept utilities (n,), in no particular order."""
        return self._utility[: self._count]

    def _order(self) -> np.ndarray:
        """Return the places of the records, oldest first."""
        return (np.arange(self._count) + self._next - self._count) % len(self._X)

    def widen(self, n_features: int) -> None:
        """Let records have `n_features` features; the ones kept miss the new ones."""
        missing = n_features - self._X.shape[1]
        filler = np.full((len(self._X), missing), np.nan, dtype=np.float32)
        self._X = np.hstack([self._X, filler])

    @property
    def n_features(self) -> int:
        """Features per record."""
        return int(self._X.shape[1])

    def state(self) -> tuple[int, dict[str, np.ndarray]]:
        """Return the version and the records, oldest first."""
        order = self._order()
        return self._version, {"X": self._X[order], "utility": self._utility[order]}

    def resume(self, version: int, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `state` returned for a window of the same size."""
        X, utility = arrays["X"], arrays["utility"]
        self.widen(X.shape[1])
        self._count = len(X)
        self._next = self._count % len(self._X)
        self._X[: self._count] = X
        self._utility[: self._count] = utility
        self._version = version
