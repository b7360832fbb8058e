"""The labelling queue with several annotators: assignment, undo, and time of the write."""

import threading
import time

import pytest

from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, DataError, StateError, UnavailableError
from streamboost.pipelines.service.auth.users import PROGRAM, User
from streamboost.pipelines.service.labelling.leases import SHORTEST
from streamboost.pipelines.service.labelling.outbox import MARGIN, WATCHED_EVERY
from streamboost.pipelines.service.labelling.progress import LabellingProgress
from streamboost.pipelines.service.labelling.queue import LabelQueue
from streamboost.pipelines.service.labelling.writers import LabelWriter
from tests.pipelines.service.labelling.desks import ANN, BEN, GRACE, LEASE, Asked, Desk


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, 3)


def test_the_most_useful_is_first_and_stays_with_whoever_looks_at_it(desk):
    assert desk.before(ANN) == "0"
    assert desk.before(BEN) == "1"
    desk.asked.open["9"] = Asked.one("9", 2.0)
    assert desk.before(ANN) == "0"
    assert desk.before(User("cy", "seat 3")) == "9"


def test_whoever_has_a_record_that_a_program_answers_gets_another(desk):
    assert desk.before(ANN) == "0"
    desk.queue.post_labels(PROGRAM, [Label("0", "left")])
    assert desk.before(ANN) == "1"


def test_what_was_answered_meanwhile_does_not_come_back_by_undo(desk):
    desk.queue.skip(ANN, desk.before(ANN))
    desk.queue.answer(BEN, "0", "left")
    desk.queue.undo(ANN)
    assert desk.before(ANN) == "1"


def test_whoever_does_not_come_back_loses_the_record(desk):
    desk.before(ANN)
    desk.now += LEASE - 1
    assert desk.before(ANN) == "0"
    desk.now += LEASE - 1
    assert desk.before(BEN) == "1"
    desk.now += 1
    assert desk.before(User("cy", "seat 3")) == "0"
    with pytest.raises(StateError, match="another annotator is labelling record '0'"):
        desk.queue.answer(ANN, "0", "left")


def test_an_answer_is_held_then_written_once_with_who_gave_it(desk):
    entry = desk.queue.answer(ANN, desk.before(ANN), "left")
    assert entry.stage == "held"
    assert desk.before(ANN) == "1"
    desk.now += GRACE - 1
    assert desk.queue.write_due_labels() == 0
    desk.now += 1
    assert desk.queue.write_due_labels() == 1
    assert desk.queue.write_due_labels() == 0
    assert desk.written() == [("0", "left", "ann")]
    (kept,) = desk.queue.history()
    assert (kept.person, kept.time, kept.stage) == ("ann", 1_000_000, "written")


def test_a_held_answer_survives_its_process_and_is_written_by_the_next(desk):
    desk.queue.answer(ANN, "0", "left")
    desk.now += GRACE
    assert desk.fresh().write_due_labels() == 1
    assert desk.written() == [("0", "left", "ann")]


def test_an_answer_is_written_in_time_for_its_request(desk):
    desk.asked.open["0"]["expires"] = desk.now + MARGIN + 1_000
    desk.asked.open["1"]["expires"] = desk.now + MARGIN - 1_000
    desk.queue.answer(ANN, "0", "left")
    desk.queue.answer(ANN, "1", "right")
    desk.queue.answer(ANN, "2", "left")
    assert desk.queue.write_due_labels() == 1, "as late as that, it goes at once"
    desk.now += 999
    assert desk.queue.write_due_labels() == 0, "it can be undone, still"
    desk.now += 1
    assert desk.queue.write_due_labels() == 1
    assert desk.written() == [("1", "right", "ann"), ("0", "left", "ann")]


def test_an_answer_that_came_too_late_is_called_so_and_counts_for_nothing(desk):
    for id in ("0", "1"):
        desk.queue.answer(ANN, id, "left")
    desk.now += GRACE
    desk.queue.write_due_labels()
    desk.asked.close("0")
    desk.asked.close("1", labels=[[desk.now, "left", "ann"]])
    desk.now += WATCHED_EVERY
    desk.queue.write_due_labels()
    entries = {entry.id: entry for entry in desk.queue.history()}
    assert (entries["0"].stage, entries["1"].stage) == ("late", "written")
    assert desk.queue.progress(ANN).today == 1
    with pytest.raises(StateError, match="this answer does not exist"):
        desk.queue.correct_label(ANN, entries["0"].number, "right")


