"""Decoding of framed messages (Avro, JSON Schema) to JSON with schemas of a registry.

A framed message has Confluent's format: a zero byte, the schema's id in four bytes, and the value.
The schema with an id never changes, so each schema is requested once. A message that cannot be
decoded is returned with its original bytes, and with the reason as `damage`.
"""

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Literal

import msgspec

from streamboost.connectors.base import Message, Position
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.formats.avro import AvroCodec, UnusableMessageError
from streamboost.connectors.kafka.formats.registry import Registry
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.errors import ConnectorError

Format = Literal["avro", "json-schema"]

FRAME = Struct(">bI")

KINDS: dict[Format, str] = {"avro": "AVRO", "json-schema": "JSON"}
"""Names of the formats in a registry."""


def registry_subject_of_values(topic: str) -> str:
    """Return the schema registry's subject for the values of a topic."""
    return f"{topic}-value"


def describe_newest_schema(registry: Registry, format: Format, topic: str) -> str:
    """Return a text with the version and the field names of a topic's newest schema.

    Raises ConnectorError if the schema has another format.
    """
    subject = registry_subject_of_values(topic)
    newest = registry.newest_schema(subject)
    if newest is None:
        return f"{subject} is not registered yet"
    if newest.kind != KINDS[format]:
        raise ConnectorError(
            f"{subject} version {newest.version} is of {newest.kind}, and the format is "
            f'"{format}": correct the format, or the topic'
        )
    names = f": {', '.join(newest.field_names)}" if newest.field_names else ""
    return f"{subject} has version {newest.version}{names}"


class Decoder:
    """Converts framed messages (Avro, JSON Schema) to JSON, with the schemas of a registry.

    JSON is not validated against its schema, which is therefore not requested. The pipeline checks
    the fields of a record itself.

    Parameters
    ----------
    registry : Registry
    format : {"avro", "json-schema"}
    keys_are_ids : bool
        Whether the keys of messages are record ids. Framed keys are decoded; other keys are text.
    """

    def __init__(self, registry: Registry, format: Format, *, keys_are_ids: bool = False) -> None:
        self._registry = registry
        self._format = format
        self._keys_are_ids = keys_are_ids
        self._readers: dict[int, AvroCodec] = {}
        self._wrong: dict[int, str] = {}

    def decode(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with payloads in JSON; undecodable messages get `damage`.

        Raises ConnectorError if the registry is needed and does not answer.
        """
        self._wrong.clear()  # an unknown id may be registered by the next poll
        return [self._decode_message(message) for message in messages]

    def close(self) -> None:
        """Release the registry's connection; the next decoding connects again."""
        self._registry.close()

    def _decode_message(self, message: Message) -> Message:
        payload = message.payload
        if message.damage is not None or not payload or message.size > len(payload):
            return message
        try:
            text, name = self._decode_framed_value(payload), self._decode_record_id(message.key)
        except UnusableMessageError as error:
            return msgspec.structs.replace(message, damage=str(error))
        return msgspec.structs.replace(message, payload=text, size=len(text), name=name)

    def _decode_record_id(self, key: bytes | None) -> str | None:
        """Return the record id in a framed key; None for a key that is text."""
        if not self._keys_are_ids or key is None or key[:1] != b"\0":
            return None
        try:
            return _record_id_from_key(self._decode_framed_value(key))
        except UnusableMessageError as error:
            raise UnusableMessageError(f"its key: {error}") from error

    def _decode_framed_value(self, framed_value: bytes) -> bytes:
        if len(framed_value) < FRAME.size or framed_value[0]:
            raise UnusableMessageError(
                f"no {self._format} by a registry's schema: it does not begin with a zero byte and "
                'the four of an id; where the topic holds plain JSON, write format = "json"'
            )
        if self._format == "json-schema":
            return framed_value[FRAME.size :]
        (_, schema_id) = FRAME.unpack_from(framed_value)
        return self._codec_for_schema(schema_id).decode(framed_value[FRAME.size :])

    def _codec_for_schema(self, schema_id: int) -> AvroCodec:
        reader = self._readers.get(schema_id)
        if reader is None:
            if schema_id in self._wrong:
                raise UnusableMessageError(self._wrong[schema_id])
            try:
                reader = self._readers[schema_id] = self._load_codec_from_registry(schema_id)
            except UnusableMessageError as error:
                self._wrong[schema_id] = f"schema {schema_id}: {error}"
                raise UnusableMessageError(self._wrong[schema_id]) from error
        return reader

    def _load_codec_from_registry(self, schema_id: int) -> AvroCodec:
        kept = self._registry.get_schema(schema_id)
        if kept is None:
            raise UnusableMessageError(
                f"the schema registry {self._registry.url} has none of that id"
            )
        if kept.kind != KINDS[self._format]:
            raise UnusableMessageError(f'it is of {kept.kind}, and the format is "{self._format}"')
        return AvroCodec(kept.text, kept.named)


class DecodedSource(KafkaSource):
    """Reads a topic whose messages are decoded with the schemas of a registry.

    Parameters
    ----------
    decoder : Decoder
    cluster, topic, max_bytes, settings : as in KafkaSource
    """

    def __init__(
        self, decoder: Decoder, cluster: KafkaCluster, topic: str, max_bytes: int, **settings: Any
    ) -> None:
        super().__init__(cluster, topic, max_bytes, **settings)
        self._decoder = decoder

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` decoded messages; keep the position if the registry fails."""
        return self._read_and_decode(lambda: super(DecodedSource, self).poll(limit))

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Return the decoded messages of `ranges`, for a replay; `poll` continues after them."""
        return self._read_and_decode(lambda: super(DecodedSource, self).read_range(ranges, n))

    def close(self) -> None:
        """Release the connections to cluster and registry."""
        super().close()
        self._decoder.close()

    def _read_and_decode(self, read_messages: Callable[[], list[Message]]) -> list[Message]:
        before: Position = dict(self._next)
        messages = read_messages()
        try:
            return self._decoder.decode(messages)
        except ConnectorError:
            self.seek(before)
            raise


def _record_id_from_key(decoded_key: bytes) -> str:
    """Return the record id in a decoded key: text, a whole number, or a record of one field."""
    try:
        value = msgspec.json.decode(decoded_key)
    except msgspec.MsgspecError as error:
        raise UnusableMessageError(str(error)) from error
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise UnusableMessageError(
            f"{decoded_key[:80].decode(errors='replace')} names no record: write text, a "
            "whole number, or a record of one such field"
        )
    return str(value)
