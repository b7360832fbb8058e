"""Fingerprint of a source by the last message read: its offset and a digest of its content."""

import hashlib

import msgspec

from streamboost.connectors.base import SinglePartitionSource
from streamboost.errors import ConnectorError


class LastMessageFingerprint(msgspec.Struct, frozen=True, array_like=True):
    """Offset and digest of the last message read, to detect a replaced source.

    Attributes
    ----------
    offset : offset of the message; -1 before the first
    digest : digest of its content; "" if it is not known
    """

    offset: int = -1
    digest: str = ""

    @classmethod
    def from_message(cls, offset: int, content: bytes) -> "LastMessageFingerprint":
        """Return the fingerprint of the message at `offset` with this content.

        >>> last = LastMessageFingerprint.from_message(7, b"{}")
        >>> last.has_changed(b"{}"), last.has_changed(b"[]")
        (False, True)
        """
        return cls(offset, hashlib.blake2b(content, digest_size=16).hexdigest())

    def has_changed(self, content: bytes) -> bool:
        """Return whether `content`, now at the offset, differs from the message's content."""
        return bool(self.digest) and self.from_message(self.offset, content) != self

    def encode(self) -> str:
        """Return the fingerprint as JSON text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, fingerprint: str) -> "LastMessageFingerprint":
        """Decode the result of `encode`; raise ConnectorError for other text."""
        try:
            return msgspec.json.decode(fingerprint, type=cls)
        except msgspec.MsgspecError as error:
            raise ConnectorError(
                f"the fingerprint {fingerprint[:80]!r} is not that of a numbered source: {error}; "
                "use the release that wrote the state"
            ) from error


class ReplacementDetectingSource(SinglePartitionSource):
    """Base of sources whose fingerprint is the offset and digest of the last message read."""

    def __init__(self, input_name: str) -> None:
        super().__init__(input_name)
        self._last = LastMessageFingerprint()

    @property
    def content_fingerprint(self) -> str | None:
        """The offset of the last message read, with a digest; None before the first."""
        return self._last.encode() if self._last.digest else None

    def set_expected_content(self, fingerprint: str) -> None:
        """Let polls raise an error if the message that `fingerprint` identifies was replaced."""
        self._last = LastMessageFingerprint.decode(fingerprint)
