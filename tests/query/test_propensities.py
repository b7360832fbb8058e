"""The inclusion probability in a request's message equals the probability of that request."""

from fractions import Fraction

import numpy as np
import pytest
from asking import decide, pool, querier, stream
from slow import slow

from streamboost.query.token_bucket import TokenBudget


@pytest.mark.parametrize("budget", [0.02, 0.1])
def test_a_requests_propensity_is_that_of_rule_or_audit(budget):
    one = querier(budget=budget, selection="quantile_filter")
    requests = decide(one, stream(3000))
    block = one.budget.block
    only_audited = requests.audit & ~requests.selected
    assert ((requests.propensity > 0) & (requests.propensity <= 1)).all()
    assert (requests.propensity[requests.selected] == 1.0).all()  # the threshold decides
    assert (requests.propensity[only_audited] == 1 / block).all()


def test_at_random_a_requests_propensity_is_an_even_share():
    one = querier(budget=0.1, strategy="random", selection="quantile_filter")
    requests = decide(one, stream(3000))
    assert (requests.propensity >= 1 / one.budget.block).all()
    assert (
        requests.propensity <= one.budget.inclusion_probability(3 * one.budget.tokens_per_record)
    ).all()


@pytest.mark.parametrize(
    ("strategy", "budget"), [("margin", 0.05), ("random", 0.1), *slow(("margin", 0.2))]
)
def test_counts_weighted_by_inverse_propensity_are_unbiased(strategy, budget):
    """The number of records, and of those that are wrong, estimated from the requests alone.

    Useful records are wrong more often, so the plain share among the requests is far off.
    """
    rng = np.random.default_rng(17)
    n, runs = 400, 400
    values = rng.random(n)
    wrong = rng.random(n) < values
    counts, wrongs, plain = [], [], []
    for seed in range(runs):
        requests = decide(querier(seed, budget=budget, strategy=strategy, audit=0.3), values)
        positions = np.array([int(i) for i in requests.ids])
        kept = positions >= 200  # long after the first block began
        weights = 1 / requests.propensity[kept] / 200
        counts.append(weights.sum())
        wrongs.append(weights @ wrong[positions[kept]])
        plain.append(wrong[positions[kept]].mean())
    truth = wrong[200:].mean()
    for estimates, expected in [(counts, 1.0), (wrongs, truth)]:
        error = np.std(estimates) / np.sqrt(runs)
        assert error < 0.02
        assert abs(np.mean(estimates) - expected) < 4 * error
    if strategy == "margin":
        assert abs(np.mean(plain) - truth) > 0.15


@pytest.mark.slow
def test_counts_from_a_pool_weighted_by_inverse_propensity_are_unbiased():
    rng = np.random.default_rng(17)
    n, runs, size = 400, 400, 30
    values = rng.random(n)
    wrong = rng.random(n) < values
    wrongs = []
    for seed in range(runs):
        one = pool(seed, window=size, query_batch_size=2, budget=0.1, audit=0.4)
        requests = decide(one, values)
        positions = np.array([int(i) for i in requests.ids])
        # From the first block on, and only records that have left the pool.
        kept = (positions >= 30) & (positions < n - size)
        wrongs.append((wrong[positions[kept]] / requests.propensity[kept]).sum())
    error = np.std(wrongs) / np.sqrt(runs)
    assert abs(np.mean(wrongs) - wrong[30 : n - size].sum()) < 4 * error


@pytest.mark.parametrize("audit", [0.1, 1.0])
@pytest.mark.quick_once
def test_an_audit_falls_on_a_record_as_often_as_its_propensity_says(audit):
    """The place in one block, 10,000 times with fresh numbers."""
    block = querier(budget=0.5, audit=audit, selection="quantile_filter").budget.block
    hits = np.zeros(block)
    for seed in range(10_000):
        budget = TokenBudget(Fraction(1, 2), 20, Fraction(str(audit)))
        generator = np.random.default_rng(seed)
        for i in range(block + 1):
            budget.count_arrivals(generator)
            hits[i - 1] += budget.is_audited
            if budget.is_audited:
                break
    p = 1 / block
    assert np.abs(hits / 10_000 - p).max() < 4.5 * np.sqrt(p * (1 - p) / 10_000)


@pytest.mark.parametrize(
    ("selection", "budget", "at_random"),
    [("quantile_filter", 0.2, True), ("variable_uncertainty", 1.0, False)],
)
@pytest.mark.quick_once
def test_a_rules_decision_comes_out_as_often_as_its_propensity_says(selection, budget, at_random):
    """The same state asked about the same record, 10,000 times with fresh numbers."""
    one = querier(3, budget=budget, selection=selection, audit=0.0)
    decide(one, stream(150))
    state, arrays = one.state()
    hits, chances = 0, set()
    for seed in range(10_000):
        state["draws"] = np.random.default_rng(seed).bit_generator.state
        one.resume(state, arrays)
        requests = decide(one, [0.55], at_random=at_random)
        hits += len(requests)
        chances |= set(requests.propensity.tolist())
    (p,) = chances
    assert 0.05 < p < 0.95
    assert abs(hits / 10_000 - p) < 4 * np.sqrt(p * (1 - p) / 10_000)
