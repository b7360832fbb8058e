"""Requests to Label Studio, and its annotations as labels."""

import json
import re
import sqlite3
from contextlib import closing

import pytest

from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.label_studio.project import KEY
from streamboost.errors import ConfigurationError, ConnectorError, StateError
from streamboost.pipelines.app import check as checking
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.label_studio import tasks as label_studio_book
from streamboost.pipelines.label_studio.tasks import FILE, TaskEntry, TaskStore
from streamboost.pipelines.shutdown import StopToken
from tests.label_studio.front import EMAILS, PEOPLE, interface
from tests.pipelines.label_studio.bridged import ask, labels, turn, write

NAMES = {"id": "key", "label": "side"}


def test_requests_become_tasks_with_a_suggested_answer(config, studio):
    ask(config, "1", "2", sequence=3)
    turn(config)
    assert studio.by_record().keys() == {"1", "2"}
    task = studio.tasks[studio.by_record()["1"][0]]
    key = task["data"].pop(KEY)
    assert re.fullmatch("asks/[0-9a-f]{16}/3/1", key)
    assert task["data"] == {
        "id": "1",
        "features": {"a": 0.5, "b": None},
        "guess": "left",
        "probability": 0.75,
        "utility": 0.5,
        "excluded_annotators": "",
    }
    (prediction,) = task["predictions"]
    assert prediction["model_version"] == "asks batch 3"
    assert prediction["score"] == 0.75
    assert prediction["result"][0]["value"] == {"choices": ["left"]}


def test_tasks_of_blind_labelling_have_no_prediction(make_config, studio):
    config = make_config(serve={"blind": True})
    ask(config, "1")
    turn(config)
    ((number,),) = studio.by_record().values()
    task = studio.tasks[number]
    assert task["predictions"] == []
    shown = [task["data"][name] for name in ("guess", "probability", "utility")]
    assert shown == ["hidden", None, None]


@pytest.mark.parametrize("label", [None, "up"])
def test_a_guess_that_is_no_choice_is_not_suggested(config, studio, label):
    ask(config, "1", label=label)
    turn(config)
    ((number,),) = studio.by_record().values()
    assert studio.tasks[number]["predictions"] == []


def test_finished_annotations_become_labels(config, studio):
    ask(config, "1", "2", "3")
    turn(config)
    numbers = studio.by_record()
    studio.annotate(numbers["1"][0], "left")
    studio.annotate(numbers["2"][0], "right", cancelled=True)
    turn(config)
    assert labels(config) == [
        {
            "id": "1",
            "label": "left",
            "time": studio.tasks[numbers["1"][0]]["annotations"][0]["created_at"],
            "source": EMAILS[0],
        }
    ]
    studio.annotate(numbers["2"][0], "right")
    turn(config)
    turn(config)
    assert [label["id"] for label in labels(config)] == ["1", "2"]
    assert studio.by_record() == numbers, "what people have done stays"


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [("last", [0, 1, 2]), ("first", [1, 2, 0]), ("vote", [1, 2, 0])],
)
def test_each_annotator_has_a_label_and_the_most_frequent_one_holds(
    make_config, studio, rule, wanted
):
    config = make_config(labels={"connector": "sqlite", "stream": "labels", "on_conflict": rule})
    studio.want(3)
    ask(config, "1")
    turn(config)
    ((number,),) = studio.by_record().values()
    chosen = ("left", "right", "right")
    for token, label in zip(PEOPLE, chosen, strict=True):
        turn(config)
        assert labels(config) == [], "the task is not finished"
        studio.annotate(number, label, by=token)
    turn(config)
    turn(config)
    found = [(label["label"], label["source"]) for label in labels(config)]
    assert found == [(chosen[one], EMAILS[one]) for one in wanted]


