import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.pipelines.config.durations import RecordCountAndBatchTime, WindowSize
from streamboost.pipelines.runner.label_join import MOST_WAITING, LabelJoin
from streamboost.pipelines.runner.record_window import RecordWindow


def make_join(window=4, expires_after=8):
    return LabelJoin(WindowSize.parse(window), WindowSize.parse(expires_after), n_features=2)


def step(join, records=(), labels=(), asked=(), propensity=0.5, tick=0):
    """Take one batch through the join; a record's features are made from its place in `records`."""
    expired = join.expire_and_evict(tick)
    fresh = join.are_new_ids(list(records))
    ids = [id for id, first in zip(records, fresh, strict=True) if first]
    X = np.array([[ord(id[0]), i] for i, id in enumerate(ids)], dtype=np.float32).reshape(-1, 2)
    predicted = [f"predicted {id}" for id in ids]
    joined = join.add_records(ids, X, predicted, list(asked), np.full(len(asked), propensity))
    join.match_labels(list(labels), joined)
    return joined, expired


def counted(join, **expected):
    """Return the named counts, to compare with `expected`."""
    return {name: getattr(join.counts, name) for name in expected} == expected


def test_a_requested_label_is_learnt_with_the_features_prediction_and_propensity_of_its_record():
    join = make_join()
    step(join, ["a", "b"], asked=["b"], propensity=0.25)
    joined, _ = step(join, labels=[("b", "grass")])
    assert joined.ids == ["b"]
    assert joined.labels == ["grass"]
    assert joined.predicted == ["predicted b"]
    assert joined.rows[0].tolist() == [ord("b"), 1]
    assert joined.propensity == [0.25]
    assert counted(join, records=2, labels=1, answered=1, unsolicited=0)


def test_a_label_nobody_asked_for_is_learnt_without_a_propensity():
    join = make_join()
    step(join, ["a"])
    joined, _ = step(join, labels=[("a", "grass")])
    assert joined.ids == ["a"]
    assert np.isnan(joined.propensity[0])
    assert counted(join, unsolicited=1, answered=0)


def test_a_requested_record_outlives_the_window_until_its_label_comes():
    join = make_join(window=2, expires_after=100)
    step(join, ["a"], asked=["a"])
    step(join, list("bcdefgh"))
    joined, _ = step(join, list("ij"), labels=[("a", "grass")])
    assert joined.ids == ["a"]
    assert joined.rows[0].tolist() == [ord("a"), 0]
    assert counted(join, answered=1, late=0)


def test_a_label_after_an_unasked_record_left_the_window_is_late_and_dropped():
    join = make_join(window=2)
    step(join, list("abcd"))
    joined, _ = step(join, list("ef"), labels=[("a", "grass")])
    assert joined.ids == []
    assert counted(join, late=1, unsolicited=0)


def test_a_label_after_its_request_expired_is_dropped_though_the_record_is_still_held():
    join = make_join(window=100, expires_after=2)
    step(join, ["a"], asked=["a"])
    step(join, list("bc"))
    joined, expired = step(join, labels=[("a", "grass")])
    assert expired == ["a"]
    assert joined.ids == []
    assert counted(join, expired=1, answered=0)


def test_a_label_after_its_request_expired_is_dropped_once_the_record_is_gone():
    join = make_join(window=2, expires_after=4)
    step(join, ["a"], asked=["a"])
    expired = [id for batch in ("bc", "de", "f") for id in step(join, list(batch))[1]]
    joined, _ = step(join, labels=[("a", "grass")])
    assert expired == ["a"]
    assert joined.ids == []
    assert counted(join, expired=1, late=0)


def test_a_label_that_comes_again_with_its_value_is_a_duplicate():
    join = make_join()
    step(join, ["a"], labels=[("a", "grass"), ("a", "grass")])
    joined, _ = step(join, labels=[("a", "grass")])
    assert joined.ids == []
    assert counted(join, unsolicited=1, duplicate=2, conflicting=0)


def test_of_two_different_labels_the_first_stays():
    join = make_join()
    first, _ = step(join, ["a"], labels=[("a", "grass")])
    second, _ = step(join, labels=[("a", "sky"), ("a", "grass")])
    assert (first.labels, second.labels) == (["grass"], [])
    assert counted(join, conflicting=1, duplicate=1)


