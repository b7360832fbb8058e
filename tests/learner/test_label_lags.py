import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.errors import ConfigurationError
from streamboost.learner.label_lags import LabelLags


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=12), st.integers(0, 4))
def test_rows_hold_the_newest_labels_first(labels, n):
    lags = LabelLags(n)
    for label in labels:
        lags.add(label)
    numbers = list(dict.fromkeys(labels))
    newest = [numbers.index(label) for label in labels[::-1][:n]]
    wanted = newest + [np.nan] * (n - len(newest))
    rows = lags.make_lag_rows(3)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.tile(np.array(wanted, np.float32), (3, 1)))


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 5), max_size=8))
def test_resumed_lags_go_on_as_if_never_stopped(before, after):
    first, second = LabelLags(3), LabelLags(3)
    for label in before:
        first.add(label)
    second.resume(first.state())
    for label in after:
        first.add(label)
        second.add(label)
    assert first.state() == second.state()
    np.testing.assert_array_equal(first.make_lag_rows(1), second.make_lag_rows(1))


@pytest.mark.parametrize("wrong", [-1, 1.0, True, None, "2"])
def test_a_number_of_lags_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="label_lags is"):
        LabelLags(wrong)
