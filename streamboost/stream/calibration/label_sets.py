"""Sets of labels that hold the true one as often as asked for, also while the world drifts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamboost.active.settings import is_finite
from streamboost.errors import ConfigurationError

__all__ = ["LabelSets", "reaches", "unseen_share"]

_STEP = 0.02
"""By how much of what is missing a label moves the level. Over fifteen streams at budgets of 5, 10
and 20 %, means of eight runs were within 2.0 points of the coverage asked for; with 0.01 within 2.2
and sets a tenth smaller; with steps that begin larger no nearer, and sets larger."""

_CAUTION = 0.5
"""Of the level / n that split conformal prediction adds where n labels are all it knows, half, as
the committee's own chances are known, too. Without it, at a budget of 5 %, the sets of a stream's
first quarter held 4 points less; with all of it those of the shortest stream held 2.6 too much."""

_DECAY = 0.5 ** (1.0 / 100.0)
"""Half-life of 100 records: a committee trained anew soon speaks for itself. With 50 all was the
same, with 200 the sets of short streams held up to a point more."""

_LEAST = 1e-6
_WIDTH = 0.25
_EDGES = np.arange(-14.0, 14.0 + _WIDTH, _WIDTH)
"""Of the bins that the log odds of probabilities fall into, from 1e-6 to 1 - 1e-6."""


class LabelSets:
    """Adaptive conformal inference (Gibbs and Candès 2021) where most labels are never known.

    A set holds the labels whose probability reaches a threshold, the choice that makes sets
    smallest on average (Sadinle, Lei and Wasserman 2019). What the threshold is follows from the
    records, labelled or not: of the chances that the committee gives to the labels of the newest
    ones, the share `level` lies at or above it. Which level does so is told by the labels that
    come, each by whether the set given on arrival held it (Gibbs and Candès, eq. 2):

        level += 0.02 (coverage - m + w (e - [the set held the label])).

    w is 1 / propensity by its own mean, without which the hard records, asked about most, would
    pass for all; e is the chance that the set was thought to have of holding it, and m the mean of
    those chances over the records since the label before. Where all labels are known, m is e. Where
    few are, w (e - [...]) depends less on which they are than w (coverage - [...]), as in the
    honest figures (`intervals`): over 20 runs each on five streams with a tenth of the labels,
    coverages varied by 1.5 points for 1.6, and on the one where it mattered by 1.1 for 1.9.

    From level 1 on a set holds everything, and down from 0 nothing, so whatever the stream does and
    however wrong the committee is, over n labels, all known, the share held is within
    (max(coverage, 1 - coverage) + 0.02) / 0.02 n of `coverage` (their prop. 4.1; labels on their
    way add their steps). The committee being about right makes it hold much sooner.

    A label that nobody has named yet is one of the labels: its probability is the share of the
    labels so far that came once (Good 1953), and the others share the rest.

    Parameters
    ----------
    coverage
        The share of records whose set is to hold the true label, in (0, 1). Where the committee
        is right more often than that, the records it is least sure of get empty sets.

    Attributes
    ----------
    level
        The share of the expected labels that sets are to hold now; for lack of labels they are
        given level (1 + 1 / 2n) after n.

    Examples
    --------
    A committee that says 0.9 and is right seven times in ten:

    >>> rng = np.random.default_rng(7)
    >>> sets, covered = LabelSets(coverage=0.8), 0
    >>> for _ in range(2000):
    ...     P = rng.permuted([[0.06, 0.04, 0.9]], axis=1)
    ...     truth = P.argmax() if rng.random() < 0.7 else rng.integers(3)
    ...     held = bool(reaches(P[0, truth], sets.threshold()))
    ...     covered += held
    ...     expected = sets.arrive(P, P)
    ...     sets.learn(held, expected[0])
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
        self._expected: list[float] = [0.0, 0]  # sum and number, of the records since a label
        self._mean: float | None = None  # of those before
        self._drawn: tuple[float, float] | None = None  # the threshold, for which `unseen`

    def threshold(self, unseen: float = 0.0) -> float:
        """Return the probability from which on a label is in the set.

        It is 0 where everything is in it, as before the first label, and 2 where nothing is.

        Parameters
        ----------
        unseen
            The probability that a record's label is one that nobody has named yet.
        """
        if self._drawn is None or self._drawn[0] != unseen:
            self._drawn = unseen, self._draw(unseen)
        return self._drawn[1]

    def _draw(self, unseen: float) -> float:
        total = self._mass.sum()
        if total == 0.0 or self._labels == 0:
            return 0.0
        level = self.level * (1.0 + _CAUTION / self._labels)
        if not 0.0 < level < 1.0:
            return 0.0 if level > 0.0 else 2.0
        mass = self._mass * ((1.0 - unseen) / total)
        mass[_bins(np.array(unseen))] += unseen
        above = np.append(mass[::-1].cumsum()[::-1], 0.0)
        edge = int(np.searchsorted(-above, -level, side="right")) - 1
        if edge < 0:  # the level is as good as 1
            return 0.0
        share = (above[edge] - level) / (above[edge] - above[edge + 1])
        return float(1.0 / (1.0 + np.exp(-(_EDGES[edge] + share * _WIDTH))))

    def arrive(
        self, probabilities: np.ndarray, expected: np.ndarray, unseen: float = 0.0
    ) -> np.ndarray:
        """Take in records whose labels are not known; return with what chance their sets hold them.

        Parameters
        ----------
        probabilities
            (n, K), by which labels are in sets or not.
        expected
            (n, K), the chance that each label is thought to have of being true.
        unseen
            The probability that a record's label is one that nobody has named yet.
        """
        n, threshold = len(probabilities), self.threshold(unseen)
        chance = (expected * reaches(probabilities, threshold)).sum(axis=1) * (1.0 - unseen)
        chance += unseen * reaches(unseen, threshold)
        self._expected[0] += float(chance.sum())
        self._expected[1] += n
        self._drawn = None
        weight = _DECAY ** np.arange(n - 1, -1, -1)
        mass = (expected * weight[:, None]).ravel()
        self._mass *= _DECAY**n
        self._mass += np.bincount(_bins(probabilities).ravel(), mass, len(self._mass))
        return np.asarray(chance)

    def learn(self, held: bool, expected: float, weight: float = 1.0) -> None:
        """Learn whether the set that a record was given on arrival held its label.

        Parameters
        ----------
        held
            Whether it did.
        expected
            With what chance, as `arrive` said.
        weight
            1 / propensity.
        """
        total, n = self._expected
        if n:
            self._mean, self._expected = total / n, [0.0, 0]
        mean = expected if self._mean is None else self._mean
        self._drawn = None
        self._labels += 1
        self._weight += weight
        relative = weight * self._labels / self._weight
        self.level += _STEP * (self.coverage - mean + relative * (expected - held))

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON can hold it."""
        return {
            "level": self.level,
            "labels": self._labels,
            "weight": self._weight,
            "mass": self._mass.tolist(),
            "expected": self._expected,
            "mean": self._mean,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned for sets of the same coverage."""
        self.level = state["level"]
        self._labels = state["labels"]
        self._weight = state["weight"]
        self._mass = np.array(state["mass"], dtype=np.float64)
        self._expected = list(state["expected"])
        self._mean, self._drawn = state["mean"], None


def reaches(probability: Any, threshold: float) -> np.ndarray:
    """Return whether labels of such a probability, of any shape, are in sets of that threshold."""
    return np.asarray(_within(probability) >= threshold)


def unseen_share(counts: Sequence[int]) -> float:
    """Return the chance that the next label is one that never came (Good 1953).

    Parameters
    ----------
    counts
        How often each label came.

    Examples
    --------
    >>> unseen_share([3, 1, 2, 1])
    0.2857142857142857
    """
    total = sum(counts)
    return sum(count == 1 for count in counts) / total if total else 1.0


def _bins(probabilities: np.ndarray) -> np.ndarray:
    """Return the bins, intp of the same shape, of the probabilities' log odds."""
    p = _within(probabilities)
    return np.asarray((np.log(p / (1.0 - p)) - _EDGES[0]) / _WIDTH).astype(np.intp)


def _within(probability: Any) -> Any:
    """Return the probability as it counts: some threshold exceeds that of the surest, too."""
    return np.minimum(np.maximum(probability, _LEAST), 1.0 - _LEAST)
