"""Apache Kafka: sends messages, and reports messages that the broker refuses permanently."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from threading import Event, Thread
from typing import Any

import msgspec
from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors

from streamboost.connectors.base import ForwardedPayloads, Message, MessageMetadata, Position
from streamboost.connectors.kafka.admin import missing_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.errors import TOO_LARGE
from streamboost.connectors.kafka.internals import partition_sender
from streamboost.errors import ConnectorError, UnavailableError

_PATIENCE = 30.0
"""Timeout of a write in seconds."""

_LOOK = 2.5
"""Seconds without an answer until deleted topics and refused messages are checked for."""

RECREATE_REMEDY = "create it again with `streamboost check --create-topics`, then start again"
"""Text of the remedy for a deleted topic."""


_REFUSED = (*TOO_LARGE, kafka_errors.InvalidTimestampError, kafka_errors.InvalidRecordError)
"""Errors of messages that are refused because of their content, so that a retry cannot help."""

_REMEDIES = {
    kafka_errors.InvalidTimestampError: "it has its record's time: raise the topic's "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    kafka_errors.InvalidRecordError: "a compacted topic takes none without a key: give records "
    'keys, or set the topic\'s cleanup.policy to "delete"',
}


def send_arguments(metadata: Message | MessageMetadata) -> dict[str, Any]:
    """Return the arguments of `KafkaProducer.send` for the metadata of a message.

    >>> send_arguments(MessageMetadata(b"7", (("trace", b"a"),), 1_000))
    {'timestamp_ms': 1000, 'key': b'7', 'headers': [('trace', b'a')]}
    """
    options: dict[str, Any] = {} if metadata.time is None else {"timestamp_ms": metadata.time}
    if metadata.key is not None:
        options["key"] = metadata.key
    if metadata.headers:
        options["headers"] = list(metadata.headers)
    return options


class FailFastSender:
    """Sends messages with a producer; raises errors for refused messages and missing topics.

    In both cases, the client library itself would wait for its timeout, or without limit in a
    transaction.
    """

    def __init__(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        self._cluster = cluster
        self._producer = producer
        self._senders: dict[tuple[str, int], Callable[..., Any]] = {}  # by topic and partition
        self._sent: list[Any] = []
        self._refused: list[ConnectorError] = []
        self._is_refused = Event()

    def send_all(
        self, topic: str, payloads: Sequence[bytes], json_payloads: Sequence[bytes] | None = None
    ) -> None:
        """Send messages, in order within a partition; forwarded payloads keep their metadata.

        `json_payloads` are the messages as JSON, which identify them in errors. They are only
        needed if `payloads` has another format.
        """
        # Choosing the only partition costs the library a tenth of the time of sending.
        only = 0 if self._producer.partitions_for(topic) == {0} else None
        about = (
            payloads.about if isinstance(payloads, ForwardedPayloads) else repeat(MessageMetadata())
        )
        for payload, one, description in zip(
            payloads, about, json_payloads or payloads, strict=False
        ):
            self.send(topic, payload, description, partition=only, **send_arguments(one))

    def send(
        self,
        topic: str,
        payload: bytes,
        description: str | bytes = b"",
        partition: int | None = None,
        **send_arguments: Any,
    ) -> None:
        """Send a message without waiting for its acknowledgement.

        `description` identifies the message in errors: a text, or the message as JSON in bytes.
        `send_arguments` are arguments of `KafkaProducer.send`.
        """
        try:
            future = self._sender(topic, partition)(payload, **send_arguments)
        except TOO_LARGE as error:
            remedy = "raise `max_request_size` in [kafka]"
            raise self._refused_message_error(topic, payload, description, error, remedy) from error
        future.add_errback(self._store_refused_message_error, topic, payload, description)
        self._sent.append(future)

    def _sender(self, topic: str, partition: int | None) -> Callable[..., Any]:
        """Return the function that sends to a partition; None: the producer chooses one."""
        if partition is None:
            return partial(self._producer.send, topic)
        if (place := (topic, partition)) not in self._senders:
            self._senders[place] = partition_sender(self._producer, TopicPartition(*place))
        return self._senders[place]

    def await_acks(self, timeout_seconds: float = 0.0) -> None:
        """Wait until all messages are acknowledged; raise their errors, or a timeout error."""
        # Not the producer's `flush`, which fails if it splits a batch for a topic's size limit.
        deadline = time.monotonic() + timeout_seconds
        for future in self._sent:
            if not future.succeeded():
                future.get(timeout=max(0.0, deadline - time.monotonic()))

    def run_with_timeout(
        self,
        resource_name: str,
        remedies: Mapping[str, str],
        send_messages: Callable[[], None],
        timeout_seconds: float = _PATIENCE,
    ) -> None:
        """Call `send_messages`, which sends messages, with a timeout.

        `remedies` maps a topic to the end of the error text if the topic was deleted. The library
        itself would wait for the metadata of a deleted topic.
        """
        failed: list[BaseException] = []

        def send_and_store_error() -> None:
            """Call `send_messages`, and store its exception for the waiting thread."""
            try:
                send_messages()
            except BaseException as error:  # raised by the waiting thread
                failed.append(error)

        thread = Thread(target=send_and_store_error, name="write", daemon=True)
        thread.start()
        deadline, missing = time.monotonic() + timeout_seconds, set[str]()
        while thread.is_alive():
            thread.join(_LOOK)
            if not thread.is_alive():
                break
            self._raise_if_message_refused()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{resource_name}: no answer to a write within {timeout_seconds:.0f} s"
                )
            missing = self._raise_if_topic_deleted(remedies, missing)
        for error in failed:
            if any(isinstance(one, _REFUSED) for one in (error, *error.args)):
                self._is_refused.wait(1.0)  # the producer fails first, then the message
            self._raise_if_message_refused()
            raise error

    def _raise_if_topic_deleted(
        self, remedies: Mapping[str, str], missing_before: set[str]
    ) -> set[str]:
        """Raise ConnectorError if a topic is missing in two checks; return the missing topics.

        Topics are checked twice, because a broker that just started may not have all metadata.
        """
        missing: set[str] = set()
        with suppress(UnavailableError):  # not known now
            missing = set(missing_topics(self._cluster, list(remedies)))
        for topic in sorted(missing_before & missing):
            raise ConnectorError(
                f"topic {topic!r} at {self._cluster.servers} was deleted, with all that it held: "
                f"{remedies[topic]}"
            )
        return missing

    def _raise_if_message_refused(self) -> None:
        # Only the first: in a transaction, later messages fail with the same error.
        for error in self._refused[:1]:
            raise error

    def _store_refused_message_error(
        self, topic: str, payload: bytes, description: str | bytes, error: Exception
    ) -> None:
        """Store the error of a refused message; the producer's own thread calls this."""
        if isinstance(error, _REFUSED) and not self._refused:
            remedy = _remedy_for_refused_message(error)
            self._refused.append(
                self._refused_message_error(topic, payload, description, error, remedy)
            )
            self._is_refused.set()

    def _refused_message_error(
        self, topic: str, payload: bytes, description: str | bytes, error: Exception, remedy: str
    ) -> ConnectorError:
        named = (
            description
            if isinstance(description, str)
            else _describe_payload(description or payload)
        )
        return ConnectorError(
            f"topic {topic!r} at {self._cluster.servers} does not take "
            f"{named}, {len(payload):,} bytes: {error}; {remedy}"
        )


def _remedy_for_refused_message(error: Exception) -> str:
    """Return the remedy for a message that was refused with `error`."""
    kind = type(error)
    if kind is kafka_errors.InvalidRecordError and "Timestamp" in str(error):
        kind = kafka_errors.InvalidTimestampError
    return _REMEDIES.get(kind, "raise the topic's max.message.bytes")


class _MessageId(msgspec.Struct):
    """Fields of a JSON message that identify the message in errors."""

    id: str | None = None
    source: str | None = None
    position: Position | None = None


def _describe_payload(payload: bytes) -> str:
    """Return text that describes a JSON message in errors, by its id or position."""
    try:
        named = msgspec.json.decode(payload, type=_MessageId)
    except msgspec.MsgspecError:
        return "a message"
    if named.id is not None:
        return f"what is to be written of record {named.id[:60]!r}"
    for partition, offset in (named.position or {}).items():
        return f"the dead letter of {named.source}, partition {partition}, offset {offset}"
    return "a message"
