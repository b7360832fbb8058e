import json
import sqlite3
from contextlib import closing

import pytest

from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.sqlite import SqliteSink, SqliteSource
from streamboost.pipelines.inputs import Intake
from streamboost.pipelines.lag import EVERY, Watch


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def watched(records, clock):
    intake = Intake(records, MemorySource(MemoryLog()), most_records=10, most_labels=10)
    return intake, Watch(intake, clock)


def turn(intake, watch, clock, oldest=None):
    intake.poll()
    clock.now += EVERY
    watch.turn(oldest)


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_lag_is_what_is_left_after_a_poll(clock):
    log = MemoryLog()
    log.append([b"{}"] * 25)
    intake, watch = watched(MemorySource(log), clock)
    turn(intake, watch, clock)
    assert watch.lag == {"records": 15, "labels": 0}


def test_a_lag_that_grows_while_polls_give_nothing_is_warned_of_once(clock, caplog):
    log = MemoryLog()
    source = MemorySource(log)
    intake, watch = watched(source, clock)
    source.pause()
    for _ in range(4):
        log.append([b"{}"] * 3)
        turn(intake, watch, clock)
    (warning,) = warnings(caplog)
    assert warning.startswith("records: 6 messages are there, 3 more than 10 s ago")
    assert watch.stalled == {"records"}
    source.resume()
    turn(intake, watch, clock)
    assert watch.stalled == set()


def test_a_lag_that_grows_while_messages_come_is_no_alarm(clock, caplog):
    log = MemoryLog()
    intake, watch = watched(MemorySource(log), clock)
    for _ in range(4):
        log.append([b"{}"] * 30)
        turn(intake, watch, clock)
    assert watch.lag["records"] == 80
    assert not warnings(caplog)
    assert not watch.stalled


def test_sources_are_not_asked_at_every_turn(clock, monkeypatch):
    source, asked = MemorySource(MemoryLog()), []
    monkeypatch.setattr(source, "lag", lambda: asked.append(clock.now))
    intake, watch = watched(source, clock)
    for _ in range(30):
        clock.now += EVERY / 10
        intake.poll()
        watch.turn(None)
    assert len(asked) == 3


def test_retention_near_the_oldest_checkpoint_is_warned_of_once(tmp_path, clock, caplog):
    path = tmp_path / "log.db"
    with closing(SqliteSink(path, "records")) as sink:
        sink.write([json.dumps({"id": i}).encode() for i in range(100)])
        sink.flush()
    with closing(SqliteSource(path, "records")) as source:
        intake, watch = watched(source, clock)
        source.seek({"0": 90})
        oldest = {"records": {"0": 50}}
        turn(intake, watch, clock, oldest)
        assert watch.margin == {"records": 50}
        for kept_from, margin, said in ((20, 30, 0), (45, 5, 1), (60, -10, 1)):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM records WHERE offset < ?", (kept_from,))
            turn(intake, watch, clock, oldest)
            assert watch.margin == {"records": margin}
            assert len(warnings(caplog)) == said
    assert (
        "begins at offset 45 now, and a restart from the oldest checkpoint reads on from 50"
        in (warnings(caplog)[0])
    )


def test_the_beginning_of_an_emptied_stream_is_its_end(tmp_path):
    path = tmp_path / "log.db"
    with (
        closing(SqliteSink(path, "records")) as sink,
        closing(SqliteSource(path, "records")) as source,
    ):
        assert (source.beginning(), source.lag()) == ({"0": 0}, 0)
        sink.write([b"{}"] * 4)
        sink.flush()
        assert (source.beginning(), source.lag()) == ({"0": 0}, 4)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM records")
        assert source.beginning() == {"0": 4}
