"""Knows a file by its content, and finds the file again after a rotation.

Files that take one another's place at a path are read as one text. A `Segment` says which part of
this text is which file. A file is known by its device, its inode, and a digest of what was read of
it: an inode alone is reused, and stays the same when a file is truncated and written again.
"""

import gzip
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from streamboost.errors import ConnectorError

__all__ = [
    "Segment",
    "decode_segments",
    "digest_of",
    "encode_segments",
    "find_segment",
    "holds",
    "is_compressed",
    "newer_files",
    "open_regular",
    "open_text",
    "reader_at",
]

_EDGE = 4096
"""Bytes that a digest covers, at the beginning and at the end of what was read."""

_ROTATED = re.compile(r"[.-](?P<suffix>\d[\d.:_T-]*)(?=\.|$)")
"""The suffix of a rotated file: a number, or a date, in front of other extensions or behind."""

_MOST_DIGITS = 4
"""Of a number that counts rotations; a longer one is a date or a time."""

ReadAt = Callable[[int, int], bytes]
"""Gives the bytes [start, end) of a file."""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """One of the files that are read one after the other.

    Attributes
    ----------
    base : offset, among all that is read, of the file's first byte (or row)
    device, inode : of the file, when it was opened
    known : bytes of the file that `digest` speaks for; 0: the file is not known by its content
    digest : digest of the first and the last of these bytes
    """

    base: int
    device: int
    inode: int
    known: int = 0
    digest: str = ""

    def is_file(self, found: os.stat_result) -> bool:
        """Return whether device and inode are those of the segment."""
        return (found.st_dev, found.st_ino) == (self.device, self.inode)

    def is_in(self, read_at: ReadAt) -> bool:
        """Return whether the content is that which was read, as far as it was read."""
        return self.known > 0 and digest_of(read_at, self.known) == self.digest


def encode_segments(segments: list[Segment]) -> str | None:
    """Return segments as JSON, or None where there are none."""
    return msgspec.json.encode(segments).decode() if segments else None


def decode_segments(bookmark: str) -> list[Segment]:
    """Read what `encode_segments` wrote; ConnectorError if it is something else."""
    try:
        return msgspec.json.decode(bookmark, type=list[Segment])
    except msgspec.MsgspecError as error:
        raise ConnectorError(
            f"the bookmark {bookmark[:80]!r} is not that of a file: {error}; use the release that "
            "wrote the state"
        ) from error


