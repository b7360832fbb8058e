"""Topics of Apache Kafka.

The client library is loaded for those alone who use it.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, ConfigDict, Field

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.messages.written import DeadLetter, Prediction, Request, Time
from streamboost.errors import ConfigurationError
from streamboost.pipelines.endpoints.base import (
    Connector,
    Endpoint,
    Expiring,
    Input,
    LabelNames,
    Output,
    Place,
    Predicted,
    Section,
    Surroundings,
    Text,
)
from streamboost.pipelines.endpoints.formats import Format, registry_of

if TYPE_CHECKING:
    from streamboost.connectors.kafka.cluster import KafkaCluster
    from streamboost.connectors.kafka.formats.encoding import Encoder

__all__ = [
    "CONNECTOR",
    "KafkaInput",
    "KafkaOutput",
    "KafkaPredictions",
    "KafkaRequests",
    "KafkaSection",
    "KafkaTopic",
    "cluster_of",
    "name_topics",
]

_TOPICS = {"source": "records"} | {
    name: name for name in ("labels", "predictions", "requests", "dead_letters")
}
"""What the topic of a section is called after the pipeline's name."""


def _check_topic(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value):
        raise ValueError("must be at most 249 letters, digits, dots, dashes and underscores")
    return value


class KafkaSection(Section):
    """[kafka]: the cluster; all other keys are options of kafka-python's clients."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    bootstrap_servers: Text = Field(description="some of the brokers, as host:port,host:port")
    transactions: bool = Field(
        True, description="whether journal and positions are kept there, in one transaction"
    )

    def refused(self) -> Iterator[tuple[str, str]]:
        """Give each option that cannot be set, and why."""
        from streamboost.connectors.kafka.cluster import KafkaCluster

        for name, value in (self.model_extra or {}).items():
            try:
                KafkaCluster(self.bootstrap_servers, {name: value})
            except ConfigurationError as error:
                yield name, str(error)


class KafkaTopic(Endpoint):
    """A topic of the cluster that [kafka] names; without `topic`, named after the pipeline."""

    connector: Literal["kafka"]
    topic: Annotated[Text, AfterValidator(_check_topic)] = Field(description="the topic")
    format: Format = Field(
        "json", description="what messages are in; the others have schemas in [schema_registry]"
    )

    def place(self, around: Surroundings) -> Place:
        """Return the cluster, and the topic."""
        return Place("the Kafka cluster", self.topic)

    def sink(self, around: Surroundings) -> Sink:
        """Return what appends to the topic."""
        if self.format != "json":
            from streamboost.connectors.kafka.formats.encoding import EncodedSink

            return EncodedSink(self._encoder(around), cluster_of(around), self.topic)
        from streamboost.connectors.kafka.sink import KafkaSink

        return KafkaSink(cluster_of(around), self.topic)

    @abstractmethod
    def written(self) -> type[msgspec.Struct]:
        """Return what its messages are, where the pipeline writes them."""

    @abstractmethod
    def registered(self, around: Surroundings) -> str:
        """Say what the schema registry has of the topic; StreamBoostError where it refuses."""

    def _encoder(self, around: Surroundings) -> "Encoder":
        from streamboost.connectors.kafka.formats.encoding import Encoder

        assert self.format != "json"
        return Encoder(registry_of(around), self.format, self.topic, self.written())

    def _reader(
        self, around: Surroundings, on_corrupt: str = "stop", *, keys: bool = False
    ) -> Source:
        settings = {"on_gap": around.on_gap, "on_corrupt": on_corrupt}
        cluster = cluster_of(around)
        if self.format != "json":
            from streamboost.connectors.kafka.formats.decoding import DecodedSource, Decoder

            decoder = Decoder(registry_of(around), self.format, keys=keys)
            return DecodedSource(decoder, cluster, self.topic, around.max_bytes, **settings)
        from streamboost.connectors.kafka.topic import KafkaSource

        return KafkaSource(cluster, self.topic, around.max_bytes, **settings)


class KafkaInput(KafkaTopic, Input):
    """A topic of the cluster that [kafka] names; without `topic`, named after the pipeline."""

    on_corrupt: Literal["stop", "skip"] = Field(
        "stop", description="what is done about messages that do not match their checksum"
    )

    id_from: Literal["field", "key"] = Field(
        "field", description="whether a field or the message's key names a record"
    )

    changeable = frozenset({"on_corrupt"})

    @property
    def unit(self) -> str:
        """What a position counts: the marks of transactions have offsets too."""
        return "offsets"

    @property
    def closed(self) -> None:
        """None: anybody may append to the topic."""

    def source(self, around: Surroundings) -> Source:
        """Return what reads the topic."""
        return self._reader(around, self.on_corrupt, keys=self.id_from == "key")

    def written(self) -> type[msgspec.Struct]:
        """Return what labels are that people give."""
        names = self.fields or LabelNames()
        held = [("id", str), ("label", str | int | bool | None)]
        more = [("time", Time, None), ("source", str | None, None)]
        called = {"id": names.id or "id", "label": names.label}
        return msgspec.defstruct("Label", [*held, *more], rename=called)

    def registered(self, around: Surroundings) -> str:
        """Say which schema the topic's newest messages may have, and its fields."""
        from streamboost.connectors.kafka.formats.decoding import described

        assert self.format != "json"
        with closing(registry_of(around)) as registry:
            return described(registry, self.format, self.topic)


