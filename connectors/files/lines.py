"""Base of text file sources: reads lines, follows rotations, detects replaced files."""

import gzip
import logging
import os
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from streamboost.connectors.base import PARTITION, Message, SinglePartitionSource
from streamboost.connectors.files.rotation import (
    FileSegment,
    decode_segments,
    file_begins_with_segment,
    find_rotated_files,
    find_segment_file,
    find_unread_files,
    is_compressed,
    open_regular_file,
    rotated_file_mtimes,
)
from streamboost.errors import ConfigurationError, ConnectorError, DeletedError

_log = logging.getLogger(__name__)

_CHUNK = 64 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SLACK = 1 + len(_BYTE_ORDER_MARK) + len(b"\r\n")
"""Bytes read beyond `max_bytes`, for line breaks and a byte order mark around a line that fits."""

_MOST_SEGMENTS = 8
"""Maximum number of files in a fingerprint. It is more than one, as reading may be some rotations
behind."""


class LineSource(SinglePartitionSource):
    """Base of the sources that read a file line by line; see `JsonLinesSource`.

    The successive files at the path are read as one text; each of them is a `FileSegment`. The
    fingerprint is the list of segments as JSON.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_bytes: int = 1_000_000,
        follow: bool = False,
        *,
        on_data_loss: str = "fail",
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
        self._on_data_loss = on_data_loss
        self._segments: list[FileSegment] = []
        self._gaps: dict[str, tuple[int, int]] = {}
        self._file: BinaryIO | None = None
        self._base = 0  # of the segment whose file is open
        self._first: int | None = None  # first byte after its header; None: not known yet
        self._line = -1  # index of a byte at which one of its lines starts
        self._end = sys.maxsize  # end offset of a replay
        self._is_waiting = False
        self._is_newest = True  # no other file follows the open one

    @property
    def content_fingerprint(self) -> str | None:
        """The segments of the text (`FileSegment`) as JSON; None before the first read."""
        return msgspec.json.encode(self._segments).decode() if self._segments else None

    def set_expected_content(self, fingerprint: str) -> None:
        """Read only the files that `fingerprint` identifies, and later files."""
        self._segments = decode_segments(fingerprint)

    @property
    def skipped_ranges(self) -> Mapping[str, tuple[int, int]]:
        """Offsets [start, end) of lost content that the last poll skipped, keyed by partition.

        The length of the lost content is unknown: each gap counts as one byte.
        """
        return dict(self._gaps)

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` lines as messages, all from one file."""
        self._gaps, start = {}, self._next
        if limit < 1:
            return []
        try:
            return self._poll_lines(limit)
        except BaseException as error:
            # The lines of a failed poll are not returned, so they are read again.
            self._next, self._gaps = start, {}
            if isinstance(error, (OSError, EOFError, zlib.error)):  # the last two: damaged gzip
                self.close()
                raise self._unreadable_file_error(error) from error
            raise

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Return the `n` messages of `ranges` again, and read nothing beyond the ranges."""
        if n and not self._segments and not self._path.exists():
            raise self._missing_file_error()
        self._end = max((end for _, end in ranges.values()), default=sys.maxsize)
        try:
            return super().read_range(ranges, n)
        finally:
            self._end = sys.maxsize

    def lag(self) -> int | None:
        """Return the number of unread bytes; with `follow`, up to the last complete line.

        None for a compressed file. Raises ConnectorError if the file is missing or unreadable.
        """
        if self._compressed:
            return None
        segment = self._segment_of_next_offset()
        place, start, left = find_segment_file(self._path, segment), self._next - segment.base, 0
        try:
            if place != self._path:
                left = 0 if place is None else self._count_unread_bytes(place, start)
                start = 0
            return left + self._count_unread_bytes(self._path, start)
        except FileNotFoundError as error:
            if self._follow and place is not None and (left or start == 0):
                return left
            raise self._missing_file_error() from error
        except OSError as error:
            raise self._unreadable_file_error(error) from error

    def _count_unread_bytes(self, path: Path, start: int) -> int:
        with open_regular_file(path) as file:
            end = file.seek(0, os.SEEK_END)
            if self._follow and path == self._path:
                end = _find_last_line_end(file, start, end)
        return max(end - start, 0)

    def close(self) -> None:
        """Close the file; polling opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_header(self, file: BinaryIO) -> int | None:
        """Read the header of a file; return its length in bytes, or None if it is incomplete."""
        return 0

    def _poll_lines(self, limit: int) -> list[Message]:
        while (file := self._open_next_file()) is not None:
            start, following = self._next, self._find_newer_file(file)
            self._is_newest, modified = following is None, os.fstat(file.fileno()).st_mtime_ns
            found = self._read_lines(
                file, limit, skip_incomplete=self._follow and following is None
            )
            if not self._verify_content(file):  # truncated and written again, before or meanwhile
                self.close()
                self._next = start
            elif copy := self._find_unread_copy(file, modified):
                self._next = start
                if is_compressed(copy) == self._compressed:
                    self._open_segment_file(
                        copy, msgspec.structs.replace(self._current_segment(), known=0, digest="")
                    )
                else:
                    self._skip_lost_content(
                        f"{copy.name} in its folder was copied of it and is compressed"
                    )
            elif found or following is None or self._next >= self._end:
                return found
            else:
                self._switch_to_next_file(file, following)
        return []

    def _find_unread_copy(self, file: BinaryIO, mtime_ns: int) -> Path | None:
        """Return the copy of a file that logrotate copied and truncated before the file was read.

        Returns None if there is no such copy. `mtime_ns` is the modification time of the open file.
        A rotated file is a copy if it was modified later than the time stored before any read.
        """
        segment = self._current_segment()
        seen = mtime_ns if self._next == self._base else 0
        if segment.seen == seen:
            return None
        self._replace_segment(msgspec.structs.replace(segment, seen=seen))
        if segment.seen:  # written to, and perhaps truncated, since
            others = [one for one in self._segments if one.base != segment.base]
            with suppress(FileNotFoundError):  # the file was renamed, and so not truncated
                if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                    copies = find_rotated_files(self._path, segment.seen)
                    return next(
                        (one for one in copies if not _is_file_of_segments(one, others)), None
                    )
        return None

    def _open_next_file(self) -> BinaryIO | None:
        segment = self._segment_of_next_offset()
        if self._file is not None and self._base != segment.base:
            self.close()
        if self._file is not None:
            return self._file
        place = find_segment_file(self._path, segment)
        if place is None and not self._path.exists():
            raise self._missing_file_error()
        if place is None:
            self._skip_lost_content(self._describe_file_difference(segment))
            return self._open_next_file()
        try:
            return self._open_segment_file(place, segment)
        except FileNotFoundError as error:
            if self._follow and self._next == segment.base:
                if not self._is_waiting:
                    _log.warning(
                        "%s is not there yet: waiting for the file",
                        self._path,
                        extra={"event": "file_missing"},
                    )
                self._is_waiting = True
                return None
            raise self._missing_file_error() from error

    def _open_segment_file(self, path: Path, segment: FileSegment) -> BinaryIO:
        """Open and return the file at `path`; store its device and inode in `segment`."""
        self.close()
        file = open_regular_file(path)
        if self._compressed:
            file.close()
            file = cast(BinaryIO, gzip.open(path, "rb"))  # noqa: SIM115 - it stays open
        older = rotated_file_mtimes(self._path) if segment.older is None else segment.older
        found = os.fstat(file.fileno())
        if not (segment.known or self._compressed) and found.st_size < self._next - segment.base:
            file.close()
            raise self._replaced_file_error(f"it has only {found.st_size} bytes now")
        self._file, self._base, self._first, self._line = file, segment.base, None, -1
        self._replace_segment(
            msgspec.structs.replace(segment, device=found.st_dev, inode=found.st_ino, older=older)
        )
        return file

    def _find_newer_file(self, open_file: BinaryIO) -> Path | None:
        """Return the source's path if it has a nonempty file newer than `open_file`, else None."""
        if self._current_segment().end is not None:
            return self._path
        try:
            there = self._path.stat()
        except FileNotFoundError as error:
            if not self._follow:
                raise self._missing_file_error() from error
            if not self._is_waiting:
                _log.warning(
                    "%s was renamed or removed: waiting for the next file",
                    self._path,
                    extra={"event": "file_rotated"},
                )
            self._is_waiting = True
            return None
        self._is_waiting = False
        is_other = not os.path.samestat(os.fstat(open_file.fileno()), there)
        return self._path if is_other and there.st_size else None

    def _switch_to_next_file(self, file: BinaryIO, newer_path: Path) -> None:
        """Continue after the end of `file`: with a longer copy of it, else with the next file."""
        segment = self._current_segment()
        after = [one.base for one in self._segments if one.base > segment.base]
        if after:
            if after[0] > self._next:
                self._gaps = {PARTITION: (self._next, after[0])}
            self._next = after[0]
        elif file_begins_with_segment(newer_path, segment):
            self._open_segment_file(newer_path, segment)
        elif self._end < sys.maxsize:
            raise self._replaced_file_error("the file ends there")
        elif lost := {  # by name: a file and a link to it are one
            one.name: None
            for one in find_unread_files(
                self._path, os.fstat(file.fileno()).st_mtime_ns, self._segments
            )
        }:
            self._skip_lost_content(
                f"{', '.join(lost)} in its folder came between the file that was read and the one "
                "that is there now"
            )
        else:
            self._begin_next_segment(self._next)

    def _verify_content(self, file: BinaryIO) -> bool:
        """Return whether the content read so far is unchanged; if so, extend its digest."""
        segment = self._current_segment()
        size = os.fstat(file.fileno()).st_size
        known = segment.extend_digest(file, size if self._compressed else self._next - self._base)
        if known is not None:
            self._replace_segment(known)
        return known is not None

    def _segment_of_next_offset(self) -> FileSegment:
        """Return the segment that contains the next offset; DeletedError if it is not known."""
        begun = [one for one in self._segments if one.base <= self._next]
        if not begun and self._segments:
            raise DeletedError(
                f"{self._path}: reading should continue at byte {self._next}, which lies before "
                f"the {_MOST_SEGMENTS} newest files that are known; start with an empty state"
            )
        return begun[-1] if begun else FileSegment(0)

    def _current_segment(self) -> FileSegment:
        return next(one for one in self._segments if one.base == self._base)

    def _replace_segment(self, segment: FileSegment) -> None:
        others = [one for one in self._segments if one.base != segment.base]
        self._segments = sorted([*others, segment], key=lambda one: one.base)

    def _begin_next_segment(self, base_offset: int) -> None:
        """End the current segment, and begin the next segment at offset `base_offset`."""
        self.close()
        before = [one for one in self._segments if one.base < base_offset]
        if before:
            before[-1] = msgspec.structs.replace(before[-1], end=self._next, older=())
        self._segments = [*before, FileSegment(base_offset)][-_MOST_SEGMENTS:]
        self._next = base_offset

    def _skip_lost_content(self, reason: str) -> None:
        """Skip the lost content of a removed file, and continue with the file at the path.

        Raises DeletedError with the text `reason` if `on_data_loss` is "fail", or in a replay.
        """
        error = self._replaced_file_error(reason)
        if self._on_data_loss != "continue" or self._end < sys.maxsize:
            raise error
        start = self._next
        self._begin_next_segment(start + 1)
        self._gaps = {PARTITION: (start, self._next)}
        _log.error(
            "%s. What was not read of it is lost; reading continues at the beginning of the file "
            "that is there now, as byte %d",
            str(error).split("; ")[0],
            self._next,
            extra={"event": "file_replaced"},
        )

    def _describe_file_difference(self, segment: FileSegment) -> str:
        size = self._path.stat().st_size
        if size < segment.known:
            return f"it has only {size} bytes now"
        return "another file has taken its place, or other content"

    def _missing_file_error(self) -> ConnectorError:
        return ConnectorError(f"there is no file {self._path}: create it, or correct the path")

    def _unreadable_file_error(self, error: Exception) -> ConnectorError:
        what = getattr(error, "strerror", None) or error
        return ConnectorError(f"cannot read {self._path}: {what}; name a readable file")

    def _replaced_file_error(self, reason: str) -> DeletedError:
        return DeletedError(
            f"{self._path} was truncated, rotated or replaced: reading should continue at byte "
            f"{self._next}, but {reason}; put the old file back, at the path or in its folder, "
            "with what was rotated since appended to it and moved to another folder; or set "
            '[pipeline] on_data_loss = "continue" to read the file that is there now from its '
            "beginning"
        )

    def _read_lines(self, file: BinaryIO, limit: int, *, skip_incomplete: bool) -> list[Message]:
        """Return at most `limit` lines of `file`, up to the end of its segment or of a replay."""
        if self._first is None or self._next == self._base:  # the digest covers no header yet
            self._first = self._read_header(file)
        end = min(self._end, self._current_segment().end or sys.maxsize) - self._base
        if self._first is None or self._next - self._base >= end:
            return []
        place = self._find_next_line_start(file)
        file.seek(place)
        found: list[Message] = []
        while len(found) < limit and place < end:
            message, consumed = self._read_message(
                file, place, end - place, skip_incomplete=skip_incomplete
            )
            if message is None:
                break
            place += consumed
            self._next = self._base + place
            found.append(message)
        return found

    def _find_next_line_start(self, file: BinaryIO) -> int:
        """Return the index of the byte at which the next line of the file starts.

        If the last line had no line break and was continued later, the start of this line is
        returned, so that the whole line is read again.
        """
        place, first = self._next - self._base, self._first or 0
        if place <= first:
            return first
        if place == self._line:
            return place
        file.seek(place - 1)
        before, ahead = file.read(1), file.read(2)
        if not before and self._current_segment().known:
            return place  # the file was truncated, which the digest detects
        if not before:  # a compressed file, whose size is not known
            raise self._replaced_file_error(f"its text has only {file.tell()} bytes now")
        if before == b"\n" or not ahead:
            return place
        if ending := 1 if ahead[:1] == b"\n" else 2 if ahead == b"\r\n" else 0:
            self._next += ending
            return place + ending
        if not self._current_segment().known:
            raise self._replaced_file_error(
                "no line starts there (a file still being written needs `follow`)"
            )
        return self._find_last_row_start(file, first, place)

    def _find_last_row_start(self, file: BinaryIO, first: int, end: int) -> int:
        """Return the index of the byte at which the last row before byte `end` starts.

        This row had no line break at `end`. The first row starts at byte `first`.
        """
        return _find_last_line_end(file, first, end)

    def _read_message(
        self, file: BinaryIO, start: int, max_length: int, *, skip_incomplete: bool
    ) -> tuple[Message | None, int]:
        """Return the message of the line at byte `start`, and the line's length with line break.

        At most `max_length` bytes are read. The message is None at the end of the file and, with
        `skip_incomplete`, for a line without a line break.
        """
        line = file.readline(min(self._max_bytes + _SLACK, max_length))
        consumed, ending = len(line), line[-2:]
        while ending and not ending.endswith(b"\n"):
            more = file.readline(min(_CHUNK, max_length - consumed))
            if not more:
                if skip_incomplete and consumed < max_length:
                    return None, 0
                break  # the rest of the line may follow later, and is not a line of its own
            consumed, ending = consumed + len(more), (ending + more)[-2:]
        if not line:
            return None, 0
        if ending.endswith(b"\n"):
            self._line = start + consumed
        size = consumed - (2 if ending == b"\r\n" else 1 if ending.endswith(b"\n") else 0)
        payload = line[:size]
        if start == 0 and payload.startswith(_BYTE_ORDER_MARK):
            payload, size = payload[len(_BYTE_ORDER_MARK) :], size - len(_BYTE_ORDER_MARK)
        offset = self._base + start
        return Message(payload[: self._max_bytes + 1], PARTITION, offset, size), consumed


def _is_file_of_segments(path: Path, segments: list[FileSegment]) -> bool:
    there = path.stat()
    return any(
        one.has_device_and_inode(there) or file_begins_with_segment(path, one) for one in segments
    )


def _find_last_line_end(file: BinaryIO, start: int, end: int) -> int:
    """Return the offset after the last line break between `start` and `end`, or `start`."""
    while end > start:
        begin = max(end - _CHUNK, start)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start
