"""Sets of labels that hold the true one as often as asked for, also while the world drifts."""

from math import sqrt
from typing import Any

import numpy as np

from streamboost.active.settings import is_finite
from streamboost.errors import ConfigurationError

__all__ = ["LabelSets"]

_MEMORY = 1_000
"""Newest labels whose probabilities the threshold is a quantile of."""

_STEP = 0.2
_LEAST_STEP = 0.01
"""The level moves by step = max(0.01, 0.2 / sqrt(n)) after n labels: far while few have told
anything, and by little enough later that the sets' sizes stand still (Angelopoulos, Barber and
Bates 2024 on decaying steps)."""


class LabelSets:
    """Adaptive conformal inference (Gibbs and Candès 2021) for labels that are asked for.

    A set holds the labels whose probability reaches a threshold, the choice that makes sets
    smallest on average (Sadinle, Lei and Wasserman 2019; adding up the likeliest labels instead,
    which never leaves a set empty, covers up to 4 points too much where the committee is more
    accurate than the target). The threshold is the level's weighted quantile of the true labels'
    probabilities, as they were on arrival, and the level follows what happened (eq. 2):

        level += step w (1 - coverage - [the set given on arrival missed the label]).

    w is 1 / propensity by its own mean, without which the hard records, asked about most, would
    pass for all. Coverage holds in the long run whatever the stream does, for labels that come
    as the propensities say; over n labels of equal weight, chance alone moves it by
    sqrt(coverage (1 - coverage) / n).

    Parameters
    ----------
    coverage
        The share of records whose set is to hold the true label, in (0, 1). Where the committee
        is right more often than that, the records it is least sure of get empty sets.

    Attributes
    ----------
    threshold
        Probability from which on a label is in the set; 0 before the first label, so that a set
        is then all labels known.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> sets, covered = LabelSets(coverage=0.8), 0
    >>> for _ in range(1000):
    ...     p = rng.random()  # what the committee gave the label that turned out true
    ...     covered += p >= sets.threshold
    ...     sets.learn(p, sets.threshold)
    >>> 780 < covered < 820
    True
    """

    def __init__(self, coverage: float = 0.9) -> None:
        if not is_finite(coverage) or not 0 < coverage < 1:
            raise ConfigurationError(
                f"coverage is {coverage!r}: give the share of label sets that are to hold the "
                "true label, above 0 and below 1"
            )
        self.coverage = coverage
        self.threshold = 0.0
        self._level = 1.0 - coverage
        self._labels = 0
        self._weight = 0.0
        self._weight_square = 0.0
        self._seen = np.zeros((0, 2))  # probabilities and weights; once full, in a ring

    def learn(self, probability: float, threshold: float, weight: float = 1.0) -> None:
        """Learn what a record's true label had: its probability, against `threshold` then.

        Parameters
        ----------
        probability
            What the committee gave the true label on arrival; negative where that was not yet
            known, so that no set could hold it.
        threshold
            What the threshold was on arrival.
        weight
            1 / propensity.
        """
        self._keep(probability, weight)
        self._labels += 1
        self._weight += weight
        self._weight_square += weight**2
        step = max(_LEAST_STEP, _STEP * sqrt(self._weight_square) / self._weight)
        relative = weight * self._labels / self._weight
        missed = probability < threshold
        self._level += step * relative * (1.0 - self.coverage - missed)
        # A wider range would take as many labels to come back from as led there.
        self._level = min(max(self._level, -0.5), 1.5)
        self.threshold = self._quantile()

    def _keep(self, probability: float, weight: float) -> None:
        if self._labels >= len(self._seen) and len(self._seen) < _MEMORY:
            room = min(max(2 * len(self._seen), 64), _MEMORY) - len(self._seen)
            self._seen = np.vstack([self._seen, np.zeros((room, 2))])
        self._seen[self._labels % _MEMORY] = probability, weight

    def _quantile(self) -> float:
        if self._level <= 0.0:
            return 0.0
        if self._level >= 1.0:
            return 2.0  # no probability reaches it: the set is empty
        probability, weight = self._seen[: self._labels].T
        order = np.argsort(probability, kind="stable")
        reached = np.cumsum(weight[order])
        place = int(np.searchsorted(reached, self._level * reached[-1]))
        return max(float(probability[order[min(place, len(order) - 1)]]), 0.0)

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON can hold it."""
        return {
            "threshold": self.threshold,
            "level": self._level,
            "labels": self._labels,
            "weight": self._weight,
            "weight_square": self._weight_square,
            "seen": self._seen[: self._labels].tolist(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned for sets of the same coverage."""
        self.threshold = state["threshold"]
        self._level = state["level"]
        self._labels = state["labels"]
        self._weight = state["weight"]
        self._weight_square = state["weight_square"]
        self._seen = np.array(state["seen"], dtype=np.float64).reshape(-1, 2)
