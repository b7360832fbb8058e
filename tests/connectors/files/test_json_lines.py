"""JSON Lines files: complete, growing, damaged and deleted."""

import gzip
import os
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamboost.connectors.base import Message
from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.files.json_lines_sink import JsonLinesSink
from streamboost.connectors.files.open import file_source
from streamboost.errors import ConfigurationError, ConnectorError, DataError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "records.jsonl"


@pytest.fixture
def reader(path):
    """Opens sources on the file, which are closed at the end."""
    made = []

    def make(**options):
        made.append(JsonLinesSource(path, **options))
        return made[-1]

    yield make
    for source in made:
        source.close()


def payloads(messages):
    return [message.payload for message in messages]


def test_offsets_are_the_bytes_at_which_lines_start(path, reader):
    path.write_bytes(b"a\r\n\n\xc3\xa9\nlast")
    source = reader()
    assert source.poll(9) == [
        Message(b"a", "0", 0, 1),
        Message(b"", "0", 3, 0),
        Message(b"\xc3\xa9", "0", 4, 2),
        Message(b"last", "0", 7, 4),
    ]
    assert source.position() == {"0": 11}


def test_a_byte_order_mark_is_passed_over(path, reader):
    path.write_bytes(b"\xef\xbb\xbfabc\nd\n")
    assert reader(max_bytes=3).poll(9) == [Message(b"abc", "0", 0, 3), Message(b"d", "0", 7, 1)]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [9, 10, 11, 12, 13, 14, 15, 16, 200_000])
def test_a_long_line_is_cut_and_keeps_its_true_size(path, reader, size, ending):
    path.write_bytes(b"x" * size + ending + (b"next" if ending else b""))
    first, *rest = reader(max_bytes=10).poll(9)
    assert first == Message(b"x" * min(size, 11), "0", 0, size)
    assert payloads(rest) == ([b"next"] if ending else [])


def test_a_long_line_is_skipped_without_being_held(path, reader):
    path.write_bytes(b"x" * 5_000_000 + b"\nnext\n")
    source = reader(max_bytes=100)
    assert [(len(message.payload), message.size) for message in source.poll(1)] == [
        (101, 5_000_000)
    ]
    assert payloads(source.poll(1)) == [b"next"]


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    lines=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([b"\n", b"\r\n"])), min_size=1, max_size=8
    )
)
def test_lines_are_those_that_python_splits(path, reader, lines):
    content = b"".join(b"y" * length + ending for length, ending in lines)
    path.write_bytes(content)
    messages = reader(max_bytes=12).poll(99)
    assert [message.size for message in messages] == [length for length, _ in lines]
    for message in messages:
        assert content[message.offset :].startswith(message.payload)
        assert len(message.payload) == min(message.size, 13)


def test_a_last_line_without_an_end_waits_while_the_file_is_followed(path, reader):
    path.write_bytes(b"one\ntw")
    source = reader(follow=True)
    assert payloads(source.poll(9)) == [b"one"]
    assert source.position() == {"0": 4}
    with path.open("ab") as file:
        file.write(b"o\nthree")
    assert payloads(source.poll(9)) == [b"two"]
    assert source.poll(9) == []


def test_a_followed_line_longer_than_memory_waits_as_well(path, reader):
    path.write_bytes(b"x" * 300_000)
    source = reader(max_bytes=10, follow=True)
    assert source.poll(9) == []
    with path.open("ab") as file:
        file.write(b"\n")
    assert source.poll(9) == [Message(b"x" * 11, "0", 0, 300_000)]


