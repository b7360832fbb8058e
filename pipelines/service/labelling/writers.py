"""Writers of posted labels and records to the sources of a pipeline."""

import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from streamboost.connectors.base import (
    ForwardedPayloads,
    Message,
    MessageMetadata,
    Sink,
    write_and_flush,
)
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.outgoing import DeadLetter, Label
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, DataError, UnavailableError
from streamboost.features.fields import Field
from streamboost.pipelines.config.masking import Mask, mask_secrets_in_errors

PATIENCE = 1.0
"""Seconds to wait for other writes to end."""


class SourceWriter:
    """Appends messages to a source of the pipeline, durably, one caller at a time.

    Parameters
    ----------
    sink : sink that appends to the source, or the error to raise if the source cannot be written
    mask : removes secrets from a text
    """

    def __init__(self, sink: Sink | ConfigurationError, mask: Mask) -> None:
        self._sink = sink
        self._mask = mask
        self._lock = threading.Lock()

    @property
    def configuration_error(self) -> str | None:
        """Error text if the source cannot be written to, else None."""
        return str(self._sink) if isinstance(self._sink, ConfigurationError) else None

    def _append_payloads(self, payloads: Sequence[bytes]) -> None:
        # A waiting write occupies a thread that other requests need.
        if not self._lock.acquire(timeout=PATIENCE):
            raise UnavailableError("an earlier write has not ended yet: try again later")
        try:
            with mask_secrets_in_errors(self._mask):
                write_and_flush(self._require_sink(), payloads)
        finally:
            self._lock.release()

    def _require_sink(self) -> Sink:
        if isinstance(self._sink, ConfigurationError):
            raise ConfigurationError(str(self._sink))
        return self._sink

    def close(self) -> None:
        """Close the connection to the source, after a write in progress."""
        with self._lock:
            if isinstance(self._sink, Sink):
                self._sink.close()


class LabelWriter(SourceWriter):
    """Writes labels in the format of `schema`.

    `kind` returns the current label type, or None if unknown. `dropped` returns the dropped
    classes.
    """

    def __init__(
        self,
        sink: Sink | ConfigurationError,
        schema: Schema,
        mask: Mask = str,
        kind: Callable[[], Any] = lambda: None,
        dropped: Callable[[], Collection[str | int]] = tuple,
    ) -> None:
        super().__init__(sink, mask)
        self._schema = schema
        self._kind = kind
        self._dropped = dropped

    @property
    def allowed_labels(self) -> Sequence[str | int]:
        """Allowed labels: the classes of the pipeline file, or both booleans.

        Empty if all labels are allowed.
        """
        both = ("true", "false") if self._current_schema().label_kind == "boolean" else ()
        return self._schema.classes or both

    def validate(self, labels: Sequence[Label]) -> list[Label]:
        """Return `labels` with ids and values normalized as the pipeline will read them.

        Raises ConfigurationError if the source cannot be written to, DataError if a label is
        invalid.
        """
        self._require_sink()
        schema = self._current_schema()
        try:
            payloads = [schema.encode_label(label) for label in labels]
        except UnicodeEncodeError as error:
            raise DataError(f"a label has text that is not valid Unicode: {error}") from None
        read, dead = schema.decode_labels(_payloads_to_messages(payloads))
        _raise_for_dead_letter(dead, "label")
        if gone := set(read.labels).intersection(self._dropped()):
            raise DataError(f"the class {gone.pop()!r} was dropped: choose another class")
        return [
            Label(id, tidy, label.time, label.source)
            for label, id, tidy in zip(labels, read.ids, read.labels, strict=True)
        ]

    def write(self, labels: Sequence[Label]) -> list[Label]:
        """Check and append all `labels`, or none of them; return the labels as written.

        Raises the errors of `validate`, and ConnectorError if the write fails.
        """
        tidy = self.validate(labels)
        self.append_validated(tidy)
        return tidy

    def append_validated(self, labels: Sequence[Label]) -> None:
        """Append labels that `validate` has returned before, without another check."""
        schema = self._current_schema()
        self._append_payloads([schema.encode_label(label) for label in labels])

    def _current_schema(self) -> Schema:
        kind = self._kind()
        is_settled = self._schema.label == "auto" and kind in ("string", "integer", "boolean")
        return self._schema.with_label_type(kind) if is_settled else self._schema


class RecordWriter(SourceWriter):
    """Writes records in the format of `schema`."""

    def __init__(self, sink: Sink | ConfigurationError, schema: Schema, mask: Mask = str) -> None:
        super().__init__(sink, mask)
        if not schema.has_known_features:
            # Only the id is checked, as the pipeline will infer the features. A schema needs a
            # feature, so this one has a name that no record has.
            only = {f"{schema.id} and nothing else": Field("number")}
            schema = replace(schema, fields=only, named={})
        self._schema = schema

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        """Append all `records`, or none of them.

        Raises ConfigurationError if the source cannot be written to, DataError if a record is
        invalid, and ConnectorError if the write fails.
        """
        self._require_sink()
        read, payloads = decode_posted_records(self._schema, records)
        if self._schema.id_from == "key":
            payloads = ForwardedPayloads(
                payloads, [MessageMetadata(id.encode()) for id in read.ids]
            )
        self._append_payloads(payloads)


def decode_posted_records(
    schema: Schema, records: Sequence[dict[str, Any]]
) -> tuple[Records, Sequence[bytes]]:
    """Return the decoded records and their JSON payloads; raises DataError if one is invalid.

    The record id is always read from a field, even if the pipeline reads it from the message key.
    """
    try:
        payloads = [json.dumps(r, allow_nan=False, ensure_ascii=False).encode() for r in records]
    except ValueError as error:
        raise DataError(f"a record cannot be encoded as JSON: {error}") from None
    read, dead = schema.decode(_payloads_to_messages(payloads), source="posted")
    _raise_for_dead_letter(dead, "record")
    return read, payloads


def _payloads_to_messages(payloads: Sequence[bytes]) -> list[Message]:
    return [Message(payload, "0", place, len(payload)) for place, payload in enumerate(payloads)]


def _raise_for_dead_letter(dead_letters: Sequence[DeadLetter], message_kind: str) -> None:
    if dead_letters:
        letter = dead_letters[0]
        place = letter.position["0"] + 1
        raise DataError(f"{message_kind} {place} cannot be used ({letter.reason}): {letter.detail}")
