"""CSV files: a header row, then one record a line."""

import csv
import os
import sys
from collections import Counter
from collections.abc import Collection
from typing import BinaryIO

from streamboost.connectors.base import PARTITION, Message
from streamboost.connectors.files.cells import as_message, from_text
from streamboost.connectors.files.lines import LineSource
from streamboost.errors import ConnectorError

__all__ = ["CsvSource"]


class CsvSource(LineSource):
    r"""Reads a CSV file with a header, giving each row as a JSON object.

    An empty cell and `nan` are null, what reads as a number is one, and the rest is text. Cells
    stand between commas, and may be quoted; one that holds a line break cannot be read. A row
    that is damaged, or has more or fewer cells than the header, is given as it stands: it is no
    JSON object, so whoever decodes it refuses it. Columns without a name are left out.

    A message's offset is the byte at which its row starts, so that positions can be sought.

    Parameters
    ----------
    path : path to a file
    text : collection of str
        The columns whose cells are text whatever they look like, such as ids.
    max_bytes, follow, on_gap
        As `JsonLinesSource` has them. After a rotation, each file is read by its own header.

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
    [b'{"id":"007","width":1.5,"height":null}', b'{"id":"008","width":null,"height":2}']
    >>> source.position()
    {'0': 35}
    >>> source.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        text: Collection[str] = ("id",),
        max_bytes: int = 1_000_000,
        follow: bool = False,
        *,
        on_gap: str = "stop",
    ) -> None:
        super().__init__(path, max_bytes, follow, on_gap=on_gap)
        self._text = frozenset(text)
        self._names: list[str] = []

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` rows, all of one file."""
        return [self._converted(line) for line in super().poll(limit)]

    def _read_header(self, file: BinaryIO) -> int | None:
        file.seek(0)
        line, length = self._read(file, 0, sys.maxsize, waits=True)
        if line is None:
            return None
        self._names = self._checked(line)
        return length

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
        cells = _cells(line) if line.size == len(line.payload) else None
        if cells is None or len(cells) != len(self._names):
            return line
        named = ((name, cell) for name, cell in zip(self._names, cells, strict=True) if name)
        return as_message(from_text(named, self._text), PARTITION, line.offset, self._max_bytes)


def _cells(line: Message) -> list[str] | None:
    """Return the cells of a line, None where it cannot be read."""
    try:
        rows = list(csv.reader([line.payload.decode()], strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return rows[0] if rows else None
