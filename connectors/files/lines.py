"""Text files, read line by line."""

import logging
import os
import sys
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, ClassVar

import msgspec

from streamboost.connectors.base import PARTITION, Message
from streamboost.connectors.files.rotating import RotatingSource
from streamboost.connectors.files.rotation import (
    digest_of,
    holds,
    is_compressed,
    newer_files,
    open_text,
    reader_at,
)
from streamboost.errors import ConfigurationError, ConnectorError

__all__ = ["LineSource"]

_log = logging.getLogger(__name__)

_CHUNK = 64 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SLACK = 1 + len(_BYTE_ORDER_MARK) + len(b"\r\n")
"""Read beyond `max_bytes`, so that a line that fits is read whole whatever stands around it."""


class LineSource(RotatingSource):
    """Reads a file line by line; the offset of a message is the byte at which its line starts.

    Parameters
    ----------
    path : path to a file
    max_bytes : int
        What of a line is held in memory: of a longer one, the first `max_bytes` + 1 bytes are
        given, with its true size.
    follow : bool
        Whether lines are still being added: then a last line waits for its end, and a file
        that is not there yet has nothing yet.
    on_gap : {"stop", "continue"}
        What to do where the file that was read is gone and may have held more: "continue" reads
        the file that is at the path now from its beginning, as `gaps` says.

    Attributes
    ----------
    header : the first line of the file that was polled last; None before, and without `has_header`
    """

    has_header: ClassVar[bool] = False
    """Whether the first line of each file is no message."""

    unit = "byte"

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_bytes: int = 1_000_000,
        follow: bool = False,
        *,
        on_gap: str = "stop",
    ) -> None:
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes = {max_bytes}: write a number of at least 1")
        super().__init__(path, on_gap)
        self._compressed = is_compressed(self._path)
        if follow and self._compressed:
            raise ConfigurationError(
                f"{path} is compressed, and nobody can tell from it whether more is to come: leave "
                "`follow` out, or have it written uncompressed"
            )
        self.header: Message | None = None
        self._max_bytes = max_bytes
        self._follow = follow
        self._file: BinaryIO | None = None
        self._base = 0  # of the segment that is open
        self._unpacks = False  # whether this is a compressed copy of a plain file
        self._first = 0  # where its lines begin, after its header
        self._is_placed = False
        self._end = sys.maxsize  # of what is read again
        self._warned = False

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` lines, all of one file."""
        self._gaps = {}
        start = self._next
        try:
            return self._polled(limit)
        except (OSError, EOFError, zlib.error) as error:  # the last two are of damaged gzip
            self.close()
            # What was read of this poll is not given, so it is read again.
            self._next, self._gaps = start, {}
            what = getattr(error, "strerror", None) or error
            raise ConnectorError(
                f"cannot read {self._path}: {what}; name a readable file"
            ) from error

    def reread(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Read the `n` messages of `ranges` once more, of a line that was cut short no more."""
        if n and not self._segments and not self._path.exists():
            raise self._missing()
        self._end = max((end for _, end in ranges.values()), default=sys.maxsize)
        try:
            return super().reread(ranges, n)
        finally:
            self._end = sys.maxsize

    @abstractmethod
    def _is_whole(self, line: bytes) -> bool:
        """Tell whether a last line without an end could be used, and is not given again."""

    def lag(self) -> int | None:
        """Return how many bytes are left, up to the last line's end where one waits for it.

        None where the file is compressed. ConnectorError when it is missing or cannot be read.
        """
        if self._compressed:
            return None
        segment = self._segment()
        place = self._find(segment)
        if place is None:
            raise self._missing()
        try:
            left = 0
            if place != self._path and self._path.exists():
                left = self._path.stat().st_size
            if is_compressed(place):
                return left
            with open_text(place, compressed=False) as file:
                end = file.seek(0, os.SEEK_END)
                if self._follow and place == self._path:
                    end = _end_of_lines(file, self._next - segment.base, end)
        except FileNotFoundError as error:
            if self._follow and self._next == 0:
                return 0
            raise self._missing() from error
        except OSError as error:
            raise ConnectorError(
                f"cannot read {self._path}: {error.strerror}; name a readable file"
            ) from error
        return max(end + segment.base - self._next, 0) + left

    def close(self) -> None:
        """Close the file; polling opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.header = None
        self._is_placed = False

    def _move(self, offset: int) -> None:
        super()._move(offset)
        self._is_placed = False

    def _polled(self, limit: int) -> list[Message]:
        while (file := self._at_next()) is not None:
            start = self._next
            following = self._following(file)
            found = self._lines(file, limit, waits=self._follow and following is None)
            if not self._note(file):  # truncated and written again, before or meanwhile
                self.close()
                self._next = start
            elif found or following is None or limit < 1:
                return found
            else:
                self._turn_to(following)
        return []

    def _lines(self, file: BinaryIO, limit: int, *, waits: bool) -> list[Message]:
        """Read lines up to where the file ended when the next one was begun."""
        if self.has_header and self.header is None and not self._read_header(file, waits=waits):
            return []
        end = min(self._end, self._until(self._base)) - self._base
        place = self._line_start(file)
        file.seek(place)
        found: list[Message] = []
        while len(found) < limit and place < end:
            message, consumed = self._read(file, place, end - place, waits=waits)
            if message is None:
                break
            place += consumed
            self._next = self._base + place
            found.append(message)
        return found

    def _read_header(self, file: BinaryIO, *, waits: bool) -> bool:
        file.seek(0)
        line, self._first = self._read(file, 0, sys.maxsize, waits=waits)
        self.header = line
        return line is not None

    def _at_next(self) -> BinaryIO | None:
        """Return the file that the next line is in; None: there is none yet."""
        segment = self._segment()
        if self._base != segment.base:
            self.close()
        if self._file is None:
            place = self._find(segment)
            if place is None:
                self._pass_gap(segment)
                return self._at_next()
            try:
                self._open(place)
            except FileNotFoundError as error:
                if self._follow and self._next == segment.base:
                    return None
                raise self._missing() from error
        return self._file

    def _open(self, place: Path) -> None:
        """Open the file at `place` as that of the next line's segment."""
        self._unpacks = is_compressed(place) and not self._compressed
        self._file = open_text(place, compressed=self._unpacks or self._compressed)
        found = os.fstat(self._file.fileno())
        segment = self._segment()
        if not segment.known and found.st_size < self._next - segment.base and not self._compressed:
            self.close()
            raise self._changed(f"it has only {found.st_size} bytes now")
        self._base = segment.base
        self._keep(msgspec.structs.replace(segment, device=found.st_dev, inode=found.st_ino))

    def _following(self, file: BinaryIO) -> Path | None:
        """Return the file that comes after this one, as soon as it has something."""
        here = os.fstat(file.fileno())
        try:
            there = self._path.stat()
        except FileNotFoundError as error:
            if not self._follow:
                raise self._missing() from error
            if not self._warned:
                _log.warning("%s was renamed or removed: waiting for the next one", self._path)
            self._warned = True
            return None
        self._warned = False
        if os.path.samestat(here, there):
            return None
        found = next(newer_files(self._path, here), self._path)
        return found if found != self._path or there.st_size else None

    def _turn_to(self, following: Path) -> None:
        """Go on in another file: a copy of the one that was read, or the next one."""
        segment = self._segment()
        self.close()
        if not holds(following, segment, compressed=self._compressed):
            self._begin(self._next)
        self._open(following)

    def _note(self, file: BinaryIO) -> bool:
        """Note by what the file is known; False if it is not the one that was read any more."""
        if self._unpacks:
            return True
        segment, read_at = self._segment_at(self._base), reader_at(file)
        n = os.fstat(file.fileno()).st_size if self._compressed else self._next - self._base
        digest = digest_of(read_at, n) if n > segment.known else None
        if segment.known and not segment.is_in(read_at):
            return False
        if digest is not None:
            self._keep(msgspec.structs.replace(segment, known=n, digest=digest))
        return True

    def _line_start(self, file: BinaryIO) -> int:
        """Return where in the file to read on.

        That is after the end of a line that had none, or at the start of one that was continued.
        """
        place = self._next - self._base
        if place <= self._first:
            return self._first
        if self._is_placed:
            return place
        self._is_placed = True
        file.seek(place - 1)
        before, ahead = file.read(1), file.read(2)
        if not before:  # of what is compressed, no size told
            raise self._changed(f"its text has only {file.tell()} bytes now")
        if before == b"\n" or not ahead:
            return place
        if ending := 1 if ahead[:1] == b"\n" else 2 if ahead == b"\r\n" else 0:
            self._next += ending
            return place + ending
        if self._segment_at(self._base).known < place:
            raise self._changed("no line starts there (a file still being written needs `follow`)")
        start = _start_of_line(file, place)
        file.seek(start)
        given = file.read(min(place - start, self._max_bytes + 1))
        return place if start + len(given) == place and self._is_whole(given) else start

    def _read(
        self, file: BinaryIO, place: int, room: int, *, waits: bool
    ) -> tuple[Message | None, int]:
        """Read the next line: its message, or None where there is none, and its whole length."""
        line = file.readline(min(self._max_bytes + _SLACK, room))
        consumed, ending = len(line), line[-2:]
        while ending and not ending.endswith(b"\n"):
            more = file.readline(min(_CHUNK, room - consumed))
            if not more:
                if waits and consumed < room:
                    return None, 0
                self._is_placed = False  # its end may still come, and is not a line of its own
                break
            consumed, ending = consumed + len(more), (ending + more)[-2:]
        if not line:
            return None, 0
        size = consumed - (2 if ending == b"\r\n" else 1 if ending.endswith(b"\n") else 0)
        payload = line[:size]
        if place == 0 and payload.startswith(_BYTE_ORDER_MARK):
            payload, size = payload[len(_BYTE_ORDER_MARK) :], size - len(_BYTE_ORDER_MARK)
        offset = self._base + place
        return Message(payload[: self._max_bytes + 1], PARTITION, offset, size), consumed


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


def _start_of_line(file: BinaryIO, place: int) -> int:
    """Return where the line that `place` is in starts."""
    return _end_of_lines(file, 0, place)
