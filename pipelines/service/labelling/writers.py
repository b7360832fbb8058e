"""Labels and records from people and programs, into what the pipeline's own sources read."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streamboost.connectors.base import (
    ForwardedPayloads,
    Message,
    MessageMetadata,
    Sink,
    write_directly,
)
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.outgoing import DeadLetter, Label
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, DataError, UnavailableError
from streamboost.features.fields import Field
from streamboost.pipelines.config.masking import Mask, mask_errors

__all__ = ["LabelWriter", "RecordWriter", "SourceWriter", "decoded"]

_PATIENCE = 1.0
"""Seconds to wait for other writes to end."""


class SourceWriter:
    """Appends to a source, one caller at a time; what it returned from is durable there.

    Parameters
    ----------
    sink : what appends to the source, or why nothing can
    mask : takes secrets out of a text
    """

    def __init__(self, sink: Sink | ConfigurationError, mask: Mask) -> None:
        self._sink = sink
        self._mask = mask
        self._lock = threading.Lock()

    @property
    def refusal(self) -> str | None:
        """Why nothing can be written, None where it can."""
        return str(self._sink) if isinstance(self._sink, ConfigurationError) else None

    def _append(self, payloads: Sequence[bytes]) -> None:
        # Whoever waits holds a thread that others need to read.
        if not self._lock.acquire(timeout=_PATIENCE):
            raise UnavailableError("an earlier write has not ended yet: try again later")
        try:
            with mask_errors(self._mask):
                write_directly(self._sink_or_raise(), payloads)
        finally:
            self._lock.release()

    def _sink_or_raise(self) -> Sink:
        if isinstance(self._sink, ConfigurationError):
            raise ConfigurationError(str(self._sink))
        return self._sink

    def close(self) -> None:
        """Close the sink."""
        with self._lock:
            if isinstance(self._sink, Sink):
                self._sink.close()


class LabelWriter(SourceWriter):
    """Writes labels that `schema` can read back; `kind` gives what labels have come to be."""

    def __init__(
        self,
        sink: Sink | ConfigurationError,
        schema: Schema,
        mask: Mask = str,
        kind: Callable[[], Any] = lambda: None,
    ) -> None:
        super().__init__(sink, mask)
        self._schema = schema
        self._kind = kind

    @property
    def classes(self) -> Sequence[str | int]:
        """The labels there are, where the pipeline's file names them; empty: any."""
        return self._schema.classes

    def check(self, labels: Sequence[Label]) -> list[Label]:
        """Return `labels` as the pipeline will read them, tidied.

        Raises ConfigurationError where the source cannot be written to, and DataError where the
        pipeline could not use one of them.
        """
        self._sink_or_raise()
        schema = self._current_schema()
        try:
            payloads = [schema.encode_label(label) for label in labels]
        except UnicodeEncodeError as error:
            raise DataError(f"a label holds text that is not Unicode: {error}") from None
        read, dead = schema.decode_labels(_as_messages(payloads))
        _refuse(dead, "label")
        return [
            Label(id, tidy, label.time, label.source)
            for label, id, tidy in zip(labels, read.ids, read.labels, strict=True)
        ]

    def write(self, labels: Sequence[Label]) -> list[Label]:
        """Append `labels`, or none of them, raising as `check` does; ConnectorError: none yet.

        Returns what was appended.
        """
        tidy = self.check(labels)
        self.deliver(tidy)
        return tidy

    def deliver(self, labels: Sequence[Label]) -> None:
        """Append labels that were checked once; what cannot be used by now is a dead letter."""
        schema = self._current_schema()
        self._append([schema.encode_label(label) for label in labels])

    def _current_schema(self) -> Schema:
        kind = self._kind()
        is_settled = self._schema.label == "auto" and kind in ("string", "integer", "boolean")
        return self._schema.with_label_type(kind) if is_settled else self._schema


class RecordWriter(SourceWriter):
    """Writes records that `schema` can read back."""

    def __init__(self, sink: Sink | ConfigurationError, schema: Schema, mask: Mask = str) -> None:
        super().__init__(sink, mask)
        # Without named features a record is judged by its id alone, as the pipeline will find them.
        self._schema = schema if schema.has_known_features else _with_id_alone(schema)

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        """Append `records`, or none of them.

        Raises ConfigurationError where the source cannot be written to, DataError where the
        pipeline could not use one of them, and ConnectorError where they are not written yet.
        """
        self._sink_or_raise()
        read, payloads = decoded(self._schema, records)
        if self._schema.id_from == "key":
            payloads = ForwardedPayloads(
                payloads, [MessageMetadata(id.encode()) for id in read.ids]
            )
        self._append(payloads)


def decoded(schema: Schema, records: Sequence[dict[str, Any]]) -> tuple[Records, Sequence[bytes]]:
    """Return posted records as they are read, and as messages; DataError where one cannot be used.

    A field names a record here in any case: where a topic's keys do, the key is made of it.
    """
    try:
        payloads = [json.dumps(r, allow_nan=False, ensure_ascii=False).encode() for r in records]
    except ValueError as error:
        raise DataError(f"a record cannot stand in JSON: {error}") from None
    read, dead = schema.decode(_as_messages(payloads), source="posted")
    _refuse(dead, "record")
    return read, payloads


def _with_id_alone(schema: Schema) -> Schema:
    # A name that no record has: a schema needs a feature, which may be absent.
    return replace(schema, fields={f"{schema.id} and nothing else": Field("number")}, named={})


def _as_messages(payloads: Sequence[bytes]) -> list[Message]:
    return [Message(payload, "0", place, len(payload)) for place, payload in enumerate(payloads)]


def _refuse(dead: Sequence[DeadLetter], what: str) -> None:
    if dead:
        place = dead[0].position["0"] + 1
        raise DataError(f"{what} {place} cannot be used ({dead[0].reason}): {dead[0].detail}")
