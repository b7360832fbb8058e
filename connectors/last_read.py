"""Bookmark of a source whose offsets count messages: the last message read, with a digest."""

import hashlib

import msgspec

from streamboost.connectors.base import SinglePartitionSource
from streamboost.errors import ConnectorError

__all__ = ["LastRead", "NumberedSource"]


class LastRead(msgspec.Struct, frozen=True, array_like=True):
    """Last message read: a replaced source has other content at its offset.

    Attributes
    ----------
    offset : offset of the message; -1 before the first
    digest : digest of its content; "" if it is not known
    """

    offset: int = -1
    digest: str = ""

    @classmethod
    def of(cls, offset: int, content: bytes) -> "LastRead":
        """Return the message at `offset`.

        >>> LastRead.of(7, b"{}").has_changed(b"{}"), LastRead.of(7, b"{}").has_changed(b"[]")
        (False, True)
        """
        return cls(offset, hashlib.blake2b(content, digest_size=16).hexdigest())

    def has_changed(self, content: bytes) -> bool:
        """Return whether the message at the offset now has other content."""
        return bool(self.digest) and self.of(self.offset, content) != self

    def encode(self) -> str:
        """Return the bookmark as text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, bookmark: str) -> "LastRead":
        """Return the bookmark from the result of `encode`; ConnectorError for other text."""
        try:
            return msgspec.json.decode(bookmark, type=cls)
        except msgspec.MsgspecError as error:
            raise ConnectorError(
                f"the bookmark {bookmark[:80]!r} is not that of a numbered source: {error}; use "
                "the release that wrote the state"
            ) from error


class NumberedSource(SinglePartitionSource):
    """Base of sources that are identified by the last message read."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._last = LastRead()

    @property
    def bookmark(self) -> str | None:
        """The offset of the last message read, with a digest; None before the first."""
        return self._last.encode() if self._last.digest else None

    def expect(self, bookmark: str) -> None:
        """Continue only if the message that `bookmark` identifies is the same, or was deleted."""
        self._last = LastRead.decode(bookmark)
