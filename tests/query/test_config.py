from fractions import Fraction

import numpy as np
import pytest

from streamboost.errors import ConfigurationError
from streamboost.query.config import QueryConfig


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "entropie"},
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
        QueryConfig(**wrong)


def test_the_budget_is_the_decimal_it_is_written_as():
    assert QueryConfig(budget=0.1).budget_share == Fraction(1, 10)
    assert QueryConfig(budget=np.float64(0.07)).budget_share == Fraction(7, 100)
    assert QueryConfig(budget=1e-05).budget_share == Fraction(1, 100_000)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": "batch"}, "query mode 'batch' is not known: choose one of stream, pool"),
        ({"selection": "fixed"}, "query selection 'fixed' is not known"),
        ({"mode": "pool", "selection": "quantile_filter"}, "leave this key out"),
        ({"mode": "pool", "query_batch_size": 0}, "query query_batch_size is 0"),
        ({"mode": "pool", "query_batch_size": 19}, "query burst is 20: .* 21, as a query batch"),
        ({"initial_credit": 5}, "stream_length is not given"),
        ({"initial_credit": -1}, "query initial_credit is -1"),
        ({"initial_credit": 5, "stream_length": 299}, "give at most 4, a third"),
        (
            {"initial_credit": 20, "stream_length": 9999},
            "query burst is 20: .* at least 21, as the initial credit",
        ),
        ({"stream_length": 0}, "query stream_length is 0"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_with_what_would(wrong, said):
    with pytest.raises(ConfigurationError, match=said):
        QueryConfig(**wrong)
