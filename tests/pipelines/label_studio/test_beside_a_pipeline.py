"""Label Studio beside the real pipeline, which publishes its status."""

from contextlib import closing

import pytest
from label_studio_server import interface

from streamboost.pipelines.job.run import run as run_pipeline
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader
from tests.pipelines.label_studio.bridged import turn, write


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
    studio.config = interface(variables=["features", "note"])
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


def test_a_field_that_a_record_lacks_is_shown_empty(config, studio, make_records):
    studio.config = interface(variables=["features", "note"])
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
