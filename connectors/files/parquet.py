"""Parquet files, read through pyarrow."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from streamboost.connectors.base import PARTITION, Message
from streamboost.connectors.files.cells import as_message
from streamboost.connectors.files.rotation import open_regular
from streamboost.connectors.last_read import LastRead, NumberedSource
from streamboost.errors import ConfigurationError, ConnectorError, DeletedError

__all__ = ["ParquetSource"]

_ROWS = 1_000
"""Held in memory at once."""


class ParquetSource(NumberedSource):
    """Reads a Parquet file, giving each row as a JSON object; a message's offset is its row.

    A file is complete when it is written: nothing is ever added to it. It is known by its content:
    the bookmark has a digest of the row that was read last.

    Parameters
    ----------
    path : path to a file
    text : collection of str
        The columns whose values are given as text, such as ids.
    max_bytes : int
        Of a row that is longer as JSON, the first `max_bytes` + 1 bytes are given.

    Raises
    ------
    ConfigurationError
        When pyarrow is not installed.
    ConnectorError
        While polling, when the file is missing, is no Parquet file, or is not the one that was read
        before (DeletedError).

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
        """Read at most `limit` rows."""
        with self._told():
            if self._rows is None:
                self._rows = self._from(self._next)
            rows = list(islice(self._rows, max(0, limit)))
        messages = [self._message(row, offset) for offset, row in enumerate(rows, self._next)]
        self._next += len(messages)
        if messages and self._next - 1 > self._last.offset:
            self._last = LastRead.of(self._next - 1, repr(rows[-1]).encode())
        return messages

    def lag(self) -> int:
        """Return how many rows are left."""
        with self._told():
            return int(self._opened().metadata.num_rows) - self._next

    def _move(self, offset: int) -> None:
        if offset != self._next:
            self._rows = None
        super()._move(offset)

    def close(self) -> None:
        """Close the file; polling opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = self._rows = None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise what goes wrong as our own errors."""
        import pyarrow

        try:
            yield
        except FileNotFoundError as error:
            raise ConnectorError(
                f"there is no file {self._path}: create it, or mend the path"
            ) from error
        except (OSError, pyarrow.ArrowException) as error:
            self.close()
            raise ConnectorError(
                f"cannot read {self._path} as Parquet: {error}; name a readable Parquet file"
            ) from error

    def _opened(self) -> Any:
        import pyarrow.parquet

        if self._file is None:
            open_regular(self._path).close()  # pyarrow would wait for what writes into a pipe
            self._file = pyarrow.parquet.ParquetFile(self._path)
        return self._file

    def _from(self, row: int) -> Iterator[dict[str, Any]]:
        """Give the rows from `row` on, once the file is found to be the one that was read."""
        n, last = self._opened().metadata.num_rows, self._last
        is_other = n < max(row, last.offset + 1)
        if not is_other and last.digest:
            is_other = last.differs(repr(next(self._iterate(last.offset))).encode())
        if is_other:
            raise DeletedError(
                f"{self._path} has {n} rows, and reading should go on at row {row}: this is not "
                "the file that was read before; put that one back, or begin anew with an empty "
                "state"
            )
        return self._iterate(row)

    def _iterate(self, row: int) -> Iterator[dict[str, Any]]:
        """Give the rows from `row` on, skipping whole groups of rows unread."""
        metadata = self._opened().metadata
        start, groups = 0, list(range(metadata.num_row_groups))
        while groups and start + metadata.row_group(groups[0]).num_rows <= row:
            start += metadata.row_group(groups.pop(0)).num_rows
        batches = self._file.iter_batches(batch_size=_ROWS, row_groups=groups)
        return islice((r for batch in batches for r in batch.to_pylist()), row - start, None)

    def _message(self, row: dict[str, Any], offset: int) -> Message:
        texts = {k: None if row[k] is None else str(row[k]) for k in self._text & row.keys()}
        return as_message(row | texts, PARTITION, offset, self._max_bytes)
