"""Generator of a pipeline file for the user's own labelled records."""

import os
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.files.open import STDIN, file_source
from streamboost.connectors.messages.decoding import decode_json_object
from streamboost.errors import ConfigurationError
from streamboost.features.paths import flatten
from streamboost.pipelines.config.templates.brief import render_template_for_records
from streamboost.pipelines.config.variables import variable_names
from streamboost.pipelines.demo.own import RecordSplitter, refuse_invalid_field_names

_PAGE = 1_000
_SAMPLE = 500
_SHOWN = 5


class GeneratedFile(NamedTuple):
    """Text of a generated pipeline file, and a sentence about its records for the user."""

    text: str
    about: str


def generate_pipeline_file(
    records: Path, label: str, id: str | None, folder: Path
) -> GeneratedFile:
    """Return the text of a pipeline file for labelled records, with paths relative to `folder`.

    Parameters
    ----------
    records : JSON Lines, CSV, either of them compressed (.gz), or Parquet
    label : the field with the label
    id : the field with the record's id; None for the field "id", which records must then have

    Raises
    ------
    ConfigurationError, DataError
        If the file lacks the fields, or nothing can be learned from its labels.
    ConnectorError
        If the file cannot be read.
    """
    _refuse_unusable_path(records)
    refuse_invalid_field_names(label, id)
    own: RecordSplitter | None = None
    with closing(file_source(records, [label, *([] if id is None else [id])])) as source:
        while messages := source.poll(_PAGE):
            if own is None:
                id = (
                    _find_default_id_field(records, messages[:_SAMPLE], label) if id is None else id
                )
                own = RecordSplitter(records, label, id)
            for message in messages:
                own.split(message)
    about = (own or RecordSplitter(records, label, id)).check_and_summarize()
    assert own is not None
    assert id is not None
    path = Path(os.path.relpath(records.resolve(), folder.resolve())).as_posix()
    batch = min(max(len(own.truth) // 200, 10), 100)
    return GeneratedFile(
        render_template_for_records(_pipeline_name_from_path(records), path, id, label, batch),
        about,
    )


def _refuse_unusable_path(records: Path) -> None:
    if str(records) == STDIN:
        raise ConfigurationError(
            "init: standard input cannot be read again for the labels: give a file"
        )
    if variable_names(str(records)):
        raise ConfigurationError(
            f"init {records}: the name has ${{...}}, which is an environment variable in a "
            "pipeline file: rename the file"
        )


def _find_default_id_field(
    records: Path, first_messages: Sequence[Message], label_field: str
) -> str:
    """Return "id" if a record has this field; else raise ConfigurationError with other fields."""
    rows = []
    for message in first_messages:
        try:
            rows.append(flatten(decode_json_object(message.payload)))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
    names = dict.fromkeys(name for row in rows for name in row if name != label_field)
    if not rows or "id" in names:
        return "id"
    found = [name for name in names if _are_usable_as_ids([row.get(name) for row in rows])]
    some = ", ".join(found[:_SHOWN])
    mend = (
        f"give --id FIELD; {some} {'differs' if len(found) == 1 else 'differ'} in every record read"
        if found
        else 'add a field "id" that differs in every record, such as its number'
    )
    raise ConfigurationError(f'{records}: there is no id field "id": {mend}')


def _are_usable_as_ids(values: Sequence[object]) -> bool:
    return all(type(value) in (str, int) for value in values) and len({*values}) == len(values)


def _pipeline_name_from_path(records: Path) -> str:
    """Return a valid pipeline name: the file name without its extension, and with hyphens."""
    stem = records.name.removesuffix(".gz").rpartition(".")[0] or records.name
    return re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-")[:60] or "records"
