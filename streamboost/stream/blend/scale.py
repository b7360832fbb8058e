"""How far apart the values of each feature usually are."""

import numpy as np

from streamboost.storage import Arrays

__all__ = ["Scale"]

_NEWEST = 1_000
"""Labelled records over which mean and variance are taken, those before fading."""

_FLAT = 1e-12  # of a variance, beside the square of the mean


class Scale:
    """Means and standard deviations of the features of the newest labelled records."""

    def __init__(self) -> None:
        self._n = np.zeros(0)
        self.mean = np.zeros(0)
        """Float64 (D,)."""
        self._variance = np.zeros(0)
        self._rate: np.ndarray | None = None

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features."""
        filler = np.zeros(n_features - len(self.mean))
        self._n = np.append(self._n, filler)
        self.mean = np.append(self.mean, filler)
        self._variance = np.append(self._variance, filler)
        self._rate = None

    def learn(self, row: np.ndarray) -> None:
        """Take in one row (D,)."""
        known = row == row
        self._n = np.minimum(self._n + known, _NEWEST)
        share = known / np.maximum(self._n, 1.0)
        off = np.where(known, row, self.mean) - self.mean
        self.mean = self.mean + share * off
        self._variance += share * (off * (1.0 - share) * off - self._variance)
        self._rate = None

    @property
    def rate(self) -> np.ndarray:
        """One over each standard deviation, float64 (D,); 0 where all values are the same."""
        if self._rate is None:
            flat = self._variance <= _FLAT * (self.mean * self.mean + _FLAT)
            self._rate = np.where(flat, 0.0, 1.0 / np.sqrt(np.where(flat, 1.0, self._variance)))
        return self._rate

    def state(self) -> Arrays:
        """Return all that changes."""
        return {"n": self._n, "mean": self.mean, "variance": self._variance.copy()}

    def resume(self, arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._n, self.mean = arrays["n"].copy(), arrays["mean"].copy()
        self._variance = arrays["variance"].copy()
        self._rate = None
