import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamboost.query.window import UtilityWindow


def filled(utilities, size=5, n_features=1):
    window = UtilityWindow(size)
    window.set_n_features(n_features)
    for utility in utilities:
        window.push(np.full(n_features, utility, dtype=np.float32), utility)
    return window


def rank(window, utility):
    (both,) = window.rank_batch(np.array([utility])).ranks().tolist()
    return tuple(both)


def naive_rank(window, utility):
    kept, n = window.utilities, len(window) + 1
    above, ties = np.count_nonzero(kept > utility), np.count_nonzero(kept == utility) + 1
    return above / n, (above + ties) / n


def test_the_most_useful_record_stands_first():
    window = filled([1.0, 2.0, 3.0])
    assert rank(window, 4.0) == (0.0, 0.25)
    assert rank(window, 0.5) == (0.75, 1.0)


def test_ties_share_the_part_they_fill_together():
    assert rank(filled([1.0, 1.0, 1.0]), 1.0) == (0.0, 1.0)
    assert rank(filled([2.0, 1.0, 1.0]), 1.0) == (0.25, 1.0)


def test_only_the_newest_records_are_ranked_against():
    assert rank(filled([9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0], size=5), 2.0) == (0.0, 1 / 6)


@given(st.lists(st.integers(0, 4), max_size=9), st.lists(st.integers(0, 4), max_size=9))
def test_records_that_arrive_together_rank_as_one_by_one(before, after):
    window = filled(map(float, before))
    together = window.rank_batch(np.array(after, dtype=float)).ranks()
    assert together.shape == (len(after), 2)
    for utility, (low, high) in zip(after, together.tolist(), strict=True):
        assert naive_rank(window, float(utility)) == rank(window, float(utility)) == (low, high)
        window.push(np.zeros(1, dtype=np.float32), float(utility))


def test_a_new_version_measures_the_kept_records_again():
    window = filled([1.0, 2.0])
    window.rescore(1, lambda X: -X[:, 0].astype(float))
    assert rank(window, -1.5) == (1 / 3, 2 / 3)


def test_the_same_version_measures_nothing():
    window = filled([1.0, 2.0])
    window.rescore(0, lambda X: 1 / 0)
    assert len(window) == 2


def test_records_kept_from_before_a_feature_miss_it():
    window = filled([1.0], n_features=1)
    window.set_n_features(3)
    _, arrays = window.state()
    np.testing.assert_array_equal(arrays["X"], np.array([[1, np.nan, np.nan]], dtype=np.float32))


@given(st.lists(st.floats(0, 1), max_size=12), st.lists(st.floats(0, 1), max_size=12))
def test_a_resumed_window_goes_on_as_if_never_stopped(before, after):
    window = filled(before)
    resumed = UtilityWindow(5)
    resumed.resume(*window.state())
    for utility in after:
        assert rank(resumed, utility) == rank(window, utility)
        for one in (window, resumed):
            one.push(np.full(1, utility, dtype=np.float32), utility)
    assert resumed.state()[0] == window.state()[0]
    for name, array in window.state()[1].items():
        np.testing.assert_array_equal(resumed.state()[1][name], array)
