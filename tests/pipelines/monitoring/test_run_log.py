import logging

import pytest

from streamboost.pipelines.monitoring import run_log as reporting
from streamboost.pipelines.monitoring.run_log import RunLog


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, logger="streamboost.pipelines.monitoring.run_log")
    return lambda: [(record.levelname, record.message) for record in caplog.records]


def run(world, report):
    world.loop.observers = [report]
    world.run()
    report.close(world.pipeline.sequence)


def test_a_run_ends_in_one_line_of_all_that_it_did(world, make_records, said):
    records, truth = make_records(25)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    run(world, RunLog())
    requests = len(world.read("requests"))
    assert said() == [
        (
            "INFO",
            f"stopped after batch 3: 25 records in this run, {requests} labels requested, "
            "25 learned, 0 dead letters, 10 predicted before the first label (label null)",
        )
    ]


def test_one_is_not_told_of_as_several(world, make_records, said):
    world.feed([*make_records(1)[0], {"a": 1}], [{"id": "0", "label": "x"}] * 2)
    run(world, RunLog())
    assert said()[-1][1].startswith("stopped after batch 1: 1 record in this run, ")
    assert "1 learned, 1 dead letter, 1 label ignored" in said()[-1][1]


def test_a_run_without_a_batch_says_after_which_batch_nothing_was_new(world, said):
    RunLog().close(6)
    RunLog().close(0)
    assert said() == [
        ("INFO", "no messages since batch 6"),
        ("INFO", "the sources have no messages"),
    ]


def test_a_run_that_waited_to_end_does_not_say_that_nothing_has_changed(world, make_records, said):
    report = RunLog()
    report.log_interruption()
    world.feed(make_records(1)[0], [])
    run(world, report)
    report.log_interruption()
    assert said()[0] == ("WARNING", "stopped while waiting at the start: nothing has changed")
    level, text = said()[-1]
    assert level == "WARNING"
    assert text.startswith(
        "stopped after batch 1, while waiting at the end: 1 record in this run, "
    )


def test_progress_is_told_only_now_and_then_with_the_trainings(
    world, make_records, said, monkeypatch
):
    monkeypatch.setattr(reporting, "EVERY", 0.0)
    records, truth = make_records(20)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    run(world, RunLog())
    version = world.pipeline.learner.committee.version
    assert said()[1][1].startswith("batch 2: 20 records in this run, ")
    assert said()[1][1].endswith(f"; trained {version} times, committee version {version}")
    assert len(said()) == 3


def test_the_first_dead_letter_of_each_reason_is_warned_of_with_its_place(
    world, make_records, said
):
    records, _ = make_records(3)
    world.feed([records[0], {"a": 1}, {"a": 2}, {"id": "x", "a": "text"}])
    run(world, RunLog())
    warnings = [message for level, message in said() if level == "WARNING"]
    assert warnings == [
        "the first dead letter (missing_id): field 'id' is absent or null; in the records, "
        "partition 0, offset 1",
        "the first dead letter (wrong_type): field 'a': expected a number or null, got text; in "
        "the records, partition 0, offset 3",
    ]
    assert "3 dead letters" in said()[-1][1]


def test_the_first_ignored_label_of_each_kind_is_told_of(make_world, make_records, said):
    world = make_world(on_conflict="first")
    records, _ = make_records(1)
    again = [{"id": "0", "label": label} for label in ("left", "left", "left", "right")]
    world.feed(records, again)
    run(world, RunLog())
    assert [message for _, message in said()][:-1] == [
        "the first ignored label (duplicate) repeats the label of its record",
        "the first ignored label (conflicting) differs from the first label of its record, which "
        "stays",
    ]
    assert "1 learned, 0 dead letters, 3 labels ignored" in said()[-1][1]


def test_labels_that_meet_no_record_are_warned_of_once_they_are_many(
    make_world, make_records, said
):
    world = make_world(window=10)
    records, truth = make_records(60)
    answers = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    world.feed(labels=[{"id": f"other {n}", "label": "left"} for n in range(3)])
    report = RunLog()
    world.loop.observers = [report]
    for start in range(0, 60, 10):
        world.feed(records[start : start + 10], answers[start : start + 10])
        world.run()
    report.close(world.pipeline.sequence)
    (warning,) = (text for level, text in said() if level == "WARNING")
    assert warning.startswith(
        "3 of 63 labels matched no record, and are lost: check that labels have"
    )
