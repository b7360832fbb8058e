import numpy as np
import pytest

from streamboost.errors import ConfigurationError
from streamboost.query.settings import check_integer, is_finite


@pytest.mark.parametrize("value", [2, 10**400])
def test_whole_numbers_from_the_bound_on_pass(value):
    check_integer("a setting", value, at_least=2)


@pytest.mark.parametrize("value", [1, 2.0, True, "2", None])
def test_anything_else_is_refused_with_its_name_the_bound_and_the_reason(value):
    with pytest.raises(ConfigurationError, match=r"a setting is .*at least 2, as two are needed"):
        check_integer("a setting", value, at_least=2, reason=", as two are needed")


@pytest.mark.parametrize("value", [0, -1.5, 10**300, np.float64(0.5)])
def test_numbers_that_a_float_holds_are_finite(value):
    assert is_finite(value)


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), True, "1", None])
def test_nothing_else_is_finite(value):
    assert not is_finite(value)
