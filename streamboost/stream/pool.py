"""Labels bought for the rows of an array, a few at a time (Huang, 2009, Algorithm 4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.settings import as_decimal, check_choice, check_whole
from streamboost.active.utilities import UTILITIES, Utility
from streamboost.errors import ConfigurationError, DataError
from streamboost.stream.checks import as_rows
from streamboost.stream.estimators import Trainable
from streamboost.stream.scoring import evidence

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Bought", "learn_from_pool"]


@dataclass(frozen=True, slots=True, eq=False)
class Bought:
    """What there is after a training.

    Attributes
    ----------
    committee
        Trained on all labels bought so far.
    rows
        Their rows, int64 (m,), in the order in which they were bought.
    labels
        The labels (m,).
    """

    committee: "Committee"
    rows: np.ndarray
    labels: np.ndarray


def learn_from_pool(
    estimator: Trainable,
    X: Any,
    ask: Callable[[np.ndarray], Any],
    *,
    first: int,
    each: int,
    most: int | None = None,
    utility: str = "margin",
    evaluated: float = 1.0,
    random_state: int | None = None,
) -> Iterator[Bought]:
    """Buy labels for rows of `X` (n, D) where a committee doubts, and train another, in turn.

    This is Huang's Active GAMBLE (2009, Algorithm 4) with any of the estimators. `first` labels are
    bought at random; then a committee is trained on all there are, and `each` more are bought where
    the next would learn most, those as good as each other in random order. Yields after every
    training, the last of which has all labels: as printed, those that were bought last are never
    trained on, and a loop that waits for an empty Q, from which the first are not taken, does not
    end. Whoever has enough stops iterating: a hold-out of one's own tells when (section 5.2), as
    below, and `early_stopping` of the estimator how many rounds a committee needs.

    Parameters
    ----------
    estimator
        Any of streamboost's; it is left as it is.
    ask
        Takes rows, int64 (m,), and returns their labels (m,).
    first, each
        Labels bought before the first training, and before each other.
    most
        Labels bought in all; None: one for every row.
    utility
        What makes a row worth its label, as in `QueryStrategy`: ``"margin"``, the thesis's, is
        large where the two largest scores are close.
    evaluated
        Share of the rows without a label that are scored, drawn anew each time, in (0, 1]: less
        scoring where rows are many (chapter 4). At least as many as are bought.
    random_state
        Seed; None: another one every time.

    Raises
    ------
    ConfigurationError
        When a setting cannot be.
    DataError
        When `X` is no table of numbers, or `ask` does not return a label for each row.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamboost import GambleClassifier, learn_from_pool
    >>> X, y = load_digits(return_X_y=True)
    >>> bought = learn_from_pool(
    ...     GambleClassifier(n_estimators=50), X[::2], lambda rows: y[::2][rows],
    ...     first=40, each=20, most=300, random_state=0,
    ... )
    >>> for step in bought:
    ...     scores = step.committee.decision(X[1::4])  # rows held out
    ...     if (step.committee.classes[scores.argmax(axis=1)] == y[1::4]).mean() > 0.85:
    ...         break
    >>> len(step.rows) <= 300
    True

    References
    ----------
    J. Huang: Efficient multiclass boosting with active learning. Master's thesis, 2009.
    """
    rows = as_rows(X, None)
    most = len(rows) if most is None else most
    _check(len(rows), first, each, most, utility, evaluated)
    rng = np.random.default_rng(random_state)
    return _bought(estimator, rows, ask, (first, each, most), UTILITIES[utility], evaluated, rng)


def _bought(
    estimator: Trainable,
    rows: np.ndarray,
    ask: Callable[[np.ndarray], Any],
    numbers: tuple[int, int, int],
    utility: Utility,
    evaluated: float,
    rng: np.random.Generator,
) -> Iterator[Bought]:
    first, each, most = numbers
    known, labels = _buy(ask, rng.permutation(len(rows))[:first], None, None)
    while True:
        seed = int(rng.integers(2**31 - 1))
        committee = estimator.train(rows[known], labels, seed=seed)
        yield Bought(committee, known, labels)
        n = min(each, most - len(known))
        if n == 0:
            return
        left = rng.permutation(np.delete(np.arange(len(rows)), known))
        left = left[: max(n, int(np.ceil(evaluated * len(left))))]
        worth = utility.measure(evidence(utility.needs, committee, rows[left]))
        best = left[np.argsort(-worth, kind="stable")[:n]]
        known, labels = _buy(ask, best, known, labels)


def _buy(
    ask: Callable[[np.ndarray], Any],
    rows: np.ndarray,
    known: np.ndarray | None,
    labels: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that have labels, and the labels, with those of `rows`."""
    came = np.asarray(ask(rows))
    if came.shape != rows.shape:
        raise DataError(
            f"ask returned labels of shape {came.shape} for {len(rows)} rows: give one for each"
        )
    if known is None or labels is None:
        return rows, came
    return np.concatenate([known, rows]), np.concatenate([labels, came])


def _check(n: int, first: int, each: int, most: int, utility: str, evaluated: float) -> None:
    check_choice("utility", utility, UTILITIES)
    for name, value in (("first", first), ("each", each), ("most", most)):
        check_whole(name, value)
    if not first <= most <= n:
        raise ConfigurationError(
            f"first is {first} and most {most}, of {n} rows: buy at least the first, and at most "
            "a label for each row"
        )
    if not 0 < as_decimal("evaluated", evaluated) <= 1:
        raise ConfigurationError(
            f"evaluated is {evaluated!r}: give the share of rows to score, above 0 and at most 1"
        )