def test_a_label_that_was_learnt_is_remembered_for_one_window_after_its_record_left():
    join = make_join(window=2)
    step(join, ["a"], labels=[("a", "grass")])
    step(join, list("bc"))
    step(join, labels=[("a", "sky")])
    assert counted(join, conflicting=1)


def test_a_label_before_its_record_waits_and_is_learnt_with_it():
    join = make_join()
    early, _ = step(join, labels=[("a", "grass")])
    joined, _ = step(join, ["a"])
    assert early.ids == []
    assert (joined.ids, joined.labels) == (["a"], ["grass"])
    assert counted(join, early=1, unsolicited=1)


def test_a_waiting_label_answers_a_request_made_when_its_record_comes():
    join = make_join()
    step(join, labels=[("a", "grass")])
    joined, _ = step(join, ["a"], asked=["a"], propensity=0.75)
    assert joined.propensity == [0.75]
    assert counted(join, early=1, answered=1, unsolicited=0)


def test_of_two_waiting_labels_the_first_stays():
    join = make_join()
    step(join, labels=[("a", "grass"), ("a", "sky"), ("a", "grass")])
    joined, _ = step(join, ["a"])
    assert joined.labels == ["grass"]
    assert counted(join, early=3, unsolicited=1, conflicting=1, duplicate=1)


def test_a_label_whose_record_does_not_come_within_the_window_is_unknown():
    join = make_join(window=3)
    step(join, labels=[("nobody", "grass")])
    step(join, list("abc"))
    joined, _ = step(join, ["nobody"])
    assert joined.ids == []
    assert counted(join, early=1, unknown=1)


def test_the_waiting_room_is_full_of_as_many_labels_as_may_wait(monkeypatch):
    monkeypatch.setattr("streamboost.pipelines.runner.label_join.MOST_WAITING", 10)
    assert MOST_WAITING > 10
    join = make_join()
    for i in range(7):
        step(join, labels=[(f"{i}-{j}", "grass") for j in range(5)])
        assert join.has_room_for_labels == (i == 0)


def test_a_label_of_a_class_never_seen_is_simply_learnt():
    join = make_join()
    step(join, ["a", "b"], labels=[("a", "grass")])
    joined, _ = step(join, labels=[("b", "a class of its own")])
    assert joined.labels == ["a class of its own"]


def test_an_id_that_is_held_is_not_fresh():
    join = make_join(window=2)
    step(join, ["a"], asked=["a"])
    assert join.are_new_ids(["b", "a", "b", "c"]) == [True, False, False, True]
    step(join, list("bcd"))
    assert join.are_new_ids(["a"]) == [False], "a requested record is held beyond the window"
    assert counted(join, duplicate_ids=3)


def test_an_id_may_come_again_once_its_record_has_left():
    join = make_join(window=2)
    step(join, ["a"], labels=[("a", "grass")])
    step(join, list("bc"))
    joined, _ = step(join, ["a"], labels=[("a", "sky")])
    assert joined.labels == ["sky"]
    assert counted(join, unsolicited=2, conflicting=0, duplicate_ids=0)


def test_a_window_in_time_ends_by_the_tick():
    join = make_join(window="2s", expires_after="10s")
    step(join, ["a", "b"], asked=["b"], tick=1_000)
    joined, _ = step(join, tick=3_000, labels=[("a", "grass"), ("b", "sky")])
    assert joined.ids == ["b"]
    assert counted(join, late=1, answered=1)
    step(join, ["c"], asked=["c"], tick=4_000)
    _, expired = step(join, tick=14_000)
    assert expired == ["c"]


batches = st.lists(
    st.tuples(
        st.lists(st.integers(0, 30), max_size=4),  # records
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from("xy")), max_size=4),  # labels
        st.integers(0, 3),  # how many of the records are asked for
    ),
    max_size=40,
)


