from fractions import Fraction

import numpy as np
import pytest

from streamboost.active.query import QueryStrategy
from streamboost.errors import ConfigurationError


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
