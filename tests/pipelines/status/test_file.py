"""``status.db`` as a file: kept equal to its content, rebuilt if damaged, and read."""

import itertools
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing

import pytest

from streamboost.pipelines.status import file as status_file
from streamboost.pipelines.status.file import FILE, StatusFile
from streamboost.pipelines.status.reader import StatusReader


def content(*, name="a", points=(), requests=(), predictions=()):
    counted = dict.fromkeys(("seconds", "batches", "records", "labels", "busy", "margins"), 0)
    return {
        "documents": {"pipeline": (1, json.dumps({"name": name}))},
        "points": {i: (10 * i, i, json.dumps(counted | {"at": i})) for i in points},
        "marks": {},
        "predictions": {i: (json.dumps([{"id": i}]),) for i in predictions},
        "dead_letters": {},
        "requests": {
            id: (utility, None, json.dumps({"id": id, "utility": utility}))
            for id, utility in requests
        },
    }


@pytest.fixture
def file(tmp_path):
    with closing(StatusFile(tmp_path / FILE)) as file:
        yield file


def test_where_there_is_no_file_there_is_no_status_and_none_is_made(tmp_path, reader):
    assert reader.document("pipeline") is None
    assert reader.documents() == {}
    assert reader.chart_points() == reader.chart_marks() == reader.requests() == []
    assert reader.predictions() == reader.dead_letters() == []
    assert reader.request("a") is None
    assert reader.change_counter() == 0
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_kept_equal_to_its_content(file, reader):
    file.write(content(points=[1, 2, 3], requests=[("a", 0.1), ("b", 0.9)], predictions=[1, 2]))
    assert reader.document("pipeline") == {"name": "a"}
    assert [point["at"] for point in reader.chart_points()] == [1, 2, 3]
    assert [request["id"] for request in reader.requests()] == ["b", "a"]
    assert [prediction["id"] for prediction in reader.predictions(1)] == [2]
    file.write(content(name="z", points=[1, 3, 4], requests=[("c", 0.5)]))
    assert reader.documents() == {"pipeline": {"name": "z"}}
    assert [point["at"] for point in reader.chart_points(since_ms=10)] == [3, 4]
    assert [request["id"] for request in reader.requests()] == ["c"]
    assert (reader.request("c")["utility"], reader.request("a")) == (0.5, None)
    assert reader.predictions() == []


def test_the_stamp_changes_with_the_file_and_only_then(file, reader):
    stamps = []
    for name in "aab":
        file.write(content(name=name))
        stamps += [reader.change_counter(), reader.change_counter()]
    file.close()
    stamps += [reader.change_counter(), reader.change_counter()]
    changes = [len(list(same)) for _, same in itertools.groupby(stamps)]
    assert sum(changes) == 8
    assert all(n % 2 == 0 for n in changes)
    assert len(changes) >= 3


def test_each_thread_reads_over_a_connection_of_its_own(file, reader):
    file.write(content(requests=[(str(i), i / 100) for i in range(100)]))
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append((len(reader.requests()), reader.change_counter() > 0))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(100, True)] * 8


@pytest.mark.parametrize("spoilt", ["text", "header", "middle", "format", "empty", "gone"])
def test_a_file_that_is_spoilt_is_begun_anew(tmp_path, file, reader, spoilt):
    path = tmp_path / FILE
    file.write(content(points=range(500)))
    file.close()
    whole = path.read_bytes()
    if spoilt == "format":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 999")
            connection.execute("ALTER TABLE points RENAME TO something_else")
    elif spoilt == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {
                "text": b"not a database at all " * 500,
                "header": b"x" * 100 + whole[100:],
                "middle": whole[:4096] + b"\xff" * (len(whole) - 4096),
                "empty": b"",
            }[spoilt]
        )
    found = reader.documents()  # whatever it says, it does not fail
    assert spoilt != "format" or found == {}
    file.write(content(name="again", points=[1]))
    assert reader.documents() == {"pipeline": {"name": "again"}}
    assert [point["at"] for point in reader.chart_points()] == [1]


