from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from streamboost.query.selection import EvenSpending, QuantileFilter, VariableUncertainty
from streamboost.query.token_bucket import TokenBudget
from streamboost.query.window import UtilityWindow


def window(utilities):
    kept = UtilityWindow(len(utilities))
    kept.set_n_features(1)
    for utility in utilities:
        kept.push(np.zeros(1, dtype=np.float32), utility)
    return kept


def saved(tokens, share=Fraction(1, 10)):
    """Return a budget without audits whose balance is at least `tokens`."""
    budget = TokenBudget(share, 50, Fraction(0))
    while budget.spendable_tokens < tokens:
        budget.count_arrivals(np.random.default_rng(0))
    return budget


def chance(selection, utility, budget):
    """Return the inclusion probability of a record that is ranked in the window KEPT."""
    _, tell = selection.candidates_and_probability(np.array([utility]), KEPT, np.zeros(1))
    return tell(0, budget)


KEPT = window(np.linspace(0, 1, 100, endpoint=False))


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_even_spending_adds_savings_over_the_horizon_to_earnings_at_most_threefold(share):
    budget = saved(1, Fraction(str(share)))
    assert EvenSpending(share).request_probability(budget) == pytest.approx(share)
    budget = saved(3, Fraction(str(share)))
    assert EvenSpending(share).request_probability(budget) == pytest.approx(
        share + 2 / max(50, 5 / share)
    )
    assert EvenSpending(share).request_probability(
        saved(40, Fraction(str(share)))
    ) == pytest.approx(3 * share)


def test_the_quantile_filter_asks_from_its_quantile_on():
    selection, budget = QuantileFilter(), saved(1)
    assert chance(selection, 0.905, budget) == 1.0
    assert chance(selection, 0.88, budget) == 0.0


def test_the_quantile_filter_spends_what_is_saved():
    # Six tokens: the threshold falls by five fiftieths of the range, to the quantile 0.8.
    selection, budget = QuantileFilter(), saved(6)
    assert chance(selection, 0.81, budget) == 1.0
    assert chance(selection, 0.78, budget) == 0.0


def test_the_variable_threshold_falls_with_requests_and_rises_without():
    selection = VariableUncertainty()
    selection.update(True)
    assert selection.memory == pytest.approx(0.99)
    selection.update(False)
    assert selection.memory == pytest.approx(0.99 * 1.01)


def test_the_variable_threshold_is_drawn_around_its_value():
    """c < t e with e normal around 1: drawn 10,000 times, it holds as often as is said."""
    selection = VariableUncertainty()
    selection.memory = 0.7
    for confidence in (0.2, 0.9):
        p = chance(selection, 1 - confidence, saved(1))
        assert p == pytest.approx(norm.sf(confidence / 0.7, loc=1))
        drawn = np.random.default_rng(1).normal(1, 1, 10_000)
        hits = (confidence < 0.7 * drawn).mean()
        assert abs(hits - p) < 4 * np.sqrt(p * (1 - p) / 10_000)
