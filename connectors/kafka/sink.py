"""Apache Kafka: topic sink."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import KafkaProducer

from streamboost.connectors.base import ForwardedPayloads, MessageMetadata, Sink
from streamboost.connectors.kafka.cluster import (
    MOMENT_MS,
    KafkaCluster,
    close_producer,
    translate_errors,
)
from streamboost.connectors.kafka.producer import RECREATE_REMEDY, FailFastSender
from streamboost.errors import ConnectorError


class KafkaSink(Sink):
    """Appends messages to a topic, in `flush` or as part of a `KafkaTransaction`.

    Parameters
    ----------
    cluster : KafkaCluster
    topic : str
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self._written = ForwardedPayloads([], [])
        self._producer: KafkaProducer | None = None

    def write(self, payloads: Sequence[bytes]) -> None:
        """Buffer `payloads` until `flush`."""
        about: Sequence[Any] = [MessageMetadata()] * len(payloads)
        if isinstance(payloads, ForwardedPayloads):
            about = payloads.about
        self._written = ForwardedPayloads(
            [*self._written, *payloads], [*self._written.about, *about]
        )

    def send_all(self, sender: FailFastSender, payloads: Sequence[bytes]) -> None:
        """Send `payloads` as messages, without waiting for acknowledgements."""
        sender.send_all(self.topic, payloads)

    def flush(self) -> None:
        """Send the buffered payloads and wait for the acknowledgement of all replicas.

        After an error, call it again; some messages may be written twice then.
        """
        if not self._written:
            return
        if self._producer is None:
            self._producer = self.cluster.create_producer()
        where = f"topic {self.topic!r} at {self.cluster.servers}"
        sender = FailFastSender(self.cluster, self._producer)
        try:
            with translate_errors(where):
                remedies = {self.topic: RECREATE_REMEDY}
                sender.run_with_timeout(where, remedies, partial(self._send_and_await_acks, sender))
        except ConnectorError:
            # A failed producer may still deliver messages, so it is not used again.
            close_producer(self._producer)
            self._producer = None
            raise
        self._written = ForwardedPayloads([], [])

    def close(self) -> None:
        """Release the connection and drop unflushed payloads; the next flush connects again."""
        self._written = ForwardedPayloads([], [])
        if self._producer is not None:
            close_producer(self._producer)
            self._producer = None

    def _send_and_await_acks(self, sender: FailFastSender) -> None:
        self.send_all(sender, self._written)
        sender.await_acks(MOMENT_MS / 1000)