def digest_of(read_at: ReadAt, n: int) -> str | None:
    """Return the digest of the first and last bytes among the first `n`; None: there are fewer."""
    head, tail = read_at(0, min(n, _EDGE)), read_at(max(n - _EDGE, 0), n)
    if len(head) + len(tail) < 2 * min(n, _EDGE):
        return None
    return hashlib.blake2b(head + tail, digest_size=16).hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; ConnectorError for a device, a pipe or a folder."""
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise ConnectorError(
                f"cannot read {path}: it is {_kind(mode)}, not a regular file; name a file, or "
                '"-" to read standard input'
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_text(path: Path, *, compressed: bool) -> BinaryIO:
    """Open a regular file, through gzip if it is `compressed`."""
    file = open_regular(path)
    if not compressed:
        return file
    return cast(BinaryIO, _Unpacked(file))


def reader_at(file: BinaryIO) -> ReadAt:
    """Return what gives bytes of the file as it lies on the disk, without moving `file`."""
    descriptor = file.fileno()
    return lambda start, end: os.pread(descriptor, end - start, start)


def find_segment(path: Path, segment: Segment, *, compressed: bool) -> Path | None:
    """Return where the file of a segment is now: at `path` or in its folder; None: nowhere.

    The file itself is preferred to a copy. A copy beside `path` has the same beginning of its name.
    """
    others = [one for one in _files_beside(path) if one.name != path.name]
    own = [Path(one.path) for one in others if one.inode() == segment.inode]
    own = [one for one in (path, *own) if _is_file(one, segment)]
    if not segment.known:
        return own[0] if own else path
    stem = path.name.split(".")[0]
    copies = [Path(one.path) for one in others if one.name.startswith(stem)]
    places = [*own, path, *sorted(copies, key=_age)]
    return next((one for one in places if holds(one, segment, compressed=compressed)), None)


def holds(path: Path, segment: Segment, *, compressed: bool) -> bool:
    """Return whether the file at `path` begins with what was read of `segment`."""
    unpacks = is_compressed(path) and not compressed
    try:
        with closing(open_text(path, compressed=unpacks)) as file:
            return segment.is_in(_unpacked_at(file) if unpacks else reader_at(file))
    except (OSError, EOFError, zlib.error, ConnectorError):
        return False


def newer_files(path: Path, current: os.stat_result) -> Iterator[Path]:
    """Give the files that were rotated away from `path` after the `current` one, oldest first.

    Their names say which are newer. If the current file was removed, the times say so of those
    that were changed after it.
    """
    rotated = []
    for one in _files_beside(path):
        if (key := _rotation(path, one.name)) is not None:
            with suppress(FileNotFoundError):
                rotated.append((key, Path(one.path), one.stat()))
    own = [key for key, _, found in rotated if os.path.samestat(found, current)]
    for key, place, found in sorted(rotated, key=lambda one: one[:2]):
        is_newer = key > own[0] if own else found.st_mtime_ns > current.st_mtime_ns
        if is_newer and found.st_size:
            yield place


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Tell whether `path` names a file that is read through gzip.

    >>> is_compressed("records.csv.gz"), is_compressed("records.csv")
    (True, False)
    """
    return Path(path).suffix.lower() == ".gz"


class _Unpacked(gzip.GzipFile):
    """Reads a compressed file, which is closed with it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._packed = file

    def close(self) -> None:
        super().close()
        self._packed.close()


def _rotation(path: Path, name: str) -> tuple[int, list[int]] | None:
    """Return what orders rotated files of `path` from old to new; None: `name` is none of them."""
    parts = path.name.split(".", 1)
    for start in (path.name, parts[0]):
        match = _ROTATED.match(name, len(start)) if name.startswith(start) else None
        if match is None:
            continue
        rest = name[match.end() :]
        endings = {"", ".gz"} if start == path.name else {f".{end}" for end in parts[1:]}
        endings |= {f"{end}.gz" for end in endings}
        if rest not in endings:
            continue
        numbers = [int(number) for number in re.findall(r"\d+", match["suffix"])]
        is_count = len(numbers) == 1 and len(match["suffix"]) <= _MOST_DIGITS
        return (1, [-numbers[0]]) if is_count else (0, numbers)
    return None


def _files_beside(path: Path) -> list["os.DirEntry[str]"]:
    """Return the regular files in the folder of `path`."""
    with suppress(OSError), os.scandir(path.parent) as found:
        return [one for one in found if one.is_file()]
    return []


def _age(path: Path) -> int:
    """Return what orders files from the one changed last."""
    with suppress(OSError):
        return -path.stat().st_mtime_ns
    return 0


def _is_file(path: Path, segment: Segment) -> bool:
    with suppress(OSError):
        return segment.is_file(path.stat())
    return False


def _unpacked_at(file: BinaryIO) -> ReadAt:
    def read_at(start: int, end: int) -> bytes:
        file.seek(start)
        return file.read(end - start)

    return read_at


def _kind(mode: int) -> str:
    kinds = {
        stat.S_ISDIR: "a folder",
        stat.S_ISFIFO: "a named pipe",
        stat.S_ISCHR: "a device",
        stat.S_ISBLK: "a device",
        stat.S_ISSOCK: "a socket",
    }
    return next((kind for is_one, kind in kinds.items() if is_one(mode)), "something else")
