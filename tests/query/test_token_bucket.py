from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.query.token_bucket import TokenBudget

SHARES = st.fractions(min_value=Fraction(1, 60), max_value=1, max_denominator=1000)
AUDITS = st.sampled_from(
    [Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2), Fraction(1)]
)
BURSTS = st.integers(2, 30)


def spend(budget, seed, wishes):
    """Let every record arrive; the selection wants what `wishes` says where it can pay."""
    places = np.random.default_rng(seed)
    answers = []
    for wish in wishes:
        budget.count_arrivals(places)
        wanted = bool(wish and budget.n_affordable)
        answers.append((wanted, *budget.charge_record(wanted)))
    return np.array(answers, dtype=bool).reshape(-1, 3)


def assert_within(share, burst, asked):
    """Both inequalities, in whole numbers: requests over (i, j] against share * (j - i)."""
    level = np.concatenate([[0], np.cumsum(asked)]) * share.denominator
    level = level - np.arange(len(level)) * share.numerator
    assert level.max() <= 0
    rise = level - np.minimum.accumulate(level)
    assert rise.max() <= burst * share.denominator


@given(SHARES, BURSTS, AUDITS, st.integers(0, 99), st.lists(st.booleans(), max_size=400))
def test_requests_stay_within_budget_and_burst(share, burst, audit, seed, wishes):
    answers = spend(TokenBudget(share, burst, audit), seed, wishes)
    assert_within(share, burst, answers[:, 1])


@given(SHARES, BURSTS, AUDITS, st.integers(0, 99), st.integers(0, 300), st.integers(1, 200))
def test_a_greedy_rule_after_any_pause_stays_within_budget_and_burst(
    share, burst, audit, seed, pause, greed
):
    wishes = [False] * pause + [True] * greed
    answers = spend(TokenBudget(share, burst, audit), seed, wishes)
    assert_within(share, burst, answers[:, 1])


@given(SHARES, BURSTS, st.integers(0, 99), st.lists(st.booleans(), max_size=400), st.data())
def test_every_block_has_exactly_one_audit(share, burst, seed, wishes, data):
    audit = data.draw(AUDITS.filter(bool))
    answers = spend(TokenBudget(share, burst, audit), seed, wishes)
    first, block = ceil(1 / share) - 1, ceil(1 / (audit * share))
    audited = answers[:, 2]
    assert not audited[:first].any()
    whole = (len(wishes) - first) // block
    for k in range(max(0, whole)):
        assert audited[first + k * block : first + (k + 1) * block].sum() == 1


@given(SHARES, BURSTS, AUDITS, st.integers(0, 99), st.integers(100, 199))
def test_what_the_rule_may_spend_does_not_depend_on_where_audits_fall(
    share, burst, audit, seed, other
):
    wishes = np.random.default_rng(seed).random(300) < 0.5
    first = spend(TokenBudget(share, burst, audit), seed, wishes)
    second = spend(TokenBudget(share, burst, audit), other, wishes)
    np.testing.assert_array_equal(first[:, 0], second[:, 0])


@given(SHARES, BURSTS, AUDITS, st.lists(st.booleans(), min_size=1, max_size=200), st.data())
def test_a_resumed_budget_goes_on_as_if_never_stopped(share, burst, audit, wishes, data):
    places = np.random.default_rng(3)
    budget = TokenBudget(share, burst, audit)
    stop = data.draw(st.integers(0, len(wishes)))
    for i, wish in enumerate(wishes):
        if i == stop:
            resumed = TokenBudget(share, burst, audit)
            resumed.resume(budget.state())
            twin = np.random.default_rng(0)
            twin.bit_generator.state = places.bit_generator.state
        budget.count_arrivals(places)
        answer = budget.charge_record(wish and budget.n_affordable)
        if i >= stop:
            resumed.count_arrivals(twin)
            assert resumed.charge_record(wish and resumed.n_affordable) == answer
            assert resumed.state() == budget.state()


