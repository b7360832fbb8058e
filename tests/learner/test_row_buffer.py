from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.learner.working_set import WorkingSet

KINDS = ("sliding", "time", "reservoir", "balanced")
SEEDS = np.random.SeedSequence(5)
LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), max_size=120)


def kept(kind, size, seconds=None, n_features=1):
    rows = WorkingSet(kind=kind, size=size, seconds=seconds or (0.05 if kind == "time" else None))
    rows = rows.make_buffer(SEEDS)
    rows.widen_rows(n_features)
    return rows


def fill(rows, labels, first=1):
    """Append rows with these (code, milliseconds passed); features and records are the order."""
    tick = 0
    for order, (code, passed) in enumerate(labels, first):
        tick += passed
        values = np.full(rows.n_features, order, dtype=np.float32)
        rows.append(values, code, tick, 0.5, order, 3 * order)
    return tick


def assert_same(first, second):
    assert first[0] == second[0]
    assert first[1].keys() == second[1].keys()
    for name, array in first[1].items():
        np.testing.assert_array_equal(array, second[1][name], err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@given(labels=LABELS, size=st.integers(2, 30), reads=st.integers(1, 50))
@pytest.mark.quick_once
def test_rows_stay_whole_in_the_order_of_their_labels_and_within_size(kind, labels, size, reads):
    rows = kept(kind, size, n_features=2)
    for at in range(0, len(labels), reads):
        fill(rows, labels[at : at + reads], first=at + 1)
        rows.view()
    view = rows.view()
    assert len(rows) == len(view) <= size
    assert (np.diff(view.order) > 0).all()
    np.testing.assert_array_equal(view.X, np.repeat(view.order[:, None], 2, axis=1))
    np.testing.assert_array_equal(view.codes, [labels[i - 1][0] for i in view.order])
    np.testing.assert_array_equal(view.records, 3 * view.order)
    assert view.X.flags.c_contiguous


@given(LABELS, st.integers(2, 40))
def test_sliding_keeps_the_newest(labels, size):
    rows = kept("sliding", size)
    fill(rows, labels)
    n = len(labels)
    np.testing.assert_array_equal(rows.view().order, np.arange(max(0, n - size), n) + 1)


@given(LABELS, st.integers(2, 40), st.sampled_from([0.001, 0.05, 0.3]))
@pytest.mark.slow
def test_time_keeps_the_newest_whose_tick_is_within_the_seconds(labels, size, seconds):
    rows = kept("time", size, seconds)
    now = fill(rows, labels)
    ticks = np.cumsum([passed for _, passed in labels])
    recent = np.flatnonzero(ticks >= now - 1000 * seconds)[-size:] + 1
    np.testing.assert_array_equal(rows.view().order, recent)


@given(LABELS, st.integers(2, 40))
@pytest.mark.slow
def test_balanced_keeps_the_newest_of_every_class_and_levels_those_that_want_more(labels, size):
    rows = kept("balanced", size)
    fill(rows, labels)
    view = rows.view()
    assert len(view) == min(size, len(labels))
    offered = Counter(code for code, _ in labels)
    given_up = [code for code in offered if np.sum(view.codes == code) < offered[code]]
    most = max((np.sum(view.codes == code) for code in offered), default=0)
    for code in given_up:
        assert np.sum(view.codes == code) >= most - 1
        of_class = [i for i, (c, _) in enumerate(labels, 1) if c == code]
        mine = view.order[view.codes == code]
        np.testing.assert_array_equal(mine, of_class[len(of_class) - len(mine) :])


def test_balanced_gives_classes_even_shares_and_what_the_rare_leave_to_the_others():
    rows = kept("balanced", 30)
    fill(rows, [(0, 1)] * 4 + [(1, 1), (2, 1)] * 100)
    assert Counter(rows.view().codes.tolist()) == {0: 4, 1: 13, 2: 13}
    fill(rows, [(3, 1)] * 50, first=205)
    assert Counter(rows.view().codes.tolist()) == {0: 4, 1: 8, 2: 9, 3: 9}


@pytest.mark.slow
def test_a_reservoir_keeps_every_row_with_the_same_chance():
    counts = np.zeros(60)
    for seed in range(600):
        rows = WorkingSet(kind="reservoir", size=12).make_buffer(np.random.SeedSequence(seed))
        rows.widen_rows(1)
        fill(rows, [(0, 1)] * 60)
        counts[rows.view().order - 1] += 1
    # Each count is binomial (600, 1/5): no one in 60 strays by 4.5 standard deviations.
    assert np.abs(counts - 120).max() < 4.5 * np.sqrt(600 * 0.2 * 0.8)


@pytest.mark.parametrize("kind", KINDS)
@given(before=LABELS, after=LABELS, size=st.integers(2, 20), cut=st.integers(0, 60))
@pytest.mark.quick_once
def test_resumed_rows_go_on_as_if_never_stopped(kind, before, after, size, cut):
    rows = kept(kind, size)
    fill(rows, before)
    resumed = kept(kind, size)
    resumed.resume(*rows.state())
    for one in (rows, resumed):
        one.drop_rows_before(cut)
        fill(one, after, first=len(before) + 1)
    assert_same(resumed.state(), rows.state())


@pytest.mark.parametrize("kind", KINDS)
@given(labels=LABELS, size=st.integers(2, 20), cut=st.integers(0, 130))
@pytest.mark.quick_once
def test_forgetting_drops_what_came_before_and_nothing_else(kind, labels, size, cut):
    rows = kept(kind, size)
    fill(rows, labels)
    before = rows.view().order.copy()
    rows.drop_rows_before(cut)
    np.testing.assert_array_equal(rows.view().order, before[before >= cut])
    fill(rows, [(0, 0)] * (size - len(rows)), first=len(labels) + 1)
    assert len(rows) == size  # there is room again, also in a reservoir


def test_a_state_is_not_changed_by_later_rows():
    rows = kept("sliding", 2)
    fill(rows, [(1, 1), (2, 1)])
    _, arrays = rows.state()
    fill(rows, [(0, 1)] * 50, first=3)
    assert arrays["codes"].tolist() == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_the_stream(kind):
    rows = kept(kind, 10)
    fill(rows, [(i % 7, 1) for i in range(1000)])
    assert rows.view().X.base.size <= 20


@pytest.mark.parametrize("kind", KINDS)
def test_rows_kept_from_before_a_feature_miss_it(kind):
    rows = kept(kind, 4)
    fill(rows, [(0, 1)])
    rows.widen_rows(2)
    fill(rows, [(1, 1)], first=2)
    np.testing.assert_array_equal(rows.view().X, np.array([[1, np.nan], [2, 2]], np.float32))
