from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy
from streamboost.errors import ConfigurationError

BUDGETS = st.sampled_from([0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 1])


def querier(seed=0, **settings):
    one = Querier(QueryStrategy(**settings), np.random.SeedSequence(seed))
    one.widen(1)
    return one


def decide(one, utility, *, start=0, cold=False):
    X = np.asarray(utility, dtype=np.float32)[:, None]
    ids = [str(start + i) for i in range(len(X))]
    return one.decide(ids, X, np.asarray(utility, dtype=float), cold=cold)


def stream(n, seed=5):
    return np.random.default_rng(seed).random(n)


def equal(first, second):
    assert first.ids == second.ids
    for name in ("utility", "propensity", "audit", "rule"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize(
    "wrong",
    [
        {"utility": "entropie"},
        {"budget": 0.0},
        {"budget": 1.5},
        {"budget": float("nan")},
        {"budget": True},
        {"budget": 10**400},
        {"audit": 10**400},
        {"audit": -0.1},
        {"audit": 1.1},
        {"burst": 1},
        {"burst": 2.5},
        {"window": 0},
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=name):
        QueryStrategy(**wrong)


def test_the_budget_is_the_decimal_it_is_written_as():
    assert QueryStrategy(budget=0.1).share == Fraction(1, 10)
    assert QueryStrategy(budget=np.float64(0.07)).share == Fraction(7, 100)
    assert QueryStrategy(budget=1e-05).share == Fraction(1, 100_000)


def test_utility_falls_as_the_margin_grows_and_is_finite_on_ties():
    margins = np.array([0.0, 1.0, 3.0])
    np.testing.assert_array_equal(QueryStrategy().measure(margins), [1.0, 0.5, 0.25])
    np.testing.assert_array_equal(QueryStrategy(utility="random").measure(margins), [1, 1, 1])


@settings(max_examples=40)
@given(
    BUDGETS,
    st.sampled_from(["margin", "random"]),
    st.integers(2, 25),
    st.sampled_from([0.0, 0.1, 0.4, 1.0]),
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.booleans()), max_size=12),
)
def test_requests_stay_within_budget_over_any_stream_and_restart(
    budget, utility, burst, audit, seed, batches
):
    one = querier(seed, budget=budget, utility=utility, burst=burst, audit=audit)
    asked, start = [], 0
    for size, cold, restart in batches:
        if restart:
            resumed = querier(99, budget=budget, utility=utility, burst=burst, audit=audit)
            resumed.resume(*one.state())
            one = resumed
        got = {int(i) for i in decide(one, stream(size, seed), start=start, cold=cold).ids}
        asked += [start + i in got for i in range(size)]
        start += size
    share = one.strategy.share
    level = np.concatenate([[0], np.cumsum(asked)]) * share.denominator
    level = level - np.arange(len(level)) * share.numerator
    assert level.max() <= 0
    assert (level - np.minimum.accumulate(level)).max() <= burst * share.denominator
    assert one.ledger(answered=0, expired=0).requests == sum(asked)


@settings(max_examples=30)
@given(BUDGETS, st.lists(st.integers(0, 300), max_size=4), st.booleans())
def test_answers_do_not_depend_on_how_the_stream_is_cut(budget, cuts, cold):
    utility = stream(300)
    whole = decide(querier(budget=budget), utility, cold=cold)
    one, edges = querier(budget=budget), [0, *sorted(cuts), 300]
    parts = [decide(one, utility[a:b], start=a, cold=cold) for a, b in pairwise(edges)]
    assert [i for part in parts for i in part.ids] == whole.ids
    for name in ("utility", "propensity", "audit", "rule"):
        together = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(together, getattr(whole, name))


@pytest.mark.parametrize("budget", [0.02, 0.2])
def test_a_resumed_querier_goes_on_as_if_never_stopped(budget):
    one, other = querier(1, budget=budget), querier(2, budget=budget)
    decide(one, stream(250))
    other.resume(*one.state())
    equal(decide(one, stream(400, 8)), decide(other, stream(400, 8)))
    assert one.state()[0] == other.state()[0]


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("utility", ["margin", "random"])
def test_the_budget_is_used_up(budget, utility):
    one = querier(budget=budget, utility=utility)
    n = 4000
    assert len(decide(one, stream(n))) > 0.93 * budget * n - 3