class KafkaOutput(KafkaTopic, Output):
    """A topic of the cluster that [kafka] names, part of the pipeline's transactions there."""

    def follower(self, around: Surroundings) -> Source:
        """Return what reads the topic."""
        return self._reader(around)

    def tried(self, around: Surroundings) -> str:
        """Say that the topic is there: the cluster was asked for all of them before."""
        return f"topic {self.topic} is there"

    def written(self) -> type[msgspec.Struct]:
        """Return what its messages are."""
        return DeadLetter

    def registered(self, around: Surroundings) -> str:
        """Say whether the schema of what is written is, or can be, registered."""
        with closing(self._encoder(around)) as encoder:
            return encoder.tried()


class KafkaRequests(KafkaOutput, Expiring):
    """[requests] into a topic."""

    def written(self) -> type[msgspec.Struct]:
        """Return what requests are."""
        return Request


class KafkaPredictions(KafkaOutput, Predicted):
    """[predictions] into a topic."""

    def written(self) -> type[msgspec.Struct]:
        """Return what predictions are."""
        return Prediction


CONNECTOR = Connector(KafkaInput, KafkaInput, KafkaOutput, KafkaRequests, KafkaPredictions)


def cluster_of(around: Surroundings) -> "KafkaCluster":
    """Return the cluster that [kafka] names, which there must be."""
    from streamboost.connectors.kafka.cluster import KafkaCluster
    from streamboost.connectors.kafka.options import FILES

    section = around.kafka
    assert isinstance(section, KafkaSection)
    options = dict(section.model_extra or {})
    for name in FILES:
        if isinstance(options.get(name), str):
            options[name] = str(around.resolve(options[name]))
    return KafkaCluster(section.bootstrap_servers, options)


def name_topics(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Name the topics that are not, and put all beside the records where those are in one."""
    filled = dict(tables)
    if _is_topic(tables.get("source")):
        filled = {section: {"connector": "kafka"} for section in _TOPICS} | filled
    pipeline = filled.get("pipeline")
    name = pipeline.get("name") if isinstance(pipeline, dict) else None
    for section, suffix in _TOPICS.items():
        if _is_topic(filled.get(section)):
            filled[section] = {"topic": f"{name}.{suffix}"} | filled[section]
    return filled


def _is_topic(table: Any) -> bool:
    return isinstance(table, dict) and table.get("connector") == "kafka"