def test_what_is_still_asked_or_was_never_asked_is_not_called_late(desk):
    desk.queue.answer(ANN, "0", "left")
    desk.queue.post_labels(PROGRAM, [Label("77", "left")])
    desk.asked.kept["0"] = desk.asked.open["0"] | {"asked": True, "labels": []}
    desk.asked.open["1"]["expires"] = desk.now + 3_600_000
    desk.queue.answer(BEN, "1", "left")
    desk.queue.write_due_labels(at_once=True)
    desk.asked.close("1")  # and what became of it is not told yet
    desk.now += WATCHED_EVERY
    desk.queue.write_due_labels()
    assert {entry.stage for entry in desk.queue.history()} == {"written"}


def test_an_answer_can_be_undone_until_it_is_written(desk):
    desk.queue.answer(ANN, "0", "left")
    assert desk.before(ANN) == "1"
    assert desk.queue.undo(ANN).id == "0"
    assert desk.before(ANN) == "0"
    desk.queue.answer(ANN, "0", "right")
    desk.now += GRACE
    desk.queue.write_due_labels()
    assert desk.written() == [("0", "right", "ann")]
    with pytest.raises(StateError, match="'right' of record '0' was written already"):
        desk.queue.undo(ANN)


def test_undo_ends_with_its_window_or_before_the_request_expires(desk):
    desk.asked.open["0"]["expires"] = desk.now + MARGIN + 1_000
    short, long = (desk.queue.answer(ANN, id, "left") for id in ("0", "1"))
    assert desk.queue.undo_seconds(short) == 1.0
    assert desk.queue.undo_seconds(long) == GRACE / 1000
    desk.now += GRACE + 1
    assert desk.queue.undo_seconds(long) == 0.0


def test_one_label_of_several_records_is_given_by_the_rules_of_single_answers(tmp_path):
    desk = Desk(tmp_path, 6)
    desk.before(BEN)  # record 0 is before another annotator
    desk.asked.open["1"]["excluded_annotators"] = ["ann"]
    desk.asked.close("2")
    desk.queue.answer(BEN, "3", "right")
    ids = ["0", "1", "2", "3", "4", "5"]
    assert [one["id"] for one in desk.queue.answerable_requests(ANN, ids)] == ["4", "5"]
    entries = desk.queue.answer_all(ANN, ids, "left")
    assert [(entry.id, entry.sequence, entry.stage) for entry in entries] == [
        ("4", 1, "held"),
        ("5", 1, "held"),
    ]
    with pytest.raises(StateError, match="answered already"):
        desk.queue.answer(BEN, "4", "right")
    with pytest.raises(DataError):
        desk.queue.answer_all(ANN, ["0"], "")
    desk.now += GRACE
    desk.queue.write_due_labels()
    assert desk.written() == [("3", "right", "ben"), ("4", "left", "ann"), ("5", "left", "ann")]


def test_labels_that_are_given_together_count_as_one_answer_in_the_time_per_answer(tmp_path):
    desk = Desk(tmp_path, 9)
    clock = iter(range(desk.now, desk.now + 10**6, 7))
    desk.queue._clock = lambda: next(clock) + (desk.now - 1_000_000)
    desk.queue.answer(ANN, "0", "left")
    desk.now += 10_000
    desk.queue.answer_all(ANN, ["1", "2", "3", "4", "5"], "left")
    progress = desk.queue.progress(ANN)
    assert (progress.today, round(progress.seconds)) == (6, 10)


def test_several_labels_are_undone_together_and_no_other(desk):
    desk.queue.answer(ANN, "2", "right")
    group = [entry.number for entry in desk.queue.answer_all(ANN, ["1", "0"], "left")]
    assert desk.queue.undo(ANN, group).id == "0"
    assert desk.before(ANN) == "0"
    assert desk.queue.undo(ANN, group).id == "2", "the group is undone already"
    desk.now += GRACE
    assert desk.queue.write_due_labels() == 0


