"""JSON Lines sink: one message per line, synced to disk by `flush`."""

import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from streamboost.connectors.base import Sink
from streamboost.errors import ConnectorError, DataError
from streamboost.storage import sync_to_disk


class JsonLinesSink(Sink):
    """Appends one line per message, and syncs the file to disk in `flush`.

    The file and its folder are created if missing. If the last line of an existing file is
    incomplete, as after a crash, writing starts on a new line. If the file was renamed or removed,
    as by logrotate, messages are written to a new file at the path.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out" / "predictions.jsonl"
    >>> sink = JsonLinesSink(path)
    >>> sink.write([b"{}", b"[]"]); sink.flush(); sink.close()
    >>> path.read_bytes()
    b'{}\\n[]\\n'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._file: FileIO | None = None
        self._written: list[bytes] = []

    def write(self, payloads: Sequence[bytes]) -> None:
        """Buffer `payloads` until `flush`; raise DataError if a payload has a line break."""
        for payload in payloads:
            if b"\n" in payload:
                raise DataError(
                    f"a message for {self._path} holds a line break ({payload[:60]!r}): JSON Lines "
                    "has one message a line; write it without"
                )
        self._written.extend(payloads)

    def flush(self) -> None:
        """Append the buffered payloads to the file, and sync it to disk.

        After an error, call it again; some messages may be written twice then.
        """
        if not self._written:
            return
        lines = b"\n".join([*self._written, b""])
        try:
            while not self._append_lines(lines):
                pass
        except OSError as error:
            self._close_file()
            raise ConnectorError(
                f"cannot write {self._path}: {error.strerror or error}; free space on the disk, "
                "or name a file that can be written"
            ) from error
        self._written.clear()

    def close(self) -> None:
        """Close the file and drop unflushed payloads; the next flush opens it again."""
        self._written.clear()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append_lines(self, lines: bytes) -> bool:
        """Append `lines` and sync; return False if the file was removed in the meantime."""
        file, left = self._open_file(), memoryview(lines)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_nlink > 0

    def _open_file(self) -> FileIO:
        """Return the open file at the path; reopen it after a rotation, create it if missing."""
        if self._file is not None and not self._is_file_at_path(self._file):
            self._close_file()
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not self._path.exists()
            # Unbuffered: a buffer would repeat a failed write when it is closed.
            self._file = FileIO(self._path, "a+b")
            if is_new:
                sync_to_disk(self._path.parent)
            if self._file.seek(0, os.SEEK_END):
                self._file.seek(-1, os.SEEK_END)
                if self._file.read(1) != b"\n":
                    self._file.write(b"\n")
        return self._file

    def _is_file_at_path(self, file: FileIO) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file.fileno()))
        except (FileNotFoundError, NotADirectoryError):
            return False
