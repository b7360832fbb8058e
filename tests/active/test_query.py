from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.active.budget import Budget
from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy
from streamboost.active.rules import RULES
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": "batch"}, "query mode 'batch' is not known: choose one of stream, pool"),
        ({"rule": "fixed"}, "query rule 'fixed' is not known"),
        ({"mode": "pool", "rule": "quantile_filter"}, "leave the rule out"),
        ({"mode": "pool", "round_size": 0}, "query round_size is 0"),
        ({"mode": "pool", "round_size": 19}, "query burst is 20: .* at least 21, as a round"),
        ({"loan": 5}, "expected_records is not given"),
        ({"loan": -1}, "query loan is -1"),
        ({"loan": 5, "expected_records": 299}, "give at most 4, a third"),
        ({"loan": 20, "expected_records": 9999}, "query burst is 20: .* at least 21, as the loan"),
        ({"expected_records": 0}, "query expected_records is 0"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_with_what_would(wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        QueryStrategy(**wrong)


@st.composite
def strategies(draw):
    """Any strategy whose utilities need no committee: rules, rounds, audits and loans."""
    kept = {
        "budget": draw(BUDGETS),
        "audit": draw(st.sampled_from([0.0, 0.1, 0.4, 1.0])),
        "utility": draw(st.sampled_from(["margin", "random"])),
        "burst": draw(st.integers(4, 25)),
        "window": draw(st.integers(1, 60)),
    }
    if draw(st.booleans()):
        kept |= {"mode": "pool", "round_size": draw(st.integers(1, kept["burst"] - 2))}
    else:
        kept["rule"] = draw(st.sampled_from(RULES))
    if draw(st.booleans()):
        loan = draw(st.integers(1, kept["burst"] - 1))
        least = int(3 * loan / QueryStrategy(budget=kept["budget"]).share) + 1
        kept |= {"loan": loan, "expected_records": least + draw(st.integers(0, 200))}
    return QueryStrategy(**kept)


BATCHES = st.lists(
    st.tuples(st.integers(0, 60), st.booleans(), st.booleans(), st.integers(0, 5)), max_size=12
)


@settings(max_examples=120, deadline=None)
@given(strategies(), st.integers(0, 9), BATCHES)
def test_requests_stay_within_budget_over_any_stream_delay_and_restart(strategy, seed, batches):
    one = Querier(strategy, np.random.SeedSequence(seed))
    one.widen(1)
    asked, ids, unanswered = [], set(), []
    for size, cold, restart, answers in batches:
        if restart:
            resumed = Querier(strategy, np.random.SeedSequence(99))
            resumed.resume(*one.state())
            one = resumed
        start = len(asked)
        for i, utility in enumerate(stream(size, seed)):  # one by one, to know when each came
            got = decide(one, [utility], start=start + i, cold=cold)
            asked.append(len(got))
            assert not ids & set(got.ids)
            assert ((got.propensity > 0) & (got.propensity <= 1)).all()
            assert (got.audit | got.rule).all()
            ids |= set(got.ids)
            unanswered += got.ids
        one.known(unanswered[:answers])
        del unanswered[:answers]
    level = np.concatenate([[0], np.cumsum(asked)]) * strategy.share.denominator
    level = level - np.arange(len(level)) * strategy.share.numerator
    assert level.max() <= strategy.loan * strategy.share.denominator
    assert level[strategy.expected_records or 0 :].max(initial=0) <= 0
    allowed = strategy.burst * strategy.share.denominator
    assert (level - np.minimum.accumulate(level)).max() <= allowed
    assert one.ledger(answered=0, expired=0).requests == sum(asked)


@settings(max_examples=60, deadline=None)
@given(strategies(), st.lists(st.integers(0, 150), max_size=4), st.booleans())
def test_answers_do_not_depend_on_how_any_stream_is_cut_or_restarted(strategy, cuts, cold):
    utility = stream(150)
    whole = Querier(strategy, np.random.SeedSequence(1))
    whole.widen(1)
    expected = decide(whole, utility, cold=cold)
    one, parts = Querier(strategy, np.random.SeedSequence(1)), []
    one.widen(1)
    for a, b in pairwise([0, *sorted(cuts), 150]):
        parts.append(decide(one, utility[a:b], start=a, cold=cold))
        resumed = Querier(strategy, np.random.SeedSequence(2))
        resumed.resume(*one.state())
        one = resumed
    assert [i for part in parts for i in part.ids] == expected.ids
    for name in ("utility", "propensity", "audit", "rule"):
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


def pool(seed=0, **settings):
    chosen = {"mode": "pool", "window": 40, "round_size": 4, "budget": 0.1, "audit": 0.0}
    return querier(seed, **(chosen | settings))


def test_a_pool_asks_for_the_best_of_the_newest_records_once_it_is_full():
    utility = stream(60)
    requests = decide(pool(), utility)
    best = np.argsort(utility[:40])[-4:]
    assert sorted(requests.ids) == sorted(str(i) for i in best)
    assert requests.rule.all()
    assert (requests.propensity == 1).all()


def test_a_pool_asks_for_rounds_as_often_as_the_budget_pays_for_them():
    one = pool(window=20)
    assert len(decide(one, stream(2000))) == 200


def test_a_cold_pool_asks_at_random():
    requests = decide(pool(), stream(60), cold=True)
    np.testing.assert_array_equal(requests.propensity, [0.1] * 4)


def test_a_standing_pool_is_asked_in_rounds_without_a_new_record():
    one = pool(budget=0.25)
    utility = stream(40)
    first = decide(one, utility)
    more = [one.ask(4, cold=False) for _ in range(3)]
    asked = [*first.ids, *(i for round in more for i in round.ids)]
    assert asked[:4] == first.ids
    assert set(asked) == {str(i) for i in np.argsort(utility)[-10:]}
    assert [len(round) for round in more] == [4, 2, 0]


def test_a_round_needs_a_pool_and_a_size():
    with pytest.raises(ConfigurationError, match='choose mode "pool"'):
        querier().ask(5, cold=False)
    with pytest.raises(ConfigurationError, match="n, the requests of a round, is 0"):
        pool().ask(0, cold=False)


def test_in_a_pool_audits_fall_on_records_that_leave_it_whether_or_not_they_were_useful():
    one = pool(budget=0.5, audit=1.0, burst=20)
    utility = stream(2000)
    requests = decide(one, utility)
    places = np.array([int(i) for i in requests.ids])[requests.audit]
    assert len(places) == pytest.approx(0.5 * 1960, abs=3)
    assert (requests.propensity == 1 / one.budget.block).all()
    assert abs(requests.utility.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(requests))


def test_the_pools_rounds_do_not_depend_on_where_audits_fall():
    """Also when the label of every audited record is known at once."""
    chosen = []
    for seed in (1, 2):
        one = pool(3, audit=0.5, budget=0.2)
        one._places = np.random.default_rng(seed)
        asked = []
        for i, utility in enumerate(stream(600)):
            got = decide(one, [utility], start=i)
            one.known(got.ids)
            asked += [id for id, rule in zip(got.ids, got.rule, strict=True) if rule]
        chosen.append(asked)
    assert len(chosen[0]) > 40
    assert chosen[0] == chosen[1]


def test_counts_from_a_pool_weighted_by_inverse_propensity_are_unbiased():
    rng = np.random.default_rng(17)
    n, runs, size = 400, 400, 30
    values = rng.random(n)
    wrong = rng.random(n) < values
    wrongs = []
    for seed in range(runs):
        one = pool(seed, window=size, round_size=2, budget=0.1, audit=0.4)
        requests = decide(one, values)
        positions = np.array([int(i) for i in requests.ids])
        # From the first block on, and only records that have left the pool.
        kept = (positions >= 30) & (positions < n - size)
        wrongs.append((wrong[positions[kept]] / requests.propensity[kept]).sum())
    error = np.std(wrongs) / np.sqrt(runs)
    assert abs(np.mean(wrongs) - wrong[30 : n - size].sum()) < 4 * error


@pytest.mark.parametrize("audit", [0.1, 1.0])
def test_an_audit_falls_on_a_record_as_often_as_its_propensity_says(audit):
    """The place in one block, 10,000 times with fresh numbers."""
    block = querier(budget=0.5, audit=audit).budget.block
    hits = np.zeros(block)
    for seed in range(10_000):
        budget = Budget(Fraction(1, 2), 20, Fraction(str(audit)))
        generator = np.random.default_rng(seed)
        for i in range(block + 1):
            budget.arrive(generator)
            hits[i - 1] += budget.audited
            if budget.audited:
                break
    p = 1 / block
    assert np.abs(hits / 10_000 - p).max() < 4.5 * np.sqrt(p * (1 - p) / 10_000)


@pytest.mark.parametrize(
    ("rule", "budget", "cold"), [("pace", 0.2, True), ("variable_uncertainty", 1.0, False)]
)
def test_a_rules_decision_comes_out_as_often_as_its_propensity_says(rule, budget, cold):
    """The same state asked about the same record, 10,000 times with fresh numbers."""
    one = querier(3, budget=budget, rule=rule, audit=0.0)
    decide(one, stream(150))
    state, arrays = one.state()
    hits, chances = 0, set()
    for seed in range(10_000):
        state["draws"] = np.random.default_rng(seed).bit_generator.state
        one.resume(state, arrays)
        requests = decide(one, [0.55], cold=cold)
        hits += len(requests)
        chances |= set(requests.propensity.tolist())
    (p,) = chances
    assert 0.05 < p < 0.95
    assert abs(hits / 10_000 - p) < 4 * np.sqrt(p * (1 - p) / 10_000)
