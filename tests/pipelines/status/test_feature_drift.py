"""Population stability index: zero without drift, and large with a large drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamboost.pipelines.status.feature_drift import (
    FOLLOWED,
    RECORDS,
    DriftHistory,
    FeatureDrift,
    ReferenceSummary,
    change_point,
    psi,
    psi_of_top_features,
    psi_quantile,
)
from streamboost.pipelines.status.recent import RecentRows

counts = arrays(np.int64, st.integers(1, 12), elements=st.integers(0, 5_000))


@given(counts, st.randoms(use_true_random=False))
def test_stability_is_nought_for_equal_counts_and_never_below(before, random):
    now = before.copy()
    random.shuffle(now)
    assert psi(before, before) == 0.0
    assert psi(before, now) >= 0.0
    assert psi(before, now) == pytest.approx(psi(now, before))


def test_stability_is_that_of_its_definition_where_no_bin_is_empty():
    before, now = np.array([6_000_000, 4_000_000]), np.array([5_000_000, 5_000_000])
    p, q = before / before.sum(), now / now.sum()
    assert psi(before, now) == pytest.approx(sum((q - p) * np.log(q / p)), abs=1e-6)


def test_chance_exceeds_its_bound_once_in_twenty_when_nothing_changed():
    rng = np.random.default_rng(0)
    n, exceeded = 400, 0
    for _ in range(n):
        reference = ReferenceSummary.from_rows(
            rng.random((RECORDS, 1), dtype=np.float32), time_ms=0
        )
        found = FeatureDrift(["a"], reference).measure_drift(
            rng.random((RECORDS, 1), dtype=np.float32)
        )
        exceeded += found[0]["psi"] > found[0]["by_chance"]
    # The reference's own cuts make its shares exact, which is why it is a little less than 1/20.
    assert 0.02 < exceeded / n < 0.08


def test_the_quantile_is_that_of_chi_square():
    from scipy.stats import chi2

    for bins in (2, 5, 11):
        exact = chi2.ppf(0.95, bins - 1) * (1 / 1_000 + 1 / 500)
        assert psi_quantile(bins, 1_000, 500) == pytest.approx(exact, rel=0.03)


@given(
    st.lists(st.integers(0, 25), max_size=12),
    st.integers(1, 10),
    st.integers(0, 11),
)
def test_the_newest_rows_are_kept_and_the_first_since_a_restart(sizes, n_rows, restarted):
    rows, seen, since = RecentRows(1, n_rows), [], []
    for i, size in enumerate(sizes):
        if i == restarted:
            rows.restart_reference()
            since = []
        batch = list(range(len(seen), len(seen) + size))
        rows.add(np.array(batch, dtype=np.float32).reshape(-1, 1))
        seen += batch
        since += batch
    assert rows.newest_rows().ravel().tolist() == seen[-n_rows:]
    reference = rows.reference_rows
    first = None if reference is None else sorted(reference.ravel().tolist())
    assert first == (since[:n_rows] if len(since) >= n_rows else None)


def test_a_shift_shows_in_its_feature_alone():
    rng = np.random.default_rng(1)
    before, now = rng.normal(size=(2, RECORDS, 3)).astype(np.float32)
    now[:, 1] += 1.0
    psi = [
        one["psi"]
        for one in FeatureDrift("abc", ReferenceSummary.from_rows(before, 0)).measure_drift(now)
    ]
    assert psi[1] > 0.25 > 0.1 > max(psi[0], psi[2])


def test_values_that_go_missing_show_too():
    before = np.random.default_rng(2).random((RECORDS, 2), dtype=np.float32)
    now = before.copy()
    now[: RECORDS // 2, 0] = np.nan
    gone, same = FeatureDrift(["a", "b"], ReferenceSummary.from_rows(before, 0)).measure_drift(now)
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
    for reference in (
        None,
        ReferenceSummary.from_rows(X if len(X) else np.zeros((1, 2), np.float32), 0),
    ):
        for one in FeatureDrift(["a", "b"], reference).measure_drift(X):
            numbers = [value for key, value in one.items() if key != "name" and value is not None]
            assert np.isfinite(numbers).all()


def test_a_shift_that_comes_at_once_is_found_in_the_rows_where_it_came():
    rng = np.random.default_rng(3)
    reference = ReferenceSummary.from_rows(rng.normal(size=(RECORDS, 2)).astype(np.float32), 0)
    drift = FeatureDrift(["a", "b"], reference)
    for start in (300, 700, 950):
        X = rng.normal(size=(RECORDS, 2)).astype(np.float32)
        X[start:, 1] += 1.5
        assert drift.change_point(X, "b") == pytest.approx(start, abs=15)
        X[start:, 1] = np.nan
        assert drift.change_point(X, "b") == start


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30))
def test_the_split_is_the_most_likely_of_all(bins):
    def likelihood(part):
        counts = np.bincount(part, minlength=4)
        return sum(n * np.log(n / len(part)) for n in counts if n)

    found = [likelihood(bins[:at]) + likelihood(bins[at:]) for at in range(1, len(bins))]
    assert found[change_point(np.array(bins), 4) - 1] == pytest.approx(max(found))


def measured(**indexes):
    return [{"name": name, "psi": index} for name, index in indexes.items()]


def at(records):
    """Return the stream time after `records` records, 10 ms each."""
    return records, 10 * records


def nowhere(name):
    raise AssertionError(name)


def test_of_each_feature_is_known_how_far_it_was_and_when_it_first_was_shifted():
    farthest = DriftHistory()
    for now, index in enumerate((0.05, 0.25, 0.4, 0.1), start=1):
        found = measured(a=index, b=0.01)
        farthest.update(found, RECORDS, at(now), lambda name: at(7))
    assert (found[0]["peak"], found[0]["peaked"], found[0]["began"]) == (0.4, 30, 20)
    assert (found[1]["peak"], found[1]["peaked"], found[1]["began"]) == (0.01, 10, None)
    assert (found[0]["started"], found[1]["started"]) == (at(1), None)
    again = DriftHistory()
    again.restore(found)
    later = measured(a=0.3, b=0.3)
    again.update(later, RECORDS, at(9), lambda name: at(8))
    assert (later[0]["peak"], later[0]["began"], later[0]["started"]) == (0.4, 20, at(1))
    assert (later[1]["began"], later[1]["started"]) == (90, at(4)), "the earlier run saw it calm"


def test_a_shift_began_where_the_rows_divide_or_where_the_index_was_small_last_if_earlier():
    def started(*indexes, changed):
        farthest = DriftHistory()
        for now, index in enumerate(indexes, start=1):
            found = measured(a=index)
            farthest.update(found, RECORDS, at(now), lambda name: at(changed))
        return found[0]["started"]

    assert started(0.01, 0.05, 0.15, 0.3, changed=1) == at(1), "it came at once"
    assert started(0.01, 0.05, 0.15, 0.18, 0.3, changed=4) == at(2), "it crept in"
    assert started(0.3, changed=1) == at(1), "nothing is known of before"


def test_a_feature_is_shifted_as_enough_records_told_last_also_after_a_restart():
    farthest, found = DriftHistory(), measured(a=0.3)
    farthest.update(found, RECORDS, at(1), lambda name: at(1))
    again, few = DriftHistory(), measured(a=0.0)
    again.restore(found)
    again.update(few, RECORDS - 1, at(2), nowhere)
    assert few[0]["shifted"]
    again.update(few, RECORDS, at(3), nowhere)
    assert not few[0]["shifted"]


def test_what_few_records_say_of_a_feature_does_not_count():
    farthest, found = DriftHistory(), measured(a=3.0)
    farthest.update(found, RECORDS - 1, at(1), nowhere)
    assert "peak" not in found[0]


def test_a_feature_that_is_followed_stays_so_while_others_move_more_for_a_while():
    farthest, names = DriftHistory(), [f"f{i}" for i in range(FOLLOWED + 20)]
    first = measured(**{name: 0.01 * i for i, name in enumerate(names)})
    farthest.update(first, RECORDS, at(1), lambda name: at(1))
    once = measured(**dict.fromkeys(names, 0.0))
    farthest.update(once, RECORDS, at(2), nowhere)
    assert set(psi_of_top_features(once)) == set(names[20:])
