"""CSV source: a header row, then one record per line."""

import csv
import io
import logging
import os
import sys
import threading
from collections import Counter
from typing import BinaryIO

import msgspec

from streamboost.connectors.base import PARTITION, Message
from streamboost.connectors.files.cells import message_from_row, record_from_cells
from streamboost.connectors.files.lines import LineSource
from streamboost.errors import ConnectorError

_log = logging.getLogger(__name__)

_USUAL_LIMIT = 131_072
"""Characters of a cell that Python's reader accepts by default."""

_LIMIT = threading.Lock()
"""Lock while the limit differs from the default, as all readers of the process share the limit."""

_OTHERS = ";\t|"
"""Separators that a header with a single column contains if the file is not separated by commas."""

_CHUNK = 64 * 1024

_MANY_LINES = 10
"""If a quoted cell has more lines than this, a missing quote is likely."""


class CsvSource(LineSource):
    r"""Reads a CSV file with a header, giving each row as a JSON object.

    Cells are text, or null if empty: their interpretation depends on the field
    (`messages.decoding`). Cells are separated by commas, and may be quoted. A quoted cell may hold
    line breaks, given as `\n`. `max_bytes` limits the whole row, not each of its lines.

    If a quote is not closed, only its line is damaged. A row with an open quote may still be
    incomplete if `follow` is set, or if the last line of the file has no line break. Such a row is
    not returned before it is complete or has more than `max_bytes` bytes. Without `follow`, its
    lines are returned as rows if there are many and all look like rows.

    If a row has a wrong quote, or more or fewer cells than the header, or repeats the header, its
    line is returned with the reason as its `damage`. Other damaged rows are returned as plain
    lines, which the decoder rejects. Columns without a name are ignored.

    A message's offset is the byte at which its row starts, so that a seek can go to it directly.

    Parameters
    ----------
    path : path to a file
    max_bytes, follow, on_data_loss
        As in `JsonLinesSource`. After a rotation, each file is read by its own header.

    Raises
    ------
    ConnectorError
        While polling, as by `JsonLinesSource`, or when the header is invalid.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "records.csv"
    >>> _ = path.write_bytes(b"id,width,height\n007,1.5,\n008,nan,2\n")
    >>> source = CsvSource(path)
    >>> [message.payload for message in source.poll(10)]
    [b'{"id":"007","width":"1.5","height":null}', b'{"id":"008","width":"nan","height":"2"}']
    >>> source.position()
    {'0': 35}
    >>> source.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_bytes: int = 1_000_000,
        follow: bool = False,
        *,
        on_data_loss: str = "fail",
    ) -> None:
        super().__init__(path, max_bytes, follow, on_data_loss=on_data_loss)
        self._names: list[str] = []
        self._open_at = -1  # offset of the last row whose open quote was logged
        self._is_warned_of_long_row = False

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` rows as messages, all from one file."""
        return [self._message_from_line(line) for line in super().poll(limit)]

    def _read_header(self, file: BinaryIO) -> int | None:
        file.seek(0)
        line, length = self._read_message(file, 0, sys.maxsize, skip_incomplete=self._follow)
        if line is None:
            return None
        self._names = self._parse_header(line)
        return length

    def _read_message(
        self, file: BinaryIO, start: int, max_length: int, *, skip_incomplete: bool
    ) -> tuple[Message | None, int]:
        """Return (message, length in bytes) of the row at byte `start`; (None, ...) without a row.

        A row has several lines if a quoted cell has line breaks. The parameters are those of
        `LineSource._read_message`.
        """
        line, length = super()._read_message(
            file, start, max_length, skip_incomplete=skip_incomplete
        )
        is_whole = line is not None and line.size == len(line.payload)
        if line is None or not is_whole or not _has_open_quote(line.payload):
            return line, length
        lines, end, is_closed = [line], start + length, False
        most = max(self._max_bytes, csv.field_size_limit())
        while not is_closed:
            more, more_length = super()._read_message(
                file, end, max_length - (end - start), skip_incomplete=skip_incomplete
            )
            if more is None:
                break
            end += more_length
            is_closed = more.payload.count(b'"') % 2 == 1
            if end - start <= most:
                lines.append(more)
        read = end - start
        if not is_closed and read < min(max_length, self._max_bytes):
            if skip_incomplete:
                if len(lines) > _MANY_LINES:
                    self._warn_of_open_quote(file, line, len(lines), "once a quote closes the cell")
                return None, 0
            if (
                start
                and self._is_newest
                and not self._compressed
                and not self._lines_look_like_rows(lines)
                and not _has_line_break_before(file, end)
            ):
                how = "once a quote closes the cell, or a line break ends the file"
                self._warn_of_open_quote(file, line, len(lines), how)
                return None, 0
        payload = b"\n".join(one.payload for one in lines)
        if not is_closed or (read <= most and _parse_csv_row(payload) is None):
            file.seek(start + length)
            return line, length
        if read <= most:
            self._warn_of_rows_within_quotes(file, lines, end)
        size = len(payload) if read <= most else read
        payload = payload[: self._max_bytes]
        return msgspec.structs.replace(line, payload=payload, size=size), read

    def _find_last_row_start(self, file: BinaryIO, first: int, end: int) -> int:
        file.seek(first)
        start = first
        while start < end:  # from the first row on, as a line break may be within quotes
            row, length = self._read_message(file, start, end - start, skip_incomplete=False)
            if row is None or start + length >= end:
                break
            start += length
        return start

    def _warn_of_open_quote(
        self, file: BinaryIO, row: Message, n_lines: int, condition: str
    ) -> None:
        if row.offset != self._open_at:
            self._open_at = row.offset
            _log.warning(
                "%s: the row at line %d has a quoted cell that is open for %d lines. The row and "
                "those after it are read %s: check for a missing quote",
                self._path,
                self._line_number(file, row),
                n_lines,
                condition,
                extra={"event": "csv_quote_open"},
            )

    def _warn_of_rows_within_quotes(self, file: BinaryIO, lines: list[Message], end: int) -> None:
        """Log a warning if a quoted cell has many `lines`, and each of these looks like a row.

        Only the first such row is reported. Reading continues at byte `end`.
        """
        if not self._is_warned_of_long_row and self._lines_look_like_rows(lines):
            self._is_warned_of_long_row = True
            _log.warning(
                "%s: the row at line %d has %d lines within quotes, and they look like rows: check "
                "for a missing quote",
                self._path,
                self._line_number(file, lines[0]),
                len(lines),
                extra={"event": "csv_rows_within_quotes"},
            )
            file.seek(end)

    def _lines_look_like_rows(self, lines: list[Message]) -> bool:
        """Return whether the `lines` of a quoted cell are many, and each inner line is a row."""
        n_columns = len(self._names)
        return (
            len(lines) > _MANY_LINES
            and n_columns > 1
            and all(len(_parse_csv_row(one.payload) or ()) == n_columns for one in lines[1:-1])
        )

    def _line_number(self, file: BinaryIO, row: Message) -> int:
        """Return the number of a row's first line in `file`, from 1; move the file's position."""
        file.seek(0)
        left, number = row.offset - self._base, 1
        while left > 0 and (chunk := file.read(min(left, _CHUNK))):
            number += chunk.count(b"\n")
            left -= len(chunk)
        return number

    def _parse_header(self, line: Message) -> list[str]:
        names = _parse_csv_row(line.payload)
        if names is None or not any(names) or b"\0" in line.payload:
            raise ConnectorError(
                f"{self._path}: the first line is no header ({line.payload[:60]!r}): it must name "
                "the columns, in UTF-8, with commas between them, and end with a line feed"
            )
        if len(names) == 1 and (found := next((one for one in _OTHERS if one in names[0]), None)):
            raise ConnectorError(
                f"{self._path}: the header names one column, {names[0][:60]!r}, which has "
                f"{found!r} where commas are expected: separate the columns by commas"
            )
        twice = [name for name, n in Counter(filter(None, names)).items() if n > 1]
        if twice:
            raise ConnectorError(
                f"{self._path}: the header names the column {twice[0]!r} twice: rename one of them"
            )
        return names

    def _message_from_line(self, line: Message) -> Message:
        cells = _parse_csv_row(line.payload) if line.size == len(line.payload) else None
        if not cells:
            fault = _describe_quote_fault(line)
            return (
                line if fault is None else msgspec.structs.replace(line, damage=fault, is_row=True)
            )
        if (fault := self._describe_header_mismatch(cells)) is not None:
            return msgspec.structs.replace(line, damage=fault, is_row=True)
        named = ((name, cell) for name, cell in zip(self._names, cells, strict=True) if name)
        return message_from_row(record_from_cells(named), PARTITION, line.offset, self._max_bytes)

    def _describe_header_mismatch(self, cells: list[str]) -> str | None:
        """Return the reason why a row does not match the header, or None if it matches."""
        has, named = len(cells), len(self._names)
        if {*filter(None, self._names)} <= {cell.removeprefix("\ufeff") for cell in cells}:
            if has == named:
                return "the header again, which is no record: leave the line out"
            return (
                f"a header again, of {has} columns where the first line of the file names {named}: "
                "put these rows into a file of their own"
            )
        if has == named:
            return None
        return (
            f"{has} cell{'s' * (has != 1)}, and the header names {named} columns: quote cells that "
            "hold commas, and leave a cell empty that has no value"
        )


