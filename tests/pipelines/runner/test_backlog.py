import json
import sqlite3
import threading
import time
from contextlib import closing
from functools import partial

import pytest

from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.pipelines.runner.backlog import EVERY, BacklogMonitor
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.state.commands import Command, CommandSource, queue_command
from tests.waiting import until


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watched(clock):
    """Return a function that makes an intake and its watch, given what makes the records."""
    watches = []

    def make(make_records):
        intake = BatchReader(
            make_records(), MemorySource(MemoryLog()), most_records=10, most_labels=10
        )
        opened = {"records": make_records, "labels": partial(MemorySource, MemoryLog())}
        watch = BacklogMonitor(
            intake, lambda: {name: make() for name, make in opened.items()}, clock
        )
        watches.append(watch)
        return intake, watch

    yield make
    for watch in watches:
        watch.close()


def turn(intake, watch, clock, oldest=None):
    """Poll, have the sources asked, and wait for their answer."""
    intake.poll()
    clock.now += EVERY
    watch.update(oldest)
    take_answer(watch, oldest)


def take_answer(watch, oldest=None):
    before = watch.lag

    def is_there():
        watch.update(oldest)
        return watch.lag is not before

    until(is_there)


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_lag_is_what_is_left_after_a_poll(watched, clock):
    log = MemoryLog()
    log.append([b"{}"] * 25)
    intake, watch = watched(partial(MemorySource, log))
    turn(intake, watch, clock)
    assert watch.lag == {"records": 15, "labels": 0}


def test_what_was_read_since_the_last_look_is_no_lag_in_the_end(watched, clock):
    log = MemoryLog()
    log.append([b"{}"] * 25)
    intake, watch = watched(partial(MemorySource, log))
    turn(intake, watch, clock)
    intake.poll()
    watch.close()
    assert watch.lag == {"records": 5, "labels": 0}


def test_a_lag_that_grows_while_polls_give_nothing_is_warned_of_once(watched, clock, caplog):
    log = MemoryLog()
    intake, watch = watched(partial(MemorySource, log))
    source = intake.sources["records"]
    source.pause()
    for _ in range(4):
        log.append([b"{}"] * 3)
        turn(intake, watch, clock)
    (warning,) = warnings(caplog)
    assert warning.startswith("records: lag grew by 3 to 6 messages in 10 s")
    assert watch.stalled == {"records"}
    source.resume()
    turn(intake, watch, clock)
    assert watch.stalled == set()


def test_messages_that_stay_where_there_were_none_are_an_alarm(watched, clock, caplog):
    log = MemoryLog()
    intake, watch = watched(partial(MemorySource, log))
    turn(intake, watch, clock)
    intake.sources["records"].pause()
    log.append([b"{}"] * 7)
    for _ in range(3):
        turn(intake, watch, clock)
    (warning,) = warnings(caplog)
    assert warning.startswith("records: lag grew by 7 to 7 messages in 20 s")
    assert watch.stalled == {"records"}


def test_a_lag_that_grows_while_messages_come_is_no_alarm(watched, clock, caplog):
    log = MemoryLog()
    intake, watch = watched(partial(MemorySource, log))
    for _ in range(4):
        log.append([b"{}"] * 30)
        turn(intake, watch, clock)
    assert watch.lag["records"] == 80
    assert not warnings(caplog)
    assert not watch.stalled


def test_what_comes_while_the_sources_are_asked_is_no_alarm(watched, clock, caplog):
    log = MemoryLog()
    intake, watch = watched(partial(MemorySource, log))
    for n in range(3):
        intake.poll()
        clock.now += EVERY
        log.append([b"{}"])  # after the poll, and before the answer
        watch.update(None)
        take_answer(watch)
        assert watch.lag["records"] == 1, n
        intake.poll()
    assert not warnings(caplog)
    assert not watch.stalled


