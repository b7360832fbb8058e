from itertools import pairwise

import numpy as np
import pytest
from asking import decide, equal, querier, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.query.config import QueryConfig
from streamboost.query.querier import Querier
from streamboost.query.selection import SELECTIONS

BUDGETS = st.sampled_from([0.01, 0.02, 0.05, 0.1, 0.2, 0.33, 0.5, 1])


@st.composite
def strategies(draw):
    """Settings whose utilities need no committee, with any selection, batch, audit and credit."""
    kept = {
        "budget": draw(BUDGETS),
        "audit": draw(st.sampled_from([0.0, 0.1, 0.4, 1.0])),
        "strategy": draw(st.sampled_from(["margin", "random"])),
        "burst": draw(st.integers(4, 25)),
        "window": draw(st.integers(1, 60)),
    }
    if draw(st.booleans()):
        kept |= {"mode": "pool", "query_batch_size": draw(st.integers(1, kept["burst"] - 2))}
    else:
        kept["selection"] = draw(st.sampled_from(SELECTIONS))
    if draw(st.booleans()):
        initial_credit = draw(st.integers(1, kept["burst"] - 1))
        least = int(3 * initial_credit / QueryConfig(budget=kept["budget"]).budget_share) + 1
        kept |= {
            "initial_credit": initial_credit,
            "stream_length": least + draw(st.integers(0, 200)),
        }
    return QueryConfig(**kept)


BATCHES = st.lists(
    st.tuples(st.integers(0, 60), st.booleans(), st.booleans(), st.integers(0, 5)), max_size=12
)


@settings(max_examples=120, deadline=None)
@given(strategies(), st.integers(0, 9), BATCHES)
def test_requests_stay_within_budget_over_any_stream_delay_and_restart(strategy, seed, batches):
    one = Querier(strategy, np.random.SeedSequence(seed))
    one.set_n_features(1)
    asked, ids, unanswered = [], set(), []
    for size, at_random, restart, answers in batches:
        if restart:
            resumed = Querier(strategy, np.random.SeedSequence(99))
            resumed.resume(*one.state())
            one = resumed
        start = len(asked)
        for i, utility in enumerate(stream(size, seed)):  # one by one, to know when each came
            got = decide(one, [utility], start=start + i, at_random=at_random)
            asked.append(len(got))
            assert not ids & set(got.ids)
            assert ((got.propensity > 0) & (got.propensity <= 1)).all()
            assert (got.audit | got.selected).all()
            ids |= set(got.ids)
            unanswered += got.ids
        one.exclude(unanswered[:answers])
        del unanswered[:answers]
    level = np.concatenate([[0], np.cumsum(asked)]) * strategy.budget_share.denominator
    level = level - np.arange(len(level)) * strategy.budget_share.numerator
    assert level.max() <= strategy.initial_credit * strategy.budget_share.denominator
    assert level[strategy.stream_length or 0 :].max(initial=0) <= 0
    allowed = strategy.burst * strategy.budget_share.denominator
    assert (level - np.minimum.accumulate(level)).max() <= allowed
    assert one.ledger(answered=0, expired=0).requests == sum(asked)


@settings(max_examples=60, deadline=None)
@given(strategies(), st.lists(st.integers(0, 150), max_size=4), st.booleans())
@pytest.mark.slow
def test_answers_do_not_depend_on_how_any_stream_is_cut_or_restarted(strategy, cuts, at_random):
    utility = stream(150)
    whole = Querier(strategy, np.random.SeedSequence(1))
    whole.set_n_features(1)
    expected = decide(whole, utility, at_random=at_random)
    one, parts = Querier(strategy, np.random.SeedSequence(1)), []
    one.set_n_features(1)
    for a, b in pairwise([0, *sorted(cuts), 150]):
        parts.append(decide(one, utility[a:b], start=a, at_random=at_random))
        resumed = Querier(strategy, np.random.SeedSequence(2))
        resumed.resume(*one.state())
        one = resumed
    assert [i for part in parts for i in part.ids] == expected.ids
    for name in ("utility", "propensity", "audit", "selected"):
        together = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(together, getattr(expected, name))


@pytest.mark.parametrize("budget", [0.02, 0.2])
def test_a_resumed_querier_goes_on_as_if_never_stopped(budget):
    one, other = querier(1, budget=budget), querier(2, budget=budget)
    decide(one, stream(250))
    other.resume(*one.state())
    equal(decide(one, stream(400, 8)), decide(other, stream(400, 8)))
    assert one.state()[0] == other.state()[0]


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("strategy", ["margin", "random"])
def test_the_budget_is_used_up(budget, strategy):
    one = querier(budget=budget, strategy=strategy)
    n = 4000
    assert len(decide(one, stream(n))) > 0.93 * budget * n - 3


@pytest.mark.parametrize("budget", [0.05, 0.1])
def test_the_most_useful_records_are_asked_for(budget):
    requests = decide(querier(budget=budget, selection="quantile_filter"), stream(3000))
    assert np.median(requests.utility[requests.selected]) > 1 - 2 * budget
    assert 0.3 < np.mean(requests.utility[requests.audit & ~requests.selected]) < 0.7


def test_at_random_every_utility_is_asked_for_alike():
    requests = decide(querier(budget=0.2, strategy="random"), stream(3000))
    assert abs(requests.utility.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(requests))


def test_the_cold_start_asks_at_random():
    requests = decide(querier(budget=0.2), stream(3000), at_random=True)
    assert abs(requests.utility.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(requests))


def test_savings_are_spent_at_no_more_than_three_times_the_earnings():
    one = querier(budget=0.1, selection="variable_uncertainty")
    decide(one, np.full(1000, -1e12))  # below any threshold: the selection asks for none of them
    assert one.budget.tokens > 18
    at_most = 3 * one.budget.tokens_per_record
    requests = decide(one, stream(30), at_random=True)
    assert np.isclose(requests.propensity.max(), one.budget.inclusion_probability(at_most))