@pytest.mark.parametrize("companions", ["", "*"])
def test_a_file_deleted_or_replaced_while_it_is_open_is_written_whole_again(
    tmp_path, file, reader, companions
):
    file.write(content(points=[1, 2]))
    assert len(reader.chart_points()) == 2
    for path in tmp_path.glob(FILE + companions):
        path.unlink()
    assert reader.chart_points() == []
    file.write(content(points=[1, 2]))
    assert len(reader.chart_points()) == 2
    (tmp_path / "other").write_bytes(b"something else")
    (tmp_path / "other").replace(tmp_path / FILE)
    file.write(content(points=[1, 2, 3]))
    assert len(reader.chart_points()) == 3


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT * FROM documents").fetchall()
print("looked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def another_looks(tmp_path):
    """Returns a function that has another process open the file, and keep it open."""
    with ExitStack() as stack:

        def look():
            command = [sys.executable, "-c", HOLD, str(tmp_path / FILE)]
            pipe = subprocess.PIPE
            process = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe))
            assert process.stdout.readline() == b"looked\n"

        yield look


def test_a_file_that_was_deleted_after_a_kill_is_not_taken_for_what_is_left_of_it(
    tmp_path, reader, another_looks
):
    (tmp_path / "killed").mkdir()
    with closing(StatusFile(tmp_path / "killed" / FILE)) as killed:
        killed.write(content(points=range(500)))
        with closing(sqlite3.connect(tmp_path / "killed" / FILE)) as folding:
            folding.execute("PRAGMA wal_checkpoint(RESTART)")
        killed.write(content(points=[1, 2]))  # what the log has now is but a part
        for path in (tmp_path / "killed").iterdir():
            shutil.copy(path, tmp_path)
    another_looks()
    (tmp_path / FILE).unlink()
    with closing(StatusFile(tmp_path / FILE)) as file:
        file.write(content(points=[3]))
    assert [point["at"] for point in reader.chart_points()] == [3]


def test_a_file_that_another_holds_is_written_once_it_is_let_go(
    tmp_path, file, reader, monkeypatch
):
    monkeypatch.setattr(status_file, "BUSY_SECONDS", 0.01)
    file.write(content(points=[1]))
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            file.write(content(points=[1, 2]))
        assert len(reader.chart_points()) == 1
        other.execute("ROLLBACK")
    file.write(content(points=[1, 2, 3]))
    assert len(reader.chart_points()) == 3


def test_a_file_that_may_not_be_written_is_left_and_can_be_read(open_folder, only_reading):
    with closing(StatusFile(open_folder / FILE)) as file:
        file.write(content(points=[1]))
    with only_reading(open_folder):
        with (
            closing(StatusFile(open_folder / FILE)) as file,
            pytest.raises((sqlite3.Error, OSError)),
        ):
            file.write(content(points=[1, 2]))
        with closing(StatusReader(open_folder)) as reader:
            assert len(reader.chart_points()) == 1
            assert reader.change_counter() == reader.change_counter() > 0


def test_one_who_never_stops_reading_does_not_make_the_file_grow(
    tmp_path, file, reader, monkeypatch
):
    monkeypatch.setattr(status_file, "MOST_WAL", 200_000)
    file.write(content(name="start"))
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as stuck:
        stuck.execute("BEGIN")
        stuck.execute("SELECT * FROM documents").fetchall()
        sizes = []
        for i in range(100):
            file.write(content(name=f"{i} " + "x" * 50_000))
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
        assert stuck.execute("SELECT value FROM documents").fetchone() == ('{"name": "start"}',)
    assert max(sizes) < 1_000_000
    assert reader.document("pipeline")["name"].startswith("99 ")


def test_what_cannot_be_made_sense_of_is_no_status(tmp_path, file, reader):
    file.write(content(points=[1]))
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as connection:
        connection.execute("UPDATE points SET value = '{\"half'")
        connection.execute("UPDATE documents SET value = '[]'")
    assert reader.chart_points() == []
    assert reader.documents() == {}