def test_lines_added_to_a_file_that_was_read_to_its_end_are_read(path, reader):
    path.write_bytes(b"one\n")
    source = reader()
    assert payloads(source.poll(9)) == [b"one"]
    with path.open("ab") as file:
        file.write(b"two\n")
    assert payloads(source.poll(9)) == [b"two"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_end_that_comes_after_its_line_was_read_is_no_line(path, reader, end):
    path.write_bytes(b"one")
    source, later = reader(), reader()
    assert payloads(source.poll(9)) == [b"one"]
    later.seek(source.position())
    with path.open("ab") as file:
        file.write(end + b"two\n")
    assert payloads(source.poll(9)) == [b"two"]
    assert payloads(later.poll(9)) == [b"two"]


def test_a_line_that_was_finished_after_it_was_read_is_given_whole(path, reader):
    path.write_bytes(b'{}\n{"id": 1, "a')
    source, later = reader(), reader()
    assert payloads(source.poll(9)) == [b"{}", b'{"id": 1, "a']
    end = source.position()["0"]
    with path.open("ab") as file:
        file.write(b'": 2}\n{"id": 3}\n')
    later.set_expected_content(source.content_fingerprint)
    later.seek(source.position())
    assert later.lag() == source.lag()
    for one in (source, later):
        assert payloads(one.poll(9)) == [b'{"id": 1, "a": 2}', b'{"id": 3}']
        assert one.poll(9) == []
    assert payloads(later.read_range({"0": (0, end)}, 2)) == [b"{}", b'{"id": 1, "a'], (
        "as it was read"
    )


def test_a_missing_file_is_an_error_with_the_mend(path, reader):
    with pytest.raises(ConnectorError, match=r"no file .*records.jsonl: create it"):
        reader().poll(1)


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "csv.gz"])
def test_a_device_a_pipe_or_a_folder_is_refused_and_does_not_hang(tmp_path, ending, follow):
    pipe, folder, device = (tmp_path / f"{name}.{ending}" for name in ("pipe", "folder", "zero"))
    os.mkfifo(pipe)
    folder.mkdir()
    device.symlink_to("/dev/zero")
    for path, kind in ((pipe, "named pipe"), (folder, "folder"), (device, "device")):
        with closing(file_source(path, follow=follow and ending in ("jsonl", "csv"))) as source:
            with pytest.raises(ConnectorError, match=f"it is a {kind}, not a regular file; name"):
                source.poll(1)
            if ending != "csv.gz":
                with pytest.raises(ConnectorError, match=f"it is a {kind}"):
                    source.lag()


def test_a_truncated_file_is_an_error(path, reader):
    path.write_bytes(b"one\ntwo\n")
    source = reader()
    source.poll(9)
    os.truncate(path, 4)
    with pytest.raises(ConnectorError, match=r"truncated.*byte 8.*only 4 bytes"):
        source.poll(9)


def test_a_position_within_a_line_is_an_error(path, reader):
    path.write_bytes(b"one\ntwo\n")
    source = reader()
    source.seek({"0": 2})
    with pytest.raises(ConnectorError, match="no line starts there"):
        source.poll(1)


def test_an_error_while_reading_loses_nothing(path, reader, monkeypatch):
    path.write_bytes(b"one\ntwo\nthree\n")
    source = reader()
    read, calls = source._read_message, []

    def fail_at_the_second(*about, **options):
        calls.append(None)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        return read(*about, **options)

    monkeypatch.setattr(source, "_read_message", fail_at_the_second)
    with pytest.raises(ConnectorError, match="Input/output error"):
        source.poll(9)
    assert payloads(source.poll(9)) == [b"one", b"two", b"three"]


def test_a_limit_of_no_bytes_is_refused(path):
    with pytest.raises(ConfigurationError, match="max_bytes = 0"):
        JsonLinesSource(path, max_bytes=0)


def test_after_a_line_that_was_broken_off_writing_starts_on_a_new_one(path):
    path.write_bytes(b'{"id": 1}\n{"id"')
    sink = JsonLinesSink(path)
    sink.write([b"{}"])
    sink.flush()
    sink.close()
    assert path.read_bytes() == b'{"id": 1}\n{"id"\n{}\n'


