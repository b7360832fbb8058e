"""How far apart the values of each feature usually are."""

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.blend.experts import kernels

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
        self.rate = np.zeros(0)
        """One over each standard deviation, float64 (D,); 0 where all values are the same."""

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features."""
        filler = np.zeros(n_features - len(self.mean))
        for name in ("_n", "mean", "_variance", "rate"):
            setattr(self, name, np.append(getattr(self, name), filler))

    def learn(self, row: np.ndarray) -> None:
        """Take in one row (D,)."""
        kernels().learn_scale(row, _NEWEST, _FLAT, self._n, self.mean, self._variance, self.rate)

    def state(self) -> Arrays:
        """Return all that changes."""
        return {
            "n": self._n.copy(),
            "mean": self.mean.copy(),
            "variance": self._variance.copy(),
        }

    def resume(self, arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._n, self.mean = arrays["n"].copy(), arrays["mean"].copy()
        self._variance = arrays["variance"].copy()
        varies = self._variance > _FLAT * (self.mean * self.mean + _FLAT)
        self.rate = np.where(varies, 1.0 / np.sqrt(np.where(varies, self._variance, 1.0)), 0.0)
