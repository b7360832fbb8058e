"""Sections of the kafka connector: topics of Apache Kafka, and section [kafka].

The client library is imported only if the configuration uses Kafka.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import AfterValidator, ConfigDict, Field

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.messages.outgoing import DeadLetter, Prediction, Request, Time
from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    ConnectorSections,
    Endpoint,
    Input,
    LabelFieldNames,
    Output,
    PredictionsSection,
    RequestsSection,
    Section,
    StreamLocation,
    Text,
)
from streamboost.pipelines.config.connectors.formats import Format, open_schema_registry

if TYPE_CHECKING:
    from streamboost.connectors.kafka.cluster import KafkaCluster
    from streamboost.connectors.kafka.formats.encoding import Encoder

_TOPICS = {"source": "records"} | {
    name: name for name in ("labels", "predictions", "requests", "dead_letters")
}
"""Maps a section to the suffix of its default topic, which follows the pipeline's name."""


def _check_topic(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value) or value in (".", ".."):
        raise ValueError("must be at most 249 letters, digits, dots, dashes and underscores")
    return value


class KafkaSection(Section):
    """[kafka]: connection to the cluster; keys that are not listed go to kafka-python's clients."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    bootstrap_servers: Text = Field(description="addresses of some brokers, as host:port,host:port")
    transactions: bool = Field(
        True, description="whether one Kafka transaction commits journal, positions and outputs"
    )

    def rejected_options(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of option and reason for options that the client rejects."""
        from streamboost.connectors.kafka.cluster import KafkaCluster

        for name, value in (self.model_extra or {}).items():
            try:
                KafkaCluster(self.bootstrap_servers, {name: value})
            except ConfigurationError as error:
                yield name, str(error)


class KafkaTopic(Endpoint):
    """A topic of the cluster that [kafka] names; without `topic`, named after the pipeline."""

    connector: Literal["kafka"]
    topic: Annotated[Text, AfterValidator(_check_topic)] = Field(description="name of the topic")
    format: Format = Field(
        "json", description="format of the messages; formats other than json need [schema_registry]"
    )

    def location(self, context: ConnectorContext) -> StreamLocation:
        """Return the location of the messages: the Kafka cluster and the topic."""
        return StreamLocation("the Kafka cluster", self.topic)

    def create_sink(self, context: ConnectorContext) -> Sink:
        """Return a sink that appends messages to the topic."""
        if self.format != "json":
            from streamboost.connectors.kafka.formats.encoding import EncodedSink

            return EncodedSink(self._build_encoder(context), kafka_cluster(context), self.topic)
        from streamboost.connectors.kafka.sink import KafkaSink

        return KafkaSink(kafka_cluster(context), self.topic)

    @abstractmethod
    def message_type(self) -> type[msgspec.Struct]:
        """Return the msgspec type of the messages that the pipeline writes to the topic."""

    @abstractmethod
    def registered_schema_text(self, context: ConnectorContext) -> str:
        """Return a text about the registered schema; StreamBoostError if the registry fails."""

    def _build_encoder(self, context: ConnectorContext) -> "Encoder":
        from streamboost.connectors.kafka.formats.encoding import Encoder

        assert self.format != "json"
        return Encoder(open_schema_registry(context), self.format, self.topic, self.message_type())

    def _build_source(
        self, context: ConnectorContext, on_corrupt: str = "stop", *, keys_are_ids: bool = False
    ) -> Source:
        settings = {"on_data_loss": context.on_data_loss, "on_corrupt": on_corrupt}
        cluster = kafka_cluster(context)
        if self.format != "json":
            from streamboost.connectors.kafka.formats.decoding import DecodedSource, Decoder

            decoder = Decoder(open_schema_registry(context), self.format, keys_are_ids=keys_are_ids)
            return DecodedSource(decoder, cluster, self.topic, context.max_bytes, **settings)
        from streamboost.connectors.kafka.topic import KafkaSource

        return KafkaSource(cluster, self.topic, context.max_bytes, **settings)


