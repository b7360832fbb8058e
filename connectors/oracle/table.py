"""Lookup of the labels in a file by record id, for the oracle."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.files.open import file_source
from streamboost.connectors.messages.decoding import (
    explain_decode_error,
    make_id_reader,
    parse_number_cell,
)
from streamboost.connectors.messages.inference import absent_fields_error
from streamboost.errors import DataError
from streamboost.features.paths import path_getter

_log = logging.getLogger(__name__)

_PAGE = 1_000
_SAMPLE = 200
"""Number of lines stored to describe a file without answers."""


class AnswerFields(NamedTuple):
    """Names of the id and label fields of labelled records, and the conversion of labels.

    With `as_text`, every label is converted to text. With `as_number`, labels of table rows are
    converted to numbers if possible.
    """

    id: str = "id"
    label: str = "label"
    as_text: bool = True
    as_number: bool = False


class OracleLabels:
    """Lookup of the labels in a file by record id; the file is read on first use.

    Records without a label are ignored. If records have the same id, the last one is used.

    Parameters
    ----------
    path : path to labelled records, or to label messages, as `file_source` reads them
    fields : names of the id and label fields
    max_bytes : limit of a record in bytes; longer records are ignored

    Raises
    ------
    ConnectorError
        On the first use, when the file cannot be read.
    DataError
        On the first use, when no record in it has an id and a label.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> _ = path.write_bytes(b'{"id": 7, "a": 1.5, "fraud": true}\\n{"id": 8, "fraud": null}\\n')
    >>> answers = OracleLabels(path, AnswerFields(label="fraud"))
    >>> answers.label_message("7"), answers.label_message("8")
    (b'{"id":"7","fraud":"true"}', None)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: AnswerFields = AnswerFields(),  # noqa: B008 - it cannot change
        max_bytes: int = 1_000_000,
    ) -> None:
        self._path = os.fspath(path)
        self._fields = fields
        self._max_bytes = max_bytes
        self._skipped = Counter[str]()

    def label_message(self, id: str) -> bytes | None:
        """Return the label message of a record, or None if the file has no label for it."""
        label = self._labels_by_id.get(id)
        return (
            None
            if label is None
            else b"{%b:%b,%b:%b}"
            % (
                msgspec.json.encode(self._fields.id),
                msgspec.json.encode(id),
                msgspec.json.encode(self._fields.label),
                label,
            )
        )

    def __str__(self) -> str:
        """Return a sentence with the numbers of labels and of ignored records."""
        return self._count_summary_text(self._labels_by_id)

    def _count_summary_text(self, labels: Mapping[str, bytes]) -> str:
        said = f"{len(labels):,} answers, {len(set(labels.values())):,} labels, in {self._path}"
        return f"{said}; left out: {self._skipped_counts_text}" if self._skipped else said

    @property
    def _skipped_counts_text(self) -> str:
        return ", ".join(f"{n:,} {fault}" for fault, n in self._skipped.items())

    @cached_property
    def _labels_by_id(self) -> dict[str, bytes]:
        """Mapping from record id to label, as JSON in bytes."""
        found = self._read_labels()
        _log.log(
            logging.WARNING if self._skipped else logging.INFO,
            "%s",
            self._count_summary_text(found),
        )
        return found

    def _read_labels(self) -> dict[str, bytes]:
        row = _make_record_reader(self._fields)
        text = {self._fields.id} | ({self._fields.label} if self._fields.as_text else set())
        found: dict[str, bytes] = {}
        kept: dict[bytes, bytes] = {}
        sample: list[bytes] = []
        with closing(file_source(self._path, text, self._max_bytes)) as source:
            while messages := source.poll(_PAGE):
                sample += [message.payload for message in messages[: _SAMPLE - len(sample)]]
                for message in messages:
                    id, label, fault = self._parse_labelled_record(row, message)
                    if fault:
                        self._skipped[fault] += 1
                    else:
                        found[id] = kept.setdefault(label, label)
        if not found:
            raise self._no_labels_in_file_error(sample)
        return found

    def _parse_labelled_record(
        self, read_record: Callable[[bytes], tuple[Any, Any]], message: Message
    ) -> tuple[str, bytes, str | None]:
        """Return (id, label in JSON, None), or ("", b"", reason) for an ignored record."""
        if message.size > len(message.payload):
            return "", b"", "too large"
        if message.damage is not None:
            return "", b"", "bad row" if message.is_row else "corrupt"
        try:
            id, value = read_record(message.payload)
            if message.is_row and self._fields.as_number:
                value = parse_number_cell(value)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            reason, _ = explain_decode_error(message.payload, error)
            return "", b"", reason.replace("_", " ")
        label = msgspec.json.encode(value)
        if id is None or id == "":
            return "", b"", "without an id"
        if label in (b"null", b'""'):
            return "", b"", "without a label"
        if label[:1] in (b"{", b"["):
            return "", b"", "whose label is nested"
        return str(id), json_label_as_text(label) if self._fields.as_text else label, None

    def _no_labels_in_file_error(self, first_records: Sequence[bytes]) -> DataError:
        names = (self._fields.id, self._fields.label)
        why = absent_fields_error(first_records, names) or self._skipped_counts_text
        return DataError(
            f"{self._path} holds no answer: {why or 'it is empty'}. Its records must have their id "
            f"as {names[0]!r} and their label as {names[1]!r}; name others in [labels.fields]"
        )


def json_label_as_text(label: bytes) -> bytes:
    """Convert a label in JSON to a JSON string: text is unchanged, other values are quoted.

    >>> json_label_as_text(b'"sky"'), json_label_as_text(b"true"), json_label_as_text(b"3")
    (b'"sky"', b'"true"', b'"3"')
    """
    return label if label.startswith(b'"') else msgspec.json.encode(label.decode())


def _make_record_reader(fields: AnswerFields) -> Callable[[bytes], tuple[Any, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    id, label = make_id_reader(fields.id), path_getter(fields.label)

    def read_id_and_label(payload: bytes) -> tuple[Any, Any]:
        record = decode(payload)
        return id(record), label(record)

    return read_id_and_label
