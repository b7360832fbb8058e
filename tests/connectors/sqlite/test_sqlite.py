"""The embedded log: one file, many threads and processes, and a crash within a commit."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from streamboost.connectors.base import CommittedBatch, Message, Sink
from streamboost.connectors.sqlite import database
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import (
    ConfigurationError,
    ConnectorError,
    DeletedError,
    StateError,
    UnavailableError,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def opened():
    """Closes what it is given at the end of the test."""
    things = []

    def keep(thing):
        things.append(thing)
        return thing

    yield keep
    for thing in things:
        thing.close()


def shell(path, statement, *values):
    """What somebody with the sqlite3 shell would do."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def put(path, stream, *payloads):
    with closing(SqliteSink(path, stream)) as sink:
        sink.write(payloads)
        sink.flush()


def payloads(messages):
    return [message.payload for message in messages]


@pytest.mark.parametrize("n", [1, 99, 100, 101, 250])
def test_any_number_of_rows_is_appended_in_order_as_it_is(path, opened, n):
    many = [b"%d\x00" % i if i % 3 else b"\xff%d" % i for i in range(n)]
    put(path, "labels", b"before")
    put(path, "labels", *many)
    source = opened(SqliteSource(path, "labels"))
    found = source.poll(1_000)
    assert payloads(found) == [b"before", *many]
    assert [message.offset for message in found] == list(range(n + 1))


def test_a_stream_or_a_file_that_is_not_there_yet_gives_nothing(path, opened):
    source = opened(SqliteSource(path, "labels"))
    assert source.poll(5) == []
    assert not path.exists()
    put(path, "other", b"{}")
    assert source.poll(5) == []
    put(path, "labels", b"{}")
    assert payloads(source.poll(5)) == [b"{}"]


def test_the_sqlite_shell_shows_text(path):
    put(path, "records", '{"id": "é"}'.encode(), b"\xff")
    assert shell(path, "SELECT offset, payload FROM records") == [(0, '{"id": "é"}'), (1, b"\xff")]


def test_the_sqlite_shell_can_add_messages(path, opened):
    put(path, "labels", b"one")
    shell(path, "INSERT INTO labels (payload) VALUES (?)", '{"id": "é"}')
    shell(path, "INSERT INTO labels (payload) VALUES (7)")
    put(path, "labels", b"last")
    messages = opened(SqliteSource(path, "labels")).poll(9)
    assert payloads(messages) == [b"one", '{"id": "é"}'.encode(), b"7", b"last"]
    assert [message.size for message in messages] == [3, 12, 1, 4]


def test_a_table_made_by_hand_is_a_stream(path, opened):
    shell(path, "CREATE TABLE records (offset INTEGER PRIMARY KEY, payload)")
    shell(path, "INSERT INTO records (offset, payload) VALUES (5, 'five'), (9, NULL)")
    put(path, "records", b"ten")
    source = opened(SqliteSource(path, "records"))
    assert source.poll(9) == [
        Message(b"five", "0", 5, 4),
        Message(b"", "0", 9, 0),
        Message(b"ten", "0", 10, 3),
    ]
    assert source.position() == {"0": 11}


def test_offsets_are_not_given_twice_after_rows_were_deleted(path, opened):
    put(path, "records", b"a", b"b", b"c")
    shell(path, "DELETE FROM records")
    source = opened(SqliteSource(path, "records"))
    assert source.poll(9) == []
    put(path, "records", b"d")
    assert source.poll(9) == [Message(b"d", "0", 3, 1)]


def test_messages_deleted_before_they_were_read_are_reported(path, opened, caplog):
    put(path, "records", *(b"%d" % n for n in range(10)))
    sources = [
        opened(SqliteSource(path, "records", on_data_loss=one)) for one in ("fail", "continue")
    ]
    for source in sources:
        assert len(source.poll(3)) == 3
    shell(path, "DELETE FROM records WHERE offset < 3")  # all of them were read
    for source in sources:
        assert len(source.poll(1)) == 1
    shell(path, "DELETE FROM records WHERE offset IN (4, 6)")  # a gap within the stream
    for source in sources:
        source.seek({"0": 4})
    shell(path, "DELETE FROM records WHERE offset < 8")
    with pytest.raises(DeletedError, match="offsets 4 to 7 of stream 'records' were deleted"):
        sources[0].poll(9)
    assert sources[0].position() == {"0": 4}
    assert [message.offset for message in sources[1].poll(9)] == [8, 9]
    assert sources[1].skipped_ranges == {"0": (4, 8)}
    assert "offsets 4 to 7 of stream 'records' were deleted" in caplog.text
    assert sources[1].poll(9) == []
    assert sources[1].skipped_ranges == {}
    assert opened(SqliteSource(path, "records")).poll(1)[0].offset == 8, "the beginning"
    put(path, "records", b"10")
    shell(path, "DELETE FROM records")
    assert sources[1].poll(9) == []
    assert sources[1].skipped_ranges == {"0": (10, 11)}


