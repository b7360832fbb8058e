"""CSV files: a header row, then one record a line."""

import csv
import os
from collections import Counter

import msgspec

from streamboost.connectors.base import PARTITION, Message, Position, Source
from streamboost.connectors.files.cells import as_message, from_text
from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.errors import ConnectorError

__all__ = ["CsvSource"]


class CsvSource(Source):
    r"""Reads a CSV file with a header, giving each row as a JSON object.

    Cells are text, and null where they are empty: what they hold depends on the field
    (`messages.rows`). They stand between commas, and may be quoted; one that holds a line break
    cannot be read. A row that has more or fewer cells than the header, or is the header again, is
    given as it stands with what is wrong as its `damage`; one that is damaged otherwise is no JSON
    object, so whoever decodes it refuses it. Columns without a name are left out.

    A message's offset is the byte at which its row starts, so that positions can be sought.

    Parameters
    ----------
    path : path to a file
    max_bytes, follow
        As `JsonLinesSource` has them.

    Raises
    ------
    ConnectorError
        While polling, as of `JsonLinesSource`, or when the header cannot be used.

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
    ) -> None:
        self._path = os.fspath(path)
        self._lines = JsonLinesSource(path, max_bytes, follow)
        self._max_bytes = max_bytes
        self._names: list[str] | None = None

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` rows."""
        if limit < 1:
            return []
        here = self._lines.position()
        if (self._names is None or here[PARTITION] == 0) and not self._read_header(here):
            return []
        return [self._converted(line) for line in self._lines.poll(limit)]

    def position(self) -> Position:
        """Return the byte offset after the last row read."""
        return self._lines.position()

    def seek(self, position: Position) -> None:
        """Go on from a byte offset where a row starts."""
        self._lines.seek(position)

    def lag(self) -> int | None:
        """Return how many bytes are left, as of `JsonLinesSource`."""
        return self._lines.lag()

    def close(self) -> None:
        """Close the file; polling opens it again."""
        self._lines.close()
        self._names = None

    def _read_header(self, here: Position) -> bool:
        """Read the names of the columns, then go on after them, or where reading stood."""
        self._lines.seek({})
        after = here
        try:
            lines = self._lines.poll(1)
            if lines:
                self._names = self._checked(lines[0])
                after = max(here, self._lines.position(), key=lambda place: place[PARTITION])
        finally:
            self._lines.seek(after)
        return bool(lines)

    def _checked(self, line: Message) -> list[str]:
        names = _cells(line)
        if names is None or not any(names):
            raise ConnectorError(
                f"{self._path}: the first line is no header ({line.payload[:60]!r}): it must name "
                "the columns, in UTF-8, with commas between them"
            )
        twice = [name for name, n in Counter(filter(None, names)).items() if n > 1]
        if twice:
            raise ConnectorError(
                f"{self._path}: the header names the column {twice[0]!r} twice: rename one of them"
            )
        return names

    def _converted(self, line: Message) -> Message:
        assert self._names is not None
        cells = _cells(line) if line.size == len(line.payload) else None
        if not cells:
            return line
        if (fault := self._fault_of(cells)) is not None:
            return msgspec.structs.replace(line, damage=fault, is_row=True)
        named = ((name, cell) for name, cell in zip(self._names, cells, strict=True) if name)
        return as_message(from_text(named), PARTITION, line.offset, self._max_bytes)

    def _fault_of(self, cells: list[str]) -> str | None:
        """Return why `cells` are no row under the header; None where they are one."""
        assert self._names is not None
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


def _cells(line: Message) -> list[str] | None:
    """Return the cells of a line, None where it cannot be read."""
    try:
        rows = list(csv.reader([line.payload.decode()], strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return rows[0] if rows else None
