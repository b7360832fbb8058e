"""Uses of undocumented parts of kafka-python: private attributes, log records, error texts.

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
from kafka.structs import TopicPartition

__all__ = [
    "Failures",
    "drop_undecodable_records",
    "failed_batch_offset",
    "force_close_producer",
    "is_timeout",
    "mentions_error_class",
    "offset_in_error",
    "partition_sender",
    "report_connection_errors",
    "request_group_rejoin",
    "start_client",
    "topic_id",
]

_LOGS = ("kafka.net.manager", "kafka.cluster")
_OFFSET = re.compile(r"at offset (\d+)")

Failures = Callable[[Exception], None]
"""Callback for the error of each failed connection."""


def start_client(client_class: Any, settings: dict[str, Any]) -> Any:
    """Return a client of `client_class`; close its connections if its constructor raises an error.

    The library would keep the thread and the sockets of these connections. The undocumented option
    `kafka_client` gives access to them.
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


class _ConnectionErrorHandler(logging.Handler):
    """Log handler that reports exceptions among the arguments of log records."""

    def __init__(self, error_types: tuple[type[Exception], ...], report: Failures) -> None:
        super().__init__()
        self._kinds, self._report = error_types, report

    def emit(self, record: logging.LogRecord) -> None:
        """Report the exceptions among the arguments of a log record."""
        for one in record.args or ():
            if isinstance(one, self._kinds):
                self._report(one)


@contextmanager
def report_connection_errors(
    error_types: tuple[type[Exception], ...], report: Failures
) -> Iterator[None]:
    """Context manager that calls `report` with each connection error of the types `error_types`.

    The library only logs these errors, and raises a timeout error.
    """
    handler = _ConnectionErrorHandler(error_types, report)
    logs = [logging.getLogger(name) for name in _LOGS]
    for log in logs:
        log.addHandler(handler)
    try:
        yield
    finally:
        for log in logs:
            log.removeHandler(handler)


def is_timeout(error: Exception) -> bool:
    """Return whether a connection failed only because of a timeout.

    The library raises `error` while it handles the timeout, which is therefore its `__context__`.
    """
    return isinstance(error.__context__, kafka_errors.KafkaTimeoutError)


def mentions_error_class(error: Exception, error_class: type[Exception]) -> bool:
    """Return whether the text of `error` contains the name of the class `error_class`.

    Later calls of a failed producer raise an error that contains the first error only as text.
    """
    return error_class.__name__ in str(error)


def force_close_producer(producer: KafkaProducer) -> None:
    """Close a producer whose `close` method has raised an error.

    If `close` cannot flush, the producer's thread continues to send, and its finalizer flushes once
    more. No documented method prevents this.
    """
    producer._sender.force_close()
    producer._closed = True


def partition_sender(producer: KafkaProducer, partition: TopicPartition) -> Callable[..., Any]:
    """Return a function that sends a message to `partition` and returns its future.

    The function takes the value and the arguments `key`, `headers` and `timestamp_ms` of
    `KafkaProducer.send`, which spends half of its time on checks that are the same for all messages
    of a transaction. Raises ValueError if the partition does not exist.
    """
    if partition.partition not in producer.partitions_for(partition.topic):
        raise ValueError(f"topic {partition.topic!r} has no partition {partition.partition}")
    manager = producer._transaction_manager
    if manager is not None and manager.is_transactional():
        manager.maybe_add_partition_to_transaction(partition)

    def send(
        value: bytes,
        key: bytes | None = None,
        headers: list[tuple[str, bytes]] = [],  # noqa: B006 - nothing changes it
        timestamp_ms: int | None = None,
    ) -> Any:
        """Append a message to the partition's batch; wake the producer's thread if it is due."""
        producer._ensure_valid_record_size(producer._estimate_size_in_bytes(key, value, headers))
        future, is_full, is_new, _ = producer._accumulator.append(
            partition, timestamp_ms, key, value, headers
        )
        if is_full or is_new:
            producer._sender.wakeup()
        return future

    return send


def request_group_rejoin(consumer: KafkaConsumer) -> None:
    """Let a consumer join its group again at its next poll.

    The library stops joining if the metadata of the group's leader changed and a poll ended before
    the join. The consumer would keep its old assignment. No documented method starts the join.
    """
    consumer._coordinator.request_rejoin()


def drop_undecodable_records(consumer: KafkaConsumer) -> None:
    """Drop the fetched records that a consumer could not decode.

    The library keeps these records after it has raised an error, also after a `seek` to the same
    offset. Polls would return no more messages of the partition.
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
    """Return the first offset of the batch whose decoding raised `error`, or None.

    If a batch cannot be decompressed, the error of the compression library is raised. Only the
    traceback of this error refers to the batch.
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
