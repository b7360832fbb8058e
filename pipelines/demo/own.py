"""The user's own labelled records for the demo: splits a file into records and labels.

The labels are removed from the records, so that a run gets a label only after its request.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.files.open import file_source
from streamboost.connectors.messages.decoding import (
    decode_json_object,
    explain_decode_error,
    is_valid_field_name,
)
from streamboost.connectors.messages.inference import absent_fields_error
from streamboost.connectors.messages.labels import LONGEST_LABEL
from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.oracle.table import json_label_as_text
from streamboost.errors import ConfigurationError, DataError, StateError
from streamboost.features.inference import infer_fields
from streamboost.pipelines.app.first_records import INFERRED_FROM
from streamboost.pipelines.config.file import Tables
from streamboost.pipelines.demo.compare import DELAY, LabelledStream

__all__ = ["RECORDS", "RecordSplitter", "refuse_invalid_field_names", "split_labelled_file"]

RECORDS, ANSWERS = "records.jsonl", "answers.jsonl"
"""Files in the demo's folder."""

MOST_CLASSES = 1_000
FEW_CLASSES = 50
"""Number of classes up to which each may be rare; with more, each must occur twice on average."""

_PAGE = 1_000
_SAMPLE = 200

_LONGEST_INTEGER = 30
"""Characters of an integer that are converted, which is more than 64 bits need."""

Record = dict[str, msgspec.Raw]