def test_undo_is_of_ones_own_seat(desk):
    desk.queue.answer(ANN, "0", "left")
    with pytest.raises(StateError, match="nothing to undo"):
        desk.queue.undo(BEN)
    with pytest.raises(StateError, match="nothing to undo"):
        desk.queue.undo(User("ann", "another seat"))


def test_what_was_skipped_comes_last_and_to_others_at_once(desk):
    desk.queue.skip(ANN, desk.before(ANN))
    assert desk.before(BEN) == "0"
    assert desk.before(ANN) == "1"
    desk.queue.release_lease(BEN)
    for id in ("1", "2"):
        desk.queue.answer(ANN, id, "left")
    assert desk.before(ANN) == "0"


def test_a_record_that_somebody_answered_meanwhile_is_before_nobody(desk):
    desk.queue.skip(ANN, desk.before(ANN))
    desk.queue.answer(BEN, desk.before(BEN), "left")
    desk.queue.undo(ANN)
    assert desk.before(ANN) == "1"
    desk.queue.post_labels(PROGRAM, [Label("1", "left")])
    assert desk.before(ANN) == "2"


def test_what_somebody_is_not_sure_of_is_for_others(desk):
    for id in ("0", "1", "2"):
        desk.queue.mark_unsure(ANN, id)
    assert desk.before(ANN) is None
    assert desk.before(BEN) == "0"
    desk.queue.undo(ANN)
    assert desk.before(ANN) == "2"


def test_what_expired_disappears(desk):
    desk.before(ANN)
    del desk.asked.open["0"]
    assert desk.before(ANN) == "1"
    with pytest.raises(StateError, match="request for record '0' is closed"):
        desk.queue.answer(ANN, "0", "left")


def test_a_record_that_is_asked_for_again_can_be_answered_again(desk):
    desk.queue.answer(ANN, "0", "left")
    with pytest.raises(StateError, match="answered already"):
        desk.queue.answer(BEN, "0", "right")
    desk.asked.open["0"] = Asked.one("0", 1.0, sequence=7)
    desk.queue.answer(BEN, "0", "right")


def test_nobody_who_has_logged_in_answers_in_the_name_of_another(desk):
    desk.queue.post_labels(ANN, [Label("0", "left", source="ben")])
    assert [entry.person for entry in desk.queue.history()] == ["ann"]


def test_a_annotator_posts_labels_of_what_they_may_answer_or_change_alone(desk):
    boss = User("boss", "seat 9", "operator")
    desk.asked.open["3"] = Asked.one("3", 0.1) | {"excluded_annotators": ["ann"]}
    assert desk.before(BEN) == "0"
    desk.queue.answer(BEN, "1", "left")
    for id in ("0", "1", "3", "77"):  # before ben, answered, asked of others, never asked about
        with pytest.raises(StateError, match=id):
            desk.queue.post_labels(ANN, [Label("2", "left"), Label(id, "right")])
    assert desk.written() == []
    desk.queue.post_labels(ANN, [Label("2", "left")])
    desk.queue.post_labels(ANN, [Label("2", "right")])  # their own, changed
    desk.queue.post_labels(boss, [Label("77", "right"), Label("1", "right")])
    assert [label for id, label, _ in desk.written() if id == "2"] == ["left", "right"]
    assert [(id, label) for id, label, _ in desk.written() if id != "2"] == [
        ("1", "left"),  # ben's, which was held
        ("77", "right"),
        ("1", "right"),
    ]


def test_a_label_posted_over_ones_own_that_is_held_is_the_last(desk):
    desk.queue.answer(ANN, desk.before(ANN), "left")
    desk.queue.post_labels(ANN, [Label("0", "right")])
    assert desk.queue.write_due_labels(at_once=True) == 0
    assert desk.written() == [("0", "right", None)]


