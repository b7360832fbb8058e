"""File rotation: identifies a file by its content, and finds the file after a rotation.

Consecutive files at a path are read as one text, whose offsets continue from file to file. A
`FileSegment` is one of these files. An inode alone does not identify a file: an inode is reused
after a removal, and stays the same when a file is truncated and written again.
"""

import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from streamboost.errors import ConnectorError

_DIGITS = re.compile(r"\d+")

_ADDED_WORDS = "old|bak|backup|prev|previous|orig|mon|tue|wed|thu|fri|sat|sun"
"""Words that rotation adds to file names, as a regular expression."""

_EDGE = 16_384
"""Number of first bytes, and of last bytes, of the content that a digest covers.

They include the header of a wide table.
"""

_MOST_OLDER = 100
"""Number of older files whose modification times are stored in a fingerprint."""

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}


class FileSegment(msgspec.Struct, frozen=True, array_like=True):
    """One of the successive files at a path, which are read as one text.

    Attributes
    ----------
    base : offset of the file's first byte in the whole text
    end : offset at which reading of the file ended; None while it is the newest file
    device, inode : numbers of the file's device and inode when it was opened; 0 before
    known : number of first bytes of the file that `digest` identifies; 0 before anything was read
    digest : digest of the first and the last 16 KiB of these bytes
    seen : modification time in ns of a file of which no message was read yet; 0 if not known
    older : modification times of older files when the newest file was opened; None if not known
    """

    base: int
    end: int | None = None
    device: int = 0
    inode: int = 0
    known: int = 0
    digest: str = ""
    seen: int = 0
    older: tuple[int, ...] | None = None

    def has_device_and_inode(self, file_stat: os.stat_result) -> bool:
        """Return whether a file, given its `os.stat` result, has the same device and inode."""
        return (file_stat.st_dev, file_stat.st_ino) == (self.device, self.inode)

    def matches_file(self, file: BinaryIO) -> bool:
        """Return whether `file` begins with the content that was read of this segment."""
        return self.known > 0 and _digest_of_first_bytes(file, self.known) == self.digest

    def extend_digest(self, file: BinaryIO, n_bytes: int) -> "FileSegment | None":
        """Return the segment with a digest of the first `n_bytes` bytes; None for another file."""
        digest = _digest_of_first_bytes(file, n_bytes) if n_bytes > self.known else None
        # The old digest is compared last: the new one was then taken of the same content.
        if self.known and not self.matches_file(file):
            return None
        return (
            self if digest is None else msgspec.structs.replace(self, known=n_bytes, digest=digest)
        )


def decode_segments(fingerprint: str) -> list[FileSegment]:
    """Decode a fingerprint to segments; ConnectorError if the text is not a list of segments."""
    try:
        return msgspec.json.decode(fingerprint, type=list[FileSegment])
    except msgspec.MsgspecError as error:
        raise ConnectorError(
            f"the fingerprint {fingerprint[:80]!r} is not that of a file: {error}; use the "
            "release that wrote the state"
        ) from error


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    ConnectorError for a device, a named pipe or a folder: reading one might never end.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise ConnectorError(
            f'cannot read {path}: it is {kind}, not a regular file; name a file, or "-" to read '
            "standard input"
        )
    return path.open("rb")


def find_segment_file(path: Path, segment: FileSegment) -> Path | None:
    """Return the path of a segment's file, at `path` or in its folder; None if not found.

    If `path` is a symbolic link, the folder of its target is searched, too. The original file is
    preferred to copies; among copies, those with names of rotated files, and then the longest copy.
    If nothing of the file was read, the file with the segment's inode is returned, or `path` if
    there is none.
    """
    own: list[Path] = []
    copies: list[tuple[bool, int, Path]] = []
    for named in _path_and_link_target(path):
        rotated, stem = _rotated_name_pattern(named), named.name.split(".")[0]
        for one, there in _files_in_same_folder(named):
            if segment.has_device_and_inode(there):
                own.append(one)
            if one.name.startswith(stem):
                copies.append((rotated.fullmatch(one.name) is None, -there.st_size, one))
    if not segment.known:
        return next((one for *_, one in copies if one in own), path)
    places = (*own, path, *(one for *_, one in sorted(copies)))
    return next((one for one in places if file_begins_with_segment(one, segment)), None)


def file_begins_with_segment(path: Path, segment: FileSegment) -> bool:
    """Return whether the file at `path` begins with the content that was read of `segment`."""
    try:
        with open_regular_file(path) as file:
            return segment.matches_file(file)
    except (OSError, ConnectorError):
        return False


