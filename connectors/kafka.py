"""Apache Kafka: topics as sources and sinks.

A topic's partitions are assigned, not shared out by a group: one process reads them all, and
where it reads on is kept with the pipeline's journal. Only what was committed is read.

The client library's objects are used by one thread, the one that made them.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors

from streamboost.connectors.base import Message, Position, Sink, Source
from streamboost.errors import ConfigurationError, ConnectorError, StateError, UnavailableError

__all__ = ["KafkaCluster", "KafkaSink", "KafkaSource"]

_CONSUMER = set(KafkaConsumer.DEFAULT_CONFIG)
_PRODUCER = set(KafkaProducer.DEFAULT_CONFIG)
_ADMIN = set(KafkaAdminClient.DEFAULT_CONFIG)

_OURS = {
    "group_id": "it follows from the pipeline's name",
    "group_instance_id": "partitions are assigned, not shared out by a group",
    "partition_assignment_strategy": "partitions are assigned, not shared out by a group",
    "transactional_id": "it follows from the pipeline's name",
    "enable_auto_commit": "positions are committed with what was made of the records",
    "auto_offset_reset": "reading starts at a topic's beginning, and a gap is an error",
    "isolation_level": "only what was committed is read",
    "enable_idempotence": "nothing may be written twice",
    "acks": "a write counts once every replica has it",
    "key_serializer": "messages are bytes",
    "value_serializer": "messages are bytes",
    "key_deserializer": "messages are bytes",
    "value_deserializer": "messages are bytes",
    "consumer_timeout_ms": "polling never waits for longer than a moment",
    "allow_auto_create_topics": "a misspelt topic is an error; `streamboost check` creates topics",
}
"""Options that cannot be set, and why."""

_FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)

_POLL_MS = 20
_MOMENT_MS = 10_000
"""What one question to the broker may take."""


@dataclass(frozen=True)
class KafkaCluster:
    """A cluster and how to reach it.

    Parameters
    ----------
    servers : str
        One or several `host:port`, separated by commas.
    options : mapping
        Any other option of kafka-python's clients, such as `security_protocol`,
        `sasl_mechanism`, `ssl_cafile` or `compression_type`; each client takes those it knows.

    Raises
    ------
    ConfigurationError
        When no client knows an option, or it is not to be set.

    Examples
    --------
    >>> KafkaCluster("localhost:9092", {"security_protocl": "SSL"})
    Traceback (most recent call last):
    streamboost.errors.ConfigurationError: Kafka has no option 'security_protocl': did you mean...
    """

    servers: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = (_CONSUMER | _PRODUCER | _ADMIN) - {"bootstrap_servers"}
        for name in self.options:
            if name in _OURS:
                raise ConfigurationError(
                    f"the Kafka option {name!r} cannot be set: {_OURS[name]}; leave it out"
                )
            if name not in known:
                near = difflib.get_close_matches(name, known - set(_OURS), 1)
                hint = f"did you mean {near[0]!r}?" if near else "see kafka-python's clients"
                raise ConfigurationError(f"Kafka has no option {name!r}: {hint}")

    def consumer(self, **settings: Any) -> KafkaConsumer:
        """Return a consumer that reads what was committed, and only where it is sent to."""
        settings = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            # Reading starts where `seek` says. "earliest" would pass over a gap in silence.
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": 30_000,  # how soon new partitions are seen
        } | settings
        return self._client(KafkaConsumer, _CONSUMER, settings)

    def producer(self, **settings: Any) -> KafkaProducer:
        """Return a producer that writes nothing twice, in batches that suit whole commits."""
        settings = {
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "linger_ms": 5,
            "batch_size": 256 * 1024,
            "max_request_size": 32 * 1024 * 1024,  # the broker's own limit decides
            "max_block_ms": _MOMENT_MS,
            "delivery_timeout_ms": 40_000,
        } | settings
        return self._client(KafkaProducer, _PRODUCER, settings)

    def admin(self) -> KafkaAdminClient:
        """Return a client that asks for and creates topics."""
        return self._client(KafkaAdminClient, _ADMIN, {})

    def _client(self, make: Any, known: set[str], settings: dict[str, Any]) -> Any:
        ours = {"bootstrap_servers": self.servers.split(","), "bootstrap_timeout_ms": _MOMENT_MS}
        given = {name: value for name, value in self.options.items() if name in known}
        with told(self.servers):
            return make(**(ours | settings | given))


@contextmanager
def told(where: str) -> Iterator[None]:
    """Raise what the client library refuses as an error of ours that names `where`.

    What may pass by itself is an UnavailableError.
    """
    try:
        yield
    except (
        kafka_errors.SaslAuthenticationFailedError,
        kafka_errors.AuthorizationError,
        kafka_errors.UnsupportedSaslMechanismError,
    ) as error:
        raise ConnectorError(
            f"{where} refuses these credentials: {error}; see [kafka] and what the account may do"
        ) from error
    except (kafka_errors.KafkaConfigurationError, ValueError, TypeError) as error:
        raise ConfigurationError(f"the Kafka options do not fit each other: {error}") from error
    except kafka_errors.MessageSizeTooLargeError as error:
        raise ConnectorError(
            f"{where}: a message is larger than the broker takes: {error}; raise the topic's "
            "max.message.bytes"
        ) from error
    except (kafka_errors.KafkaError, OSError) as error:
        # Later calls of a fenced producer give the error that fenced it as their cause.
        if any(isinstance(one, _FENCED) for one in (error, *error.args)):
            raise StateError(
                f"{where}: another process has taken this pipeline over, so this one may not "
                "write any more; stop one of the two for good"
            ) from error
        raise UnavailableError(f"{where} cannot be used now: {error!r}") from error


class KafkaSource(Source):
    """Reads all partitions of a topic, those that join later from their beginning.

    Parameters
    ----------
    cluster : KafkaCluster
    topic : str
    max_bytes : int
        What of a payload is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size. A message without a value is an empty payload.

    Raises
    ------
    ConnectorError
        While polling, when the topic does not exist, or no longer holds what comes next.
    UnavailableError
        When the cluster cannot be reached.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, max_bytes: int = 1_000_000) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        self.topic = topic
        self._cluster = cluster
        self._max_bytes = max_bytes
        self._next: Position = {}
        self._consumer: KafkaConsumer | None = None

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` messages."""
        if limit < 1:
            return []
        consumer = self._assigned()
        with self._told():
            found = consumer.poll(timeout_ms=_POLL_MS, max_records=limit)
        messages = []
        for partition in sorted(found, key=lambda partition: partition.partition):
            for record in found[partition]:
                value = record.value or b""
                kept = value if len(value) <= self._max_bytes else value[: self._max_bytes + 1]
                name = str(partition.partition)
                messages.append(Message(bytes(kept), name, record.offset, len(value)))
        with self._told():
            # Also past what is never given, such as the marks that end transactions.
            self._next |= {
                str(partition.partition): consumer.position(partition, timeout_ms=_MOMENT_MS)
                for partition in found
            }
        return messages

    def position(self) -> Position:
        """Return the offset of the next message of each partition."""
        return dict(self._next)

    def seek(self, position: Position) -> None:
        """Go on from `position`; partitions it does not name start at their beginning."""
        self._next = dict(position)
        self.close()

    def lag(self) -> int:
        """Return how many offsets lie between what was read and the end, over all partitions."""
        consumer = self._assigned()
        with self._told():
            ends = consumer.end_offsets(list(consumer.assignment()), timeout_ms=_MOMENT_MS)
        return sum(end - self._next.get(str(p.partition), 0) for p, end in ends.items())

    def close(self) -> None:
        """Let go of the cluster; polling connects again."""
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=1_000)
            self._consumer = None

    def _assigned(self) -> KafkaConsumer:
        """Return the consumer, reading all partitions there are now from where they stand."""
        if self._consumer is None:
            self._consumer = self._cluster.consumer(max_partition_fetch_bytes=4 * 1024 * 1024)
        consumer = self._consumer
        with self._told():
            numbers = consumer.partitions_for_topic(self.topic)
        if not numbers:
            raise ConnectorError(
                f"topic {self.topic!r} does not exist at {self._cluster.servers}: correct the "
                "name, or create it with `streamboost check --create-topics`"
            )
        if len(consumer.assignment()) != len(numbers):
            self._assign(consumer, sorted(numbers))
        return consumer

    def _assign(self, consumer: KafkaConsumer, numbers: list[int]) -> None:
        unknown = sorted(set(self._next) - {str(number) for number in numbers})
        if unknown:
            raise ConnectorError(
                f"topic {self.topic!r} has no partition {unknown[0]!r}, which was read before: it "
                "is not the same topic; put that one back, or begin anew with an empty state"
            )
        partitions = [TopicPartition(self.topic, number) for number in numbers]
        with self._told():
            starts = consumer.beginning_offsets(partitions, timeout_ms=_MOMENT_MS)
            ends = consumer.end_offsets(partitions, timeout_ms=_MOMENT_MS)
        for partition in partitions:
            name = str(partition.partition)
            place = self._next.get(name, starts[partition])
            self._check(name, place, starts[partition], ends[partition])
            self._next[name] = place
        with self._told():
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, self._next[str(partition.partition)])

    def _check(self, partition: str, place: int, start: int, end: int) -> None:
        if place < start:
            raise ConnectorError(
                f"topic {self.topic!r} no longer holds offsets {place} to {start - 1} of partition "
                f"{partition}: its retention has overtaken the pipeline; raise retention.ms and "
                "bring the records back, or begin anew with an empty state"
            )
        if place > end:
            raise ConnectorError(
                f"partition {partition} of topic {self.topic!r} ends at offset {end}, and reading "
                f"should go on at {place}: this is not the topic that was read before; put that "
                "one back, or begin anew with an empty state"
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        with told(f"topic {self.topic!r} at {self._cluster.servers}"):
            try:
                yield
            except kafka_errors.OffsetOutOfRangeError as error:
                # The broker has let go of what comes next; the first poll anew says what.
                self.close()
                raise UnavailableError(
                    f"topic {self.topic!r} no longer holds what comes next: {error}"
                ) from error


class KafkaSink(Sink):
    """Appends to a topic; within a transaction of the same cluster, that one writes for it.

    Parameters
    ----------
    cluster : KafkaCluster
    topic : str
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self._written: list[bytes] = []
        self._producer: KafkaProducer | None = None

    def write(self, payloads: Sequence[bytes]) -> None:
        """Keep `payloads` until `flush`."""
        self._written.extend(payloads)

    def flush(self) -> None:
        """Return once every replica has what was written; after an error, call it again."""
        if not self._written:
            return
        if self._producer is None:
            self._producer = self.cluster.producer()
        try:
            with told(f"topic {self.topic!r} at {self.cluster.servers}"):
                send(self._producer, self.topic, self._written)
        except ConnectorError:
            # What a producer failed to bring it may still bring: that one is not used again.
            discard(self._producer)
            self._producer = None
            raise
        self._written.clear()

    def close(self) -> None:
        """Let go of the cluster; flushing connects again. What was not flushed is dropped."""
        self._written.clear()
        if self._producer is not None:
            discard(self._producer)
            self._producer = None


def send(producer: KafkaProducer, topic: str, payloads: Sequence[bytes]) -> None:
    """Send `payloads` and return once all have arrived, or raise what the first met with."""
    sent = [producer.send(topic, payload) for payload in payloads]
    producer.flush(timeout=_MOMENT_MS / 1000)
    for future in sent:
        future.get(timeout=_MOMENT_MS / 1000)


def discard(producer: KafkaProducer) -> None:
    """Close a producer at once, whatever it was doing."""
    producer.close(timeout=0)
