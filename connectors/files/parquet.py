"""Parquet source, which reads through pyarrow."""

import math
import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamboost.connectors.base import PARTITION, Message
from streamboost.connectors.files.cells import message_from_row
from streamboost.connectors.files.rotation import open_regular_file
from streamboost.connectors.last_read import LastMessageFingerprint, ReplacementDetectingSource
from streamboost.errors import ConfigurationError, ConnectorError, DeletedError

_ROWS = 1_000
"""Number of rows in memory at once."""


class _InvalidUtf8(NamedTuple):
    content: bytes


class ParquetSource(ReplacementDetectingSource):
    """Reads a Parquet file, and returns each row as a JSON object; the offset is the row number.

    A date that Python cannot represent becomes text. A row with text that is not UTF-8 is a damaged
    message.

    The file must be complete, as rows are never appended to a Parquet file. A replaced file is
    detected: the fingerprint has a digest of the last row that was read.

    Parameters
    ----------
    path : path to a file
    text : collection of str
        The columns whose values are returned as text, such as ids.
    max_bytes : int
        Limit per row as JSON. A longer row is truncated to `max_bytes` + 1 bytes.

    Raises
    ------
    ConfigurationError
        When pyarrow is not installed.
    ConnectorError
        While polling, when the file is missing, is no Parquet file, or is not the file that was
        read before (DeletedError).

    Examples
    --------
    >>> import tempfile, pyarrow, pyarrow.parquet
    >>> path = Path(tempfile.mkdtemp()) / "records.parquet"
    >>> pyarrow.parquet.write_table(pyarrow.table({"id": [7, 8], "a": [1.5, None]}), path)
    >>> source = ParquetSource(path)
    >>> [message.payload for message in source.poll(10)], source.position()
    ([b'{"id":"7","a":1.5}', b'{"id":"8","a":null}'], {'0': 2})
    >>> source.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        text: Collection[str] = ("id",),
        max_bytes: int = 1_000_000,
    ) -> None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                f"{os.fspath(path)}: Parquet files need pyarrow, which is not installed: install "
                "streamboost[parquet], or give the records as CSV"
            ) from error
        super().__init__(str(path))
        self._path = Path(path)
        self._text = frozenset(text)
        self._max_bytes = max_bytes
        self._file: Any = None
        self._rows: Iterator[dict[str, Any]] | None = None

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` rows as messages."""
        with self._translate_errors():
            if self._rows is None:
                self._rows = self._iterate_checked_rows(self._next)
            rows = list(islice(self._rows, max(0, limit)))
        messages = [
            self._message_from_parquet_row(row, offset)
            for offset, row in enumerate(rows, self._next)
        ]
        self._next += len(messages)
        if messages and self._next - 1 > self._last.offset:
            self._last = LastMessageFingerprint.from_message(
                self._next - 1, repr(rows[-1]).encode()
            )
        return messages

    def lag(self) -> int:
        """Return the number of unread rows."""
        with self._translate_errors():
            return int(self._open_file().metadata.num_rows) - self._next

    def _set_next_offset(self, offset: int) -> None:
        if offset != self._next:
            self._rows = None
        super()._set_next_offset(offset)

    def close(self) -> None:
        """Close the file; polling opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = self._rows = None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import pyarrow

        try:
            yield
        except FileNotFoundError as error:
            raise ConnectorError(
                f"there is no file {self._path}: create it, or correct the path"
            ) from error
        except (OSError, pyarrow.ArrowException) as error:
            self.close()
            raise ConnectorError(
                f"cannot read {self._path} as Parquet: {error}; name a readable Parquet file"
            ) from error

    def _open_file(self) -> Any:
        import pyarrow.parquet

        if self._file is None:
            open_regular_file(self._path).close()  # pyarrow would wait for a writer of a pipe
            file = pyarrow.parquet.ParquetFile(self._path)
            twice = [name for name, n in Counter(file.schema_arrow.names).items() if n > 1]
            if twice:
                file.close()
                raise ConnectorError(
                    f"{self._path} names the column {twice[0]!r} twice: rename one of them"
                )
            self._file = file
        return self._file

    def _iterate_checked_rows(self, start_row: int) -> Iterator[dict[str, Any]]:
        """Return an iterator over the rows from `start_row`; DeletedError for a replaced file."""
        n, last = self._open_file().metadata.num_rows, self._last
        is_other = n < max(start_row, last.offset + 1)
        if not is_other and last.digest:
            is_other = last.has_changed(repr(next(self._iterate_rows(last.offset))).encode())
        if is_other:
            raise DeletedError(
                f"{self._path} has {n} rows, and reading should continue at row {start_row}: this "
                "is not the file that was read before; put that one back, or start again with an "
                "empty state"
            )
        return self._iterate_rows(start_row)

    def _iterate_rows(self, start_row: int) -> Iterator[dict[str, Any]]:
        """Return an iterator over the rows from `start_row` on; earlier row groups are not read."""
        metadata = self._open_file().metadata
        start, groups = 0, list(range(metadata.num_row_groups))
        while groups and start + metadata.row_group(groups[0]).num_rows <= start_row:
            start += metadata.row_group(groups.pop(0)).num_rows
        batches = self._file.iter_batches(batch_size=_ROWS, row_groups=groups)
        return islice(
            (r for batch in batches for r in _arrow_batch_to_rows(batch)), start_row - start, None
        )

    def _message_from_parquet_row(self, row: dict[str, Any], offset: int) -> Message:
        texts = {k: _cell_to_text(row[k]) for k in self._text & row.keys()}
        row = row | texts
        if unreadable := {k: v for k, v in row.items() if isinstance(v, _InvalidUtf8)}:
            name, value = next(iter(unreadable.items()))
            row = row | {k: v.content.decode(errors="replace") for k, v in unreadable.items()}
            found = message_from_row(row, PARTITION, offset, self._max_bytes)
            damage = f"column {name!r}: {value.content[:20]!r} is not UTF-8"
            return msgspec.structs.replace(found, damage=damage)
        return message_from_row(row, PARTITION, offset, self._max_bytes)


def _cell_to_text(value: Any) -> Any:
    """Return a cell as the text that the same value has in JSON; None if it is missing.

    Whole numbers have no decimal point: pandas converts integers to floats if a value is missing,
    and databases export them as decimals. Lists and structs are returned as they are, because they
    are neither ids nor labels.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value) if value.is_integer() else value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return _InvalidUtf8(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return str(int(value))
    return value if value is None or isinstance(value, _InvalidUtf8 | list | dict) else str(value)


def _arrow_batch_to_rows(arrow_batch: Any) -> list[dict[str, Any]]:
    """Return the rows of an Arrow batch; cells that Python cannot represent become text."""
    try:
        rows: list[dict[str, Any]] = arrow_batch.to_pylist()
    except (OverflowError, ValueError):
        columns = [
            [_arrow_cell_to_python(cell) for cell in column] for column in arrow_batch.columns
        ]
        names = arrow_batch.schema.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def _arrow_cell_to_python(cell: Any) -> Any:
    import pyarrow

    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        return _InvalidUtf8(error.object)
    except (OverflowError, ValueError):
        return cell.cast(pyarrow.string()).as_py()
