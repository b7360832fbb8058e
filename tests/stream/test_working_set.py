import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.errors import ConfigurationError
from streamboost.stream.working_set import SlidingRows, WorkingSet


def fill(rows, numbers):
    for i in numbers:
        rows.append(np.full(rows.n_features, i, dtype=np.float32), i, 10 * i, 0.5)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"size": 1}, "size"),
        ({"size": 10.0}, "size"),
        ({"weights": "newest"}, "weights"),
        ({"half_life": 5}, "half_life"),
        ({"weights": "half_life"}, "half_life"),
        ({"weights": "half_life", "half_life": 0}, "half_life"),
        ({"weights": "half_life", "half_life": float("inf")}, "half_life"),
        ({"weights": "half_life", "half_life": 10**400}, "half_life"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong, word):
    with pytest.raises(ConfigurationError, match=f"working set {word}"):
        WorkingSet(**wrong)


def test_equal_weights_need_no_array():
    assert WorkingSet().weigh(5) is None


def test_a_weight_halves_with_every_half_life_and_the_mean_is_one():
    weights = WorkingSet(weights="half_life", half_life=2).weigh(5)
    np.testing.assert_allclose(weights[:-2] * 2, weights[2:])
    assert weights.argmax() == 4
    assert np.isclose(weights.mean(), 1)


def test_weights_of_the_very_old_vanish_without_a_warning():
    assert WorkingSet(weights="half_life", half_life=0.5).weigh(2000)[0] == 0
    assert WorkingSet(weights="half_life", half_life=5e-324).weigh(3).tolist() == [0, 0, 3]


def test_a_half_life_may_be_any_whole_number_that_a_float_holds():
    assert WorkingSet(weights="half_life", half_life=10**300).weigh(2).tolist() == [1, 1]


@given(st.integers(2, 40), st.integers(0, 300))
def test_the_newest_rows_are_kept_in_order(size, n):
    rows = SlidingRows(size, 2)
    fill(rows, range(n))
    newest = np.arange(max(0, n - size), n)
    view = rows.view()
    assert len(rows) == len(newest)
    np.testing.assert_array_equal(view.codes, newest)
    np.testing.assert_array_equal(view.X, np.repeat(newest[:, None], 2, axis=1))
    np.testing.assert_array_equal(view.ticks, 10 * newest)
    assert view.X.flags.c_contiguous


@given(st.integers(2, 40), st.integers(0, 100), st.integers(0, 100))
def test_resumed_rows_go_on_as_if_never_stopped(size, before, after):
    rows = SlidingRows(size, 1)
    fill(rows, range(before))
    resumed = SlidingRows.resume(size, rows.state())
    fill(rows, range(after))
    fill(resumed, range(after))
    for name, array in rows.state().items():
        np.testing.assert_array_equal(resumed.state()[name], array)


def test_a_state_is_not_changed_by_later_rows():
    rows = SlidingRows(2, 1)
    fill(rows, [1, 2])
    state = rows.state()
    fill(rows, range(50))
    assert state["codes"].tolist() == [1, 2]


def test_memory_does_not_grow_with_the_stream():
    rows = SlidingRows(10, 1)
    fill(rows, range(1000))
    assert rows.view().X.base.size <= 20


def test_rows_kept_from_before_a_feature_miss_it():
    rows = SlidingRows(4, 1)
    fill(rows, [1])
    rows.widen(2)
    fill(rows, [2])
    np.testing.assert_array_equal(rows.view().X, np.array([[1, np.nan], [2, 2]], np.float32))