@pytest.mark.parametrize("poster", [PROGRAM, User("boss", "seat 9", "operator")])
def test_a_label_posted_over_an_answer_of_somebody_else_that_is_held_is_the_last(desk, poster):
    desk.queue.answer(ANN, desk.before(ANN), "left")
    desk.queue.post_labels(poster, [Label("0", "right"), Label("5", "left")])
    assert desk.queue.write_due_labels(at_once=True) == 0
    assert [label[:2] for label in desk.written()] == [("0", "left"), ("0", "right"), ("5", "left")]
    assert [entry.stage for entry in desk.queue.history()] == ["written"] * 3


def test_where_labelling_is_blind_an_answer_stays_however_it_is_taken_back(tmp_path):
    desk = Desk(tmp_path, 2, blind=True)
    ways = [
        lambda id: desk.queue.answer(ANN, id, "right"),
        lambda id: desk.queue.post_labels(ANN, [Label(id, "right")]),
        lambda id: desk.queue.correct_label(ANN, 1, "right"),
        lambda id: desk.queue.skip(ANN, id),
    ]
    desk.queue.answer(ANN, desk.before(ANN), "left")
    for way in ways[:3]:
        with pytest.raises(StateError):
            way("0")
    assert desk.queue.correctable_entry(ANN, "0", "left") is None
    desk.queue.undo(ANN)
    again = User("ann", "seat 7")
    assert desk.before(ANN) == "1"
    assert desk.queue.renew_lease(again, "0") is None
    for way in ways:
        with pytest.raises(StateError):
            way("0")
    desk.queue = desk.fresh()
    assert desk.before(again) is None
    assert desk.before(BEN) == "0", "others may answer it"
    assert desk.queue.answer(BEN, "0", "right").stage == "held"


def test_blind_labelling_asks_nobody_again_about_a_record_whose_guess_was_shown(tmp_path):
    desk = Desk(tmp_path, 1, blind=True)
    desk.queue.answer(ANN, desk.before(ANN), "left")
    desk.queue.undo(ANN)
    desk.queue.answer(BEN, "0", "right")
    desk.asked.open["0"] = desk.asked.one("0", 1.0, sequence=9) | {"excluded_annotators": ["ben"]}
    assert desk.before(ANN) is None
    with pytest.raises(StateError):
        desk.queue.answer(ANN, "0", "left")
    assert desk.before(User("eve", "seat 3")) == "0"


def test_labels_that_a_program_posts_are_written_at_once_and_kept(desk):
    desk.queue.post_labels(PROGRAM, [Label("0", "left"), Label("77", "right", 5, "bot")])
    assert desk.written() == [("0", "left", None), ("77", "right", "bot")]
    assert [(e.id, e.person, e.stage) for e in desk.queue.history()] == [
        ("77", "bot", "written"),
        ("0", "api", "written"),
    ]
    assert desk.before(ANN) == "1"


@pytest.mark.parametrize("label", ["", "x" * 1_001, "a\0", 7, "\ud800"])
def test_what_the_pipeline_could_not_read_is_refused_at_once(desk, label):
    with pytest.raises(DataError):
        desk.queue.answer(ANN, "0", label)
    assert desk.queue.history() == []


def test_a_label_that_nobody_can_use_any_more_keeps_no_other_waiting(desk):
    desk.queue.answer(ANN, "0", " left ")
    desk.queue.answer(BEN, "1", "right")
    desk.queue = desk.fresh(classes=["right"])  # as the file may say by the next start
    assert desk.queue.write_due_labels(at_once=True) == 2
    assert desk.written() == [("0", "left", "ann"), ("1", "right", "ben")]


def test_where_labels_cannot_be_written_nothing_is_taken(tmp_path):
    refusal = LabelWriter(ConfigurationError("they come from a dataset"), Schema(numeric=["a"]))
    queue = LabelQueue(tmp_path / "labelling.db", Asked(1), refusal)
    with pytest.raises(ConfigurationError, match="from a dataset"):
        queue.answer(ANN, "0", "left")
    assert refusal.configuration_error == "they come from a dataset"


