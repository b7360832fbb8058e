"""Population stability: nought where nothing changed, and large where much did."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamboost.pipelines.status.feature_drift import (
    FOLLOWED,
    RECORDS,
    Farthest,
    FeatureDrift,
    RecentRows,
    Reference,
    by_chance,
    moved_most,
    stability,
)

counts = arrays(np.int64, st.integers(1, 12), elements=st.integers(0, 5_000))


@given(counts, st.randoms(use_true_random=False))
def test_stability_is_nought_for_equal_counts_and_never_below(before, random):
    now = before.copy()
    random.shuffle(now)
    assert stability(before, before) == 0.0
    assert stability(before, now) >= 0.0
    assert stability(before, now) == pytest.approx(stability(now, before))


def test_stability_is_that_of_its_definition_where_no_bin_is_empty():
    before, now = np.array([6_000_000, 4_000_000]), np.array([5_000_000, 5_000_000])
    p, q = before / before.sum(), now / now.sum()
    assert stability(before, now) == pytest.approx(sum((q - p) * np.log(q / p)), abs=1e-6)


def test_chance_exceeds_its_bound_once_in_twenty_when_nothing_changed():
    rng = np.random.default_rng(0)
    n, exceeded = 400, 0
    for _ in range(n):
        reference = Reference.of(rng.random((RECORDS, 1), dtype=np.float32), taken=0)
        found = FeatureDrift(["a"], reference).measure(rng.random((RECORDS, 1), dtype=np.float32))
        exceeded += found[0]["psi"] > found[0]["by_chance"]
    # The reference's own cuts make its shares exact, which is why it is a little less than 1/20.
    assert 0.02 < exceeded / n < 0.08


def test_the_quantile_is_that_of_chi_square():
    from scipy.stats import chi2

    for bins in (2, 5, 11):
        exact = chi2.ppf(0.95, bins - 1) * (1 / 1_000 + 1 / 500)
        assert by_chance(bins, 1_000, 500) == pytest.approx(exact, rel=0.03)


@given(
    st.lists(st.integers(0, 25), max_size=12),
    st.integers(1, 10),
    st.integers(0, 11),
)
def test_the_newest_rows_are_kept_and_the_first_since_a_restart(sizes, n_rows, restarted):
    rows, seen, since = RecentRows(1, n_rows), [], []
    for i, size in enumerate(sizes):
        if i == restarted:
            rows.restart()
            since = []
        batch = list(range(len(seen), len(seen) + size))
        rows.add(np.array(batch, dtype=np.float32).reshape(-1, 1))
        seen += batch
        since += batch
    assert sorted(rows.newest().ravel().tolist()) == seen[-n_rows:]
    first = None if rows.first is None else sorted(rows.first.ravel().tolist())
    assert first == (since[:n_rows] if len(since) >= n_rows else None)


def test_a_shift_shows_in_its_feature_alone():
    rng = np.random.default_rng(1)
    before, now = rng.normal(size=(2, RECORDS, 3)).astype(np.float32)
    now[:, 1] += 1.0
    psi = [one["psi"] for one in FeatureDrift("abc", Reference.of(before, 0)).measure(now)]
    assert psi[1] > 0.25 > 0.1 > max(psi[0], psi[2])


def test_values_that_go_missing_show_too():
    before = np.random.default_rng(2).random((RECORDS, 2), dtype=np.float32)
    now = before.copy()
    now[: RECORDS // 2, 0] = np.nan
    gone, same = FeatureDrift(["a", "b"], Reference.of(before, 0)).measure(now)
    assert (gone["missing"], gone["missing_reference"], same["missing"]) == (0.5, 0.0, 0.0)
    assert gone["psi"] > 0.25
    assert same["psi"] == 0.0


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(0, 30), st.just(2)),
        elements=st.sampled_from([0.0, 1.0, -3e38, 3e38, np.nan]),
    )
)
def test_any_values_can_be_measured(X):
    for reference in (None, Reference.of(X if len(X) else np.zeros((1, 2), np.float32), 0)):
        for one in FeatureDrift(["a", "b"], reference).measure(X):
            numbers = [value for key, value in one.items() if key != "name" and value is not None]
            assert np.isfinite(numbers).all()


def measured(**indexes):
    return [{"name": name, "psi": index} for name, index in indexes.items()]


def test_of_each_feature_is_known_how_far_it_was_and_when_it_first_was_shifted():
    farthest = Farthest()
    for now, index in enumerate((0.05, 0.25, 0.4, 0.1), start=1):
        found = measured(a=index, b=0.01)
        farthest.note(found, RECORDS, now)
    assert {**found[0]} == {"name": "a", "psi": 0.1, "peak": 0.4, "peaked": 3, "began": 2}
    assert (found[1]["peak"], found[1]["peaked"], found[1]["began"]) == (0.01, 1, None)
    again = Farthest()
    again.resume(found)
    later = measured(a=0.3)
    again.note(later, RECORDS, 9)
    assert (later[0]["peak"], later[0]["began"]) == (0.4, 2)


def test_what_few_records_say_of_a_feature_does_not_count():
    farthest, found = Farthest(), measured(a=3.0)
    farthest.note(found, RECORDS - 1, 1)
    assert "peak" not in found[0]


def test_a_feature_that_is_followed_stays_so_while_others_move_more_for_a_while():
    farthest, names = Farthest(), [f"f{i}" for i in range(FOLLOWED + 20)]
    farthest.note(measured(**{name: 0.01 * i for i, name in enumerate(names)}), RECORDS, 1)
    once = measured(**dict.fromkeys(names, 0.0))
    farthest.note(once, RECORDS, 2)
    assert set(moved_most(once)) == set(names[20:])
