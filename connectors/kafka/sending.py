"""Apache Kafka: sending messages, and naming what is refused until somebody mends it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from threading import Event, Thread
from typing import Any

import msgspec
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamboost.connectors.base import Carried, Following, Message, Position
from streamboost.connectors.kafka.admin import missing_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.errors import TOO_LARGE
from streamboost.errors import ConnectorError, UnavailableError

__all__ = ["CREATE_AGAIN", "Dispatch", "options_of"]

_PATIENCE = 30.0
"""Seconds that a write may take."""

_LOOK = 2.5
"""Seconds without an answer after which it is looked for what keeps it."""

CREATE_AGAIN = "create it again with `streamboost check --create-topics`, then start again"
"""How a topic that was deleted is put back."""


_REFUSED = (*TOO_LARGE, kafka_errors.InvalidTimestampError, kafka_errors.InvalidRecordError)
"""How a message is refused for what it is; whoever sends it again is refused again."""

_MENDS = {
    kafka_errors.InvalidTimestampError: "it bears its record's time: raise the topic's "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    kafka_errors.InvalidRecordError: "a compacted topic takes none without a key: give records "
    'keys, or set the topic\'s cleanup.policy to "delete"',
}


def options_of(about: Message | Carried) -> dict[str, Any]:
    """Return what the client library is told of what a message takes along of another.

    >>> options_of(Carried(b"7", (("trace", b"a"),), 1_000))
    {'timestamp_ms': 1000, 'key': b'7', 'headers': [('trace', b'a')]}
    """
    options: dict[str, Any] = {} if about.time is None else {"timestamp_ms": about.time}
    if about.key is not None:
        options["key"] = about.key
    if about.headers:
        options["headers"] = list(about.headers)
    return options


class Dispatch:
    """Messages given to a producer.

    Each may be refused for its size, and a topic may be gone. The client library waits then, for
    ever in a transaction; here it is said.
    """

    def __init__(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        self._cluster = cluster
        self._producer = producer
        self._sent: list[Any] = []
        self._refused: list[ConnectorError] = []
        self._is_refused = Event()

    def send_all(
        self, topic: str, payloads: Sequence[bytes], plain: Sequence[bytes] | None = None
    ) -> None:
        """Send messages, in their order within a partition, with what those that follow bear.

        `plain` has them as JSON, for errors to name them by, where they are in another format.
        """
        # Choosing from one takes the library a tenth of the time that sending takes.
        only = 0 if self._producer.partitions_for(topic) == {0} else None
        about = payloads.about if isinstance(payloads, Following) else repeat(Carried())
        for payload, one, called in zip(payloads, about, plain or payloads, strict=False):
            self.send(topic, payload, called, partition=only, **options_of(one))

    def send(self, topic: str, payload: bytes, called: str | bytes = b"", **more: Any) -> None:
        """Send a message; `called` is what it is, or itself as JSON where it is not that."""
        try:
            future = self._producer.send(topic, payload, **more)
        except TOO_LARGE as error:
            mend = "raise `max_request_size` in [kafka]"
            raise self._refusal(topic, payload, called, error, mend) from error
        future.add_errback(self._note, topic, payload, called)
        self._sent.append(future)

    def arrive(self, patience: float = 0.0) -> None:
        """Wait `patience` seconds for all that was sent, and raise what any of it has failed of."""
        # Not by the producer's `flush`, which gives up where it cuts a batch to a topic's size.
        deadline = time.monotonic() + patience
        for future in self._sent:
            if not future.succeeded():
                future.get(timeout=max(0.0, deadline - time.monotonic()))

    def in_time(
        self,
        where: str,
        mends: Mapping[str, str],
        write: Callable[[], None],
        patience: float = _PATIENCE,
    ) -> None:
        """Call `write`, which sends, but wait no longer than `patience` seconds.

        `mends` says what to do about each topic that is written to, where it was deleted: to the
        library it is one that will be known soon.
        """
        failed: list[BaseException] = []

        def attempt() -> None:
            """Write, and keep what was raised."""
            try:
                write()
            except BaseException as error:  # it belongs to the thread that waits
                failed.append(error)

        thread = Thread(target=attempt, name="write", daemon=True)
        thread.start()
        deadline, missing = time.monotonic() + patience, set[str]()
        while thread.is_alive():
            thread.join(_LOOK)
            if not thread.is_alive():
                break
            self._raise_refused()
            if time.monotonic() > deadline:
                raise UnavailableError(f"{where}: no answer to a write within {patience:.0f} s")
            missing = self._raise_gone(mends, missing)
        for error in failed:
            if any(isinstance(one, _REFUSED) for one in (error, *error.args)):
                self._is_refused.wait(1.0)  # the producer fails first, then the message
            self._raise_refused()
            raise error

    def _raise_gone(self, mends: Mapping[str, str], before: set[str]) -> set[str]:
        """Name a topic that is missing, and was `before`; return those that are missing.

        They are asked for twice, as a broker that is just starting may not know of all topics.
        """
        missing: set[str] = set()
        with suppress(UnavailableError):  # nobody can tell
            missing = set(missing_topics(self._cluster, list(mends)))
        for topic in sorted(before & missing):
            raise ConnectorError(
                f"topic {topic!r} at {self._cluster.servers} was deleted, with all that it held: "
                f"{mends[topic]}"
            )
        return missing

    def _raise_refused(self) -> None:
        # The first: a transaction fails those that come after it of the same error.
        for error in self._refused[:1]:
            raise error

    def _note(self, topic: str, payload: bytes, called: str | bytes, error: Exception) -> None:
        """Take down what a message failed of; the producer's own thread calls this."""
        if isinstance(error, _REFUSED) and not self._refused:
            mend = _MENDS.get(type(error), "raise the topic's max.message.bytes")
            self._refused.append(self._refusal(topic, payload, called, error, mend))
            self._is_refused.set()

    def _refusal(
        self, topic: str, payload: bytes, called: str | bytes, error: Exception, mend: str
    ) -> ConnectorError:
        said = called if isinstance(called, str) else _called(called or payload)
        return ConnectorError(
            f"topic {topic!r} at {self._cluster.servers} does not take "
            f"{said}, {len(payload):,} bytes: {error}; {mend}"
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
