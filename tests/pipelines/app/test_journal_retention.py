"""Retention of a journal in Kafka: when entries are deleted, and which copies make this safe."""

import time
from threading import Event
from types import SimpleNamespace

import pytest

from streamboost.pipelines.app.retention import JournalRetention
from streamboost.pipelines.config.durations import RecordCountAndBatchTime
from streamboost.pipelines.shutdown import StopToken
from tests.waiting import until

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS
CHECKPOINTS = SimpleNamespace(sequences=[30, 20, 10])
MANIFEST = {"sequence": 30, "fingerprint": "ours"}


class Journal:
    """Journal that records the deletions."""

    def __init__(self, failures=()):
        self.deletions = []
        self._failures = list(failures)

    def delete_before(self, sequence, time_ms):
        if self._failures:
            raise self._failures.pop(0)
        self.deletions.append((sequence, time_ms))
        return True


class Copies:
    """Store of copies with these batches, the newest first; `is_readable` delays the reading."""

    def __init__(self, sequences, fingerprint="ours", is_readable=None):
        self.sequences = sequences
        self._fingerprint = fingerprint
        self._is_readable = is_readable

    def newest(self):
        if self._is_readable is not None:
            assert self._is_readable.wait(60)
        return SimpleNamespace(
            sequence=self.sequences[0], manifest={"fingerprint": self._fingerprint}
        )


def retain(journal, copies, days=1):
    return JournalRetention(journal, CHECKPOINTS, copies, days * DAY_MS)


def at(days):
    return RecordCountAndBatchTime(0, NOW_MS + int(days * DAY_MS))


def test_entries_before_the_oldest_copy_are_deleted_after_the_retention():
    journal = Journal()
    retention = retain(journal, Copies([20, 7, 5]))
    retention.on_checkpoint(at(0), MANIFEST)
    retention.close(StopToken())
    assert journal.deletions == [(5, NOW_MS - DAY_MS)]


def test_slow_copy_store_delays_neither_a_batch_nor_a_stop():
    journal, is_readable, stop = Journal(), Event(), StopToken()
    retention = retain(journal, Copies([20, 7, 5], is_readable=is_readable))
    began = time.monotonic()
    for days in range(3):
        retention.on_checkpoint(at(days), MANIFEST)
    stop.request_stop()
    retention.close(stop)
    assert time.monotonic() - began < 5
    assert journal.deletions == []
    is_readable.set()
    until(lambda: journal.deletions)
    retention.close(StopToken())
    assert journal.deletions == [(5, NOW_MS - DAY_MS), (5, NOW_MS + DAY_MS)], (
        "the first, the newest"
    )


@pytest.mark.parametrize(
    ("sequences", "fingerprint"), [([20, 7, 5], "another"), ([31, 20], "ours")]
)
def test_copies_of_another_state_delete_nothing(sequences, fingerprint):
    journal = Journal()
    retention = retain(journal, Copies(sequences, fingerprint))
    retention.on_checkpoint(at(0), MANIFEST)
    retention.close(StopToken())
    assert [sequence for sequence, _ in journal.deletions] == [0]


def test_failed_deletion_is_logged_and_repeated_at_the_next_checkpoint(caplog):
    journal = Journal([ValueError("a surprise")])
    retention = retain(journal, None)
    retention.on_checkpoint(at(0), MANIFEST)
    retention.close(StopToken())
    assert "old entries cannot be deleted from the journal: a surprise" in caplog.text
    for days in (0.001, 0.002, 0.03):
        retention.on_checkpoint(at(days), MANIFEST)
        retention.close(StopToken())
    times = [time_ms - NOW_MS + DAY_MS for _, time_ms in journal.deletions]
    assert times == [DAY_MS // 1000, DAY_MS * 3 // 100], "a fiftieth of the retention later"


def test_retention_longer_than_kafka_has_times_deletes_nothing():
    journal = Journal()
    retention = retain(journal, None, days=36_500)
    retention.on_checkpoint(at(0), MANIFEST)
    retention.close(StopToken())
    assert journal.deletions == [(10, 0)]