def find_rotated_files(path: Path, since_ns: int) -> list[Path]:
    """Return the rotated files of `path` written after `since_ns`, oldest first.

    `since_ns` is in nanoseconds since the epoch. If `path` is a symbolic link, rotated files of its
    target are found, too, but not the target itself. The name of a rotated file is the name of
    `path` with a number, a date, a weekday, or a word such as "old".
    """
    current = next((there for one, there in _files_in_same_folder(path) if one == path), None)
    newer = {
        (there.st_mtime_ns, one)
        for named in _path_and_link_target(path)
        for one, there in _files_in_same_folder(named)
        if _rotated_name_pattern(named).fullmatch(one.name)
        if there.st_size and there.st_mtime_ns > since_ns
        if current is None or not os.path.samestat(there, current)
    }
    return [one for _, one in sorted(newer)]


def _path_and_link_target(path: Path) -> list[Path]:
    return [path, Path(os.path.realpath(path))] if path.is_symlink() else [path]


def _rotated_name_pattern(path: Path) -> re.Pattern[str]:
    stem, *endings = path.name.split(".")
    ending = "".join(rf"\.{re.escape(one)}" for one in endings)
    number = r"\d[\d.:_TZ+-]*"
    name, added = rf"{re.escape(stem)}({ending})?", rf"[._-]({number}|{_ADDED_WORDS})"
    return re.compile(rf"({name}{added}|{number}{name})({ending})?(\.\w+)?", re.IGNORECASE)


def find_unread_link_targets(path: Path, since_ns: int) -> list[Path]:
    """Return earlier targets of the symbolic link `path` that were never read.

    Only targets written after `since_ns` (ns since the epoch) are returned, oldest first. Their
    names differ from the name of the current target in digits only, and they were modified earlier.
    """
    if not path.is_symlink():
        return []
    target = Path(os.path.realpath(path))
    beside = _files_in_same_folder(target)
    newest = max((there.st_mtime_ns for one, there in beside if one == target), default=sys.maxsize)
    newer = [
        (there.st_mtime_ns, one)
        for one, there in beside
        if _DIGITS.sub("0", one.name) == _DIGITS.sub("0", target.name) and one != target
        if there.st_size and since_ns < there.st_mtime_ns <= newest
    ]
    return [one for _, one in sorted(newer)]


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` names a file that is read through gzip.

    >>> is_compressed("records.csv.gz"), is_compressed("records.csv")
    (True, False)
    """
    return Path(path).suffix.lower() == ".gz"


def rotated_file_mtimes(path: Path) -> tuple[int, ...]:
    """Return the mtimes (ns) of the newest 100 rotated files and earlier link targets of `path`."""
    times = {written for _, written in _rotated_files_and_targets(path)}
    return tuple(sorted(times, reverse=True)[:_MOST_OLDER])


def find_unread_files(path: Path, since_ns: int, segments: list[FileSegment]) -> list[Path]:
    """Return unread files between the file that was read and the file that is at `path` now.

    The unread files are rotated files or earlier link targets. The file that was read is that of
    the last of `segments`, modified at `since_ns`, in nanoseconds since the epoch. Unread files do
    not belong to `segments`, and were modified later. If the clock was set back, they have earlier
    times, but none of the times stored when the file was opened.
    """
    older = segments[-1].older
    first = older[-1] if older and len(older) == _MOST_OLDER else 0
    return [
        one
        for one, written in _rotated_files_and_targets(path)
        if written > since_ns
        or (
            older is not None
            and first <= written < since_ns
            and written not in older
            and not _is_original_file(one, segments)
        )
    ]


def _is_original_file(path: Path, segments: list[FileSegment]) -> bool:
    """Return whether the file at `path` is the file of one of `segments`, and no copy of it."""
    with suppress(FileNotFoundError):
        there = path.stat()
        return any(
            one.has_device_and_inode(there) and file_begins_with_segment(path, one)
            for one in segments
        )
    return False


def _rotated_files_and_targets(path: Path) -> list[tuple[Path, int]]:
    """Return each rotated file and earlier link target of `path`, with its mtime in nanoseconds."""
    found = []
    for one in dict.fromkeys([*find_rotated_files(path, 0), *find_unread_link_targets(path, 0)]):
        with suppress(FileNotFoundError):
            found.append((one, one.stat().st_mtime_ns))
    return found


def _digest_of_first_bytes(file: BinaryIO, n_bytes: int) -> str | None:
    """Return the digest of a file's first `n_bytes` bytes; None if the file has fewer."""
    size, descriptor = min(n_bytes, _EDGE), file.fileno()
    edges = os.pread(descriptor, size, 0) + os.pread(descriptor, size, n_bytes - size)
    return hashlib.blake2b(edges, digest_size=16).hexdigest() if len(edges) == 2 * size else None


def _files_in_same_folder(path: Path) -> list[tuple[Path, os.stat_result]]:
    """Return path and stat of each regular file in the folder of `path`; `path` comes first."""
    found = []
    with suppress(OSError):
        for one in sorted(os.scandir(path.parent), key=lambda one: one.name != path.name):
            with suppress(FileNotFoundError):
                if one.is_file():
                    found.append((path.parent / one.name, one.stat()))
    return found
