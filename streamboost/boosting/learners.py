"""What a committee is made of: a sum of weak learners, of whichever kind."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from streamboost.storage import Arrays
from streamboost.trees.bins import Bins
from streamboost.trees.categories import Categories

__all__ = ["LearnersBuilder", "WeakLearners"]


class WeakLearners(Protocol):
    """Weak learners with K scores each, packed and immutable: a `Forest`, or `Similarities`."""

    kind: ClassVar[str]
    """Names them in a committee's file."""

    @property
    def n_classes(self) -> int:
        """K."""

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""

    @property
    def n_learners(self) -> int:
        """Number of weak learners."""

    @property
    def categories(self) -> Categories:
        """Which columns they read as categories, and what the codes mean."""

    def add_scores(
        self, X: np.ndarray, scores: np.ndarray, rounds: tuple[int, int] | None = None
    ) -> None:
        """Add what all rounds say, or `rounds` (first, end), to `scores` float64 (n, K)."""

    def splits(self, n_features: int) -> np.ndarray:
        """Return how many nodes of trees split each feature, int64 (D,)."""

    def leaves(self, X: np.ndarray, n_trees: int) -> np.ndarray:
        """Return the leaves of rows `X` (n, D) in the first trees, uint8 (n, T); T may be 0."""

    def scores_and_leaves(
        self, base: np.ndarray, X: np.ndarray, n_trees: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `base` float64 (K,) and what all rounds say, float64 (n, K), and `leaves`.

        `X` float32 (n, D), in C-order, may have columns behind those that are known.
        """

    def staged_scores(self, X: np.ndarray, scores: np.ndarray) -> Iterator[np.ndarray]:
        """Add one round after another to `scores` float64 (n, K), and yield it after each."""

    def widened(self, n_classes: int) -> Self:
        """Return them with zero scores for classes they do not know yet."""

    def builder(self, bins: Bins, weight: np.ndarray | None = None) -> "LearnersBuilder":
        """Return what adds the learners of further rounds, trained on these bins.

        `weight` (n,) is what the rows of the training weigh; None: 1 each.
        """

    def to_arrays(self) -> Arrays:
        """Return them as plain arrays."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Return what `to_arrays` took apart, not checked yet."""

    def check(self, n_features: int) -> None:
        """Raise ModelFileError unless every index stays inside."""


class LearnersBuilder(Protocol):
    """Collects rounds of weak learners."""

    def append_round(self, learners: Sequence[Any]) -> None:
        """Add the weak learners of one round."""

    def freeze(self) -> WeakLearners:
        """Return all of them, packed."""