def test_labels_held_back_until_their_records_are_no_silence_of_their_source(clock, caplog):
    logs = {"records": MemoryLog(), "labels": MemoryLog()}
    by_time = {"record_time": lambda m: int(m.payload), "label_time": lambda m: int(m.payload)}
    opened = {name: partial(MemorySource, log) for name, log in logs.items()}
    sources = {name: make() for name, make in opened.items()}
    intake = BatchReader(**sources, most_records=10, most_labels=10, **by_time)
    logs["records"].append([b"1"] * 100)
    with closing(
        BacklogMonitor(intake, lambda: {name: make() for name, make in opened.items()}, clock)
    ) as watch:
        for _ in range(5):  # a learner that is behind: labels come of records far ahead of it
            logs["labels"].append([b"9"] * 3)
            turn(intake, watch, clock)
        assert watch.lag == {"records": 50, "labels": 15}
        assert not warnings(caplog)
        assert not watch.stalled
        for _ in range(2):  # it has caught up, and they come
            intake.poll()
        sources["labels"].pause()
        for _ in range(7):
            logs["labels"].append([b"9"] * 3)
            turn(intake, watch, clock)
        (warning,) = warnings(caplog)
    assert warning.startswith("labels: ")


def test_sources_are_not_asked_at_every_turn(watched, clock, monkeypatch):
    asked = []
    monkeypatch.setattr(MemorySource, "beginning_offsets", lambda source: asked.append(clock.now))
    intake, watch = watched(partial(MemorySource, MemoryLog()))
    for _ in range(30):
        clock.now += EVERY / 10
        intake.poll()
        before = len(asked)
        watch.update(None)
        if watch._is_asking:
            take_answer(watch)
            assert len(asked) == before + 2
    assert len(asked) == 2 * 3


class Slow(MemorySource):
    """A source that tells nobody how far it is until it is let."""

    def __init__(self, log, let):
        super().__init__(log)
        self.let = let

    def lag(self):
        self.let.wait(60)
        return super().lag()


def test_the_loop_never_waits_for_a_source_that_is_slow_to_tell_its_lag(watched, clock):
    log, let = MemoryLog(), threading.Event()
    log.append([b"{}"] * 25)
    intake, watch = watched(partial(Slow, log, let))
    for _ in range(3):
        assert intake.poll() is not None
        clock.now += EVERY
        watch.update(None)
        assert watch.lag == {}
    let.set()
    take_answer(watch)
    assert watch.lag["records"] == 15, "asked once, after the first poll"


def test_the_end_does_not_wait_for_a_source_that_is_slow_to_tell_its_lag(watched, clock):
    let = threading.Event()
    intake, watch = watched(partial(Slow, MemoryLog(), let))
    intake.poll()
    watch.update(None)
    started = time.monotonic()
    watch.close()
    assert time.monotonic() - started < 10
    let.set()
    until(lambda: "streamboost-lag" not in {thread.name for thread in threading.enumerate()})


def test_whatever_goes_wrong_with_looking_the_loop_goes_on(watched, clock, caplog, monkeypatch):
    monkeypatch.setattr(MemorySource, "beginning_offsets", lambda source: 1 / 0)
    intake, watch = watched(partial(MemorySource, MemoryLog()))
    for _ in range(2):
        turn(intake, watch, clock)
    assert watch.lag == {}
    assert caplog.text.count("the lag of the sources cannot be read") == 1


def test_retention_near_the_oldest_checkpoint_is_warned_of_once(tmp_path, watched, clock, caplog):
    path = tmp_path / "log.db"
    with closing(SqliteSink(path, "records")) as sink:
        sink.write([json.dumps({"id": i}).encode() for i in range(100)])
        sink.flush()
    intake, watch = watched(partial(SqliteSource, path, "records"))
    with closing(intake.sources["records"]) as source:
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
    assert "begins at offset 45, and the oldest checkpoint needs offset 50" in (warnings(caplog)[0])


def test_the_beginning_of_an_emptied_stream_is_its_end(tmp_path):
    path = tmp_path / "log.db"
    with (
        closing(SqliteSink(path, "records")) as sink,
        closing(SqliteSource(path, "records")) as source,
    ):
        assert (source.beginning_offsets(), source.lag()) == ({"0": 0}, 0)
        sink.write([b"{}"] * 4)
        sink.flush()
        assert (source.beginning_offsets(), source.lag()) == ({"0": 0}, 4)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM records")
        assert source.beginning_offsets() == {"0": 4}


def test_the_first_command_to_a_pipeline_is_no_gap_that_was_deleted(
    tmp_path, watched, clock, caplog
):
    queue_command(tmp_path, Command("pause"))
    intake, watch = watched(partial(CommandSource, tmp_path))
    turn(intake, watch, clock, oldest={"records": {"0": 0}})
    turn(intake, watch, clock, oldest={"records": {"0": 0}})
    assert warnings(caplog) == []