def test_a_message_with_a_line_break_is_refused_and_nothing_of_its_batch_is_written(path):
    sink = JsonLinesSink(path)
    with pytest.raises(DataError, match="line break"):
        sink.write([b"{}", b"{\n}"])
    sink.flush()
    assert not path.exists()


def test_what_is_flushed_was_synced_with_its_folder(path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(os.fstat(file).st_ino) or fsync(file)
    )
    sink = JsonLinesSink(path)
    sink.write([b"{}"])
    assert synced == []
    sink.flush()
    sink.close()
    assert synced == [path.parent.stat().st_ino, path.stat().st_ino]


@pytest.mark.parametrize("new_folder", [False, True])
@pytest.mark.parametrize("removed", [False, True])
def test_after_a_rotation_messages_go_to_a_new_file(path, removed, new_folder):
    sink, folder = JsonLinesSink(path), path.parent / "older"
    sink.write([b"one"])
    sink.flush()
    if new_folder:
        folder.mkdir()
        path.rename(folder / "out.jsonl.1")
    else:
        folder = path.parent
        path.rename(folder / "out.jsonl.1")
    if removed:
        (folder / "out.jsonl.1").unlink()
    sink.write([b"two"])
    sink.flush()
    sink.close()
    assert path.read_bytes() == b"two\n"


def test_messages_written_into_a_file_that_is_removed_meanwhile_are_written_again(
    path, monkeypatch
):
    fsync = os.fsync

    def remove_and_sync(file):
        monkeypatch.setattr(os, "fsync", fsync)
        path.unlink()
        fsync(file)

    sink = JsonLinesSink(path)
    sink.write([b"one"])
    sink.flush()
    monkeypatch.setattr(os, "fsync", remove_and_sync)
    sink.write([b"two"])
    sink.flush()
    sink.close()
    assert path.read_bytes() == b"two\n"


def test_a_flush_that_failed_can_be_tried_again(path, monkeypatch):
    def fail(file):
        raise OSError(28, "No space left on device")

    sink = JsonLinesSink(path)
    sink.write([b"one"])
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(ConnectorError, match="No space left"):
            sink.flush()
    sink.flush()
    sink.close()
    assert set(path.read_bytes().splitlines()) == {b"one"}


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    sink = JsonLinesSink(tmp_path / "file" / "out.jsonl")
    sink.write([b"{}"])
    with pytest.raises(ConnectorError, match="cannot write"):
        sink.flush()


def test_a_followed_file_may_come_later(tmp_path):
    path = tmp_path / "labels.jsonl"
    source = JsonLinesSource(path, follow=True)
    assert source.poll(10) == []
    path.write_bytes(b'{"id": 1}\n')
    assert [message.payload for message in source.poll(10)] == [b'{"id": 1}']
    path.rename(tmp_path / "labels.jsonl.1")
    assert source.poll(10) == [], "the next one may come later, too"
    source.close()


def test_what_is_left_is_the_lag_in_bytes(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"id": 1}\n{"id": 2}')
    with closing(JsonLinesSource(path)) as source:
        assert source.lag() == 19
        source.poll(1)
        assert source.lag() == 9
        source.poll(1)
        assert source.lag() == 0
        path.unlink()
        with pytest.raises(ConnectorError, match="there is no file"):
            source.lag()


def test_a_line_that_waits_for_its_end_is_no_lag(tmp_path):
    """Else a long one that is being written looks like a source that gives nothing."""
    path = tmp_path / "records.jsonl"
    with closing(JsonLinesSource(path, follow=True)) as source:
        assert source.lag() == 0, "it is not there yet"
        path.write_bytes(b"{}\n" + b" " * 200_000)
        assert source.lag() == 3
        source.poll(10)
        assert source.lag() == 0
        path.write_bytes(b"{}\n" + b" " * 200_000 + b"\n")
        assert source.lag() == 200_001


def test_nobody_tells_what_is_left_of_a_compressed_file(tmp_path):
    path = tmp_path / "records.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n"))
    with closing(JsonLinesSource(path)) as source:
        assert source.lag() is None
