import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamboost.errors import ConfigurationError
from streamboost.trees.bins import Bins

columns = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 60), st.just(1)),
    elements=st.one_of(
        st.floats(width=32, allow_infinity=False, allow_nan=True),
        st.sampled_from([0.0, 1.0, 2.0, 3.0]),
    ),
)


@given(columns, st.integers(2, 20))
@settings(max_examples=200, deadline=None)
@pytest.mark.slow
def test_codes_and_thresholds_agree_on_every_value(X, max_bins):
    bins = Bins.fit(X, np.ones(len(X)), max_bins)
    codes, thresholds = bins.transform(X)[0], bins.cuts[0]
    assert bins.n_bins[0] <= max_bins
    for x, code in zip(X[:, 0], codes, strict=True):
        if np.isnan(x):
            assert code == bins.n_bins[0]
            continue
        for split in range(bins.n_bins[0] - 1):
            assert (code <= split) == bool(x <= thresholds[split])


def test_few_values_get_a_bin_each_with_cuts_in_the_middle():
    X = np.array([[1], [2], [2], [4], [np.nan]], np.float32)
    bins = Bins.fit(X, np.ones(5), 8)
    np.testing.assert_array_equal(bins.cuts[0], [1.5, 3.0])
    np.testing.assert_array_equal(bins.transform(X)[0], [0, 1, 1, 2, 3])


def test_neighbouring_floats_are_still_cut_apart():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2.0))
    X = np.array([[low], [high]])
    np.testing.assert_array_equal(Bins.fit(X, np.ones(2), 8).transform(X)[0], [0, 1])
    huge = np.float32(3.3e38)
    np.testing.assert_array_equal(
        Bins.fit(np.array([[-huge], [huge]]), np.ones(2), 8).cuts[0], [0.0]
    )


def test_half_of_the_cuts_reach_into_a_rare_tail():
    # 990 records share eleven values up to 1; ten lie beyond, where no record quantile would cut.
    crowd = np.round(np.random.default_rng(0).random(990), 1)
    X = np.concatenate([crowd, np.arange(10) * 100 + 100]).astype(np.float32)[:, None]
    cuts = Bins.fit(X, np.ones(1000), 12).cuts[0]
    assert (cuts > 1).sum() >= 2
    assert (cuts < 1).sum() >= 5


def test_the_ends_of_a_column_are_cut_ever_finer():
    X = np.random.default_rng(0).permutation(np.arange(40_000, dtype=np.float32))[:, None]
    cuts = Bins.fit(X, np.ones(len(X)), 64).cuts[0]
    beyond = np.array([1.0, 2.0, 16.0, 64.0])
    assert set(beyond - 0.5) <= set(cuts)
    assert set(39_999.5 - beyond) <= set(cuts)


def test_the_ends_take_a_quarter_of_the_cuts_at_most():
    X = np.arange(1_000_000, dtype=np.float32)[:, None]
    cuts = Bins.fit(X, np.ones(len(X)), 33).cuts[0]
    assert (np.abs(cuts - 500_000) < 480_000).sum() >= 22


def test_weights_move_the_record_quantiles():
    X = np.arange(1000, dtype=np.float32)[:, None]
    weight = np.where(np.arange(1000) < 100, 100.0, 1.0)
    plain = Bins.fit(X, np.ones(1000), 11).cuts[0]
    heavy = Bins.fit(X, weight, 11).cuts[0]
    assert (heavy < 100).sum() > (plain < 100).sum()


@pytest.mark.parametrize(("n", "most"), [(1000, 64), (12_500, 100), (40_000, 255)])
def test_by_default_bins_grow_with_the_rows(n, most):
    X = np.random.default_rng(0).random((n, 1)).astype(np.float32)
    ours, expected = Bins.fit(X, np.ones(n), None), Bins.fit(X, np.ones(n), most)
    np.testing.assert_array_equal(ours.cuts[0], expected.cuts[0])


def test_a_weight_that_all_rows_share_changes_no_cut():
    X = np.random.default_rng(0).random((500, 1)).astype(np.float32)
    X[::7] = np.nan
    order = Bins.fit(X, np.where(np.arange(500) % 7, 0.3, 0.2), 16)  # NaN rows weigh less
    np.testing.assert_array_equal(Bins.fit(X, np.full(500, 0.3), 16).cuts[0], order.cuts[0])


@pytest.mark.parametrize("max_bins", [1, 256])
def test_impossible_numbers_of_bins_are_refused(max_bins):
    with pytest.raises(ConfigurationError, match="between 2 and 255"):
        Bins.fit(np.zeros((2, 1), np.float32), np.ones(2), max_bins)