def test_a_payload_larger_than_memory_is_cut_and_keeps_its_true_size(path, opened):
    put(path, "records", b"x" * 5_000, "é".encode() * 3, b"\0ab")
    source = opened(SqliteSource(path, "records", max_bytes=4))
    assert [(m.payload, m.size) for m in source.poll(9)] == [
        (b"x" * 5, 5_000),
        ("éé".encode() + b"\xc3", 6),
        (b"\0ab", 3),
    ]


def test_a_stream_that_ends_before_the_position_is_another(path, opened):
    put(path, "records", b"a")
    source = opened(SqliteSource(path, "records"))
    source.seek({"0": 2})
    with pytest.raises(ConnectorError, match=r"ends at offset 1.*continue at 2.*start again"):
        source.poll(1)


@pytest.mark.parametrize(
    "name", ["", "Records", "1st", "_journal", "sqlite_master", 'a"b', "a b", "a" * 65, "a;--"]
)
def test_a_name_that_is_no_stream_is_refused(path, name):
    for kind in (SqliteSource, SqliteSink):
        with pytest.raises(ConfigurationError, match="cannot be a table"):
            kind(path, name)


@pytest.mark.parametrize("name", ["a", "my-records.v2_x", "select", "a" * 64])
def test_a_name_of_letters_digits_and_marks_is_a_stream(path, name, opened):
    put(path, name, b"{}")
    assert payloads(opened(SqliteSource(path, name)).poll(1)) == [b"{}"]


def test_a_file_that_is_not_sqlite_is_an_error(path):
    path.write_bytes(b"certainly not a database, but long enough to be one" * 40)
    with pytest.raises(ConnectorError, match=r"cannot use .*log.db"):
        SqliteSource(path, "records").poll(1)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_file_of_utf16_text_is_refused_with_the_remedy_and_unchanged(path, opened, encoding):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE labels (offset INTEGER PRIMARY KEY, payload)")
        connection.execute('INSERT INTO labels VALUES (7, \'{"id": "\u00fc"}\')')
    before = path.read_bytes()
    source, sink = opened(SqliteSource(path, "labels")), opened(SqliteSink(path, "labels"))
    sink.write([b"{}"])
    journal = opened(SqliteTransaction(path, "demo"))
    for use in (lambda: source.poll(5), sink.flush, lambda: journal.commit(1, [], {}, b"{}")):
        with pytest.raises(ConnectorError, match=rf"log.db: .* {encoding}, .*log.db .dump \|"):
            use()
    assert path.read_bytes() == before
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy)) as new:
        new.executescript("\n".join(old.iterdump()))
    found = opened(SqliteSource(copy, "labels")).poll(5)
    assert [(one.offset, one.payload.decode()) for one in found] == [(7, '{"id": "\u00fc"}')]


def test_a_table_of_other_columns_is_an_error(path, opened):
    shell(path, "CREATE TABLE records (id, name)")
    with pytest.raises(ConnectorError, match="offset"):
        opened(SqliteSource(path, "records")).poll(1)


