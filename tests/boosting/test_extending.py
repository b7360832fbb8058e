"""What `extend` draws, what it refuses and what it warns of, whatever the family."""

import families
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError


@pytest.fixture(params=families.ESTIMATORS, ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=1, random_state=0)


def copies_of_one_column(n=120, d=40):
    """Rows whose columns are all alike, so that a split tells which of them were offered."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 1)).astype(np.float32)
    return x.repeat(d, axis=1), (x[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)


def test_each_extension_of_a_seeded_estimator_draws_anew(estimator):
    X, y = copies_of_one_column()
    estimator.set_params(max_features=0.05).fit(X, y)
    for _ in range(8):
        estimator.extend(X, y, n_estimators=1)
    nodes = estimator.committee_.learners.nodes
    assert len(set(nodes["feature"][nodes["feature"] >= 0].tolist())) > 2


def test_the_same_fit_and_extensions_give_the_same_committee(estimator):
    X, y = copies_of_one_column()
    estimator.set_params(max_features=0.05, subsample=0.5)
    one, two = (
        clone(estimator).fit(X, y).extend(X, y, n_estimators=2).extend(X[::2], y[::2])
        for _ in range(2)
    )
    arrays = two.committee_.to_arrays()
    for name, array in one.committee_.to_arrays().items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize("rounds", [-5, 0, 2.5, "ten"])
def test_rounds_that_cannot_be_added_are_refused_by_name(estimator, rounds):
    X, y = copies_of_one_column()
    estimator.fit(X, y)
    before = estimator.committee_
    with pytest.raises(InvalidParameterError, match=rf"'n_estimators'.*\.extend.*Got {rounds!r}"):
        estimator.extend(X, y, n_estimators=rounds)
    with pytest.raises(InvalidParameterError, match="'n_estimators'"):
        estimator.set_params(n_estimators=rounds).extend(X, y)
    assert estimator.committee_ is before