def test_labels_are_whole_numbers_where_the_schema_says_so(make_config, studio):
    config = make_config(schema={"numeric": ["a", "b"], "label": "integer"})
    with pytest.raises(ConfigurationError, match="the choice 'left' is not a whole number"):
        turn(config)
    studio.show(interface(["1", "-2"]))
    ask(config, "x", label=-2)
    turn(config)
    ((number,),) = studio.by_record().values()
    assert studio.tasks[number]["predictions"][0]["result"][0]["value"] == {"choices": ["-2"]}
    studio.annotate(number, "-2")
    turn(config)
    assert [label["label"] for label in labels(config)] == [-2]


def test_labels_are_called_what_the_file_says(make_config, studio):
    config = make_config(labels={"connector": "sqlite", "stream": "labels", "fields": NAMES})
    ask(config, "1", "2")
    turn(config)
    numbers = studio.by_record()
    studio.annotate(numbers["1"][0], "left")
    write(config, "labels", [{"key": "2", "side": "left"}])
    turn(config)
    assert labels(config)[1] | {"time": ""} == {
        "key": "1",
        "side": "left",
        "time": "",
        "source": EMAILS[0],
    }
    assert studio.by_record().keys() == {"1"}, "the other is answered"


def test_a_label_from_elsewhere_ends_a_task_that_nobody_began(config, studio):
    ask(config, "1", "2", "3")
    turn(config)
    studio.begin(studio.by_record()["2"][0])
    write(config, "labels", [{"id": "1", "label": "left"}, {"id": "2", "label": "left"}, {}])
    write(config, "labels", [{"id": "4", "label": "left"}])
    ask(config, "4")
    turn(config)
    assert studio.by_record().keys() == {"2", "3"}


def test_label_from_elsewhere_removes_a_task_that_was_only_skipped(config, studio, caplog):
    ask(config, "1", "2", "3")
    turn(config)
    numbers = {id: number for id, (number,) in studio.by_record().items()}
    for number in numbers.values():
        studio.annotate(number, "left", cancelled=True)
    turn(config)
    assert studio.by_record().keys() == {"1", "2", "3"}, "others may answer these requests"
    write(config, "labels", [{"id": "1", "label": "left", "source": "ann"}])
    with closing(sqlite3.connect(config.state / FILE)) as store, store:
        store.execute("UPDATE requests SET stage = 'expired' WHERE id = '3'")  # begun, then skipped
    turn(config)
    assert studio.by_record().keys() == {"2"}
    turn(config)
    assert len(labels(config)) == 1
    assert "were deleted" not in caplog.text


def test_an_annotation_beside_a_label_from_elsewhere_is_written(config, studio):
    """Whichever comes first; the pipeline decides between the two labels."""
    ask(config, "1", "2")
    turn(config)
    numbers = {id: number for id, (number,) in studio.by_record().items()}
    studio.annotate(numbers["1"], "left")
    studio.begin(numbers["2"])
    elsewhere = [{"id": id, "label": "right", "source": "ann"} for id in ("1", "2")]
    write(config, "labels", elsewhere)
    for _ in range(3):
        turn(config)
    assert [(one["id"], one["source"]) for one in labels(config)[2:]] == [("1", EMAILS[0])]
    studio.annotate(numbers["2"], "left")
    for _ in range(3):
        turn(config)
    assert [(one["id"], one["source"]) for one in labels(config)[3:]] == [("2", EMAILS[0])]


def test_after_a_kill_the_labels_that_are_missing_are_written(config, studio):
    studio.want(3)
    ask(config, "1")
    turn(config)
    ((number,),) = studio.by_record().values()
    for token in PEOPLE:
        studio.annotate(number, "left", by=token)
    written = {"id": "1", "label": "left", "source": EMAILS[1]}
    write(config, "labels", [written])
    for _ in range(3):
        turn(config)
    assert sorted(one["source"] for one in labels(config)) == sorted(EMAILS)


