"""Decoding of framed messages (Avro, JSON Schema) to JSON with schemas of a registry.

A frame is Confluent's: a zero byte, the schema's id in four bytes, and the value. An id identifies
one schema permanently, so that each is requested once. If a message cannot be decoded, it keeps its
original bytes and gets the reason as damage.
"""

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Literal

import msgspec

from streamboost.connectors.base import Message, Position
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.formats.avro import Avro, UnusableError
from streamboost.connectors.kafka.formats.registry import Registry
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.errors import ConnectorError

__all__ = ["FRAME", "KINDS", "DecodedSource", "Decoder", "Format", "described", "subject_of"]

Format = Literal["avro", "json-schema"]

FRAME = Struct(">bI")

KINDS: dict[Format, str] = {"avro": "AVRO", "json-schema": "JSON"}
"""Names of the formats in a registry."""


def subject_of(topic: str) -> str:
    """Return the subject of a topic's values in a registry."""
    return f"{topic}-value"


def described(registry: Registry, format: Format, topic: str) -> str:
    """Return a description of the newest schema of a topic, for checks.

    Raises ConnectorError if the schema has another format.
    """
    subject = subject_of(topic)
    newest = registry.newest(subject)
    if newest is None:
        return f"{subject} is not registered yet"
    if newest.kind != KINDS[format]:
        raise ConnectorError(
            f"{subject} version {newest.version} is of {newest.kind}, and the format is "
            f'"{format}": correct the format, or the topic'
        )
    names = f": {', '.join(newest.fields)}" if newest.fields else ""
    return f"{subject} has version {newest.version}{names}"


class Decoder:
    """Decodes messages with the schemas of a registry.

    JSON is not validated against its schema, so that its id is not requested: the pipeline checks
    the fields of a record itself.

    Parameters
    ----------
    registry : Registry
    format : {"avro", "json-schema"}
    keys : bool
        Whether keys are record ids: framed keys are decoded, and others are text.
    """

    def __init__(self, registry: Registry, format: Format, *, keys: bool = False) -> None:
        self._registry = registry
        self._format = format
        self._keys = keys
        self._readers: dict[int, Avro] = {}
        self._wrong: dict[int, str] = {}

    def decode(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with JSON payloads.

        Raises ConnectorError if the registry is needed and does not answer.
        """
        self._wrong.clear()  # an unknown id may be registered by the next poll
        return [self._decoded(message) for message in messages]

    def close(self) -> None:
        """Release the registry's connection; the next decoding connects again."""
        self._registry.close()

    def _decoded(self, message: Message) -> Message:
        payload = message.payload
        if message.damage is not None or not payload or message.size > len(payload):
            return message
        try:
            text, name = self._json(payload), self._name(message.key)
        except UnusableError as error:
            return msgspec.structs.replace(message, damage=str(error))
        return msgspec.structs.replace(message, payload=text, size=len(text), name=name)

    def _name(self, key: bytes | None) -> str | None:
        """Return the record id in a framed key; None for a key that is text."""
        if not self._keys or key is None or key[:1] != b"\0":
            return None
        try:
            return _name_in(self._json(key))
        except UnusableError as error:
            raise UnusableError(f"its key: {error}") from error

    def _json(self, framed: bytes) -> bytes:
        if len(framed) < FRAME.size or framed[0]:
            raise UnusableError(
                f"no {self._format} by a registry's schema: it does not begin with a zero byte and "
                'the four of an id; where the topic holds plain JSON, write format = "json"'
            )
        if self._format == "json-schema":
            return framed[FRAME.size :]
        (_, id) = FRAME.unpack_from(framed)
        return self._reader(id).read(framed[FRAME.size :])

    def _reader(self, id: int) -> Avro:
        reader = self._readers.get(id)
        if reader is None:
            if id in self._wrong:
                raise UnusableError(self._wrong[id])
            try:
                reader = self._readers[id] = self._made(id)
            except UnusableError as error:
                self._wrong[id] = f"schema {id}: {error}"
                raise UnusableError(self._wrong[id]) from error
        return reader

    def _made(self, id: int) -> Avro:
        kept = self._registry.schema(id)
        if kept is None:
            raise UnusableError(f"the schema registry {self._registry.url} has none of that id")
        if kept.kind != KINDS[self._format]:
            raise UnusableError(f'it is of {kept.kind}, and the format is "{self._format}"')
        return Avro(kept.text, kept.named)


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
        """Read at most `limit` messages; if the registry is unavailable, the position stays."""
        return self._all_or_none(lambda: super(DecodedSource, self).poll(limit))

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the messages of `ranges` again, for a replay, and continue after them."""
        return self._all_or_none(lambda: super(DecodedSource, self).read_range(ranges, n))

    def close(self) -> None:
        """Release the connections to cluster and registry."""
        super().close()
        self._decoder.close()

    def _all_or_none(self, read: Callable[[], list[Message]]) -> list[Message]:
        before: Position = dict(self._next)
        messages = read()
        try:
            return self._decoder.decode(messages)
        except ConnectorError:
            self.seek(before)
            raise


def _name_in(text: bytes) -> str:
    """Return the record id in a decoded key: text, a whole number, or a record of one field."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise UnusableError(str(error)) from error
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise UnusableError(
            f"{text[:80].decode(errors='replace')} names no record: write text, a whole number, or "
            "a record of one such field"
        )
    return str(value)
