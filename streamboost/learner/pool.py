"""Pool-based active learning: buys labels for rows of an array (Huang 2009, Algorithm 4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.checks import as_rows
from streamboost.errors import ConfigurationError, DataError
from streamboost.learner.estimators import Trainable
from streamboost.predictions import utility_inputs
from streamboost.query.settings import as_exact_fraction, check_choice, check_integer
from streamboost.query.strategies import UTILITIES, Utility

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee


@dataclass(frozen=True, slots=True, eq=False)
class PoolResult:
    """Committee after a training, and the labels bought so far.

    Attributes
    ----------
    committee
        Committee trained on all labels bought so far.
    rows
        Indices of the labelled rows, int64 (m,), in the order in which their labels were bought.
    labels
        The labels of `rows` (m,).
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
    strategy: str = "margin",
    evaluated: float = 1.0,
    random_state: int | None = None,
) -> Iterator[PoolResult]:
    """Alternate between buying labels for uncertain rows of `X` and training a committee.

    This is Huang's Active GAMBLE (2009, Algorithm 4) with any of the estimators. `first` labels are
    bought at random, and a committee is trained on all labels. Then the labels of the `each` rows
    of highest utility are bought, ties in random order, and a new committee is trained. The result
    is an iterator with one `PoolResult` after every training; the last committee is trained on all
    labels. In the thesis, the labels bought last are never trained on, and the loop does not end.
    To stop early, stop iterating, for example by the error on hold-out data (section 5.2), as
    below. `early_stopping` of the estimator limits the rounds.

    Parameters
    ----------
    estimator
        An estimator of streamboost; it is not changed.
    ask
        Function that gets row indices, int64 (m,), and returns the labels of these rows (m,).
    first, each
        Number of labels bought before the first training, and before each other training.
    most
        Number of labels bought in total; None: one for every row.
    strategy
        Query strategy, as in `QueryConfig`: ``"margin"``, used in the thesis, prefers rows whose
        two largest scores are close.
    evaluated
        Share, in (0, 1], of the rows without a label that are scored, in a new random sample each
        time. Less scoring is faster with many rows (chapter 4). At least as many rows are scored as
        are bought.
    random_state
        Seed; None: a random seed.

    Raises
    ------
    ConfigurationError
        When a setting is out of its range.
    DataError
        When `X` is not a numeric table, or `ask` does not return a label for each row.

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
    ...     scores = step.committee.class_scores(X[1::4])  # rows held out
    ...     if (step.committee.classes[scores.argmax(axis=1)] == y[1::4]).mean() > 0.85:
    ...         break
    >>> len(step.rows) <= 300
    True

    References
    ----------
    J. Huang: A multiclass boosting classification method with active learning. Master's thesis,
    The Pennsylvania State University, 2009.
    """
    rows = as_rows(X, None)
    most = len(rows) if most is None else most
    _validate_pool_arguments(len(rows), first, each, most, strategy, evaluated)
    rng = np.random.default_rng(random_state)
    return _train_in_rounds(
        estimator, rows, ask, (first, each, most), UTILITIES[strategy], evaluated, rng
    )


def _train_in_rounds(
    estimator: Trainable,
    rows: np.ndarray,
    ask_for_labels: Callable[[np.ndarray], Any],
    label_counts: tuple[int, int, int],
    utility: Utility,
    evaluated: float,
    rng: np.random.Generator,
) -> Iterator[PoolResult]:
    """Yield a `PoolResult` after each training.

    `label_counts` are `first`, `each` and `most` of `learn_from_pool`.
    """
    first, each, most = label_counts
    known, labels = _buy_labels_of_rows(
        ask_for_labels, rng.permutation(len(rows))[:first], None, None
    )
    while True:
        seed = int(rng.integers(2**31 - 1))
        committee = estimator.train(rows[known], labels, seed=seed)
        yield PoolResult(committee, known, labels)
        n = min(each, most - len(known))
        if n == 0:
            return
        left = rng.permutation(np.delete(np.arange(len(rows)), known))
        left = left[: max(n, int(np.ceil(evaluated * len(left))))]
        worth = utility.measure(utility_inputs(utility.required_input, committee, rows[left]))
        best = left[np.argsort(-worth, kind="stable")[:n]]
        known, labels = _buy_labels_of_rows(ask_for_labels, best, known, labels)


def _buy_labels_of_rows(
    ask_for_labels: Callable[[np.ndarray], Any],
    rows: np.ndarray,
    labelled_rows: np.ndarray | None,
    labels: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Buy labels for `rows`; return the indices of all labelled rows, and their labels.

    `labelled_rows` and `labels` are the rows and labels bought before; None for the first purchase.
    Raises DataError if the function does not return a label for each row.
    """
    came = np.asarray(ask_for_labels(rows))
    if came.shape != rows.shape:
        raise DataError(
            f"ask returned labels of shape {came.shape} for {len(rows)} rows: give one for each"
        )
    if labelled_rows is None or labels is None:
        return rows, came
    return np.concatenate([labelled_rows, rows]), np.concatenate([labels, came])


def _validate_pool_arguments(
    n: int, first: int, each: int, most: int, strategy: str, evaluated: float
) -> None:
    check_choice("strategy", strategy, UTILITIES)
    for name, value in (("first", first), ("each", each), ("most", most)):
        check_integer(name, value)
    if not first <= most <= n:
        raise ConfigurationError(
            f"first is {first} and most {most}, of {n} rows: buy at least the first, and at most "
            "a label for each row"
        )
    if not 0 < as_exact_fraction("evaluated", evaluated) <= 1:
        raise ConfigurationError(
            f"evaluated is {evaluated!r}: give the share of rows to score, above 0 and at most 1"
        )
