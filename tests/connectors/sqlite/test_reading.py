"""An SQLite file that is polled while other processes write, replace and delete the file."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from descriptors import times_open

from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import DeletedError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def source(path):
    with closing(SqliteSource(path, "records")) as source:
        yield source


def put(path, *payloads):
    with closing(SqliteSink(path, "records")) as sink:
        sink.write(payloads)
        sink.flush()


def read(source, limit=1):
    return [message.payload for message in source.poll(limit)]


def test_a_file_stays_open_from_look_to_look_until_the_source_rests(path, source):
    put(path, b"one")
    assert read(source) == [b"one"]
    assert read(source) == []
    assert times_open(path) == 1
    source.release_resources()
    assert times_open(path) == 0
    put(path, b"two")
    assert read(source) == [b"two"]


def test_closing_leaves_nothing_open_whatever_is_left_to_read(path, source):
    put(path, b"one", b"two")
    read(source)
    source.close()
    assert times_open(path) == 0
    assert read(source) == [b"two"]


def test_whoever_writes_while_a_source_rests_leaves_one_file_behind(path, source):
    put(path, b"one")
    assert read(source, 5) == [b"one"]
    source.release_resources()
    put(path, b"two")
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_what_others_add_is_found_between_two_looks(path, source):
    put(path, b"one")
    for payload in (b"two", b"three", b"four"):
        assert len(read(source)) == 1
        put(path, payload)
    assert read(source) == [b"four"]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_nobody_is_locked_out_between_two_looks(path, source, mode):
    put(path, b"one", b"two")
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        assert other.execute(f"PRAGMA journal_mode = {mode}").fetchone() == (mode.lower(),)
        assert read(source) == [b"one"]
        other.execute("INSERT INTO records (payload) VALUES ('three')")
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        other.execute("BEGIN EXCLUSIVE")
        other.execute("INSERT INTO records (payload) VALUES ('four')")
        other.execute("COMMIT")
        assert read(source, 5) == [b"two", b"three", b"four"]


@pytest.mark.parametrize("place", [os.replace, shutil.copyfile])
def test_a_file_put_in_the_place_of_the_one_being_read_is_read(path, source, place, tmp_path):
    put(path, b"one", b"two", b"three")
    assert read(source) == [b"one"]
    other = tmp_path / "other.db"
    put(other, b"one", b"zwei", b"drei")
    place(other, path)
    assert read(source, 5) == [b"zwei", b"drei"]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_longer_file_whose_messages_are_others_is_refused(path, source, stopped, tmp_path):
    put(path, b"one", b"two")
    assert read(source, 2) == [b"one", b"two"]
    other = tmp_path / "other.db"
    put(other, b"eins", b"zwei", b"drei")
    other.replace(path)
    if stopped:
        source, before = SqliteSource(path, "records"), source
        source.set_expected_content(before.content_fingerprint)
        source.seek(before.position())
    with pytest.raises(DeletedError, match="not the file that was read before"):
        source.poll(1)
    source.close()


def test_a_shorter_file_in_the_place_of_the_one_being_read_is_refused(path, source, tmp_path):
    put(path, b"one", b"two", b"three")
    assert read(source, 2) == [b"one", b"two"]
    other = tmp_path / "other.db"
    put(other, b"eins")
    other.replace(path)
    with pytest.raises(DeletedError, match="not the file that was read before"):
        source.poll(1)
    assert times_open(path) == 0


def test_a_file_that_is_taken_away_and_comes_back_is_read_on(path, source, tmp_path):
    put(path, b"one", b"two")
    assert read(source) == [b"one"]
    away = tmp_path / "away.db"
    for end in ("-wal", "-shm", ""):
        os.rename(f"{path}{end}", f"{away}{end}")
    with pytest.raises(DeletedError):
        source.poll(1)
    for end in ("-wal", "-shm", ""):
        os.rename(f"{away}{end}", f"{path}{end}")
    assert read(source) == [b"two"]
