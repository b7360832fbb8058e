"""Apache Kafka: topics as sinks."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import KafkaProducer

from streamboost.connectors.base import Carried, Following, Sink
from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, discard, told
from streamboost.connectors.kafka.sending import CREATE_AGAIN, Dispatch
from streamboost.errors import ConnectorError

__all__ = ["KafkaSink"]


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
        self._written = Following([], [])
        self._producer: KafkaProducer | None = None

    def write(self, payloads: Sequence[bytes]) -> None:
        """Keep `payloads` until `flush`."""
        about: Sequence[Any] = [Carried()] * len(payloads)
        if isinstance(payloads, Following):
            about = payloads.about
        self._written = Following([*self._written, *payloads], [*self._written.about, *about])

    def send_all(self, dispatch: Dispatch, payloads: Sequence[bytes]) -> None:
        """Give messages to a producer."""
        dispatch.send_all(self.topic, payloads)

    def flush(self) -> None:
        """Return once every replica has what was written; after an error, call it again."""
        if not self._written:
            return
        if self._producer is None:
            self._producer = self.cluster.producer()
        where = f"topic {self.topic!r} at {self.cluster.servers}"
        dispatch = Dispatch(self.cluster, self._producer)
        try:
            with told(where):
                mends = {self.topic: CREATE_AGAIN}
                dispatch.in_time(where, mends, partial(self._write, dispatch))
        except ConnectorError:
            # What a producer failed to bring it may still bring: that one is not used again.
            discard(self._producer)
            self._producer = None
            raise
        self._written = Following([], [])

    def close(self) -> None:
        """Let go of the cluster; flushing connects again. What was not flushed is dropped."""
        self._written = Following([], [])
        if self._producer is not None:
            discard(self._producer)
            self._producer = None

    def _write(self, dispatch: Dispatch) -> None:
        self.send_all(dispatch, self._written)
        dispatch.arrive(MOMENT_MS / 1000)