@given(SHARES, AUDITS, st.integers(0, 99), st.integers(0, 400), st.floats(0, 1), st.data())
@pytest.mark.slow
def test_a_loan_is_repaid_by_the_expected_end_and_bursts_hold(
    share, audit, seed, expected, appetite, data
):
    expected += ceil(3 / share)
    initial_credit = data.draw(st.integers(1, int(share * expected / 3)))
    burst = initial_credit + bool(audit) + data.draw(st.integers(1, 20))
    n = data.draw(st.integers(0, 2 * expected))
    wishes = np.random.default_rng(seed).random(n) < appetite
    asked = spend(TokenBudget(share, burst, audit, initial_credit, expected), seed, wishes)[:, 1]
    level = np.concatenate([[0], np.cumsum(asked)]) * share.denominator
    level = level - np.arange(n + 1) * share.numerator
    assert level.max() <= initial_credit * share.denominator
    assert level[expected:].max(initial=0) <= 0
    assert (level - np.minimum.accumulate(level)).max() <= burst * share.denominator


def test_a_loan_is_there_from_the_first_record_on():
    budget = TokenBudget(Fraction(1, 100), 20, Fraction(0), initial_credit=10, stream_length=3000)
    assert spend(budget, 0, [True] * 10)[:, 1].all()
    assert not spend(budget, 0, [True] * 100)[:, 1].any()


def test_a_loan_lowers_what_is_earned_until_it_is_repaid():
    budget = TokenBudget(Fraction(1, 10), 50, Fraction(0), initial_credit=30, stream_length=1000)
    asked = spend(budget, 0, [True] * 2000)[:, 1]
    assert asked[:1000].sum() == 100
    assert asked[1000:].sum() == 100
    assert asked[500:1000].sum() == 35


def test_with_a_loan_every_block_still_has_its_audit():
    budget = TokenBudget(Fraction(1, 10), 40, Fraction(1), initial_credit=30, stream_length=1000)
    answers = spend(budget, 0, [True] * 1500)
    first = ceil(1 / Fraction(1, 10)) - 1
    audited = answers[first:, 2]
    whole = len(audited) // budget.block * budget.block
    assert (audited[:whole].reshape(-1, budget.block).sum(axis=1) == 1).all()


def test_audited_places_are_spread_evenly_over_the_block():
    budget = TokenBudget(
        Fraction(1, 2), 2, Fraction(1, 2)
    )  # blocks of four, from the second record
    answers = spend(budget, 11, [False] * 8001)
    counts = np.bincount(np.flatnonzero(answers[1:, 2]) % 4, minlength=4)
    assert counts.sum() == 2000
    assert np.abs(counts - 500).max() < 4 * np.sqrt(2000 * 0.25 * 0.75)


def test_without_audits_a_full_budget_buys_every_record():
    assert spend(TokenBudget(Fraction(1), 1, Fraction(0)), 0, [True] * 50)[:, 1].all()


def test_audits_too_rare_to_be_counted_never_take_place():
    answers = spend(TokenBudget(Fraction(1, 2), 20, Fraction(1, 10**300)), 0, [True] * 200)
    assert not answers[:, 2].any()
    assert answers[:, 1].sum() >= 98


def test_tokens_count_what_is_saved_and_what_is_set_apart():
    budget = TokenBudget(Fraction(1, 10), 20, Fraction(1, 10))
    spend(budget, 0, [False] * 9)
    assert budget.tokens == 0.9
    budget.count_arrivals(np.random.default_rng(0))  # first block: one token is reserved
    assert (budget.tokens, budget.n_affordable) == (1.0, 0)


def test_the_chance_of_either_asking_is_one_minus_neither():
    budget = TokenBudget(Fraction(1, 10), 20, Fraction(1, 10))
    assert budget.inclusion_probability(0.3) == 0.3
    spend(budget, 0, [False] * 10)
    assert budget.inclusion_probability(0.0) == 0.01
    assert budget.inclusion_probability(1.0) == 1.0
    assert abs(budget.inclusion_probability(0.3) - (1 - 0.7 * 0.99)) < 1e-15
