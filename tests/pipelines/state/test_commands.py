"""The queue of commands: a pipeline continues whatever happens to the queue's file."""

import json
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.database import Database, append_payloads
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConnectorError, UnavailableError
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.commands import FILE, STREAM, Command, CommandSource, queue_command
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from tests.slow import slow
from tests.waiting import until


def delete(path):
    for companion in path.parent.glob(f"{path.name}*"):
        companion.unlink()


def make_a_folder(path):
    delete(path)
    path.mkdir()


LOSSES = {
    "deleted": delete,
    "of zero bytes": lambda path: path.write_bytes(b""),
    "truncated": lambda path: os.truncate(path, 5_000),
    "cut within its header": lambda path: os.truncate(path, 50),
    "random": lambda path: path.write_bytes(os.urandom(8_192)),
    "random behind its header": lambda path: path.write_bytes(
        path.read_bytes()[:100] + os.urandom(8_092)
    ),
    "a folder": make_a_folder,
}


SELDOM = ("of zero bytes", "cut within its header", "random")


@pytest.fixture(
    params=[slow(lose)[0] if name in SELDOM else lose for name, lose in LOSSES.items()],
    ids=LOSSES.keys(),
)
def lose(request):
    """What a queue may suffer, all of which is in its file: none of it is in a write-ahead log."""

    def lost(path):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        request.param(path)

    return lost


@pytest.fixture
def state(tmp_path):
    """The state folder of a pipeline that has obeyed three commands."""
    grow(tmp_path, 20)
    run(config(tmp_path), until_idle=True)
    for command in ("pause", "resume", "pause"):
        queue_command(tmp_path / "state", Command(command))
    grow(tmp_path, 40)
    run(config(tmp_path), until_idle=True)
    assert obeyed(tmp_path) == ["pause", "resume", "pause"]
    return tmp_path / "state"


def config(folder):
    tables = {
        "pipeline": {"name": "test", "batch_records": 10, "poll_interval": 0.01},
        "source": {"connector": "files", "path": "records.jsonl"},
        "committee": {"n_estimators": 2},
    }
    return parse(tables, folder, environment={})


def grow(folder, n):
    """Append records until the file has `n`. The pipeline may read the file meanwhile."""
    with (folder / "records.jsonl").open("a+") as file:
        file.seek(0)
        there = len(file.readlines())
        file.write("".join(f"{json.dumps({'id': i, 'a': i % 7})}\n" for i in range(there, n)))


def entries(folder):
    with closing(SqliteTransaction(folder / "state" / "log.db", "test")) as transaction:
        return [JournalEntry.decode(message) for _, message in transaction.read_journal()]


def obeyed(folder):
    return [str(command) for entry in entries(folder) for command in entry.commands]


def predicted(folder):
    return sum(entry.read["records"] for entry in entries(folder))


def warnings(caplog):
    return [r.message for r in caplog.records if r.levelname == "WARNING" and FILE in r.message]


def test_a_queue_lost_between_two_runs_stops_nothing_and_is_made_anew(
    state, tmp_path, lose, caplog
):
    lose(state / FILE)
    grow(tmp_path, 80)
    run(config(tmp_path), until_idle=True)
    assert predicted(tmp_path) == 80
    (warning,) = warnings(caplog)
    assert f"{state / FILE} is lost or cannot be read: " in warning
    assert describe_pipeline(state)["last_error"]["text"] == warning
    queue_command(state, Command("resume"))
    run(config(tmp_path), until_idle=True)
    assert obeyed(tmp_path) == ["pause", "resume", "pause", "resume"]
    assert "bit for bit" in verify_replay(config(tmp_path))


@pytest.mark.quick_once
def test_a_queue_lost_while_a_pipeline_runs_stops_nothing_and_is_made_anew(
    state, tmp_path, lose, caplog
):
    stop = StopToken()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, config(tmp_path), stop=stop)
        try:
            until(lambda: "continuing after batch" in caplog.text or State(state).is_running())
            queue_command(state, Command("resume"))
            until(lambda: len(obeyed(tmp_path)) == 4)
            lose(state / FILE)
            until(lambda: warnings(caplog))
            grow(tmp_path, 80)
            until(lambda: predicted(tmp_path) == 80)
            queue_command(state, Command("pause"))
            until(lambda: len(obeyed(tmp_path)) == 5)
        finally:
            stop.request_stop()
        running.result(60)
    assert obeyed(tmp_path) == ["pause", "resume", "pause", "resume", "pause"]
    assert len([line for line in warnings(caplog) if "lost or cannot be read" in line]) == 1


