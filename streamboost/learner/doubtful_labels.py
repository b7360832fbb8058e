"""Doubtful labels: labels that contradict committees trained on other labels (label cleaning).

`LabelQuality` judges labels by the predictions on arrival, which initial data do not have.

References
----------
.. [1] Northcutt, C. G., Jiang, L. and Chuang, I. L. (2021). Confident learning: estimating
   uncertainty in dataset labels. Journal of Artificial Intelligence Research 70.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.learner.estimators import Trainable, adapt_to_size
from streamboost.predictions import score_with_committee

_FOLDS = 5
"""Folds of the cross-validation; labels of classes with fewer labels are not judged."""


class DoubtfulLabel(NamedTuple):
    """Label of the record `id`, its out-of-fold probability, and the class that is likelier."""

    id: str
    label: Label
    predicted: Label
    probability: float


def find_doubtful_labels(
    estimator: Trainable, ids: Sequence[str], labels: Sequence[Label], X: np.ndarray
) -> list[DoubtfulLabel]:
    """Return the records whose label is doubtful, the least probable label first.

    Each probability is that of a committee that was trained without the record, on four fifths of
    the labels. A label is doubtful if another class has the largest probability among the classes
    whose probability is at least the mean probability of their own records ([1], section 3.1).

    Parameters
    ----------
    estimator
        The estimator that trains the committees; it does not change.
    ids, labels, X
        Ids and labels of n records, and their features, float32 (n, D).
    """
    y = labels_to_array(labels)
    classes, own, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        return []
    P = _out_of_fold_probabilities(estimator, X, y, classes, own)
    own_probability = P[np.arange(len(y)), own]
    confident = np.bincount(own, own_probability) / counts
    likely = np.where((confident <= P) & (counts >= _FOLDS), P, -1.0)
    predicted = likely.argmax(axis=1)
    is_doubtful = (
        (predicted != own) & (likely.max(axis=1) > own_probability) & (counts[own] >= _FOLDS)
    )
    rows = np.flatnonzero(is_doubtful)
    return [
        DoubtfulLabel(ids[i], labels[i], classes.tolist()[predicted[i]], float(own_probability[i]))
        for i in rows[np.argsort(own_probability[rows], kind="stable")].tolist()
    ]


def _out_of_fold_probabilities(
    estimator: Trainable, X: np.ndarray, y: np.ndarray, classes: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """Return the probabilities (n, K) of `classes` for each row, by committees trained without it.

    The folds are stratified: `own` (n,) is the index of each row's class.
    """
    shuffled = np.lexsort((np.random.default_rng(0).random(len(y)), own))
    fold = np.empty(len(y), dtype=np.intp)
    fold[shuffled] = np.arange(len(y)) % _FOLDS
    P = np.zeros((len(y), len(classes)))
    for k in range(_FOLDS):
        out = fold == k
        if out.any() and len(set(y[~out].tolist())) > 1:
            committee = adapt_to_size(estimator, len(y)).train(
                np.ascontiguousarray(X[~out]), y[~out], seed=k
            )
            scored = score_with_committee(committee, X[out])
            P[np.ix_(out, np.searchsorted(classes, scored.classes))] = scored.probabilities
    return P
