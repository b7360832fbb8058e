"""Prediction sets, a chosen share of which contains the true label, also under concept drift."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.query.settings import is_finite

_STEP = 0.02
"""Step size of the level per label. On fifteen streams at budgets of 5, 10 and 20 %, the coverage
(mean of eight runs) differed by at most 2.0 points from the chosen coverage. With 0.01, by at most
2.2 points, with sets a tenth smaller. Larger first steps gave larger sets, no better coverage."""

_CAUTION = 0.5
"""Split conformal prediction adds level / n to the level after n labels. Here this share is added,
as the committee's own probabilities are also available. At a budget of 5 %, without this term, the
coverage in a stream's first quarter was 4 points lower. With a share of 1, the coverage on the
shortest stream was 2.6 points too high."""

_DECAY = 0.5 ** (1.0 / 100.0)
"""Decay with a half-life of 100 records, so that the predictions of a retrained committee soon
dominate. Results with 50 were equal; with 200, the coverage on short streams was up to a point
higher."""

_LEAST = 1e-6
_WIDTH = 0.25
_EDGES = np.arange(-14.0, 14.0 + _WIDTH, _WIDTH)
"""Edges of the bins of the log odds of probabilities, from 1e-6 to 1 - 1e-6."""


class PredictionSets:
    """Prediction sets by adaptive conformal inference (Gibbs and Candès 2021) from few labels.

    A set holds the labels whose probability reaches a threshold, which minimizes the mean set size
    (Sadinle, Lei and Wasserman 2019). The threshold is a quantile over the newest records, labelled
    or not: by the committee's probabilities, the expected share of true labels that reach the
    threshold is `level`. Each arriving label adjusts the level, depending on whether the set
    predicted on arrival contains the label (Gibbs and Candès, eq. 2):

        level += 0.02 (coverage - m + w (e - [the set contains the label])).

    Here w is 1 / propensity, divided by its mean; without w, hard records, which are requested
    most, would have too much weight. e is the expected probability that the set contains the label,
    and m is the mean of these probabilities over the records since the previous label. If all
    labels are known, m is e. If few are known, w (e - [...]) varies less than w (coverage - [...]),
    as in the unbiased estimates (`report`). Over 20 runs each on five streams with a tenth of the
    labels, coverages varied by 1.5 points instead of 1.6, and on the most affected stream by 1.1
    instead of 1.9.

    From level 1 on, a set contains every label; at level 0 or less, a set is empty. So for any
    stream and any committee, if all n labels are known, the share of sets with the true label
    differs from `coverage` by at most (max(coverage, 1 - coverage) + 0.02) / 0.02 n (Gibbs and
    Candès, prop. 4.1; delayed labels add their steps). With a roughly calibrated committee, the
    coverage is reached much sooner.

    All labels that have not appeared yet are one additional label. Its probability is the share of
    the labels so far whose class appeared once (Good 1953); the known labels share the rest.

    Parameters
    ----------
    coverage
        The share of records whose set should contain the true label, in (0, 1). If the committee is
        right more often than that, the least certain records get empty sets.

    Attributes
    ----------
    level
        Expected share of true labels that the sets should contain now. After n labels, the
        threshold is computed from level (1 + 1 / 2n).

    Examples
    --------
    A committee predicts with probability 0.9 and is right about seven times in ten:

    >>> rng = np.random.default_rng(7)
    >>> sets, covered = PredictionSets(coverage=0.8), 0
    >>> for _ in range(2000):
    ...     P = rng.permuted([[0.06, 0.04, 0.9]], axis=1)
    ...     truth = P.argmax() if rng.random() < 0.7 else rng.integers(3)
    ...     held = bool(is_in_set(P[0, truth], sets.threshold()))
    ...     covered += held
    ...     expected = sets.add_records(P, P)
    ...     sets.update_level(held, expected[0])
    >>> 1580 < covered < 1620
    True
    """

    def __init__(self, coverage: float = 0.9) -> None:
        if not is_finite(coverage) or not 0 < coverage < 1:
            raise ConfigurationError(
                f"coverage is {coverage!r}: give the share of label sets that are to hold the "
                "true label, above 0 and below 1"
            )
        self.coverage = coverage
        self.level = coverage
        self._labels = 0
        self._weight = 0.0
        self._mass = np.zeros(len(_EDGES) - 1)
        self._expected: list[float] = [0.0, 0]  # sum and count, since the newest label
        self._mean: float | None = None  # of the records before the newest label
        self._drawn: tuple[float, float] | None = None  # the threshold with its `unseen`

    def threshold(self, unseen_probability: float = 0.0) -> float:
        """Return the least probability of a label to be in a prediction set.

        The result is 0 if sets contain all labels, as before the first label arrives. The result is
        2 if sets are empty.

        Parameters
        ----------
        unseen_probability
            The probability of a label that has not appeared yet.
        """
        if self._drawn is None or self._drawn[0] != unseen_probability:
            self._drawn = unseen_probability, self._compute_threshold(unseen_probability)
        return self._drawn[1]

    def _compute_threshold(self, unseen_probability: float) -> float:
        total = self._mass.sum()
        if total == 0.0 or self._labels == 0:
            return 0.0
        level = self.level * (1.0 + _CAUTION / self._labels)
        if not 0.0 < level < 1.0:
            return 0.0 if level > 0.0 else 2.0
        mass = self._mass * ((1.0 - unseen_probability) / total)
        mass[_log_odds_bins(np.array(unseen_probability))] += unseen_probability
        above = np.append(mass[::-1].cumsum()[::-1], 0.0)
        edge = int(np.searchsorted(-above, -level, side="right")) - 1
        if edge < 0:  # the level is 1 up to rounding
            return 0.0
        share = (above[edge] - level) / (above[edge] - above[edge + 1])
        return float(1.0 / (1.0 + np.exp(-(_EDGES[edge] + share * _WIDTH))))

    def add_records(
        self, probabilities: np.ndarray, expected: np.ndarray, unseen_probability: float = 0.0
    ) -> np.ndarray:
        """Add n arriving records; return the probability (n,) that each set has the true label.

        Parameters
        ----------
        probabilities
            (n, K), the probabilities that are compared with the threshold.
        expected
            (n, K), the calibrated probability of each label.
        unseen_probability
            The probability of a label that has not appeared yet.
        """
        n, threshold = len(probabilities), self.threshold(unseen_probability)
        chance = (expected * is_in_set(probabilities, threshold)).sum(axis=1) * (
            1.0 - unseen_probability
        )
        chance += unseen_probability * is_in_set(unseen_probability, threshold)
        self._expected[0] += float(chance.sum())
        self._expected[1] += n
        self._drawn = None
        weight = _DECAY ** np.arange(n - 1, -1, -1)
        mass = (expected * weight[:, None]).ravel()
        self._mass *= _DECAY**n
        self._mass += np.bincount(_log_odds_bins(probabilities).ravel(), mass, len(self._mass))
        return np.asarray(chance)

    def update_level(
        self, contained_label: bool, expected_probability: float, weight: float = 1.0
    ) -> None:
        """Update the level with whether the prediction set of a record contained its label.

        Parameters
        ----------
        contained_label
            Whether the set contained the label.
        expected_probability
            The probability that the set contains the label, from `add_records`.
        weight
            1 / propensity.
        """
        total, n = self._expected
        if n:
            self._mean, self._expected = total / n, [0.0, 0]
        mean = expected_probability if self._mean is None else self._mean
        self._drawn = None
        self._labels += 1
        self._weight += weight
        relative = weight * self._labels / self._weight
        self.level += _STEP * (
            self.coverage - mean + relative * (expected_probability - contained_label)
        )

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {
            "level": self.level,
            "labels": self._labels,
            "weight": self._weight,
            "mass": self._mass.tolist(),
            "expected": self._expected,
            "mean": self._mean,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that `state` returned for an object with equal coverage."""
        self.level = state["level"]
        self._labels = state["labels"]
        self._weight = state["weight"]
        self._mass = np.array(state["mass"], dtype=np.float64)
        self._expected = list(state["expected"])
        self._mean, self._drawn = state["mean"], None


def is_in_set(probability: Any, threshold: float) -> np.ndarray:
    """Return whether labels of these probabilities are in a prediction set.

    The result is bool, in the shape of `probability`.
    """
    return np.asarray(_clip_below_one(probability) >= threshold)


def new_label_probability(counts: Sequence[int]) -> float:
    """Return the probability that the class of the next label has not appeared yet (Good 1953).

    Parameters
    ----------
    counts
        The number of labels of each class.

    Examples
    --------
    >>> new_label_probability([3, 1, 2, 1])
    0.2857142857142857
    """
    total = sum(counts)
    return sum(count == 1 for count in counts) / total if total else 1.0


def _log_odds_bins(probabilities: np.ndarray) -> np.ndarray:
    """Return the index of the histogram bin for the log odds of each probability."""
    p = _clip_below_one(probabilities)
    return np.asarray((np.log(p / (1.0 - p)) - _EDGES[0]) / _WIDTH).astype(np.intp)


def _clip_below_one(probability: Any) -> Any:
    """Return probabilities clipped to slightly less than 1, so that a threshold can be above."""
    return np.minimum(np.maximum(probability, _LEAST), 1.0 - _LEAST)