def test_a_task_that_somebody_removed_is_let_go(config, studio):
    ask(config, "1")
    turn(config)
    studio.remove(studio.by_record()["1"][0])
    turn(config)
    turn(config)
    assert studio.tasks == {}


def test_a_request_that_is_read_twice_makes_one_task(config, studio):
    ask(config, "1")
    turn(config)
    ask(config, "1")
    ask(config, "1", sequence=9)
    turn(config)
    keys = sorted(task["data"][KEY] for task in studio.tasks.values())
    assert [key.split("/")[2:] for key in keys] == [["1", "1"], ["9", "1"]]


def test_what_is_refused_ends_it_with_a_word(config, studio):
    ask(config, "1")
    studio.faults.append(("GET", f"/api/projects/{studio.project}/", 403))
    with pytest.raises(ConnectorError, match="403"):
        turn(config)
    studio.faults.append(("POST", studio.importing, 403))
    with pytest.raises(ConnectorError, match="403"):
        turn(config)
    turn(config)
    assert studio.by_record().keys() == {"1"}, "what was refused was not done"


def test_two_cannot_serve_one_pipeline(config):
    with (
        TaskStore(config.state / FILE).hold_lock(),
        pytest.raises(StateError, match="runs for this pipeline already"),
    ):
        turn(config)


def test_labels_that_cannot_be_written_are_refused_at_once(make_config, studio):
    config = make_config(labels={"connector": "river", "dataset": "Phishing", "delay": 1})
    with pytest.raises(ConfigurationError, match=r"\[labels\] cannot be written to"):
        turn(config)
    (finding,) = [one for one in checking.check_pipeline(config) if one.part == "label_studio"]
    assert not finding.ok
    assert finding.text.startswith("[labels] cannot be written to")


def test_check_tries_the_project(config, studio):
    def found():
        (finding,) = [one for one in checking.check_pipeline(config) if one.part == "label_studio"]
        return finding

    assert found().ok
    assert found().text == f"project {studio.project} at {studio.url}, choices left, right"
    studio.faults.append(("GET", f"/api/projects/{studio.project}/", 500))
    assert not found().ok


def test_failures_are_tried_again_ever_more_seldom(config, studio):
    rests = []

    class Patient(StopToken):
        def wait(self, seconds):
            rests.append(seconds)
            self.requested = len(rests) == 6

    studio.faults.extend([("GET", f"/api/projects/{studio.project}/", 500)] * 4)
    ask(config, "1")
    label_studio.run(config, Patient())
    assert rests == [10, 20, 40, 60, 5, 5]
    assert studio.by_record().keys() == {"1"}


def test_the_oldest_that_are_done_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(label_studio_book, "KEPT", 100)
    book = TaskStore(tmp_path / FILE)
    rows = [TaskEntry(f"p/1/{i}", str(i), 1, b"{}") for i in range(110)]
    with book.hold_lock():
        book.add_requests("requests", {"0": 10}, rows)
        book.mark_done(rows[:20])
        assert len(book.entries_at_stage("done")) == 10
        assert len(book.entries_at_stage("new")) == 90
        assert book.stored_position("requests") == {"0": 10}


def test_requests_in_a_file_that_was_rotated_are_each_read_once(tmp_path):
    path, book, read = tmp_path / "requests.jsonl", TaskStore(tmp_path / FILE), []
    with book.hold_lock():
        for part, n in enumerate((3, 9)):
            if part:
                path.rename(path.with_name("requests.jsonl.1"))
            path.write_text("".join(f'{{"id": "{part}/{i}"}}\n' for i in range(n)))
            with closing(JsonLinesSource(path, follow=True)) as source:
                book.seek_to_stored_position("requests", source)
                while found := source.poll(2):
                    read += [json.loads(message.payload)["id"] for message in found]
                    book.add_requests("requests", source.position(), [], source.content_fingerprint)
    assert read == [*(f"0/{i}" for i in range(3)), *(f"1/{i}" for i in range(9))]
