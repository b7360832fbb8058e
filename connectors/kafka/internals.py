"""Every use of what kafka-python does not document: private attributes, log records, error texts.

`tests/connectors/kafka/test_internals.py` has a test for each use, which fails when a release of
the library changes what the use relies on.
"""

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.record.abc import ABCRecordBatch

__all__ = [
    "Failures",
    "drop_undecodable",
    "failed_batch_offset",
    "force_close",
    "is_timeout",
    "names_error",
    "offset_in",
    "rejoin",
    "start_client",
    "topic_id",
    "watched_connections",
]

_LOGS = ("kafka.net.manager", "kafka.cluster")
_OFFSET = re.compile(r"at offset (\d+)")

Failures = Callable[[Exception], None]
"""Receives the reason of each connection that failed."""


def start_client(make: Any, settings: dict[str, Any]) -> Any:
    """Make a client; if it does not start, close its connections.

    A constructor that raises keeps its connections, with their thread and sockets. The option
    `kafka_client`, which is not documented, gives access to them.
    """
    connections: list[KafkaNetClient] = []

    def connect(**options: Any) -> KafkaNetClient:
        """Return a connection that is closed if its client does not start."""
        connections.append(KafkaNetClient(**options))
        return connections[-1]

    try:
        return make(kafka_client=connect, **settings)
    except BaseException:
        for one in connections:
            one.close()
        raise


class _Reasons(logging.Handler):
    """Reads the exceptions among the arguments of the library's log records."""

    def __init__(self, kinds: tuple[type[Exception], ...], note: Failures) -> None:
        super().__init__()
        self._kinds, self._note = kinds, note

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exceptions that a record names."""
        for one in record.args or ():
            if isinstance(one, self._kinds):
                self._note(one)


@contextmanager
def watched_connections(kinds: tuple[type[Exception], ...], note: Failures) -> Iterator[None]:
    """Report to `note` why connections fail, as errors of `kinds`.

    The library only logs the reasons. What it raises is that time has run out.
    """
    handler = _Reasons(kinds, note)
    logs = [logging.getLogger(name) for name in _LOGS]
    for log in logs:
        log.addHandler(handler)
    try:
        yield
    finally:
        for log in logs:
            log.removeHandler(handler)


def is_timeout(reason: Exception) -> bool:
    """Return whether a connection failed only because time ran out.

    The library raises another error while it handles the timeout, whose context this reads.
    """
    return isinstance(reason.__context__, kafka_errors.KafkaTimeoutError)


def names_error(error: Exception, kind: type[Exception]) -> bool:
    """Return whether the text of `error` names the class `kind`.

    Later calls of a producer that has failed raise an error that repeats the first in words alone.
    """
    return kind.__name__ in str(error)


def force_close(producer: KafkaProducer) -> None:
    """Close a producer whose `close` has raised.

    If `close` cannot flush, its thread continues to send, and the finalizer flushes once more. The
    documented methods end neither.
    """
    producer._sender.force_close()
    producer._closed = True


def rejoin(consumer: KafkaConsumer) -> None:
    """Let a consumer join its group again.

    The library stops joining when a leader's metadata changed and a poll ended before the join did.
    It would keep the old assignment. No documented method starts the join.
    """
    consumer._coordinator.request_rejoin()


def drop_undecodable(consumer: KafkaConsumer) -> None:
    """Drop the fetched records that a consumer could not decode.

    The library keeps them after it has raised, also across `seek` to the same offset. A poll would
    return nothing more of the partition.
    """
    if undecodable := consumer._fetcher._next_partition_records:
        undecodable.drain()


def topic_id(client: KafkaConsumer | KafkaProducer, topic: str) -> str | None:
    """Return the id of a topic; None if the broker does not report it.

    `client` has asked for the topic's partitions. The clients have the id with their metadata, and
    no documented method returns it.
    """
    cluster = getattr(client, "_cluster", None) or client._metadata
    found = cluster.topic_id(topic)
    return str(found) if found and found.int else None


def failed_batch_offset(error: Exception) -> int | None:
    """Return the first offset of the batch whose decoding raised `error`; None if no batch did.

    For a batch that cannot be decompressed, the library raises whatever the codec raises. Only the
    traceback leads to the batch.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        batch = frame.f_locals.get("self")
        if isinstance(batch, ABCRecordBatch):
            return int(batch.base_offset)
    return None


def offset_in(error: kafka_errors.CorruptRecordError) -> int | None:
    """Return the offset that the text of an error names; None if it names none.

    The error of a failed checksum has no attribute for the offset of the batch.
    """
    found = _OFFSET.search(str(error))
    return int(found[1]) if found else None
