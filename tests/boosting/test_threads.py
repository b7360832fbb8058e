"""Thread safety: neither `n_jobs` nor concurrent callers change a result."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from streamboost import (
    AdaBoostMHClassifier,
    AOSOLogitBoostClassifier,
    Cascade,
    CDMCBoostClassifier,
    GambleClassifier,
    RebelClassifier,
    SammeClassifier,
    SketchLogitBoostClassifier,
)

SAMPLED = {"subsample": 0.7, "max_features": 0.5}
# One of each kind of histogram input, of growing by layers and nodes, of pruning, and of no trees.
MODELS = [
    AdaBoostMHClassifier(**SAMPLED),
    AOSOLogitBoostClassifier(**SAMPLED),
    CDMCBoostClassifier(**SAMPLED),
    GambleClassifier(**SAMPLED),
    RebelClassifier(**SAMPLED),
    RebelClassifier(weak_learner="localized_similarity"),
    SammeClassifier(pruning="quick", **SAMPLED),
    SketchLogitBoostClassifier(**SAMPLED),
]
N_THREADS = 4

X, y = load_digits(return_X_y=True)
X = X.astype(np.float32)


@pytest.fixture(params=MODELS, ids=str)
def estimator(request):
    return clone(request.param).set_params(n_estimators=6, random_state=3)


def same(one, other):
    """Whether two committees are the same to the last bit."""
    arrays, others = one.to_arrays(), other.to_arrays()
    return all(np.array_equal(arrays[name], others[name]) for name in arrays)


def test_n_jobs_changes_no_bit(estimator):
    alone = clone(estimator).fit(X[:600], y[:600]).extend(X[600:900], y[600:900], n_estimators=3)
    shares = alone.predict_proba(X)
    for n_jobs in (2, 3, -1):
        jobs = clone(estimator).set_params(n_jobs=n_jobs)
        jobs.fit(X[:600], y[:600]).extend(X[600:900], y[600:900], n_estimators=3)
        assert same(jobs.committee_, alone.committee_), n_jobs
        np.testing.assert_array_equal(jobs.predict_proba(X), shares)


@pytest.mark.quick_once
def test_threads_that_fit_and_score_at_once_change_no_bit(estimator):
    parts = [slice(100 * i, 100 * i + 500) for i in range(N_THREADS)]
    alone = [clone(estimator).fit(X[part], y[part]) for part in parts]
    shared = alone[0]
    scores = shared.decision_function(X)

    def fit_and_score(part):
        fitted = clone(estimator).set_params(n_jobs=2).fit(X[part], y[part])
        return fitted.committee_, fitted.decision_function(X), shared.decision_function(X)

    with ThreadPoolExecutor(N_THREADS) as pool:
        results = list(pool.map(fit_and_score, parts * 3))
    for (committee, own, of_shared), expected in zip(results, alone * 3, strict=True):
        assert same(committee, expected.committee_)
        np.testing.assert_array_equal(own, expected.decision_function(X))
        np.testing.assert_array_equal(of_shared, scores)


def test_threads_that_share_a_cascade_change_no_bit():
    committee = SketchLogitBoostClassifier(n_estimators=12, random_state=3).fit(X, y).committee_
    cascade = Cascade.fit(committee, X[600:1200])
    left_with = cascade.class_scores(X)
    with ThreadPoolExecutor(N_THREADS) as pool:
        for scores in pool.map(cascade.class_scores, [X] * 12):
            np.testing.assert_array_equal(scores, left_with)
