"""Bookmark of a source whose offsets count messages: the last message read, with a digest."""

import hashlib

import msgspec

from streamboost.connectors.base import SinglePartitionSource
from streamboost.errors import ConnectorError

__all__ = ["LastRead", "LastReadSource"]


class LastRead(msgspec.Struct, frozen=True, array_like=True):
    """Offset and digest of the last message read, to detect a replaced source.

    Attributes
    ----------
    offset : offset of the message; -1 before the first
    digest : digest of its content; "" if it is not known
    """

    offset: int = -1
    digest: str = ""

    @classmethod
    def from_message(cls, offset: int, content: bytes) -> "LastRead":
        """Return the bookmark of the message at `offset` with this content.

        >>> last = LastRead.from_message(7, b"{}")
        >>> last.has_changed(b"{}"), last.has_changed(b"[]")
        (False, True)
        """
        return cls(offset, hashlib.blake2b(content, digest_size=16).hexdigest())

    def has_changed(self, content: bytes) -> bool:
        """Return whether `content`, now at the offset, differs from the content of the bookmark."""
        return bool(self.digest) and self.from_message(self.offset, content) != self

    def encode(self) -> str:
        """Return the bookmark as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, bookmark: str) -> "LastRead":
        """Decode the result of `encode`; raise ConnectorError for other text."""
        try:
            return msgspec.json.decode(bookmark, type=cls)
        except msgspec.MsgspecError as error:
            raise ConnectorError(
                f"the bookmark {bookmark[:80]!r} is not that of a numbered source: {error}; use "
                "the release that wrote the state"
            ) from error


class LastReadSource(SinglePartitionSource):
    """Base of sources whose bookmark is the offset and digest of the last message read."""

    def __init__(self, input_name: str) -> None:
        super().__init__(input_name)
        self._last = LastRead()

    @property
    def bookmark(self) -> str | None:
        """The offset of the last message read, with a digest; None before the first."""
        return self._last.encode() if self._last.digest else None

    def set_expected_content(self, bookmark: str) -> None:
        """Let polls fail if the message that `bookmark` identifies was replaced by another one."""
        self._last = LastRead.decode(bookmark)
