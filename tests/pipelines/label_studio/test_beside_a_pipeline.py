"""Label Studio with a running pipeline, which publishes its status."""

from contextlib import closing

import pytest

from streamboost.pipelines.app.run import run as run_pipeline
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader
from tests.label_studio.front import EMAILS, PEOPLE, interface
from tests.pipelines.label_studio.bridged import turn, write

NOTED = interface(shows='<Text name="shown" value="$note"/>')


@pytest.fixture
def config(make_config):
    return make_config(
        monitor={"publish_every": 0.01},
        requests={"connector": "sqlite", "stream": "requests", "expires_after": 60},
    )


def feed(config, records, **fields):
    write(config, "records", [record | fields for record in records])
    run_pipeline(config, until_idle=True)


def test_answers_are_learned_and_expired_tasks_removed(config, studio, make_records):
    studio.show(NOTED)
    records, truth = make_records(140)
    feed(config, records[:40], note="looks odd")
    turn(config)
    numbers = studio.by_record()
    assert len(numbers) > 5
    assert {task["data"]["note"] for task in studio.tasks.values()} == {"looks odd"}
    answered = list(numbers)[::2]
    for id in answered:
        studio.annotate(numbers[id][0], truth[int(id)])
    turn(config)
    for start in range(40, 140, 10):  # no backlog, by which nothing would expire
        feed(config, records[start : start + 10], note="")
    counts = State(config.state).checkpoints.newest()[1]["join"]
    assert counts["answered"] == len(answered)
    assert counts["duplicate"] == counts["conflicting"] == 0
    turn(config)
    with closing(StatusReader(config.state)) as reader:
        wanted = {one["id"] for one in reader.requests()}
    assert studio.by_record().keys() == wanted | set(answered), "what people have done stays"
    assert numbers.keys() - studio.by_record().keys(), "nobody waits for these any more"


@pytest.mark.slow
def test_answers_that_come_too_late_are_counted_by_the_pipeline(
    config, studio, make_records, caplog
):
    records, truth = make_records(140)
    feed(config, records[:40])
    turn(config)
    numbers = studio.by_record()
    first, second = list(numbers)[:2]
    studio.begin(numbers[first][0])
    studio.annotate(numbers[second][0], truth[int(second)], cancelled=True)
    for start in range(40, 140, 10):
        feed(config, records[start : start + 10])
    turn(config)
    assert first in studio.by_record(), "what people have begun stays"
    assert second not in studio.by_record(), "what they skipped goes"
    studio.annotate(numbers[first][0], truth[int(first)])
    with caplog.at_level("WARNING"):
        turn(config)
        turn(config)
    (told,) = [
        one.getMessage()
        for one in caplog.records
        if "after their requests expired" in one.getMessage()
    ]
    assert told.startswith("1 ")
    feed(config, make_records(150)[0][140:])
    counts = State(config.state).checkpoints.newest()[1]["join"]
    assert (counts["expired"], counts["answered"], counts["unsolicited"]) == (1, 0, 0)


@pytest.mark.slow
def test_relabel_requests_are_answered_by_another_annotator(make_config, studio, make_records):
    config = make_config(
        query={"budget": 0.5, "relabel": 0.4, "strategy": "random"},
        monitor={"publish_every": 0.01},
    )
    records, truth = make_records(200)
    again = []
    for start in range(0, 200, 10):
        feed(config, records[start : start + 10])
        turn(config)
        open_tasks = [one for one in studio.tasks.values() if not one["annotations"]]
        for place, task in enumerate(open_tasks):
            id, excluded = task["data"]["id"], task["data"]["excluded_annotators"]
            again += [id] if excluded else []
            who = next(k for k in (place % 2, 1 - place % 2, 2) if EMAILS[k] not in excluded)
            is_wrong = who == 0 and place % 4 == 0
            label = truth[int(id)]
            label = {"left": "right", "right": "left"}[label] if is_wrong else label
            studio.annotate(task["id"], label, by=PEOPLE[who])
        turn(config)
    run_pipeline(config, until_idle=True)
    join = State(config.state).checkpoints.newest()[1]["join"]
    assert again
    assert join["corrected"] + join["duplicate"] == len(again)
    assert join["conflicting"] == join["expired"] == 0


def test_a_field_that_a_record_lacks_is_shown_empty(config, studio, make_records):
    studio.show(NOTED)
    records, _ = make_records(40)
    for record in records[::2]:
        record["note"] = "looks odd"
    feed(config, records)
    turn(config)
    assert {task["data"]["note"] for task in studio.tasks.values()} == {"looks odd", ""}


def test_a_status_that_cannot_be_read_removes_nothing(config, studio, make_records):
    feed(config, make_records(40)[0])
    turn(config)
    before = studio.by_record()
    (config.state / "status.db").write_bytes(b"torn")
    turn(config)
    (config.state / "status.db").unlink()
    turn(config)
    assert studio.by_record() == before
