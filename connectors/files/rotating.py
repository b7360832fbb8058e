"""Files at one path that take one another's place, as a source."""

import logging
import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from streamboost.connectors.base import PARTITION, SinglePartitionSource
from streamboost.connectors.files.rotation import (
    Segment,
    decode_segments,
    encode_segments,
    find_segment,
)
from streamboost.errors import ConnectorError, DeletedError

__all__ = ["RotatingSource"]

_log = logging.getLogger(__name__)

_MOST_SEGMENTS = 8
"""Files that a bookmark names: labels that were held back may lie some rotations back."""


class RotatingSource(SinglePartitionSource):
    """Knows which files were read at a path, and which offsets are in which.

    Parameters
    ----------
    path : path to a file
    on_gap : {"stop", "continue"}
        What to do where a file is gone that was not read to its end, as far as is known.
    """

    unit: ClassVar[str]
    """What offsets count."""

    _compressed = False

    def __init__(self, path: str | os.PathLike[str], on_gap: str) -> None:
        super().__init__(str(path))
        self._path = Path(path)
        self._on_gap = on_gap
        self._segments: list[Segment] = []
        self._gaps: dict[str, tuple[int, int]] = {}

    @property
    def bookmark(self) -> str | None:
        """The newest files that were read, with digests of what was read of them, as JSON."""
        return encode_segments(self._segments)

    def expect(self, bookmark: str) -> None:
        """Read on only in the files that `bookmark` names, or in those that came after them."""
        self.close()
        self._segments = decode_segments(bookmark)

    @property
    def gaps(self) -> Mapping[str, tuple[int, int]]:
        """The offsets [start, end) of what was gone and the newest poll passed over."""
        return dict(self._gaps)

    @abstractmethod
    def close(self) -> None:
        """Close the file; polling opens it again."""

    def _segment(self) -> Segment:
        """Return the segment that the next offset is in."""
        begun = [one for one in self._segments if one.base <= self._next]
        if begun:
            return begun[-1]
        if self._segments:
            raise DeletedError(
                f"{self._path}: reading should go on at {self.unit} {self._next}, which lies "
                f"before the {_MOST_SEGMENTS} newest files that are known; begin anew with an "
                "empty state"
            )
        return Segment(0, 0, 0)

    def _segment_at(self, base: int) -> Segment:
        return next(one for one in self._segments if one.base == base)

    def _until(self, base: int) -> int:
        """Return the offset at which the segment ends that begins at `base`, as far as known."""
        return min((one.base for one in self._segments if one.base > base), default=1 << 62)

    def _keep(self, segment: Segment) -> None:
        """Note a segment in the place of the one with its base."""
        others = [one for one in self._segments if one.base != segment.base]
        self._segments = sorted([*others, segment], key=lambda one: one.base)

    def _begin(self, base: int) -> None:
        """Note that another file begins at offset `base`, after the one being read."""
        before = [one for one in self._segments if one.base < base]
        self._segments = [*before, Segment(base, 0, 0)][-_MOST_SEGMENTS:]

    def _find(self, segment: Segment) -> Path | None:
        """Return where the file of a segment is: the path where only this is known of it."""
        return find_segment(self._path, segment, compressed=self._compressed)

    def _pass_gap(self, segment: Segment) -> None:
        """Go on with the file that is at the path now; DeletedError if that is not wanted."""
        error = self._changed(self._difference(segment))
        if self._on_gap != "continue":
            raise error
        # All that is known of how much there was is what was read.
        end = self._next + 1
        _log.error(
            "%s. What it held beyond that is lost; reading goes on at the beginning of the file "
            "that is there now, whose offsets begin at %d",
            str(error).split("; ")[0],
            end,
        )
        self._gaps = {PARTITION: (self._next, end)}
        self._begin(end)
        self._next = end

    def _difference(self, segment: Segment) -> str:
        """Say what is at the path in the place of a segment's file."""
        try:
            size = self._path.stat().st_size
        except OSError as error:
            return f"it is gone ({error.strerror})"
        if size < segment.known:
            return f"it has only {size} bytes now"
        return "another file has taken its place, or other content"

    def _missing(self) -> ConnectorError:
        return ConnectorError(f"there is no file {self._path}: create it, or mend the path")

    def _changed(self, how: str) -> DeletedError:
        return DeletedError(
            f"{self._path} was truncated, rotated or replaced: reading should go on at "
            f"{self.unit} {self._next}, but {how}; put the old file back, or beside it under a "
            'name that begins alike, or set [pipeline] on_gap = "continue" to go on at the '
            "beginning of the file that is there now"
        )
