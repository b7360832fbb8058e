"""Relabel requests in Label Studio: earlier labels and excluded annotators do not answer them."""

import sqlite3
from contextlib import closing

import pytest

from streamboost.pipelines.label_studio.tasks import FILE, TaskStore
from tests.label_studio.front import EMAILS, OTHERS, interface
from tests.pipelines.label_studio.bridged import ask, labels, turn, write

ANN, BEN, EVE = EMAILS


def label(id, source=None):
    return {"id": id, "label": "left"} | ({} if source is None else {"source": source})


def ask_again(config, id, *excluded, sequence=9):
    ask(config, id, sequence=sequence, excluded=list(excluded))


def test_the_label_in_question_does_not_answer_the_relabel_request(config, studio):
    ask(config, "1", "2")
    write(config, "labels", [label("1", "ann"), label("2", "ann")])
    ask_again(config, "1", "ann")
    turn(config)
    assert studio.by_record().keys() == {"1"}
    (task,) = studio.tasks.values()
    assert task["data"]["streamboost"].endswith("/9/1")


def test_a_label_without_a_source_does_not_answer_a_relabel_request(config, studio):
    write(config, "labels", [label("1")])
    ask_again(config, "1")
    turn(config)
    assert studio.by_record().keys() == {"1"}


def test_a_label_of_another_annotator_ends_the_task_of_a_relabel_request(config, studio):
    write(config, "labels", [label("1", "ann")])
    ask_again(config, "1", "ann")
    turn(config)
    write(config, "labels", [label("1", "ann")])
    turn(config)
    assert studio.by_record().keys() == {"1"}, "it is the same annotator"
    write(config, "labels", [label("1", "ben")])
    turn(config)
    assert studio.by_record() == {}


def test_a_relabel_request_that_was_answered_during_downtime_makes_no_task(config, studio):
    ask(config, "1")
    write(config, "labels", [label("1", "ann")])
    ask_again(config, "1", "ann")
    write(config, "labels", [label("1", "ben")])
    ask_again(config, "1", "ann", "ben", sequence=20)
    turn(config)
    (task,) = studio.tasks.values()
    assert task["data"]["streamboost"].endswith("/20/1")


def test_a_replay_of_both_streams_changes_no_task(config, studio):
    ask(config, "1", "2")
    turn(config)
    studio.annotate(studio.by_record()["1"][0], "left")
    turn(config)
    ask_again(config, "1", ANN)
    turn(config)
    before = studio.by_record()
    assert (len(before["1"]), len(before["2"])) == (2, 1)
    with closing(sqlite3.connect(config.state / FILE)) as book, book:
        book.execute("DELETE FROM positions")
    turn(config)
    turn(config)
    assert studio.by_record() == before
    studio.annotate(before["1"][1], "right", by=OTHERS[0])
    turn(config)
    assert [one["source"] for one in labels(config)] == [ANN, BEN]


def test_an_excluded_annotator_leaves_the_task_to_the_others(config, studio, caplog):
    ask_again(config, "1", ANN, EVE)
    turn(config)
    ((number,),) = studio.by_record().values()
    studio.annotate(number, "left")
    turn(config)
    (warning,) = [one.getMessage() for one in caplog.records]
    assert f"task {number} " in warning
    assert f"{ANN}, {EVE}" in warning
    turn(config)
    assert labels(config) == []
    studio.annotate(number, "right", by=OTHERS[0])
    turn(config)
    turn(config)
    assert [(one["label"], one["source"]) for one in labels(config)] == [("right", BEN)]


def test_excluded_annotators_can_be_shown(config, studio):
    studio.show(interface(shows='<Text name="shown" value="not by: $excluded_annotators"/>'))
    ask(config, "1")
    ask_again(config, "2", "ann", "ben")
    turn(config)
    found = {task["data"]["id"]: task["data"] for task in studio.tasks.values()}
    assert {id: one["excluded_annotators"] for id, one in found.items()} == {
        "1": "",
        "2": "ann, ben",
    }


def test_an_answer_written_before_a_kill_is_not_written_again(config, studio, monkeypatch):
    ask_again(config, "1", ANN)
    turn(config)
    studio.annotate(studio.by_record()["1"][0], "left", by=OTHERS[0])

    def killed(self, entries):
        if [*entries]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TaskStore, "mark_done", killed)
        with pytest.raises(KeyboardInterrupt):
            turn(config)
    assert len(labels(config)) == 1
    turn(config)
    turn(config)
    assert len(labels(config)) == 1