@pytest.mark.parametrize("error", [UnavailableError, RuntimeError])
def test_what_cannot_be_written_now_waits_and_says_why(desk, monkeypatch, error):
    desk.queue.answer(ANN, "0", "left")
    desk.now += GRACE
    flush = desk.sink.flush

    def fail():
        raise error("the disk is away")

    monkeypatch.setattr(desk.sink, "flush", fail)
    assert desk.queue.write_due_labels() == 0
    assert desk.queue.write_error == "the disk is away"
    with pytest.raises(StateError, match="written already"):
        desk.queue.undo(ANN)
    monkeypatch.setattr(desk.sink, "flush", flush)
    assert desk.queue.write_due_labels() == 1
    assert desk.queue.write_error is None
    assert desk.written() == [("0", "left", "ann")]


@pytest.mark.parametrize("poster", [PROGRAM, ANN])
def test_a_label_posted_after_an_answer_that_could_not_be_written_is_the_last(
    desk, monkeypatch, poster
):
    desk.queue.answer(ANN, "0", "left")
    desk.now += GRACE
    with monkeypatch.context() as patch:
        patch.setattr(desk.sink, "flush", lambda: 1 / 0)
        assert desk.queue.write_due_labels() == 0
    desk.queue.post_labels(poster, [Label("0", "right")])
    assert desk.queue.write_due_labels(at_once=True) == 0
    assert [label for _, label, _ in desk.written()][-2:] == ["left", "right"]


@pytest.fixture
def stalled(desk, monkeypatch):
    """A desk whose labels source writes only once it is told to, and the events for that."""
    begun, go = threading.Event(), threading.Event()
    flush = desk.sink.flush

    def wait():
        begun.set()
        assert go.wait(60)
        flush()

    monkeypatch.setattr(desk.sink, "flush", wait)
    yield begun, go
    go.set()


def test_while_a_label_is_written_slowly_others_go_on_and_another_post_is_refused(desk, stalled):
    begun, go = stalled
    post = threading.Thread(target=desk.queue.post_labels, args=(ANN, [Label("0", "left")]))
    post.start()
    assert begun.wait(60)
    other = desk.fresh()  # of another process
    for queue in (desk.queue, other):
        with pytest.raises(UnavailableError, match="an earlier write of labels has not ended yet"):
            queue.post_labels(BEN, [Label("1", "right")])
        with pytest.raises(StateError, match="was answered already"):
            queue.answer(BEN, "0", "right")
    assert desk.before(BEN) == "1"
    assert desk.queue.answer(BEN, "1", "right").stage == "held"
    go.set()
    post.join(60)
    assert desk.queue.write_due_labels(at_once=True) == 1
    assert [label[:2] for label in desk.written()] == [("0", "left"), ("1", "right")]


def test_an_answer_that_another_process_is_writing_is_not_written_after_a_later_label(
    desk, stalled
):
    begun, go = stalled
    desk.queue.answer(ANN, "0", "left")
    desk.now += GRACE
    write = threading.Thread(target=desk.queue.write_due_labels)
    write.start()
    assert begun.wait(60)
    other = desk.fresh()
    with pytest.raises(UnavailableError):
        other.post_labels(PROGRAM, [Label("0", "right")])
    go.set()
    write.join(60)
    other.post_labels(PROGRAM, [Label("0", "right")])
    assert desk.queue.write_due_labels(at_once=True) == 0
    assert [label[:2] for label in desk.written()] == [("0", "left"), ("0", "right")]