class RecordSplitter:
    """Splitter of labelled records into records without label and label messages.

    Parameters
    ----------
    path : the file, for error messages
    label : the field with the label, a dotted path in nested records
    id : the field with the record's id, likewise; None: the line number is the id

    Attributes
    ----------
    truth : maps the id of each record so far to its label
    skipped : maps a reason to the number of records that were skipped for this reason
    """

    def __init__(self, path: Path, label: str, id: str | None) -> None:
        self.truth: dict[str, str] = {}
        self.skipped = Counter[str]()
        self._path = path
        self._label = label
        self._id = id
        self._lines = 0
        self._first_fault = ""
        self._has_fields = False
        self._sample: list[bytes] = []
        self._decode = msgspec.json.Decoder(Record).decode

    def split(self, message: Message) -> tuple[bytes, bytes] | None:
        """Return (record without its label, label message) as JSON; None for a skipped record."""
        self._lines += 1
        payload = message.payload
        if message.damage is not None:
            self._count_skipped_record("damaged", message.damage)
            return None
        if len(self._sample) < _SAMPLE:
            self._sample.append(payload)
        try:
            payload.decode()  # the decoder validates no text of fields that are copied
            record = self._decode(payload)
            label = _label_text_from_json(_pop_value_at_path(record, self._label))
            id = self._move_id_to_id_field(record)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            reason, detail = explain_decode_error(payload, error)
            self._count_skipped_record("empty" if reason == "empty" else "damaged", detail)
        except _SkippedRecordError as reason:
            self.skipped[str(reason)] += 1
        else:
            self._has_fields = self._has_fields or any(name not in ("", "id") for name in record)
            self.truth[id] = label
            return msgspec.json.encode(record), Label(id, label).encode()
        return None

    def _count_skipped_record(self, fault: str, detail: str) -> None:
        self.skipped[fault] += 1
        if fault == "damaged" and not self._first_fault:
            self._first_fault = f" (the first is message {self._lines:,}: {detail})"

    def _move_id_to_id_field(self, record: Record) -> str:
        if self._id is None:
            id = str(self._lines)
        else:
            found = _pop_value_at_path(record, self._id)
            id = "" if found is None else _json_value_to_text(found)
        if not id:
            raise _SkippedRecordError("without an id")
        if id in self.truth:
            raise _SkippedRecordError("whose id came before")
        record["id"] = msgspec.Raw(msgspec.json.encode(id))
        return id

    def check_and_summarize(self) -> str:
        """Return a sentence with the number of records and labels read so far.

        Raises DataError or ConfigurationError if no record is usable, the records have no features,
        or the number of different labels is too small or too large.
        """
        n = len(self.truth)
        if not n:
            raise self._no_usable_record_error()
        classes = Counter(self.truth.values())
        if len(classes) == 1:
            raise DataError(
                f"{self._path}: the label {self._label!r} of all {n:,} records is "
                f"{next(iter(classes))!r}, so there is nothing to learn: give another field "
                f"with --label, or records with at least two labels{self._skipped_records_suffix}"
            )
        if not self._has_fields:
            raise DataError(
                f"{self._path}: no record has a named field in addition to its id and the label "
                f"{self._label!r}, so there is nothing to learn from: name the columns in the "
                "header, or add fields"
            )
        if len(classes) > MOST_CLASSES or len(classes) > max(FEW_CLASSES, n // 2):
            shown = ", ".join(repr(name[:40]) for name in list(classes)[:3])
            raise ConfigurationError(
                f"--label {self._label}: {n:,} records of {self._path} have {len(classes):,} "
                f"different values in this field ({shown}, ...), like amounts, times or names: "
                "give the field with the class of each record"
            )
        common = ", ".join(f"{name[:40]} {amount:,}" for name, amount in classes.most_common(5))
        more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
        said = f"{self._path.name}: {n:,} records of {len(classes)} labels: {common}{more}"
        return f"{said}{self._skipped_records_suffix}"

    @property
    def _skipped_records_suffix(self) -> str:
        return f"; left out: {self._skipped_counts_text}" if self.skipped else ""

    @property
    def _skipped_counts_text(self) -> str:
        counted = {name: f"{n:,} {name}" for name, n in self.skipped.items()}
        if "damaged" in counted:
            counted["damaged"] += self._first_fault
        return ", ".join(counted.values())

    def _no_usable_record_error(self) -> DataError | ConfigurationError:
        if not self._lines:
            return DataError(f"{self._path} is empty: give a file with labelled records")
        for option, name in (("--label", self._label), ("--id", self._id)):
            if name is not None and (missing := absent_fields_error(self._sample, [name])):
                return ConfigurationError(f"{option} {name}: {missing} ({self._path})")
        return DataError(
            f"{self._path}: none of {self._lines:,} records can be used "
            f"({self._skipped_counts_text}): each must be a JSON object on a line "
            f"of its own, or a row of a table, in UTF-8, with a label in {self._label!r}"
        )


def split_labelled_file(
    path: Path, label: str, id: str | None, folder: Path, encoder: str | None = None
) -> LabelledStream:
    """Split a file into a records file and a labels file in `folder`; return a `LabelledStream`.

    Parameters
    ----------
    path : JSON Lines, CSV, either of them compressed (.gz), or Parquet
    label : the field with the label
    id : the field with the record's id; None: the line number is the id
    encoder : sentence encoder of all texts, relative to the current folder; None: no encoder

    Raises
    ------
    ConfigurationError, DataError
        If the file lacks the fields, or nothing can be learned from its labels, or there is an
        encoder and no text.
    ConnectorError
        If the file cannot be read.
    """
    refuse_invalid_field_names(label, id)
    own = RecordSplitter(path, label, id)
    written = [folder / RECORDS, folder / ANSWERS]
    if any(file.exists() for file in written):
        raise StateError(
            f"{folder} has an earlier demo: give another folder, or move this folder away"
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with written[0].open("wb") as records, written[1].open("wb") as answers:
            _write_split_records(
                own, path, [label, *([] if id is None else [id])], records, answers
            )
        about = own.check_and_summarize()
        fields = {} if encoder is None else _encoded_fields(path, written[0], encoder)
    except BaseException:
        for file in written:  # left-over files would look like an earlier demo
            file.unlink(missing_ok=True)
        raise
    sections: Tables = {
        "source": {"connector": "files", "path": f"../{RECORDS}"},
        "labels": {"connector": "oracle", "path": f"../{ANSWERS}", "delay": DELAY},
    }
    if fields:
        sections["schema"] = {"fields": fields}
    batch = min(max(len(own.truth) // 200, 10), 100)
    return LabelledStream(path.name, own.truth, sections, about, batch)


def _encoded_fields(path: Path, records: Path, encoder: str) -> dict[str, Any]:
    """Return the declarations of the text fields of `records`, a copy of the file `path`."""
    place = Path(encoder).expanduser().absolute()
    if not place.exists():  # a function, whose module may be in the current folder
        sys.path.insert(0, str(Path.cwd()))
    with records.open("rb") as lines:
        sample = [decode_json_object(line) for line in islice(lines, INFERRED_FROM)]
    inferred = infer_fields(sample, reserved=["id"]).fields
    names = [name for name, field in inferred.items() if field.kind == "text"]
    if not names:
        raise ConfigurationError(
            f"--encoder {encoder}: no field of {path} has texts of several words: leave the "
            "encoder out, or give another file"
        )
    name = str(place) if place.exists() else encoder
    return {field: {"type": "text", "encoder": name} for field in names}


def refuse_invalid_field_names(label: str, id: str | None) -> None:
    """Raise ConfigurationError for invalid field names of label and id."""
    for option, name in (("--label", label), ("--id", id)):
        if name is not None and not is_valid_field_name(name):
            raise ConfigurationError(
                f"{option} {name!r}: invalid field name: give a name without quotes, backslashes "
                "and control characters"
            )
    if label == id:
        raise ConfigurationError(f"--id {id}: this is the label field: give another field")


def _write_split_records(
    splitter: RecordSplitter,
    path: Path,
    text_columns: Sequence[str],
    records_file: BinaryIO,
    labels_file: BinaryIO,
) -> None:
    with closing(file_source(path, text_columns)) as source:
        while messages := source.poll(_PAGE):
            taken = [splitter.split(message) for message in messages]
            records_file.writelines(pair[0] + b"\n" for pair in taken if pair)
            labels_file.writelines(pair[1] + b"\n" for pair in taken if pair)


class _SkippedRecordError(Exception):
    """Reason why a record cannot be used."""


def _pop_value_at_path(record: Record, path: str) -> msgspec.Raw | None:
    """Remove the values at `path`; return the value that `path_getter` reads, or None.

    As keys may contain dots, a dotted path can match several values.

    An object that becomes empty is removed, too. Other values keep their bytes.
    """
    found = record.pop(path, None)
    cut = path.rfind(".")
    while cut >= 0:
        head, rest = path[:cut], path[cut + 1 :]
        if head in record:
            container, value = _remove_from_container(record[head], rest)
            if bytes(container) == b"{}":
                del record[head]
            else:
                record[head] = container
            found = value if found is None else found
        cut = path.rfind(".", 0, cut)
    return found


def _remove_from_container(
    container: msgspec.Raw, path: str
) -> tuple[msgspec.Raw, msgspec.Raw | None]:
    """Return (`container` without the value at `path`, that value); the value is None if absent."""
    value: msgspec.Raw | None = None
    if bytes(container)[:1] == b"{":
        fields = msgspec.json.decode(container, type=Record)
        value = _pop_value_at_path(fields, path)
        return (container if value is None else msgspec.Raw(msgspec.json.encode(fields))), value
    position, dot, rest = path.partition(".")
    if bytes(container)[:1] != b"[" or not position.isdecimal():
        return container, None
    items = msgspec.json.decode(container, type=list[msgspec.Raw])
    place = int(position)
    if place >= len(items):
        return container, None
    if dot:
        items[place], value = _remove_from_container(items[place], rest)
    else:  # the other items keep their positions
        items[place], value = msgspec.Raw(b"null"), items[place]
    return (container if value is None else msgspec.Raw(msgspec.json.encode(items))), value


def _label_text_from_json(value: msgspec.Raw | None) -> str:
    label = "" if value is None else _json_value_to_text(value)
    if not label:
        raise _SkippedRecordError("without a label")
    is_integer = value is not None and bytes(value).lstrip(b"-").isdigit()
    if is_integer and not -(2**63) <= int(label[:_LONGEST_INTEGER]) < 2**63:
        raise _SkippedRecordError("with a label of more than 64 bits")
    if len(label) > LONGEST_LABEL or "\0" in label:
        raise _SkippedRecordError("with a label too long or damaged")
    return label


def _json_value_to_text(raw_json: msgspec.Raw) -> str:
    """Return a JSON value as text, "" for null; _SkippedRecordError for an object or a list."""
    value = bytes(raw_json)
    if value[:1] in (b"{", b"["):
        raise _SkippedRecordError("with an object or a list for its label or id")
    return "" if value == b"null" else msgspec.json.decode(json_label_as_text(value), type=str)