def test_a_file_locked_by_others_is_an_error_that_may_pass(path, opened, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    put(path, "records", b"a")
    sink = opened(SqliteSink(path, "records"))
    sink.write([b"b"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="locked"):
            sink.flush()
    sink.flush()
    assert payloads(opened(SqliteSource(path, "records")).poll(9)) == [b"a", b"b"]


def test_the_file_is_written_ahead_and_synced_in_full(path, opened):
    put(path, "records", b"a")
    assert shell(path, "PRAGMA journal_mode") == [("wal",)]
    kept = opened(database.Database(path))
    with kept.read_transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_reading_changes_nothing_of_a_file_that_is_not_ours(path, opened):
    shell(path, "CREATE TABLE records (offset INTEGER PRIMARY KEY, payload)")
    shell(path, "INSERT INTO records (payload) VALUES ('one')")
    before = path.read_bytes()
    source = opened(SqliteSource(path, "records"))
    transaction = opened(SqliteTransaction(path, "demo"))
    assert payloads(source.poll(9)) == [b"one"]
    assert transaction.last_committed_batch() is None
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert shell(path, "PRAGMA journal_mode") == [("delete",)]


def test_a_file_that_may_only_be_read_is_a_source(open_folder, only_reading, opened):
    path = open_folder / "a log?.db"
    put(path, "records", b"one")
    source = opened(SqliteSource(path, "records"))
    with only_reading(open_folder):
        assert payloads(source.poll(9)) == [b"one"]
        with pytest.raises(ConnectorError, match="may be read and, for outputs, written"):
            put(path, "records", b"two")
    put(path, "records", b"two")
    with only_reading(open_folder):
        assert payloads(source.poll(9)) == [b"two"]


def test_a_file_that_may_only_be_read_is_a_source_while_its_owner_writes(
    open_folder, only_reading, opened
):
    path = open_folder / "log.db"
    writer = opened(database.Database(path))
    with writer.write_transaction() as connection:
        database.append_payloads(connection, "records", [b"one"])
    source = opened(SqliteSource(path, "records"))
    with only_reading(open_folder):
        assert payloads(source.poll(9)) == [b"one"]
    with writer.write_transaction() as connection:
        database.append_payloads(connection, "records", [b"two"])
    with only_reading(open_folder):
        assert payloads(source.poll(9)) == [b"two"]


def test_a_device_a_pipe_or_a_folder_is_refused_and_does_not_hang(path, tmp_path, opened):
    pipe, device = tmp_path / "pipe.db", tmp_path / "zero.db"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    path.mkdir()
    for special in (pipe, device, path):
        with pytest.raises(ConnectorError, match="not a regular file; name"):
            opened(SqliteSource(special, "records")).poll(9)
        with pytest.raises(ConnectorError, match="not a regular file; name"):
            put(special, "records", b"one")


def test_each_thread_has_a_connection_and_one_close_ends_them_all(path):
    kept = database.Database(path)
    seen = {}

    def look(name, done):
        with kept.write_transaction() as connection:
            seen[name] = connection
        done.wait(timeout=30)

    done = threading.Event()
    threads = [threading.Thread(target=look, args=(name, done)) for name in "ab"]
    for thread in threads:
        thread.start()
    done.set()
    for thread in threads:
        thread.join()
    with kept.write_transaction() as connection:
        seen["main"] = connection
    kept.close()
    for connection in seen.values():
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_threads_that_create_one_file_at_once_all_write(tmp_path, opened):
    for attempt in range(5):
        path = tmp_path / f"{attempt}.db"
        start = threading.Barrier(6)
        failures = []

        def write(path=path, start=start, failures=failures):
            start.wait(timeout=30)
            try:
                put(path, "records", b"x")
            except ConnectorError as error:
                failures.append(error)

        threads = [threading.Thread(target=write) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(opened(SqliteSource(path, "records")).poll(99)) == 6


def test_a_transaction_binds_the_streams_of_its_file_by_whatever_name(path, opened):
    transaction = opened(SqliteTransaction(path, "demo"))
    link = path.with_name("link")
    link.symlink_to(path.parent, target_is_directory=True)
    assert transaction.enlists(opened(SqliteSink(path, "out")))
    assert transaction.enlists(opened(SqliteSink(link / "log.db", "out")))
    assert transaction.enlists(opened(SqliteSink(os.path.relpath(path), "out")))
    assert not transaction.enlists(opened(SqliteSink(path.with_name("other.db"), "out")))


def test_two_pipelines_share_a_file_and_not_a_journal(path, opened):
    one, two = opened(SqliteTransaction(path, "one")), opened(SqliteTransaction(path, "two"))
    one.commit(1, [], {"records": {"0": 1}}, b"one")
    two.commit(1, [], {"records": {"0": 5}}, b"two")
    assert one.last_committed_batch() == CommittedBatch(1, {"records": {"0": 1}})
    assert list(two.read_journal()) == [(1, b"two")]
    assert sorted(one.pipeline_names()) == ["one", "two"]
    assert opened(SqliteTransaction(path.with_name("other.db"), "one")).pipeline_names() == []


def test_of_two_processes_of_one_pipeline_the_second_is_refused(path, opened):
    first, second = opened(SqliteTransaction(path, "demo")), opened(SqliteTransaction(path, "demo"))
    first.commit(1, [], {}, b"one")
    second.commit(2, [], {}, b"two")
    with pytest.raises(StateError, match=r"'demo' cannot commit batch 2 after batch 2.*stop"):
        first.commit(2, [], {}, b"other")


def test_a_commit_that_sqlite_refuses_half_way_leaves_nothing(path, opened):
    transaction, sink = opened(SqliteTransaction(path, "demo")), opened(SqliteSink(path, "out"))
    transaction.commit(1, [(sink, [b"a"])], {"records": {"0": 1}}, b"one")
    shell(
        path,
        "CREATE TRIGGER full BEFORE INSERT ON _journal BEGIN SELECT RAISE(ABORT, 'is full'); END",
    )
    with pytest.raises(ConnectorError, match="is full"):
        transaction.commit(2, [(sink, [b"b"])], {"records": {"0": 2}}, b"two")
    shell(path, "DROP TRIGGER full")
    assert transaction.last_committed_batch() == CommittedBatch(1, {"records": {"0": 1}})
    transaction.commit(2, [(sink, [b"c"])], {"records": {"0": 2}}, b"two")
    assert payloads(opened(SqliteSource(path, "out")).poll(9)) == [b"a", b"c"]


def test_a_commit_to_a_locked_file_writes_nowhere_twice(path, opened, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    transaction, inside = opened(SqliteTransaction(path, "demo")), opened(SqliteSink(path, "out"))
    outside = path.with_name("other.db")
    sink = opened(SqliteSink(outside, "out"))
    transaction.commit(1, [(inside, [b"a"]), (sink, [b"a"])], {}, b"one")
    for locked in (outside, path, path):
        with closing(sqlite3.connect(locked, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(UnavailableError, match="locked"):
                transaction.commit(2, [(inside, [b"b"]), (sink, [b"b"])], {}, b"two")
    transaction.commit(2, [(inside, [b"b"]), (sink, [b"b"])], {}, b"two")
    for file in (path, outside):
        assert payloads(opened(SqliteSource(file, "out")).poll(9)) == [b"a", b"b"]


class Meanwhile(Sink):
    """A sink that takes its time, in which something else happens."""

    def __init__(self, happens):
        self.flushes, self._happens = 0, happens

    def write(self, payloads):
        pass

    def flush(self):
        self.flushes += 1
        self._happens()


def test_what_is_written_elsewhere_locks_nobody_out(path, opened):
    transaction, inside = opened(SqliteTransaction(path, "demo")), opened(SqliteSink(path, "out"))
    transaction.commit(1, [(inside, [b"a"])], {}, b"one")
    slow = Meanwhile(lambda: put(path, "labels", b"label"))
    transaction.commit(2, [(inside, [b"b"]), (slow, [b"b"])], {}, b"two")
    assert payloads(opened(SqliteSource(path, "labels")).poll(9)) == [b"label"]
    assert slow.flushes == 1


def test_who_commits_while_the_other_writes_elsewhere_is_found_out(path, opened):
    first, second = opened(SqliteTransaction(path, "demo")), opened(SqliteTransaction(path, "demo"))
    inside = opened(SqliteSink(path, "out"))
    slow = Meanwhile(lambda: second.commit(1, [(inside, [b"second"])], {}, b"second"))
    with pytest.raises(StateError, match="cannot commit batch 1 after batch 1"):
        first.commit(1, [(inside, [b"first"]), (slow, [b"first"])], {}, b"first")
    assert payloads(opened(SqliteSource(path, "out")).poll(9)) == [b"second"]
    third = opened(SqliteTransaction(path, "demo"))
    with pytest.raises(StateError, match="cannot commit batch 1 after batch 1"):
        third.commit(1, [(slow, [b"third"])], {}, b"third")
    assert slow.flushes == 1, "who can be refused before writes nothing elsewhere"


def test_the_journal_is_read_across_pages_while_batches_are_added(path, opened, monkeypatch):
    monkeypatch.setattr("streamboost.connectors.sqlite.transaction._PAGE", 2)
    transaction = opened(SqliteTransaction(path, "demo"))
    for sequence in range(1, 6):
        transaction.commit(sequence, [], {}, b"%d" % sequence)
    entries = transaction.read_journal(after=1)
    assert next(entries) == (2, b"2")
    transaction.commit(6, [], {}, b"\xff")
    assert list(entries) == [(3, b"3"), (4, b"4"), (5, b"5"), (6, b"\xff")]


def test_a_pipeline_needs_a_name(path):
    with pytest.raises(ConfigurationError, match="name"):
        SqliteTransaction(path, "")


def test_a_process_killed_in_the_middle_of_a_commit_leaves_nothing_of_it(path, opened):
    script = Path(__file__).with_name("committing.py")
    child = subprocess.Popen(
        [sys.executable, str(script), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout.readline() == b"inside\n"
        transaction = opened(SqliteTransaction(path, "demo"))
        assert transaction.last_committed_batch().sequence == 2, "nobody sees an open transaction"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL
    source, sink = opened(SqliteSource(path, "out")), opened(SqliteSink(path, "out"))
    assert payloads(source.poll(9)) == [b"batch 1", b"batch 2"]
    assert transaction.last_committed_batch() == CommittedBatch(2, {"records": {"0": 2}})
    assert list(transaction.read_journal()) == [(1, b"1"), (2, b"2")]
    transaction.commit(3, [(sink, [b"batch 3 again"])], {"records": {"0": 3}}, b"3 again")
    assert source.poll(9) == [Message(b"batch 3 again", "0", 2, 13)]
    assert shell(path, "PRAGMA integrity_check") == [("ok",)]