def test_a_post_that_could_not_be_written_leaves_what_waited_as_it_was(desk, monkeypatch):
    desk.queue.answer(ANN, "0", "left")
    desk.queue.answer(BEN, "1", "left")
    with monkeypatch.context() as patch:
        patch.setattr(desk.sink, "flush", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            desk.queue.post_labels(PROGRAM, [Label("0", "right"), Label("1", "right")])
        with pytest.raises(ZeroDivisionError):
            desk.queue.post_labels(ANN, [Label("0", "right")])
    assert desk.queue.undo(ANN).label == "left"
    assert desk.queue.write_due_labels(at_once=True) == 1
    assert desk.written()[-1] == ("1", "left", "ben")
    assert {entry.stage for entry in desk.queue.history() if entry.person != "ben"} == {"undone"}


@pytest.mark.parametrize("was_written", [False, True])
def test_a_label_that_was_posted_as_the_process_ended_is_written_at_the_next_start(
    desk, monkeypatch, was_written
):
    """What is written twice is the same label of the same source, so that it counts once."""
    desk.queue.answer(ANN, "0", "left")
    flush = desk.sink.flush

    def end():
        if was_written:
            flush()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(desk.sink, "flush", end)
        with pytest.raises(KeyboardInterrupt):
            desk.queue.post_labels(
                PROGRAM, [Label("0", "right", source="api"), Label("5", "left", source="bot")]
            )
    assert desk.fresh().write_due_labels() == 3
    expected = [("0", "left", "ann"), ("0", "right", "api"), ("5", "left", "bot")]
    assert desk.written()[-3:] == expected
    assert desk.fresh().write_due_labels(at_once=True) == 0


def test_a_clock_that_is_set_back_holds_nothing_back(desk):
    desk.queue.answer(ANN, "0", "left")
    desk.now -= 3_600_000
    assert desk.queue.write_due_labels() == 1


def test_at_the_end_what_is_held_is_written(desk):
    desk.queue.answer(ANN, "0", "left")
    assert desk.queue.write_due_labels(at_once=True) == 1


def test_a_file_of_another_release_is_refused(desk):
    desk.before(ANN)
    with desk.queue._store.write_transaction() as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StateError, match="has format 9"):
        desk.fresh().lease_next(ANN)


def test_a_record_that_is_asked_about_again_goes_to_somebody_else(desk):
    desk.asked.open["9"] = Asked.one("9", 2.0) | {"excluded_annotators": ["ann"]}
    assert desk.before(ANN) == "0"
    with pytest.raises(StateError, match="record '9' needs a label of another annotator"):
        desk.queue.answer(ANN, "9", "left")
    assert desk.before(BEN) == "9"


def test_an_answer_can_be_changed_after_it_was_written(desk):
    first = desk.queue.answer(ANN, "0", "left")
    desk.now += GRACE
    desk.queue.write_due_labels()
    del desk.asked.open["0"]
    changed = desk.queue.correct_label(ANN, first.number, " right ")
    assert (changed.label, changed.stage, changed.id) == ("right", "held", "0")
    assert desk.queue.write_due_labels() == 0, "it can be undone, too"
    desk.now += GRACE
    desk.queue.write_due_labels()
    assert desk.written() == [("0", "left", "ann"), ("0", "right", "ann")]


def test_a_change_that_is_undone_leaves_what_was_said_before(desk):
    first = desk.queue.answer(ANN, "0", "left")
    desk.queue.correct_label(ANN, first.number, "right")
    assert desk.queue.undo(ANN).label == "right"
    desk.queue.write_due_labels(at_once=True)
    assert desk.written() == [("0", "left", "ann")]


def test_only_who_said_it_or_an_operator_changes_an_answer(desk):
    first = desk.queue.answer(ANN, "0", "left")
    with pytest.raises(StateError, match="record '0' was labelled by another annotator"):
        desk.queue.correct_label(BEN, first.number, "right")
    boss = User("boss", "seat 3", "operator")
    assert desk.queue.correct_label(boss, first.number, "right").person == "boss"
    skipped = desk.queue.skip(ANN, "1")
    undone = desk.queue.answer(ANN, "2", "left")
    desk.queue.undo(ANN)
    for number in (skipped.number, undone.number, 77, 0, -1):
        with pytest.raises(StateError, match="this answer does not exist"):
            desk.queue.correct_label(boss, number, "right")
    with pytest.raises(DataError):
        desk.queue.correct_label(ANN, first.number, "")


def test_nobody_changes_what_was_changed_while_they_looked_at_it(desk):
    first = desk.queue.answer(ANN, "0", "left")
    boss = User("boss", "seat 3", "operator")
    second = desk.queue.correct_label(boss, first.number, "right")
    with pytest.raises(StateError, match="'0' has the newer label 'right' of boss"):
        desk.queue.correct_label(ANN, first.number, "left")
    desk.queue.undo(boss)
    assert desk.queue.correct_label(ANN, first.number, "left").number > second.number


