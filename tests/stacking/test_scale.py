import numpy as np

from streamboost.stacking.experts import RunningScaler

RNG = np.random.default_rng(6)
X = (RNG.standard_normal((3000, 3)) * [1, 50, 1e-3] + [5, -1000, 0]).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan


def scale_of(rows):
    scale = RunningScaler()
    scale.set_n_features(rows.shape[1])
    for row in rows:
        scale.learn(row)
    return scale


def test_means_and_deviations_are_those_of_all_rows_while_they_are_few():
    for n in (2, 10, 400, 1000):
        scale = scale_of(X[:n])
        known = X[:n].astype(float)
        np.testing.assert_allclose(scale.mean, np.nanmean(known, axis=0), rtol=1e-9)
        np.testing.assert_allclose(scale.rate, 1 / np.nanstd(known, axis=0), rtol=1e-7)


def test_later_those_before_fade():
    moved = np.vstack([X[:1000], X[1000:] + 100])
    scale = scale_of(moved)
    old = np.exp(-1.8)  # 1,800 values came after those before
    np.testing.assert_allclose(scale.mean[0], 105 - 100 * old, rtol=0.02)
    np.testing.assert_allclose(scale.rate[0], (1 + 1e4 * old * (1 - old)) ** -0.5, rtol=0.02)


def test_what_never_varies_or_was_never_known_has_no_rate():
    rows = np.column_stack([np.full(50, 1e7), np.full(50, np.nan), np.arange(50), np.zeros(50)])
    scale = scale_of(rows.astype(np.float32))
    assert (scale.rate > 0).tolist() == [False, False, True, False]
    assert np.isfinite(scale.mean).all()


def test_a_value_missing_counts_for_nothing():
    with_gaps, without = scale_of(X[:200, :1]), scale_of(X[:200, :1][~np.isnan(X[:200, 0])])
    assert with_gaps.rate.tolist() == without.rate.tolist()


def test_numbers_as_large_as_can_be_are_taken():
    most = np.finfo(np.float32).max
    scale = scale_of(np.array([[most], [-most]] * 20, dtype=np.float32))
    np.testing.assert_allclose(scale.rate, 1 / float(most))


def test_columns_that_join_begin_anew_and_a_scale_resumed_goes_on():
    scale, twin = scale_of(X[:50, :2]), RunningScaler()
    scale.set_n_features(3)
    twin.resume(scale.state())
    for one in (scale, twin):
        for row in X[50:150]:
            one.learn(row)
    fresh = scale_of(X[50:150])
    assert scale.mean[2] == fresh.mean[2]
    for name, array in scale.state().items():
        np.testing.assert_array_equal(array, twin.state()[name])
    np.testing.assert_array_equal(scale.rate, twin.rate)
