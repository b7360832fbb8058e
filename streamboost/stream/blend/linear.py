"""A linear model of the numbers, trained label by label."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.blend.experts import MOST_CLASSES, Expert, Records, kernels
from streamboost.stream.blend.scale import Scale
from streamboost.stream.checks import Label

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Linear"]

_RATE = 0.5
_FURTHEST = 5.0  # standard deviations
_LEAST = 1e-6  # of the squares


class Linear(Expert):
    """A softmax regression on scaled numbers, trained by AdaGrad (Duchi et al. 2011).

    What is missing is taken to be at the mean; categories are left out.
    """

    opinions: ClassVar[tuple[str, ...]] = ("linear",)

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._weights = np.zeros((0, 1))  # (K, D + 1), the constant first
        self._squares = np.zeros((0, 1))  # of the gradients so far

    def widen(self, n_features: int) -> None:
        """See `Expert`."""
        more = ((0, 0), (0, n_features + 1 - self._weights.shape[1]))
        self._weights = np.pad(self._weights, more)
        self._squares = np.pad(self._squares, more, constant_values=_LEAST)

    def _rate(self, committee: "Committee") -> np.ndarray:
        categories = committee.learners.categories.features
        if not categories.size:
            return self._scale.rate
        rate = self._scale.rate.copy()
        rate[categories] = 0.0
        return rate

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`."""
        if len(self._weights):
            scale = self._scale.mean, self._rate(records.committee), _FURTHEST
            kernels().say_linear(records.X, *scale, self._weights, said[0])

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        k: int,
        weight: float,
        scored: Records | None = None,
    ) -> None:
        """See `Expert`; without a committee nobody knows which numbers are categories."""
        if committee is None or k >= MOST_CLASSES:
            return
        if k >= len(self._weights):
            more = ((0, k + 1 - len(self._weights)), (0, 0))
            self._weights = np.pad(self._weights, more)
            self._squares = np.pad(self._squares, more, constant_values=_LEAST)
        scale = self._scale.mean, self._rate(committee), _FURTHEST
        kernels().learn_linear(row[None], *scale, k, _RATE, weight, self._weights, self._squares)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """See `Expert`."""
        return {}, {"weights": self._weights.copy(), "squares": self._squares.copy()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """See `Expert`."""
        self._weights, self._squares = arrays["weights"].copy(), arrays["squares"].copy()