def test_where_the_first_label_stays_none_can_be_changed(desk):
    first = desk.queue.answer(ANN, "0", "left")
    desk.queue._corrects = False
    with pytest.raises(StateError, match="set \\[labels\\] on_conflict"):
        desk.queue.correct_label(ANN, first.number, "right")
    assert len(desk.queue.history()) == 1


def test_progress_counts_what_was_given_today_and_passes_over_breaks(desk):
    assert desk.queue.progress(ANN) == LabellingProgress()
    desk.now = int(time.mktime((2026, 11, 22, 12, 0, 0, 0, 0, -1)) * 1000)
    yesterday = desk.now = desk.now - 86_400_000
    desk.queue.answer(ANN, "0", "left")
    desk.now += 86_400_000
    for id, seconds in (("1", 8), ("2", 12)):
        desk.queue.answer(ANN, id, "left")
        desk.now += seconds * 1000
    desk.asked.open["3"] = Asked.one("3", 1.0)
    desk.queue.skip(ANN, "3")
    assert desk.queue.progress(ANN) == LabellingProgress(2, 8.0, yesterday)
    desk.asked.open |= {"8": Asked.one("8", 1.0), "9": Asked.one("9", 1.0)}
    desk.now += 3_600_000
    desk.queue.answer(ANN, "8", "left")
    assert desk.queue.progress(ANN) == LabellingProgress(3, 8.0, yesterday)
    desk.queue.undo(ANN)
    assert desk.queue.progress(ANN).today == 2
    assert desk.queue.progress(BEN) == LabellingProgress()


def test_where_two_people_differ_it_is_said_and_where_they_agree_it_is_not(desk):
    for id, labels in (("0", ("left", "right")), ("1", ("left", "left"))):
        for sequence, (person, label) in enumerate(zip((ANN, BEN), labels, strict=True), 1):
            desk.asked.open[id] = Asked.one(id, 1.0, sequence=sequence)
            desk.queue.answer(person, id, label)
    found = desk.queue.conflicting_labels(["0", "1", "2"])
    assert found == {"0": [("ann", "left"), ("ben", "right")]}
    first = next(one for one in desk.queue.history() if (one.id, one.person) == ("0", "ben"))
    desk.queue.correct_label(BEN, first.number, "left")
    assert desk.queue.conflicting_labels(["0", "1"]) == {}


def test_a_label_is_its_givers_to_change_and_an_operators_whoever_gave_it(desk):
    given = desk.queue.answer(ANN, "0", "left")
    operator = User("root", "seat 9", "operator")
    assert desk.queue.correctable_entry(ANN, "0", "left") == given
    assert desk.queue.correctable_entry(BEN, "0", "left") is None
    assert desk.queue.correctable_entry(operator, "0", "left") == given
    assert desk.queue.correctable_entry(ANN, "77", "left") is None
    assert desk.queue.correctable_entry(operator, "77", "left").number == 0, "it was said elsewhere"


def test_a_record_stays_with_whoever_looks_at_it_until_it_is_answered_or_expires(desk):
    assert desk.queue.renew_lease(ANN, desk.before(ANN))["id"] == "0"
    assert desk.queue.renew_lease(BEN, "0") is None
    desk.queue.skip(ANN, "0")
    desk.before(ANN)
    assert desk.queue.renew_lease(ANN, "0") is None, "they went on to another in another window"
    assert desk.queue.renew_lease(ANN, "1")["id"] == "1"
    del desk.asked.open["1"]
    assert desk.queue.renew_lease(ANN, "1") is None


def test_what_is_about_to_expire_comes_before_somebody_only_where_nothing_else_is_left(desk):
    desk.asked.open["0"]["expires"] = desk.now + SHORTEST - 1
    desk.asked.open["1"]["expires"] = desk.now - SHORTEST  # and is open: the pipeline was away
    assert desk.before(ANN) == "1"
    assert desk.before(BEN) == "2"
    assert desk.before(User("cy", "seat 3")) == "0"


def test_what_has_just_expired_comes_before_nobody_while_something_else_is_left(desk):
    desk.asked.open["0"]["expires"] = desk.now - 1  # the pipeline has not said so yet
    assert desk.before(ANN) == "1"
