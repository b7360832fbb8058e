"""Sampling with an inclusion probability per record, and a budget that holds at every record."""

from fractions import Fraction

import numpy as np
import pytest
from asking import decide, querier, stream

from streamboost.query.sampler import OnePerStratumSampler, SizeMeasure


def strata(share="0.05", burst=20, audit="0.1", **more):
    return OnePerStratumSampler(Fraction(share), burst, Fraction(audit), **more)


def ask(one, density, draws):
    asked, chances = one.sample(np.asarray(density, dtype=float), np.asarray(draws, dtype=float))
    return asked, chances


@pytest.mark.parametrize("share", ["0.02", "0.2", "0.7"])
def test_there_is_one_request_in_every_stratum_that_is_behind(share):
    rng = np.random.default_rng(3)
    one, n = strata(share), 5_000
    asked, chances = ask(one, 2 * rng.random(n), rng.random(n))
    spent = np.floor(one.state()["spent"])
    assert spent <= len(asked) <= spent + 1
    assert chances.sum() == pytest.approx(one.state()["spent"])
    assert len(asked) > 0.97 * n * float(Fraction(share)) - 3


@pytest.mark.parametrize("share", ["0.05", "0.3", "0.9"])
@pytest.mark.slow
def test_records_are_asked_for_as_often_as_their_chance_says(share):
    """The same twelve records behind the same hundred, 20,000 times with fresh numbers."""
    rng = np.random.default_rng(5)
    before, own = rng.exponential(size=100), rng.exponential(size=12)
    runs = 20_000
    hits = np.zeros(12)
    for draws in rng.random((runs, 112)):
        one = strata(share)
        ask(one, before, draws[:100])
        asked, chances = ask(one, own, draws[100:])
        hits[asked] += 1
    assert np.abs(hits / runs - chances).max() < 5 * np.sqrt(0.25 / runs)
    assert (chances > 0).all()


def test_every_label_is_asked_for_where_the_budget_is_all():
    one = strata("1")
    asked, chances = ask(one, np.zeros(50), np.random.default_rng(1).random(50))
    assert asked == list(range(50))
    assert (chances == 1).all()


def test_no_chance_is_0_while_a_token_is_free():
    one = querier(budget=0.05)
    requests = decide(one, stream(4_000))
    free = np.arange(4_000) >= 21
    assert (requests.inclusion_probabilities[free] > 0).all()
    assert (requests.inclusion_probabilities[free] >= 0.1 * 0.05).mean() > 0.99


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.1, 0.2, 0.5, 0.9])
def test_the_budget_is_spent_but_for_three_tokens_and_two_in_a_hundred(budget):
    n = 6_000
    requests = decide(querier(budget=budget), stream(n))
    assert 0.98 * budget * n - 3 < len(requests) <= budget * n


def test_useful_records_and_doubtful_ones_have_the_better_chances():
    one = querier(2, budget=0.1)
    utility, sure = stream(4_000), np.random.default_rng(8).uniform(0.5, 1.0, 4_000)
    X = utility.astype(np.float32)[:, None]
    chances = one.select_requests(
        [str(i) for i in range(4_000)], X, utility, sure, at_random=False
    ).inclusion_probabilities
    late = slice(500, None)
    top, doubtful = utility[late] > 0.9, sure[late] < 0.6
    assert chances[late][top].mean() > 3.5 * chances[late][~top].mean()
    assert chances[late][doubtful & ~top].mean() > 1.15 * chances[late][~doubtful & ~top].mean()


def test_the_mean_of_densities_is_one():
    ranks = np.arange(1_000) / 1_000
    sure = np.random.default_rng(4).permutation(np.linspace(0.5, 1.0, 1_000))
    density = SizeMeasure(0.05).relative_probabilities(
        np.column_stack([ranks, ranks + 0.001]), sure
    )
    assert density.mean() == pytest.approx(1.0, abs=0.05)


def test_records_that_tie_have_the_same_density():
    ranks = np.array([[0.0, 0.5], [0.0, 0.5], [0.5, 1.0]])
    density = SizeMeasure(0.05).relative_probabilities(ranks, None)
    assert density[0] == density[1] > density[2]
    assert density[[0, 2]].mean() == pytest.approx(1.0)


def test_doubts_go_by_their_mean_over_the_newest_500_however_many_arrive_together():
    sure = np.random.default_rng(4).random(1_200)
    whole, parts, mean, alike = SizeMeasure(0.05), SizeMeasure(0.05), 0.0, np.full((1_200, 2), 0.5)
    alike[:, 1] += 0.001
    found = whole.relative_probabilities(alike, sure)
    cut = [
        parts.relative_probabilities(alike[i : i + 7], sure[i : i + 7]) for i in range(0, 1_200, 7)
    ]
    np.testing.assert_array_equal(found, np.concatenate(cut))
    assert parts.state() == whole.state()
    doubt, by_rank = (
        np.sqrt(sure * (1.0 - sure)),
        SizeMeasure(0.05).relative_probabilities(alike[:1], None)[0],
    )
    for n, one in enumerate(doubt):
        mean += (one - mean) / min(n + 1, 500)
        assert found[n] == pytest.approx(0.5 * one / mean + 0.5 * by_rank)


def test_a_loan_is_spent_first_and_repaid_by_the_end():
    one, n = querier(budget=0.05, initial_credit=10, stream_length=1_000), 1_000
    asked = [int(i) for i in decide(one, stream(n), at_random=True).ids]
    assert len([i for i in asked if i < 100]) > 8
    assert len(asked) <= 0.05 * n


def test_what_is_set_apart_for_asking_again_is_there_when_it_falls_due():
    rng = np.random.default_rng(2)
    one, n, burst = strata("0.1", relabel_share=Fraction(1, 5)), 4_000, 20
    bought = []
    for density, draw in rng.random((n, 2)):
        asked, _ = ask(one, [2 * density], [draw])
        again = one.n_due_relabels if rng.random() < 0.05 else 0
        one.charge_relabels(again)
        bought.append(len(asked) + again)
    total = np.cumsum(bought)
    records = np.arange(1, n + 1)
    assert (total <= 0.1 * records + 1e-9).all()
    level = np.concatenate([[0], total - 0.1 * records])
    assert (level - np.minimum.accumulate(level)).max() <= burst
    assert one.again > 0.9 * 0.02 * n
    assert one.requests == total[-1] > 0.96 * 0.1 * n


def test_where_every_label_could_be_bought_asking_again_leaves_some_unasked():
    rng = np.random.default_rng(6)
    one, n = strata("1", relabel_share=Fraction(1, 5)), 2_000
    total = []
    for density, draw in rng.random((n, 2)):
        asked, _ = ask(one, [2 * density], [draw])
        again = one.n_due_relabels
        one.charge_relabels(again)
        total.append(len(asked) + again)
    assert (np.cumsum(total) <= np.arange(1, n + 1)).all()
    assert one.again > 0.19 * n
