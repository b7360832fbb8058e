"""Tiles, next steps and addresses of the overview."""

import pytest

from streamboost.pipelines.dashboard.layout import PARTS
from streamboost.pipelines.dashboard.overview import (
    MOST_STEPS,
    RECENT_MS,
    anchor_redirects,
    budget_text,
    decision_cost_texts,
    next_steps,
)
from streamboost.pipelines.dashboard.panels import PANELS
from streamboost.pipelines.dashboard.status_line import URGENCY, Notice, PipelineStatus
from streamboost.pipelines.dashboard.view import StatusSnapshot


def test_the_cost_of_decisions_has_a_tile_where_there_is_one():
    assert decision_cost_texts(StatusSnapshot()) is None
    assert (
        decision_cost_texts(StatusSnapshot(documents={"evaluation": {"recent": {"cost": None}}}))
        is None
    )
    cost = {"value": 0.25, "low": 0.125, "high": 0.5}
    view = StatusSnapshot(documents={"evaluation": {"recent": {"cost": cost}}})
    assert decision_cost_texts(view) == ("0.250", "0.125 to 0.500, 95 % interval of the mean")


def test_each_part_of_the_navigation_has_panels():
    assert [path for _, path, _ in PARTS] == list(PANELS)


def test_anchors_of_panels_lead_to_the_part_that_has_them():
    moved = anchor_redirects("a b")
    assert moved["annotators"] == "/labelling?pipeline=a+b"
    assert moved["expert-weights"] == "/quality?pipeline=a+b"
    assert "accuracy" not in moved, "the overview has this panel, too"


def test_labels_left_are_those_allowed_and_not_requested():
    documents = {"ledger": {"allowed": 480.7, "requests": 478}, "pipeline": {"budget": 0.2}}
    said = budget_text(StatusSnapshot(documents=documents))
    assert said == "2 left of 480; budget 20.0 %"
    documents["ledger"]["requests"] = 500
    assert budget_text(StatusSnapshot(documents=documents)).startswith("0 left")
    assert budget_text(StatusSnapshot()) == ""


def test_next_steps_begin_with_the_error_and_end_with_the_class_of_the_lowest_recall():
    classes = [
        {"label": name, "recall": {"value": value, "low": 0.2, "high": 1.0}}
        for name, value in (("sky", 0.9), ("path", 0.5), ("grass", 1.0))
    ]
    documents = {
        "pipeline": {"name": "p"},
        "join": {"open_requests": 2, "dead_letters": 1},
        "evaluation": {"recent": {"classes": classes}},
    }
    paused = Notice("Paused", "training is paused", "/versions", "Resume training")
    status = PipelineStatus("Error", "bad", (), 1.0, "no disk", [paused])
    steps = next_steps(StatusSnapshot(documents=documents), status)
    assert [(one.action, one.link) for one in steps] == [
        ("Fix the error", "/operations?pipeline=p"),
        ("Resume training", "/versions"),
        ("Label records", "/label?pipeline=p"),
        ("Fix and resend messages", "/dead-letters?pipeline=p"),
        ("Review the mistakes of class path", "/records?pipeline=p&true=path&wrong=true"),
    ]
    assert [one.text for one in steps[2:4]] == [
        "2 requests wait for a label",
        "1 message could not be used",
    ]
    assert next_steps(StatusSnapshot(), PipelineStatus("OK", "good")) == []
    report = {"classes": classes, "records": 1_602}
    for evaluation, period in (
        ({"recent": report, "since_start": report}, "in the newest 1,602 records"),
        ({"since_start": report}, "since the start"),
    ):
        (step,) = next_steps(
            StatusSnapshot(documents={"evaluation": evaluation}), PipelineStatus("OK", "good")
        )
        assert step.text.startswith(f"class path has the lowest recall {period}: 50.0 %")


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("Unresponsive", "Check the process"),
        ("Stopped", "Start the pipeline"),
        ("Not started", "Start the pipeline"),
    ],
)
def test_next_steps_of_a_pipeline_that_does_not_run_begin_with_its_process(word, action):
    view = StatusSnapshot(documents={"pipeline": {"name": "p"}, "join": {"open_requests": 2}})
    first, second = next_steps(view, PipelineStatus(word, "grey", ("the reason", "more")))
    assert (first.action, first.text) == (action, "the reason")
    assert first.link == "/operations?pipeline=p"
    assert second.action == "Label records"


def test_of_many_next_steps_the_most_urgent_are_shown():
    notices = [Notice(word, "", "/", word) for word in reversed(URGENCY[1:])]
    status = PipelineStatus("Error", "bad", (), 1.0, "no disk", notices)
    steps = next_steps(StatusSnapshot(), status)
    assert [one.action for one in steps] == ["Fix the error", *URGENCY[1:MOST_STEPS]]


def test_accuracy_drop_comes_before_annotators_requests_and_drift():
    words = "Feature drift", "Accuracy drop", "Annotator disagreement", "Stream change"
    notices = [Notice(word, "", "/", word) for word in words]
    view = StatusSnapshot(documents={"pipeline": {"name": "p"}, "join": {"open_requests": 2}})
    steps = next_steps(view, PipelineStatus("Accuracy drop", "warn", notices=notices))
    assert [one.word for one in steps] == [
        "Accuracy drop",
        "Annotator disagreement",
        "Open requests",
        "Feature drift",
        "Stream change",
    ]


@pytest.mark.parametrize(("age_ms", "place"), [(60_000, 0), (2 * RECENT_MS, 1)])
def test_dead_letters_are_urgent_while_messages_are_rejected(age_ms, place):
    now = 10 * RECENT_MS
    documents = {
        "pipeline": {"name": "p", "time": now},
        "join": {"open_requests": 2, "dead_letters": 1},
    }
    view = StatusSnapshot(documents=documents, dead_letters=[{"time": now - age_ms}])
    steps = next_steps(view, PipelineStatus("OK", "good"))
    assert steps[place].action == "Fix and resend messages"
