"""The status line of a pipeline claims nothing that is unknown."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.pipelines.dashboard import charts, tables
from streamboost.pipelines.dashboard.annotators import annotator_table
from streamboost.pipelines.dashboard.status_line import FRESH, STILL, pipeline_status
from streamboost.pipelines.dashboard.view import EvaluationData, StatusSnapshot, visible_snapshot
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.blind import BlindMode
from streamboost.pipelines.status.formatting import time_text
from streamboost.pipelines.status.liveness import SILENT, SOON
from streamboost.pipelines.status.publisher import BEAT
from streamboost.pipelines.status.reader import LabelledPrediction

NOW = 1_000_000.0


def seen(state="running", *, committed=1.0, beat=1.0, runs=True, trouble=None, **point):
    """Return a view of a pipeline; `committed`, `beat` and `trouble` are ages in seconds."""
    documents = {
        "pipeline": {"state": state, "time": 1000 * (NOW - committed), "sequence": 7},
        "heartbeat": {"time": 1000 * (NOW - beat)},
        "trouble": {} if trouble is None else {"time": 1000 * (NOW - trouble), "text": "no disk"},
    }
    usual = {"records_per_second": 10.04, "lag": {"records": 0, "labels": 0}}
    return StatusSnapshot(documents=documents, points=[usual | point], runs=runs)


def told(**how):
    found = pipeline_status(seen(**how), NOW)
    return found.word, found.tone


def test_all_that_matters_stands_in_one_line():
    found = pipeline_status(seen(beat=2.0), NOW)
    assert (found.word, found.tone, found.age) == ("OK", "good", 2.0)
    assert list(found.parts) == ["10/s", "lag 0"]


def test_the_line_gives_the_last_commit_as_soon_as_the_stream_ends():
    view = seen(records_per_second=0.0)
    view = replace(view, points=[{"time": 1, "lag": {"records": 9}}, view.points[0] | {"time": 2}])
    parts = pipeline_status(view, NOW).parts
    assert list(parts) == [f"nothing new since {time_text(1000 * (NOW - 1))}, lag 0"]
    parts = pipeline_status(seen(records_per_second=0.0, lag={"records": 9}), NOW).parts
    assert list(parts) == ["0/s", "lag 9"]


@pytest.mark.parametrize(("low", "word"), [(0.01, "Accuracy drop"), (-0.01, "OK")])
def test_a_drop_of_the_accuracy_is_a_warning(low, word):
    view = seen()
    view.documents["evaluation"] = {"drop": {"value": 0.1, "low": low, "high": 0.2}}
    found = pipeline_status(view, NOW)
    assert found.word == word
    assert [one.text for one in found.notices] == ["accuracy fell by 10.0 points"] * (low > 0)
    assert all(one.link.startswith("/quality") for one in found.notices)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"state": "stopped", "runs": False}, ("Stopped", "grey")),
        ({"runs": False}, ("Unresponsive", "grey")),
        ({"beat": SILENT + 1}, ("Unresponsive", "grey")),
        ({"state": "recovering", "beat": SILENT + 1}, ("Recovering", "warn")),
        ({"state": "retrying"}, ("Retrying", "warn")),
        ({"state": "retrying", "trouble": 500.0}, ("Retrying", "bad")),
        ({"trouble": 5.0}, ("Error", "bad")),
        ({"trouble": 500.0, "committed": 900.0}, ("Error", "bad")),
        ({"trouble": FRESH + 1}, ("OK", "good")),
        ({"state": "stopped", "runs": False, "trouble": 5.0, "committed": 6.0}, ("Stopped", "bad")),
    ],
)
def test_the_line_turns_grey_when_nobody_speaks_and_red_on_trouble(how, line):
    assert told(**how) == line


def test_a_pipeline_that_told_of_every_batch_is_silent_as_soon_as_it_stops_and_tells_no_rate():
    found = pipeline_status(seen(beat=21.0, seconds=1.0), NOW)
    assert (found.word, found.tone) == ("Unresponsive", "grey")
    assert found.parts[0] == f"no heartbeat since {time_text(1000 * (NOW - 21))}"
    assert "/s" not in "".join(found.parts)
    assert told(beat=SOON - 1, seconds=1.0) == ("OK", "good")


def test_one_whose_batches_are_long_has_the_time_of_three():
    assert told(beat=40.0, seconds=20.0) == ("OK", "good")
    assert told(beat=61.0, seconds=20.0) == ("Unresponsive", "grey")


def test_one_to_which_nothing_comes_has_the_time_of_three_beats():
    still = {"records_per_second": 0.0, "seconds": 1.0}
    assert told(beat=2 * BEAT, **still) == ("OK", "good")
    assert told(beat=3 * BEAT + 1, **still) == ("Unresponsive", "grey")


def test_a_pipeline_to_which_nothing_comes_is_well():
    still = {"committed": STILL + 1, "records_per_second": 0.0}
    found = pipeline_status(seen(**still), NOW)
    assert (found.word, found.tone) == ("OK", "good")
    assert found.parts[0].startswith("nothing new since")


def test_of_one_to_which_nothing_comes_one_sentence_says_whether_something_waits():
    at = time_text(1000 * (NOW - STILL - 1))
    quiet, stuck = (seen(committed=STILL + 1, lag={"records": n}) for n in (0, 12))
    quiet.points[:0] = [{"time": 1, "lag": {"records": 5}}, {"time": 2, "lag": {"records": 0}}]
    said = [list(pipeline_status(view, NOW).parts) for view in (quiet, stuck)]
    assert said == [
        [f"nothing new since {at}, lag 0"],
        [f"no commit since {at}; lag 12"],
    ]


def test_a_pipeline_that_is_paused_is_not_ok_and_leads_to_where_it_is_resumed():
    view = seen()
    view.documents["learner"] = {"paused": True}
    found = pipeline_status(view, NOW)
    assert (found.word, found.tone) == ("Paused", "warn")
    told = [("training is paused", "/versions#steer")]
    assert [(one.text, one.link) for one in found.notices] == told


def test_a_pipeline_of_which_a_feature_shifted_is_not_ok_and_leads_to_it():
    view = seen()
    given = [{"name": "noise", "psi": 5.0}, {"name": "hue", "psi": 0.3}]
    view.documents["features"] = {"features": given, "records": 1_000}
    view.documents["importances"] = {"hue": 0.5, "noise": 0.01}
    found = pipeline_status(view, NOW)
    assert (found.word, found.tone) == ("Feature drift", "warn")
    (notice,) = found.notices
    assert notice.link == "/features?feature=hue"
    assert notice.text.startswith("hue has shifted; noise has shifted too")
    view.documents["learner"] = {"paused": True}
    assert pipeline_status(view, NOW).word == "Paused"
    assert len(pipeline_status(view, NOW).notices) == 2
    view.documents["trouble"] = {"time": 1000 * NOW, "text": "no disk"}
    assert (pipeline_status(view, NOW).word, pipeline_status(view, NOW).tone) == ("Error", "bad")
    view.documents["features"]["records"] = 999
    assert [one.word for one in pipeline_status(view, NOW).notices] == ["Paused"], (
        "it may be by chance"
    )


def test_after_a_change_the_line_leads_to_the_experts_while_recent_committees_lead():
    view = seen()
    view.documents["changes"] = {"total": 1, "newest": {"labels": 1_300, "since_labels": 1_203}}
    view.documents["experts"] = {"committee": 0.2, "linear": 0.1, "young": 0.7}
    (notice,) = pipeline_status(view, NOW).notices
    assert (notice.word, notice.link) == ("Stream change", "/quality#expert-weights")
    assert notice.text == (
        "the stream changed before label 1,204; committees of newer labels predict better"
    )
    mark = {"time": 1000 * NOW, "kind": "change", "text": "the stream changed before label 1,204"}
    told = replace(view, marks=[mark | {"time": 0}, mark])
    (notice,) = pipeline_status(told, NOW).notices
    assert f"before label 1,204 (detected at {time_text(1000 * NOW)}); " in notice.text
    view.documents["experts"] = {"committee": 0.7, "linear": 0.1, "young": 0.2}
    assert pipeline_status(view, NOW).word == "OK"


def test_a_pipeline_to_which_somebody_labels_against_the_others_is_not_ok_and_leads_to_who():
    view, fair = seen(), {"labels": 90, "compared": 90, "against": 1}
    view.documents["pipeline"]["name"] = "p"
    view.documents["annotators"] = {"ann": fair, "eve": fair}
    assert pipeline_status(view, NOW).word == "OK"
    view = seen()
    view.documents["pipeline"]["name"] = "p"
    found = {"ann": fair, "eve": fair, "bob": {"labels": 60, "compared": 60, "against": 40}}
    view.documents["annotators"] = found
    now = pipeline_status(view, NOW)
    assert (now.word, now.tone) == ("Annotator disagreement", "warn")
    said = [(one.text, one.link) for one in now.notices]
    link = "/records?pipeline=p&by=bob&wrong=true&confident=true"
    assert said == [("bob disagrees with confident predictions", link)]
    assert annotator_table(view).summary.startswith("bob disagrees significantly often")


def test_a_pipeline_that_was_started_again_is_not_said_never_to_have_committed():
    view = seen()
    view.documents["pipeline"]["time"] = None
    assert list(pipeline_status(view, NOW).parts) == ["no batch committed in this run yet"]


def test_the_lag_of_files_of_lines_is_said_in_bytes():
    view = seen(lag={"records": 85_621, "labels": 0})
    view.documents["pipeline"]["connectors"] = {"source": "files", "labels": "files"}
    assert list(pipeline_status(view, NOW).parts) == ["10/s", "lag 85.6 kB"]


def test_what_waits_for_scorers_is_the_figure_of_their_panel_and_the_learner_s_is_named():
    view = seen(records_per_second=1.0, lag={"records": 12, "labels": 4})
    one = {"worker": "a", "records": 90, "version": 3, "tick": 1000 * NOW}
    view.documents["workers"] = {
        "0": one | {"rate": 20.0, "lag": 9},
        "1": one | {"rate": 5.0, "lag": 2},
    }
    parts = ["25/s", "11 records wait for scorers", "learner lag 16"]
    assert list(pipeline_status(view, NOW).parts) == parts
    assert (
        tables.scorer_table(view).summary
        == "1 scorer of 2 partitions; 11 records wait for scorers."
    )


def test_a_pipeline_that_has_not_begun_says_how_to_begin():
    found = pipeline_status(StatusSnapshot(), NOW)
    assert (found.word, found.age) == ("Not started", None)
    assert "streamboost run" in found.parts[0]


@given(answered=st.integers(0, 50), labels=st.integers(0, 50))
def test_no_sentence_denies_the_labels_that_another_one_counts(answered, labels):
    point = {"time": 1, "answered": answered, "requests": 50, "trees": 0, "version": 0}
    view = StatusSnapshot(points=[point], documents={"learner": {"labels": labels}})
    said = [charts.accuracy_curves(view).summary, charts.label_budget_curves(view).summary]
    assert f"{answered} of them answered" in said[1]
    assert ("No label has come back" in said[0]) == (answered == 0)
    assert "oldest" not in said[0], "figures go on past requests that are open"
    assert (f"{labels} label" in charts.committee_size_curves(view).summary) == (labels > 0)


def test_a_pipeline_of_which_a_class_got_worse_is_not_ok_and_leads_to_where_that_is_shown():
    told = [
        LabelledPrediction(n, name, "x" if i < wrong else name, 0.5)
        for n, name, wrong in FELL
        for i in range(60)
    ]
    view = replace(seen(), evidence=EvaluationData(told))
    found = pipeline_status(view, NOW)
    assert (found.word, found.tone) == ("Regression", "warn")
    (notice,) = found.notices
    assert (notice.text, notice.link) == ("recall of b fell", "/versions?a=8#since")


FELL = ((4, "a", 3), (4, "b", 5), (8, "a", 4), (8, "b", 35))


def test_line_tells_a_blind_annotator_neither_classes_nor_annotators():
    view, fair = seen(), {"labels": 90, "compared": 90, "against": 1}
    view.documents["pipeline"]["name"] = "p"
    against = {"labels": 60, "compared": 60, "against": 40}
    view.documents["annotators"] = {"ann": fair, "eve": fair, "bob": against}
    view.documents["evaluation"] = {"recent": {"committee": {"accuracy": {"value": 0.9}}}}
    view.documents["heartbeat"] = {"time": 1000 * NOW}
    blindfold = BlindMode(None, is_on=True)
    hidden = visible_snapshot(view, blindfold, User("ann", "1"))
    assert pipeline_status(view, NOW).word == "Annotator disagreement"
    assert pipeline_status(hidden, NOW).word == "OK"
    assert hidden.document("heartbeat") == view.document("heartbeat")
    assert pipeline_status(hidden, NOW).parts == pipeline_status(view, NOW).parts
    assert hidden.accuracy is None
    assert not {"annotators", "evaluation", "classes"} & hidden.documents.keys()
    assert visible_snapshot(view, blindfold, User("olga", "2", "operator")) is view
