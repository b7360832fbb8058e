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
    "drop_undecodable_records",
    "failed_batch_offset",
    "force_close_producer",
    "is_timeout",
    "mentions_error_class",
    "offset_in_error",
    "report_connection_errors",
    "request_group_rejoin",
    "start_client",
    "topic_id",
]

_LOGS = ("kafka.net.manager", "kafka.cluster")
_OFFSET = re.compile(r"at offset (\d+)")

Failures = Callable[[Exception], None]
"""Receives the reason of each connection that failed."""


def start_client(client_class: Any, settings: dict[str, Any]) -> Any:
    """Return a client of `client_class`; close its connections if it does not start.

    A constructor that raises keeps its connections, with their thread and sockets. The option
    `kafka_client`, which is not documented, gives access to them.
    """
    connections: list[KafkaNetClient] = []

    def connect(**options: Any) -> KafkaNetClient:
        """Return a connection, and register it for closing."""
        connections.append(KafkaNetClient(**options))
        return connections[-1]

    try:
        return client_class(kafka_client=connect, **settings)
    except BaseException:
        for one in connections:
            one.close()
        raise


class _ReasonHandler(logging.Handler):
    """Log handler that reports exceptions among the arguments of log records."""

    def __init__(self, kinds: tuple[type[Exception], ...], report: Failures) -> None:
        super().__init__()
        self._kinds, self._report = kinds, report

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exceptions among the arguments of a log record."""
        for one in record.args or ():
            if isinstance(one, self._kinds):
                self._report(one)


@contextmanager
def report_connection_errors(
    kinds: tuple[type[Exception], ...], report: Failures
) -> Iterator[None]:
    """Context manager that calls `report` with each connection error of the types `kinds`.

    The library only logs these errors, and raises a timeout.
    """
    handler = _ReasonHandler(kinds, report)
    logs = [logging.getLogger(name) for name in _LOGS]
    for log in logs:
        log.addHandler(handler)
    try:
        yield
    finally:
        for log in logs:
            log.removeHandler(handler)


def is_timeout(reason: Exception) -> bool:
    """Return whether a connection failed only because of a timeout.

    The library raises another error while it handles the timeout, whose context this reads.
    """
    return isinstance(reason.__context__, kafka_errors.KafkaTimeoutError)


def mentions_error_class(error: Exception, kind: type[Exception]) -> bool:
    """Return whether the text of `error` contains the name of the class `kind`.

    Later calls of a producer that has failed raise an error that repeats the first in words alone.
    """
    return kind.__name__ in str(error)


def force_close_producer(producer: KafkaProducer) -> None:
    """Close a producer whose `close` method has raised an error.

    If `close` cannot flush, its thread continues to send, and the finalizer flushes once more. The
    documented methods end neither.
    """
    producer._sender.force_close()
    producer._closed = True


def request_group_rejoin(consumer: KafkaConsumer) -> None:
    """Let a consumer join its group again at its next poll.

    The library stops joining when a leader's metadata changed and a poll ended before the join did.
    It would keep the old assignment. No documented method starts the join.
    """
    consumer._coordinator.request_rejoin()


def drop_undecodable_records(consumer: KafkaConsumer) -> None:
    """Drop the fetched records that a consumer could not decode.

    The library keeps them after it has raised, also across `seek` to the same offset. A poll would
    return nothing more of the partition.
    """
    if undecodable := consumer._fetcher._next_partition_records:
        undecodable.drain()


def topic_id(client: KafkaConsumer | KafkaProducer, topic: str) -> str | None:
    """Return the id of a topic; None if the broker does not report it.

    `client` must have loaded the topic's metadata, which contain the id.
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


def offset_in_error(error: kafka_errors.CorruptRecordError) -> int | None:
    """Return the offset in the text of an error, or None if it has none.

    The error of a failed checksum has no attribute for the offset of the batch.
    """
    found = _OFFSET.search(str(error))
    return int(found[1]) if found else None