def _has_line_break_before(file: BinaryIO, end: int) -> bool:
    file.seek(end - 1)
    return file.read(1) == b"\n"


def _has_open_quote(payload: bytes) -> bool:
    """Return whether the last cell of a line has an opening quote but no closing quote.

    If a closing quote would not make the line a valid row, the result is False.
    """
    return (
        payload.count(b'"') % 2 == 1
        and _parse_csv_row(payload) is None
        and _parse_csv_row(payload + b'"') is not None
    )


def _describe_quote_fault(line: Message) -> str | None:
    """Return the reason why the quotes of a line are invalid; None for other faults."""
    payload = line.payload
    if line.size > len(payload) or b'"' not in payload or b"\r" in payload:
        return None
    try:
        payload.decode()
    except UnicodeDecodeError:
        return None
    if _parse_csv_row(payload + b'"') is not None:
        return "a quoted cell is not closed: add the quote, or write a quote within a cell twice"
    return "a quoted cell has text after its closing quote: write a quote within a cell twice"


def _parse_csv_row(payload: bytes) -> list[str] | None:
    """Return the cells of a CSV row, which may have any length; None if the row is invalid."""
    if len(payload) <= _USUAL_LIMIT:
        return _parse_csv_row_within_limit(payload)
    with _LIMIT:
        limit = csv.field_size_limit(len(payload))
        try:
            return _parse_csv_row_within_limit(payload)
        finally:
            csv.field_size_limit(limit)


def _parse_csv_row_within_limit(payload: bytes) -> list[str] | None:
    try:
        rows = list(csv.reader(io.StringIO(payload.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return rows[0] if len(rows) == 1 else None
