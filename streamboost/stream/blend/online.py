"""Experts of few parameters, each trained label by label.

- `Linear`: a softmax regression on the numbers.
- `Sequences`: how often each label followed another one.
- `Words`: the linear models of the texts, which `features` trains.
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamboost.features import Features
from streamboost.features.text import normalized
from streamboost.storage import Arrays
from streamboost.stream.blend.experts import MOST_CLASSES, Expert, Records, Scale, kernels
from streamboost.stream.checks import Label

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Linear", "Sequences", "Words"]

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


_FADE = 0.98
_SMOOTHING = 0.3  # of the counts, in labels


class Sequences(Expert):
    """How often each label followed the one that was the newest known when a record arrived.

    With late labels the newest known is not the one before: what followed it is counted by what
    was known on arrival. Of each label the counts fade as it comes again.
    """

    opinions: ClassVar[tuple[str, ...]] = ("sequence",)

    def __init__(self) -> None:
        self._counts = np.zeros((0, 0))
        self.newest = -1
        """The newest label's number, -1 before the first."""

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`."""
        if self.newest >= 0:
            kernels().say_sequence(self._counts[self.newest], _SMOOTHING, said[0])

    def learn_after(self, before: int, k: int, weight: float) -> None:
        """Learn that a record is of class number `k`, `before` being the newest on its arrival."""
        if k >= len(self._counts) and k < MOST_CLASSES:
            more = min(k + 1, MOST_CLASSES) - len(self._counts)
            self._counts = np.pad(self._counts, (0, more))
        if max(before, k) < len(self._counts):
            if before >= 0:
                kernels().learn_sequence(self._counts, before, k, _FADE, weight)
            self.newest = k
        else:
            self.newest = -1

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """See `Expert`."""
        return {"newest": self.newest}, {"counts": self._counts.copy()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """See `Expert`."""
        self.newest, self._counts = state["newest"], arrays["counts"].copy()


class Words(Expert):
    """The linear models of the texts, whose log probabilities are columns of each record."""

    opinions: ClassVar[tuple[str, ...]] = ("words",)

    def __init__(self, features: Features, n_before: int) -> None:
        self._features = features
        self._n_before = n_before  # columns before those of the features

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`; of classes that the texts do not tell apart it says what they do."""
        if not self._features.expert:
            return
        for label, column in zip(self._features.classes, self._features.expert, strict=False):
            k = records.place.get(label)
            if k is not None:
                words = records.X[:, self._n_before + column]
                said[0, :, k] = np.where(np.isnan(words), said[0, :, k], words)
        said[0] = normalized(said[0])
