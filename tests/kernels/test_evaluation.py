import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.evaluation.sufficient_stats import (
    MEAN_COLUMNS,
    PREDICTORS,
    EvaluatedRecords,
    SufficientStats,
)
from tests import naive_tally


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 30), K=st.integers(1, 6), some=st.booleans())
def test_every_sum_is_the_slow_twins(seed, n, K, some):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.5), n)
    P[rng.random(n) < 0.1] = 0.0
    predicted = rng.integers(-1, K, (n, len(PREDICTORS)))
    truth = np.where(rng.random(n) < 0.5, rng.integers(0, K, n), -1)
    paid = rng.random((n, K))
    paid[rng.random(n) < 0.3] = np.nan
    judged = EvaluatedRecords(P, predicted, truth, 20 * rng.random(n), paid if some else None)
    tally = SufficientStats(K)
    tally.add(judged)
    wanted = naive_tally.sums(judged)
    assert wanted.keys() == tally.sums.keys()
    for name, total in wanted.items():
        np.testing.assert_allclose(tally.sums[name], total, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(tally.means, naive_tally.means(judged), atol=1e-9)
    costs = naive_tally.costs(judged) if some else np.zeros((1, len(MEAN_COLUMNS)))
    np.testing.assert_allclose(tally.cost, costs, atol=1e-9)


def test_records_of_before_the_first_class_are_counted():
    tally = SufficientStats()
    tally.add(
        EvaluatedRecords(
            np.zeros((4, 0)), np.full((4, len(PREDICTORS)), -1), np.full(4, -1), np.full(4, 9.0)
        )
    )
    assert tally.n_records == tally.n_unlabelled == 4