@pytest.mark.parametrize("budget", [0.05, 0.1])
def test_the_most_useful_records_are_asked_for(budget):
    requests = decide(querier(budget=budget), stream(3000))
    assert np.median(requests.utility[requests.rule]) > 1 - 2 * budget
    assert 0.3 < np.mean(requests.utility[requests.audit & ~requests.rule]) < 0.7


def test_at_random_every_utility_is_asked_for_alike():
    requests = decide(querier(budget=0.2, utility="random"), stream(3000))
    assert abs(requests.utility.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(requests))


def test_the_cold_start_asks_at_random():
    requests = decide(querier(budget=0.2), stream(3000), cold=True)
    assert abs(requests.utility.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(requests))


def test_records_that_tie_are_asked_for_alike():
    """Half the records tie at the top, twice as many as the budget allows."""
    requests = decide(querier(budget=0.25, audit=0.0), np.arange(4000) % 2)
    positions = np.array([int(i) for i in requests.ids])
    assert (positions % 2 == 1).mean() > 0.95
    assert np.abs(np.bincount(positions * 4 // 4000) - len(requests) / 4).max() < 40


@pytest.mark.parametrize("budget", [0.02, 0.1])
def test_a_requests_propensity_is_that_of_rule_or_audit(budget):
    one = querier(budget=budget)
    requests = decide(one, stream(3000))
    block = one.budget.block
    only_audited = requests.audit & ~requests.rule
    assert ((requests.propensity > 0) & (requests.propensity <= 1)).all()
    assert (requests.propensity >= 1 / block).all()
    if budget > 0.05:  # the rank decides but for the record on the edge
        sure = np.isin(requests.propensity, [1.0, 1 / block])
        assert sure.mean() > 0.8
        assert (requests.propensity[only_audited] == 1 / block).mean() > 0.9


def test_at_random_a_requests_propensity_follows_the_pace():
    one = querier(budget=0.1, utility="random")
    requests = decide(one, stream(3000))
    assert (requests.propensity >= 1 / one.budget.block).all()
    assert (requests.propensity <= one.budget.combine(3 * one.budget.rule_share)).all()


def test_savings_are_spent_at_no_more_than_three_times_the_pace():
    one = querier(budget=0.1)
    decide(one, -np.arange(1000.0))  # ever less useful: the rule asks for none of them
    assert one.budget.tokens > 18
    at_most = 3 * one.budget.rule_share
    requests = decide(one, stream(30), cold=True)
    assert np.isclose(requests.propensity.max(), one.budget.combine(at_most))


def test_small_budgets_draw_by_rank_and_larger_ones_cut():
    drawn = decide(querier(budget=0.05, audit=0.0), stream(3000)).propensity
    cut = decide(querier(budget=0.06, audit=0.0), stream(3000)).propensity
    assert (drawn < 1).mean() > 0.9
    assert (cut == 1).mean() > 0.8


@pytest.mark.parametrize(
    ("utility", "budget"), [("margin", 0.05), ("margin", 0.2), ("random", 0.1)]
)
def test_counts_weighted_by_inverse_propensity_are_unbiased(utility, budget):
    """The number of records, and of those that are wrong, estimated from the requests alone.

    Useful records are wrong more often, so the plain share among the requests is far off.
    """
    rng = np.random.default_rng(17)
    n, runs = 400, 400
    values = rng.random(n)
    wrong = rng.random(n) < values
    counts, wrongs, plain = [], [], []
    for seed in range(runs):
        requests = decide(querier(seed, budget=budget, utility=utility, audit=0.3), values)
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
    if utility == "margin":
        assert abs(np.mean(plain) - truth) > 0.15


@pytest.mark.parametrize("budget", [0.05, 0.3])
def test_a_drawn_decision_comes_out_as_often_as_its_propensity_says(budget):
    """The same state asked about the same record, 10,000 times with fresh numbers."""
    one = querier(3, budget=budget)
    decide(one, stream(150))
    state, arrays = one.state()
    edge = np.quantile(stream(150), 1 - budget)
    hits, chances = 0, set()
    for seed in range(10_000):
        state["draws"] = np.random.default_rng(seed).bit_generator.state
        one = querier(3, budget=budget, window=200)
        one.resume(state, arrays)
        one.budget.arrive(one._places)
        p = one.probability(float(edge), ranked=True)
        chances.add(p)
        hits += one._draws.random() < p
    (p,) = chances
    assert abs(hits / 10_000 - p) < 4 * np.sqrt(max(p * (1 - p), 1e-4) / 10_000)