def play(join, batch, tick):
    records, labels, n_asked = batch
    names = [str(r) for r in records]
    fresh = LabelJoin.are_new_ids(join, names)
    join.counts.duplicate_ids -= fresh.count(False)  # `step` counts them once more
    asked = [name for name, first in zip(names, fresh, strict=True) if first][:n_asked]
    return step(join, names, [(str(i), label) for i, label in labels], asked, tick=tick)


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(1, 6), st.integers(1, 12))
def test_every_label_is_counted_once_and_learnt_at_most_once_per_record(stream, window, expires):
    join = make_join(window, expires)
    learnt = 0
    for tick, batch in enumerate(stream):
        joined, _ = play(join, batch, tick)
        learnt += len(joined.ids)
        assert len(set(joined.ids)) == len(joined.ids)
        c = join.counts
        dropped = c.late + c.expired + c.duplicate + c.conflicting + c.unknown
        waiting = join.counters()["waiting_labels"]
        assert c.labels == c.answered + c.unsolicited + dropped + waiting
        assert learnt == c.answered + c.unsolicited


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(1, 6), st.integers(1, 12))
@pytest.mark.slow
def test_the_memory_is_bounded_by_the_window_and_the_open_requests(stream, window, expires):
    join, batch_size = make_join(window, expires), 4
    for tick, batch in enumerate(stream):
        play(join, batch, tick)
        join.expire_and_evict(tick)
        numbers = join.counters()
        assert numbers["held_records"] <= window + numbers["open_requests"]
        assert numbers["open_requests"] <= expires + batch_size
        assert len(join._evicted) <= 2 * window + expires + 2 * batch_size


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(1, 6), st.integers(1, 12))
@pytest.mark.slow
def test_saving_and_restoring_at_every_step_changes_nothing(stream, window, expires):
    steady, moved = make_join(window, expires), make_join(window, expires)
    for tick, batch in enumerate(stream):
        arrays = moved.to_arrays()
        moved = make_join(window, expires)
        moved.restore(arrays)
        one, two = play(steady, batch, tick), play(moved, batch, tick)
        assert one[0].ids == two[0].ids
        assert one[0].labels == two[0].labels
        assert np.array_equal(one[0].rows, two[0].rows)
        assert np.array_equal(one[0].propensity, two[0].propensity, equal_nan=True)
        assert one[1] == two[1]
    assert steady.counters() == moved.counters()
    ours, theirs = steady.to_arrays(), moved.to_arrays()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes()


def test_the_window_keeps_rows_and_ids_together_while_it_grows_and_moves():
    window, count, oldest = RecordWindow(1), 0, 0
    for size in np.random.default_rng(0).integers(0, 400, size=60).tolist():
        ids = [str(count + i) for i in range(size)]
        X = np.arange(count, count + size, dtype=np.float32)[:, None]
        window.add(ids, X, ids, RecordCountAndBatchTime(count, 0))
        count += size
        left = list(window.evict(WindowSize(records=300), RecordCountAndBatchTime(count, 0)))
        assert left == [str(i) for i in range(oldest, max(0, count - 300))]
        oldest = max(0, count - 300)
        assert len(window) == count - oldest
        assert window.feature_rows()[:, 0].tolist() == list(range(oldest, count))
        assert all(window[str(i)].x[0] == i for i in range(oldest, count, 50))


def test_a_record_given_out_does_not_change_with_the_window():
    window = RecordWindow(1)
    window.add(["a"], np.array([[1.0]], dtype=np.float32), [None], RecordCountAndBatchTime(0, 0))
    arrival = window["a"]
    list(window.evict(WindowSize(records=1), RecordCountAndBatchTime(1, 0)))
    for i in range(3):
        window.add(
            [str(i)] * 1,
            np.full((1, 1), 9, dtype=np.float32),
            [None],
            RecordCountAndBatchTime(i, 0),
        )
    window.add(
        [f"n{i}" for i in range(600)],
        np.zeros((600, 1), np.float32),
        [None] * 600,
        RecordCountAndBatchTime(9, 0),
    )
    assert arrival.x.tolist() == [1.0]


@pytest.mark.parametrize(
    "value", [0, -1, True, 1.5, "2", "h", "0s", "1.5h", "2 h", "-2h", None, []]
)
def test_a_span_that_is_neither_records_nor_a_time_is_refused(value):
    with pytest.raises(ValueError, match="number of records"):
        WindowSize.parse(value)


def test_only_a_span_in_time_has_an_end_that_can_be_told():
    assert WindowSize.parse("2h").end_time_ms(RecordCountAndBatchTime(5, 1_000)) == 7_201_000
    assert WindowSize.parse(5).end_time_ms(RecordCountAndBatchTime(5, 1_000)) is None