@pytest.mark.quick_once
def test_what_is_told_between_the_loss_and_the_next_run_is_obeyed(state, tmp_path, lose, caplog):
    lose(state / FILE)
    for command in ("resume", "retrain"):
        queue_command(state, Command(command))
    run(config(tmp_path), until_idle=True)
    assert obeyed(tmp_path) == ["pause", "resume", "pause", "resume", "retrain"]
    assert not [line for line in warnings(caplog) if "lost or cannot be read" in line]


def test_no_command_is_obeyed_twice_where_an_older_queue_is_put_back(state, tmp_path):
    shutil.copy(state / FILE, tmp_path / "kept")
    queue_command(state, Command("resume"))
    run(config(tmp_path), until_idle=True)
    delete(state / FILE)
    shutil.copy(tmp_path / "kept", state / FILE)
    run(config(tmp_path), until_idle=True)
    queue_command(state, Command("retrain"))
    run(config(tmp_path), until_idle=True)
    assert obeyed(tmp_path) == ["pause", "resume", "pause", "resume", "retrain"]


@pytest.mark.quick_once
def test_a_replay_never_needs_the_queue(state, tmp_path, lose):
    lose(state / FILE)
    shutil.rmtree(State(state).checkpoints.folder)
    newest = entries(tmp_path)[-1].sequence
    assert run(config(tmp_path), until_idle=True) == newest
    assert "bit for bit" in verify_replay(config(tmp_path))


def test_a_queue_of_an_earlier_release_is_read_on(tmp_path):
    source = CommandSource(tmp_path)
    old = [json.dumps({"command": word}).encode() for word in ("pause", "resume")]
    with closing(Database(tmp_path / FILE)) as database, database.write_transaction() as connection:
        append_payloads(connection, STREAM, old)
    assert [m.offset for m in source.poll(10)] == [0, 1]
    queue_command(tmp_path, Command("retrain"))
    assert source.lag() == 1
    assert [m.payload for m in source.poll(10)] == [b'{"command":"retrain"}']
    assert source.lag() == 0


def test_a_queue_that_may_not_be_read_stops_nothing(state, tmp_path, open_folder, only_reading):
    here = open_folder / "state"
    shutil.copytree(state, here)
    source = CommandSource(here)
    with only_reading(open_folder):
        assert len(source.poll(10)) == 3
        with pytest.raises(ConnectorError, match=r"readonly|unable to open"):
            queue_command(here, Command("pause"))
        source.release_resources()  # otherwise the source continues to read its open file
    (here / FILE).chmod(0o000)
    if os.access(here / FILE, os.R_OK):
        os.seteuid(65534)
    try:
        said = []
        source.on_error = said.append
        assert (source.poll(10), source.poll(10)) == ([], [])
        assert len(said) == 1
    finally:
        os.seteuid(os.getuid())


def test_all_commands_are_kept_of_many_who_find_the_queue_damaged_at_once(tmp_path):
    (tmp_path / FILE).write_bytes(os.urandom(8_192))
    words = ["pause", "resume"] * 10
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda word: queue_command(tmp_path, Command(word)), words))
    found = [json.loads(m.payload)["command"] for m in CommandSource(tmp_path).poll(100)]
    assert sorted(found) == sorted(words)
    assert len(list(tmp_path.glob(f"{FILE}.damaged-*"))) == 1


def test_command_fails_soon_while_another_program_locks_the_queue(tmp_path):
    queue_command(tmp_path, Command("pause"))
    with (
        ThreadPoolExecutor(1) as thread,
        closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match=r"commands\.db is locked by another process"):
            thread.submit(queue_command, tmp_path, Command("resume")).result(timeout=15)
    queue_command(tmp_path, Command("retrain"))
    with closing(CommandSource(tmp_path)) as source:
        told = [json.loads(message.payload)["command"] for message in source.poll(9)]
    assert told == ["pause", "retrain"]