class KafkaInput(KafkaTopic, Input):
    """A topic of the cluster that [kafka] names; without `topic`, named after the pipeline."""

    on_corrupt: Literal["stop", "skip"] = Field(
        "stop", description="reaction to messages with a wrong checksum"
    )

    id_from: Literal["field", "key"] = Field(
        "field", description="source of the record id: a field, or the key of the message"
    )

    changeable = frozenset({"on_corrupt"})
    position_unit: ClassVar[str] = "offsets"
    """Offsets also count transaction markers."""
    read_only_reason: ClassVar[None] = None

    def create_source(self, context: ConnectorContext) -> Source:
        """Return a source that reads the topic."""
        return self._build_source(context, self.on_corrupt, keys_are_ids=self.id_from == "key")

    def message_type(self) -> type[msgspec.Struct]:
        """Return the type of the label messages for annotators' answers."""
        names = self.fields or LabelFieldNames()
        held = [("id", str), ("label", str | int | bool | None)]
        more = [("time", Time, None), ("source", str | None, None)]
        called = {"id": names.id or "id", "label": names.label}
        return msgspec.defstruct("Label", [*held, *more], rename=called)

    def registered_schema_text(self, context: ConnectorContext) -> str:
        """Return a text with the newest registered schema of the topic, and its fields."""
        from streamboost.connectors.kafka.formats.decoding import describe_newest_schema

        assert self.format != "json"
        with closing(open_schema_registry(context)) as registry:
            return describe_newest_schema(registry, self.format, self.topic)


class KafkaOutput(KafkaTopic, Output):
    """A topic of the cluster in [kafka], which is written in the pipeline's Kafka transactions."""

    def create_tailing_source(self, context: ConnectorContext) -> Source:
        """Return a source that reads the topic."""
        return self._build_source(context)

    def check_access(self, context: ConnectorContext) -> str:
        """Return a text with the topic name; the topic itself is checked elsewhere."""
        return f"topic {self.topic} is there"

    def message_type(self) -> type[msgspec.Struct]:
        """Return the msgspec type of dead letters."""
        return DeadLetter

    def registered_schema_text(self, context: ConnectorContext) -> str:
        """Return a text on the registered schema; ConnectorError if a new one would be refused."""
        with closing(self._build_encoder(context)) as encoder:
            return encoder.check_access()


class KafkaRequestsOutput(KafkaOutput, RequestsSection):
    """[requests]: output of label requests to a Kafka topic."""

    def message_type(self) -> type[msgspec.Struct]:
        """Return the msgspec type of requests."""
        return Request


class KafkaPredictionsOutput(KafkaOutput, PredictionsSection):
    """[predictions]: output of predictions to a Kafka topic."""

    def message_type(self) -> type[msgspec.Struct]:
        """Return the msgspec type of predictions."""
        return Prediction


CONNECTOR = ConnectorSections(
    KafkaInput, KafkaInput, KafkaOutput, KafkaRequestsOutput, KafkaPredictionsOutput
)


def kafka_cluster(context: ConnectorContext) -> "KafkaCluster":
    """Return the Kafka cluster of section [kafka]; AssertionError if the section is missing."""
    from streamboost.connectors.kafka.cluster import KafkaCluster
    from streamboost.connectors.kafka.options import FILES

    section = context.kafka
    assert isinstance(section, KafkaSection)
    options = dict(section.model_extra or {})
    for name in FILES:
        if isinstance(options.get(name), str):
            options[name] = str(context.resolve_path(options[name]))
    return KafkaCluster(section.bootstrap_servers, options)


def add_default_topics(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections `tables` of a pipeline file, with default topic names filled in.

    If [source] is a topic, missing sections of labels and outputs become topics too.
    """
    filled = dict(tables)
    if _is_kafka_section(tables.get("source")):
        filled = {section: {"connector": "kafka"} for section in _TOPICS} | filled
    pipeline = filled.get("pipeline")
    name = pipeline.get("name") if isinstance(pipeline, dict) else None
    for section, suffix in _TOPICS.items():
        if _is_kafka_section(filled.get(section)):
            filled[section] = {"topic": f"{name}.{suffix}"} | filled[section]
    return filled


def _is_kafka_section(table: Any) -> bool:
    return isinstance(table, dict) and table.get("connector") == "kafka"
