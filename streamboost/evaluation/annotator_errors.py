"""Detection of annotators whose labels disagree with predictions more often than others' labels."""

from math import log
from typing import Any

import numpy as np

MOST_SOURCES = 1_000
"""Largest number of annotators counted separately, so that new names cannot fill the memory."""

UNKNOWN = -1
"""Number of labels without an annotator, and of annotators beyond `MOST_SOURCES`."""

_BLOCK = 20
"""Number of consecutive labels within which annotators are compared."""

_GOOD, _BAD = 0.03, 0.3
"""Error rates of reliable and unreliable annotators, for the likelihood ratio of a label."""

_MOST = 2.5
"""Upper limit of the score of one label, reached about at probability 0."""

_LEAVE, _RETURN = 2.5, 1.5
"""Standard errors above the mean of the others, from which an annotator is left out, and below
which a left-out annotator is included again."""

_SUSPECT = 1.2
"""Standard errors above the mean, from which an annotator is suspect. The interval of the accuracy
is then extended to contain the interval without this annotator."""

LARGEST_SHARE = 0.6
"""Upper limit of the share of labels by all left-out annotators. The limit is more than half, so
that one of two annotators can be left out even with slightly more labels."""


class AnnotatorErrors:
    """Finds annotators whose labels are wrong more often than those of the others.

    The score of a label is the log likelihood ratio of two error rates, given the probabilities
    predicted on arrival. The score is highest for a label that contradicts a confident prediction.
    Scores are compared within blocks of 20 consecutive labels and added over the blocks, as in the
    test of Mantel and Haenszel (1959). So a change of the stream, after which all labels disagree,
    affects all annotators of that time alike. This assumes that annotators who label in the same
    period receive equally difficult records.

    Attributes
    ----------
    names
        The names of the annotators, in the order of their numbers.
    left_out
        Numbers of the annotators whose labels the estimates exclude now.
    suspect
        Number of the annotator with the most suspicious labels that the estimates still include;
        None if no annotator is suspicious.

    Examples
    --------
    >>> errors = AnnotatorErrors()
    >>> for i in range(100):
    ...     errors.observe(errors.number_of("ann"), 0.9, 2)
    ...     errors.observe(errors.number_of("bob"), 0.9, 2)
    ...     errors.observe(errors.number_of("eve"), 0.1 if i % 2 else 0.9, 2)
    >>> [errors.names[i] for i in errors.left_out]
    ['eve']
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.left_out: frozenset[int] = frozenset()
        self.suspect: int | None = None
        self._numbers: dict[str, int] = {}
        self._block: list[tuple[int, float]] = []
        self._sums = np.zeros((0, 3))  # per annotator: labels, score above the mean, its variance

    def number_of(self, name: str | None) -> int:
        """Return the number of the annotator `name`, added if new; `UNKNOWN` if `name` is empty."""
        if not name:
            return UNKNOWN
        if name not in self._numbers:
            if len(self.names) >= MOST_SOURCES:
                return UNKNOWN
            self._numbers[name] = len(self.names)
            self.names.append(name)
            self._sums = np.concatenate([self._sums, np.zeros((1, 3))])
        return self._numbers[name]

    def observe(self, annotator: int, label_probability: float, n_classes: int) -> None:
        """Score a label by the annotator number `annotator`.

        `label_probability` is the probability of this label, predicted on arrival, among
        `n_classes` classes.
        """
        if not self.names:  # there is nobody to compare
            return
        n_others = max(n_classes - 1, 1)
        good, bad = (
            (1.0 - rate) * label_probability + rate * (1.0 - label_probability) / n_others
            for rate in (_GOOD, _BAD)
        )
        score = min(log(bad / good), _MOST) if good > 0.0 else _MOST
        self._block.append((annotator, score))
        if len(self._block) == _BLOCK:
            self._finish_block()

    def _finish_block(self) -> None:
        """Compare the annotators of the block, add the results to the sums, and start a block."""
        who, scores = (np.array(column) for column in zip(*self._block, strict=True))
        self._block = []
        mean, variance = scores.mean(), scores.var(ddof=1)
        for annotator in np.unique(who[who != UNKNOWN]).tolist():
            own = who == annotator
            n = np.count_nonzero(own)
            self._sums[annotator] += (
                n,
                scores[own].sum() - n * mean,
                variance * n * (_BLOCK - n) / _BLOCK,
            )
        self._update_unreliable()

    def _update_unreliable(self) -> None:
        """Choose the annotators to leave out, by descending significance, within the limit."""
        labels, excess, variance = self._sums.T
        z = excess / np.sqrt(np.maximum(variance, np.finfo(float).tiny))
        left_out: list[int] = []
        self.suspect = None
        room = LARGEST_SHARE * labels.sum()
        for annotator in np.argsort(-z, kind="stable").tolist():
            room -= labels[annotator]
            if z[annotator] < _SUSPECT or room <= 0.0:
                break
            if z[annotator] < (_RETURN if annotator in self.left_out else _LEAVE):
                self.suspect = annotator
                break
            left_out.append(annotator)
        self.left_out = frozenset(left_out)

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {
            "names": self.names,
            "left_out": sorted(self.left_out),
            "suspect": self.suspect,
            "block": self._block,
            "sums": self._sums.tolist(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self.names = list(state["names"])
        self._numbers = {name: i for i, name in enumerate(self.names)}
        self.left_out = frozenset(state["left_out"])
        self.suspect = state["suspect"]
        self._block = [(int(who), float(score)) for who, score in state["block"]]
        self._sums = np.array(state["sums"], dtype=float).reshape(-1, 3)
