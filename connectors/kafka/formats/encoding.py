"""Encoding of a pipeline's JSON messages to framed messages with a registered schema.

The schema is registered once, under the topic's name and "-value", before the first message.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from streamboost.connectors.base import ForwardedPayloads
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.formats.avro import AvroCodec, UnusableMessageError
from streamboost.connectors.kafka.formats.decoding import (
    FRAME,
    KINDS,
    Format,
    registry_subject_of_values,
)
from streamboost.connectors.kafka.formats.output_schemas import (
    convert_for_avro,
    derive_schema,
    mapping_field_names,
)
from streamboost.connectors.kafka.formats.registry import Registry
from streamboost.connectors.kafka.producer import FailFastSender
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.errors import ConnectorError


class Encoder:
    """Encodes JSON messages of one type in the registered format of a topic.

    Parameters
    ----------
    registry : Registry
    format : {"avro", "json-schema"}
    topic : str
    struct : type
        The msgspec Struct whose JSON is encoded.
    """

    def __init__(
        self, registry: Registry, format: Format, topic: str, struct: type[msgspec.Struct]
    ) -> None:
        self._registry = registry
        self._tables = mapping_field_names(struct)
        self._subject = registry_subject_of_values(topic)
        self._kind = KINDS[format]
        self._text = derive_schema(struct, self._kind)
        self._avro: AvroCodec | None = None
        self._head: bytes | None = None

    def encode(self, payloads: Sequence[bytes]) -> list[bytes]:
        """Return JSON messages in the registered format.

        The first call registers the schema; ConnectorError if the registry refuses it."""
        if self._head is None:
            id = self._registry.register_schema(self._subject, self._kind, self._text)
            self._head = FRAME.pack(0, id)
        return [self._head + self._encode_without_frame(payload) for payload in payloads]

    def check_access(self) -> str:
        """Check, without registering the schema, that the registry accepts it.

        Returns a text such as "predictions-value has its schema, version 2". Raises ConnectorError
        if the registry would refuse the schema.
        """
        registry, subject = self._registry, self._subject
        if known := registry.lookup_id_and_version(subject, self._kind, self._text):
            return f"{subject} has its schema, version {known[1]}"
        if (newest := registry.newest_schema(subject)) is None:
            return f"{subject} is registered with the first message"
        if newest.kind != self._kind or not registry.is_compatible(subject, self._kind, self._text):
            raise ConnectorError(
                f"subject {subject!r} of the schema registry {registry.url} holds schemas that do "
                "not go with what the pipeline writes there: name a topic of its own, or set the "
                "subject's compatibility"
            )
        return f"{subject} has version {newest.version}, and takes another with the first message"

    def close(self) -> None:
        """Release the registry's connection."""
        self._registry.close()

    def _encode_without_frame(self, payload: bytes) -> bytes:
        if self._kind == "JSON":
            return payload
        self._avro = self._avro or AvroCodec(self._text)
        try:
            return self._avro.encode(convert_for_avro(msgspec.json.decode(payload), self._tables))
        except UnusableMessageError as error:
            raise ConnectorError(
                f"{self._subject}: a message cannot be written in its schema: {error}"
            ) from error


class EncodedSink(KafkaSink):
    """Appends messages to a topic, encoded by `encoder`.

    Parameters
    ----------
    encoder : Encoder
    cluster, topic : as in KafkaSink
    """

    def __init__(self, encoder: Encoder, cluster: KafkaCluster, topic: str) -> None:
        super().__init__(cluster, topic)
        self._encoder = encoder

    def send_all(self, sender: FailFastSender, payloads: Sequence[bytes]) -> None:
        """Encode the payloads and send them as messages."""
        if not payloads:
            return
        about: Any = payloads.about if isinstance(payloads, ForwardedPayloads) else ()
        encoded = self._encoder.encode(payloads)
        named = ForwardedPayloads(encoded, about) if about else encoded
        sender.send_all(self.topic, named, payloads)

    def close(self) -> None:
        """Release the connections to cluster and registry."""
        super().close()
        self._encoder.close()
