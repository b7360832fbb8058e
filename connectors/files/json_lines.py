"""JSON Lines files, read: one message a line."""

import gzip
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, cast

from streamboost.connectors.base import PARTITION, Message, SinglePartitionSource
from streamboost.errors import ConfigurationError, ConnectorError, DeletedError

__all__ = ["JsonLinesSource", "is_compressed"]

_CHUNK = 64 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SLACK = 1 + len(_BYTE_ORDER_MARK) + len(b"\r\n")
"""Read beyond `max_bytes`, so that a line that fits is read whole whatever stands around it."""


class JsonLinesSource(SinglePartitionSource):
    r"""Reads a file line by line; the offset of a message is the byte at which its line starts.

    Lines end in `\n` or `\r\n`. A last line without an end is a message, unless `follow` is set.
    An empty line is an empty message. A byte order mark at the start is passed over.

    A file that ends in `.gz` is read through gzip. Offsets are those of the text in it, so going on
    from one reads the file up to there.

    Parameters
    ----------
    path : path to a file
    max_bytes : int
        What of a line is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size.
    follow : bool
        Whether somebody is still writing the file: then a last line waits for its end, and a file
        that is not there yet has nothing yet.

    Raises
    ------
    ConnectorError
        While polling, when the file is missing, cannot be read, or is not the one that was read
        before.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> _ = path.write_bytes(b'{"id": 1}\n{"id": 2}\n')
    >>> source = JsonLinesSource(path)
    >>> source.poll(1)
    [Message(payload=b'{"id": 1}', partition='0', offset=0, size=9)]
    >>> source.position()
    {'0': 10}
    >>> source.close()
    """

    def __init__(
        self, path: str | os.PathLike[str], max_bytes: int = 1_000_000, follow: bool = False
    ) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        self._path = Path(path)
        self._compressed = is_compressed(self._path)
        if follow and self._compressed:
            raise ConfigurationError(
                f"{path} is compressed, and nobody can tell from it whether more is to come: leave "
                "`follow` out, or have it written uncompressed"
            )
        super().__init__(str(path))
        self._max_bytes = max_bytes
        self._follow = follow
        self._file: BinaryIO | None = None
        self._checked = False

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` lines."""
        messages: list[Message] = []
        start = self._next
        if self._follow and start == 0 and not self._path.exists():
            return messages
        try:
            file = self._at_next()
            while len(messages) < limit:
                message, consumed = self._read(file)
                if message is None:
                    break
                self._next += consumed
                messages.append(message)
        except (OSError, EOFError, zlib.error) as error:  # the last two are of damaged gzip
            self.close()
            self._next = start  # what was read of this poll is not given, so it is read again
            what = getattr(error, "strerror", None) or error
            raise ConnectorError(
                f"cannot read {self._path}: {what}; name a readable file"
            ) from error
        return messages

    def reread(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the `n` messages of `ranges` once more; without its file, that is no end of it."""
        if n and not self._path.exists():
            raise self._missing()
        return super().reread(ranges, n)

    def lag(self) -> int | None:
        """Return how many bytes are left, up to the last line's end where one waits for it.

        None where the file is compressed. ConnectorError when it is missing or cannot be read.
        """
        if self._compressed:
            return None
        try:
            with self._path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                if self._follow:
                    end = _end_of_lines(file, self._next, end)
        except FileNotFoundError as error:
            if self._follow and self._next == 0:
                return 0
            raise self._missing() from error
        except OSError as error:
            raise ConnectorError(
                f"cannot read {self._path}: {error.strerror}; name a readable file"
            ) from error
        return max(end - self._next, 0)

    def _move(self, offset: int) -> None:
        super()._move(offset)
        self._checked = False

    def close(self) -> None:
        """Close the file; polling opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._checked = False

    def _at_next(self) -> BinaryIO:
        """Return the file at the next line, after finding it to be the one read before."""
        try:
            now = self._path.stat()
        except FileNotFoundError as error:
            raise self._missing() from error
        if self._file is None:
            self._file = self._opened()
        held = os.fstat(self._file.fileno())
        if (held.st_dev, held.st_ino) != (now.st_dev, now.st_ino):
            raise self._changed("another file has taken its place")
        if now.st_size < self._next and not self._compressed:
            raise self._changed(f"it has only {now.st_size} bytes now")
        if not self._checked:
            self._check_line_start(self._file)
            self._checked = True
        self._file.seek(self._next)
        return self._file

    def _opened(self) -> BinaryIO:
        if self._compressed:
            return cast(BinaryIO, gzip.open(self._path, "rb"))
        return self._path.open("rb")

    def _check_line_start(self, file: BinaryIO) -> None:
        """Find that a line starts at the next offset, passing over the end of one that had none."""
        if self._next == 0:
            return
        file.seek(self._next - 1)
        before, ahead = file.read(1), file.read(2)
        if not before:  # of what is compressed, no size told
            raise self._changed(f"its text has only {file.tell()} bytes now")
        if before == b"\n" or not ahead:
            return
        ending = 1 if ahead[:1] == b"\n" else 2 if ahead == b"\r\n" else 0
        if not ending:
            raise self._changed("no line starts there (a file still being written needs `follow`)")
        self._next += ending

    def _missing(self) -> ConnectorError:
        return ConnectorError(f"there is no file {self._path}: create it, or mend the path")

    def _changed(self, how: str) -> DeletedError:
        return DeletedError(
            f"{self._path} was truncated, rotated or replaced: reading should go on at byte "
            f"{self._next}, but {how}; put the old file back, or begin anew with an empty state"
        )

    def _read(self, file: BinaryIO) -> tuple[Message | None, int]:
        """Read the next line: its message, or None where there is none, and its whole length."""
        line = file.readline(self._max_bytes + _SLACK)
        consumed, ending = len(line), line[-2:]
        while ending and not ending.endswith(b"\n"):
            more = file.readline(_CHUNK)
            if not more:
                if self._follow:
                    return None, 0
                self._checked = False  # its end may still come, and is not a line of its own
                break
            consumed, ending = consumed + len(more), (ending + more)[-2:]
        if not line:
            return None, 0
        size = consumed - (2 if ending == b"\r\n" else 1 if ending.endswith(b"\n") else 0)
        payload = line[:size]
        if self._next == 0 and payload.startswith(_BYTE_ORDER_MARK):
            payload, size = payload[len(_BYTE_ORDER_MARK) :], size - len(_BYTE_ORDER_MARK)
        return Message(payload[: self._max_bytes + 1], PARTITION, self._next, size), consumed


def _end_of_lines(file: BinaryIO, start: int, end: int) -> int:
    """Return where the last line ends that has an end, of those between the bytes given."""
    while end > start:
        begin = max(end - _CHUNK, start)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Tell whether `path` names a file that is read through gzip.

    >>> is_compressed("records.csv.gz"), is_compressed("records.csv")
    (True, False)
    """
    return Path(path).suffix.lower() == ".gz"
