"""The in-memory connectors fail exactly when a test tells them to."""

import threading

import pytest

from streamboost.connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryTransaction
from streamboost.errors import ConnectorError, UnavailableError


def test_a_paused_source_gives_nothing_and_loses_nothing():
    log = MemoryLog()
    log.append([b"one", b"two"])
    source = MemorySource(log)
    source.poll(1)
    source.pause()
    assert source.poll(10) == []
    assert source.position() == {"0": 1}
    source.resume()
    assert [message.payload for message in source.poll(10)] == [b"two"]


def test_what_is_not_flushed_is_not_seen():
    log = MemoryLog()
    sink = MemorySink(log)
    sink.write([b"one"])
    assert log.payloads() == []
    sink.flush()
    assert log.payloads() == [b"one"]


def test_an_aborted_commit_leaves_nothing_and_the_next_one_commits():
    log, transaction = MemoryLog(), MemoryTransaction()
    sink = MemorySink(log)
    transaction.fail_next_commit()
    with pytest.raises(UnavailableError, match="commit 1 was aborted"):
        transaction.commit(1, [(sink, [b"one"])], {"records": {"0": 1}}, b"entry")
    assert transaction.last_committed_batch() is None
    assert log.payloads() == []
    transaction.commit(1, [(sink, [b"one"])], {"records": {"0": 1}}, b"entry")
    assert log.payloads() == [b"one"]


def test_a_commit_is_aborted_with_the_error_one_chooses():
    transaction = MemoryTransaction()
    transaction.fail_next_commit(KeyboardInterrupt("now"))
    with pytest.raises(KeyboardInterrupt):
        transaction.commit(1, [], {}, b"")


def test_an_aborted_commit_has_written_the_sinks_it_does_not_bind():
    inside, outside = MemoryLog(), MemoryLog()
    bound, free = MemorySink(inside), MemorySink(outside)
    transaction = MemoryTransaction(bound=[bound])
    transaction.fail_next_commit()
    with pytest.raises(UnavailableError):
        transaction.commit(1, [(bound, [b"in"]), (free, [b"out"])], {}, b"")
    assert inside.payloads() == []
    assert outside.payloads() == [b"out"]


def test_what_committed_gives_is_the_caller_s_own():
    transaction = MemoryTransaction()
    transaction.commit(1, [], {"records": {"0": 1}}, b"")
    transaction.last_committed_batch().positions["records"]["0"] = 9
    assert transaction.last_committed_batch().positions == {"records": {"0": 1}}


def test_messages_of_one_partition_go_before_those_of_the_next():
    log = MemoryLog(["b", "a"])
    log.append([b"1"], "b")
    log.append([b"2", b"3"], "a")
    source = MemorySource(log)
    assert [message.payload for message in source.poll(2)] == [b"2", b"3"]
    assert source.position() == {"a": 2, "b": 0}


@pytest.mark.parametrize("use", [MemorySink, lambda log, name: log.append([b""], name)])
def test_a_partition_that_is_not_there_is_refused(use):
    with pytest.raises(ConnectorError, match="no partition 'other', only 0"):
        use(MemoryLog(), "other")


def test_threads_may_append_to_one_log():
    log = MemoryLog()
    threads = [
        threading.Thread(target=lambda: [log.append([b"x"]) for _ in range(200)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [message.offset for message in MemorySource(log).poll(1000)] == list(range(800))
