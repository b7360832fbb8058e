"""The utilities of the newest records, against which one more is ranked."""

from collections.abc import Callable

import numpy as np

from streamboost.active.compiled import kernels

__all__ = ["Meeting", "UtilityWindow"]


class UtilityWindow:
    """The newest `size` records with their utilities under one committee version.

    The features are kept because utilities of different committees cannot be compared: margins
    grow with the committee. When the version changes, the whole window is measured again.
    """

    def __init__(self, size: int) -> None:
        self._X = np.empty((size, 0), dtype=np.float32)
        self._utility = np.empty(2 * size)  # twice over, so that the newest stand in one piece
        self._count = 0
        self._next = 0
        self._version = 0

    def __len__(self) -> int:
        return self._count

    def push(self, row: np.ndarray, utility: float) -> None:
        """Add one record's features (D,) and utility; the oldest goes when the window is full."""
        self.extend(row[None], np.array([utility]))

    def extend(self, X: np.ndarray, utility: np.ndarray) -> None:
        """Add the features (n, D) and utilities (n,) of records, one after the other."""
        size, done = len(self._X), 0
        while done < len(X):
            n = min(len(X) - done, size - self._next)
            rows, at = slice(done, done + n), self._next
            self._X[at : at + n] = X[rows]
            self._utility[at : at + n] = self._utility[size + at : size + at + n] = utility[rows]
            self._next = (at + n) % size
            done += n
        self._count = min(self._count + done, size)

    def meet(self, utility: np.ndarray) -> "Meeting":
        """Return what each of the next records, of `utility` (n,), finds as they arrive in turn."""
        return Meeting(np.concatenate([self.utilities, utility]), self._count, len(self._X))

    def follow(self, version: int, measure: Callable[[np.ndarray], np.ndarray]) -> None:
        """Measure the records again if their utilities are not those of `version`.

        `measure` maps features (n, D), oldest first, to utilities (n,).
        """
        if version != self._version and self._count:
            order = self._order()
            self._utility[order] = self._utility[order + len(self._X)] = measure(self._X[order])
        self._version = version

    @property
    def utilities(self) -> np.ndarray:
        """The kept utilities (n,), oldest first."""
        start = (self._next - self._count) % len(self._X)
        return self._utility[start : start + self._count]

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
        self._count = self._next = 0
        self.extend(X, utility)
        self._version = version


class Meeting:
    """The utilities of a window, and behind them those of records that arrive in turn.

    Parameters
    ----------
    line
        float64 (m + n,), both.
    count
        m, how many the window holds.
    size
        How many it may hold.
    """

    def __init__(self, line: np.ndarray, count: int, size: int) -> None:
        self._line = line
        self._count = count
        self._size = size

    def known(self, i: int) -> np.ndarray:
        """Return the utilities that record `i` finds, and its own behind them."""
        end = self._count + i
        return self._line[max(end - self._size, 0) : end + 1]

    def ranks(self) -> np.ndarray:
        """Return the part of [0, 1) that each record takes up among the others, float64 (n, 2).

        The most useful record stands at 0. Records that tie share the part that they fill
        together, so that none is preferred.
        """
        n = len(self._line) - self._count
        low, high = np.empty(n), np.empty(n)
        kernels().rank(self._line, self._count, self._size, low, high)
        return np.column_stack([low, high])
