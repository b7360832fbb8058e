"""Apache Kafka: sending messages, and naming what is refused until somebody mends it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

import msgspec
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamboost.connectors.base import Position
from streamboost.connectors.kafka.admin import missing_topics
from streamboost.connectors.kafka.cluster import TOO_LARGE, KafkaCluster
from streamboost.errors import ConnectorError, UnavailableError

__all__ = ["CREATE_AGAIN", "Dispatch", "in_time"]

_PATIENCE = 30.0
"""Seconds that a write may take."""

_LOOK = 2.5
"""Seconds without an answer after which it is asked whether the topics are still there."""

CREATE_AGAIN = "create it again with `streamboost check --create-topics`, then start again"
"""How a topic that was deleted is put back."""


def in_time(
    cluster: KafkaCluster, where: str, mends: Mapping[str, str], write: Callable[[], None]
) -> None:
    """Call `write`, but do not wait for ever, as the client library does for the broker.

    A deleted topic is to the library one that will be known soon. `mends` says what to do about
    each that is written to.
    """
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            write()
        except BaseException as error:  # it belongs to the thread that waits
            failed.append(error)

    thread = Thread(target=attempt, name="write", daemon=True)
    thread.start()
    missing: set[str] = set()
    deadline = time.monotonic() + _PATIENCE
    while thread.is_alive():
        thread.join(_LOOK)
        if not thread.is_alive():
            break
        if time.monotonic() > deadline:
            raise UnavailableError(f"{where}: no answer to a write within {_PATIENCE:.0f} s")
        # Asked twice, as a broker that is just starting may not know of all topics.
        before, missing = missing, _missing(cluster, mends)
        for topic in sorted(before & missing):
            raise ConnectorError(
                f"topic {topic!r} at {cluster.servers} was deleted, with all that it held: "
                f"{mends[topic]}"
            )
    if failed:
        raise failed[0]


def _missing(cluster: KafkaCluster, topics: Mapping[str, str]) -> set[str]:
    with suppress(UnavailableError):  # nobody can tell
        return set(missing_topics(cluster, list(topics)))
    return set()


class Dispatch:
    """Messages given to a producer, of which each may be refused for its size."""

    def __init__(self, producer: KafkaProducer, servers: str) -> None:
        self._producer = producer
        self._servers = servers
        self._sent: list[tuple[str, bytes, str | None, Any]] = []

    def send(self, topic: str, payload: bytes, called: str | None = None, **more: Any) -> None:
        """Send a message; `called` is what it is, where it does not say so itself."""
        try:
            future = self._producer.send(topic, payload, **more)
        except TOO_LARGE as error:
            mend = "raise `max_request_size` in [kafka]"
            raise self._refused(topic, payload, called, error, mend) from error
        self._sent.append((topic, payload, called, future))

    @contextmanager
    def arriving(self, patience: float = 0.0) -> Iterator[None]:
        """Raise what any of them has failed of, after what is done within to bring them there.

        They are waited for `patience` seconds.
        """
        try:
            yield
            # Not by the producer's `flush`, which gives up where it cuts a batch to a topic's size.
            deadline = time.monotonic() + patience
            for *_, future in self._sent:
                future.get(timeout=max(0.0, deadline - time.monotonic()))
        except kafka_errors.KafkaError:
            self._name_refused()
            raise

    def _name_refused(self) -> None:
        """Raise a ConnectorError that names the message which is too large."""
        patience = time.monotonic() + 1.0  # the producer fails first, then the message it failed of
        for topic, payload, called, future in self._sent:
            with suppress(kafka_errors.KafkaError):
                try:
                    future.get(timeout=max(0.0, patience - time.monotonic()))
                except TOO_LARGE as error:
                    mend = "raise the topic's max.message.bytes"
                    raise self._refused(topic, payload, called, error, mend) from error

    def _refused(
        self, topic: str, payload: bytes, called: str | None, error: Exception, mend: str
    ) -> ConnectorError:
        return ConnectorError(
            f"topic {topic!r} at {self._servers} does not take {called or _called(payload)}, "
            f"{len(payload):,} bytes: {error}; {mend}"
        )


class _Named(msgspec.Struct):
    id: str | None = None
    source: str | None = None
    position: Position | None = None


def _called(payload: bytes) -> str:
    """Say what a message is, by what it says of itself."""
    try:
        named = msgspec.json.decode(payload, type=_Named)
    except msgspec.MsgspecError:
        return "a message"
    if named.id is not None:
        return f"what is to be written of record {named.id[:60]!r}"
    for partition, offset in (named.position or {}).items():
        return f"the dead letter of {named.source}, partition {partition}, offset {offset}"
    return "a message"
