"""Tasks are identified by keys: tasks of other projects are not answered, changed or removed."""

import logging
import shutil
import sqlite3
from contextlib import closing

import pytest

from streamboost.errors import StateError, UnavailableError
from streamboost.pipelines.label_studio.tasks import FILE
from tests.pipelines.label_studio.bridged import ask, labels, turn, write


def foreign(id, **more):
    return {"data": {"id": id, "features": {}} | more}


def test_a_server_begun_anew_on_empty_data_gives_no_labels(config, studio, caplog):
    """With the same project number, its tasks have the numbers that ours had."""
    ask(config, "1", "2", "3")
    turn(config)
    numbers = sorted(studio.tasks)
    studio.lose_data(numbers[0])
    assert [studio.add(foreign(id)) for id in "xyz"] == numbers
    studio.annotate(numbers[0], "right")
    studio.annotate(numbers[1], "right")
    before = studio.tasks
    with caplog.at_level(logging.WARNING):
        turn(config)
        turn(config)
    assert labels(config) == []
    assert studio.tasks == before
    (told,) = [one.getMessage() for one in caplog.records if "were deleted" in one.getMessage()]
    assert "the tasks of 3 requests were deleted" in told
    ask(config, "4")
    turn(config)
    studio.annotate(studio.by_record()["4"][0], "left")
    turn(config)
    assert [label["id"] for label in labels(config)] == ["4"]


def test_a_number_that_is_given_again_is_another_task(config, studio):
    ask(config, "1")
    turn(config)
    ((number,),) = studio.by_record().values()
    studio.remove(number)
    assert studio.add(foreign("x")) == number
    studio.annotate(number, "right")
    before = studio.tasks
    write(config, "labels", [{"id": "1", "label": "left"}])
    turn(config)
    assert [label["label"] for label in labels(config)] == ["left"]
    assert studio.tasks == before


def test_requests_that_close_remove_no_foreign_tasks(config, studio):
    ask(config, "1", "2", "3")
    turn(config)
    numbers = sorted(studio.tasks)
    studio.lose_data(numbers[0])
    assert [studio.add(foreign(id)) for id in "xyz"] == numbers
    before = studio.tasks
    write(config, "labels", [{"id": id, "label": "left"} for id in "123"])
    turn(config)
    assert studio.tasks == before


def test_foreign_tasks_and_their_answers_are_left_as_they_are(config, studio):
    theirs = [studio.add(foreign(id, streamboost=key)) for id, key in (("1", "asks/1/1"), ("2", 7))]
    studio.annotate(theirs[0], "right")
    studio.begin(theirs[1])
    before = studio.tasks
    ask(config, "1", "2")
    turn(config)
    ours = {id: numbers[-1] for id, numbers in studio.by_record().items()}
    studio.annotate(ours["1"], "left")
    write(config, "labels", [{"id": "2", "label": "left"}])
    turn(config)
    turn(config)
    assert [label["label"] for label in labels(config)] == ["left", "left"]
    kept = studio.tasks
    assert kept.keys() == {*theirs, ours["1"]}
    assert {number: kept[number] for number in theirs} == before


def test_another_state_of_the_same_name_has_tasks_of_its_own(config, studio):
    ask(config, "1")
    turn(config)
    ((theirs,),) = studio.by_record().values()
    studio.annotate(theirs, "right")
    shutil.rmtree(config.state)
    config.state.mkdir()
    ask(config, "1")
    studio.faults.append(("POST", studio.importing, 500))
    with pytest.raises(UnavailableError):
        turn(config)
    turn(config)
    assert labels(config) == [], "it was answered to the state before"


def test_numbers_that_come_again_are_not_taken_for_those_that_have_expired(config, studio):
    ask(config, "1")
    turn(config)
    ((old,),) = studio.by_record().values()
    with closing(sqlite3.connect(config.state / FILE)) as book, book:
        book.execute("UPDATE requests SET stage = 'expired'")
    studio.lose_data(old)
    ask(config, "2")
    turn(config)
    (new,) = studio.by_record()["2"]
    assert new == old
    studio.annotate(new, "left")
    turn(config)
    assert [label["id"] for label in labels(config)] == ["2"]


def test_a_book_of_another_format_is_refused(config, studio):
    ask(config, "1")
    turn(config)
    with closing(sqlite3.connect(config.state / FILE)) as book, book:
        book.execute("PRAGMA user_version = 9")
    with pytest.raises(
        StateError, match=r"studio\.db has format 9, and this release reads 3: move"
    ):
        turn(config)
