import os

import pytest

from streamboost.connectors.files.stdin import StdinSource
from streamboost.errors import ConnectorError


@pytest.fixture
def pipe():
    end, start = os.pipe()
    open_ends = [end, start]

    class Pipe:
        descriptor = end

        def write(self, data):
            os.write(start, data)

        def close(self):
            open_ends.remove(start)
            os.close(start)

    yield Pipe()
    for descriptor in open_ends:
        os.close(descriptor)


def payloads(messages):
    return [message.payload for message in messages]


def test_a_line_is_a_message_once_it_has_ended(pipe):
    source = StdinSource(descriptor=pipe.descriptor)
    assert (source.poll(5), source.is_open) == ([], True)
    pipe.write(b"one\r\ntw")
    assert payloads(source.poll(5)) == [b"one"]
    pipe.write(b"o\n\nlast")
    assert payloads(source.poll(5)) == [b"two", b""]
    pipe.close()
    assert payloads(source.poll(5)) == [b"last"]
    assert (source.poll(5), source.is_open, source.position()) == ([], False, {"0": 4})


def test_it_goes_back_by_one_poll_and_no_further(pipe):
    source = StdinSource(descriptor=pipe.descriptor)
    pipe.write(b"".join(b"%d\n" % n for n in range(10)))
    first = source.poll(4)
    source.seek({"0": 0})
    assert source.poll(4) == first
    assert payloads(source.poll(3)) == [b"4", b"5", b"6"]
    source.seek({"0": 5})
    assert payloads(source.poll(9)) == [b"5", b"6", b"7", b"8", b"9"]
    with pytest.raises(ConnectorError, match="cannot be read again: line 2"):
        source.seek({"0": 2})
    assert not source.is_replayable


def test_another_process_counts_on_from_where_the_last_one_stood(pipe):
    source = StdinSource(descriptor=pipe.descriptor)
    source.seek({"0": 70})
    pipe.write(b"a\nb\n")
    assert [message.offset for message in source.poll(5)] == [70, 71]
    assert source.position() == {"0": 72}


def test_of_a_line_that_is_too_long_only_the_beginning_is_held(pipe):
    source = StdinSource(max_bytes=10, descriptor=pipe.descriptor)
    pipe.write(b"x" * 5_000)
    assert source.poll(5) == []
    assert len(source._line) <= 12
    pipe.write(b"y" * 5_000 + b"\nshort\n")
    long, short = source.poll(5)
    assert (long.payload, long.size) == (b"x" * 11, 10_000)
    assert (short.payload, short.size) == (b"short", 5)


def test_nothing_is_taken_from_the_pipe_while_nobody_polls(pipe):
    source = StdinSource(descriptor=pipe.descriptor)
    pipe.write(b"a\n")
    source.poll(1)
    os.set_blocking(pipe.descriptor, False)
    pipe.write(b"b\n")
    assert os.read(pipe.descriptor, 10) == b"b\n"
