"""Standard input source: one JSON object per line, read once."""

import os
import select
from collections import deque

from streamboost.connectors.base import PARTITION, Message, SinglePartitionSource
from streamboost.errors import ConnectorError

STANDARD_INPUT = 0
_CHUNK = 64 * 1024


class StdinSource(SinglePartitionSource):
    """Reads lines from a pipe or terminal; the offset of a message is the number of its line.

    Lines cannot be read again. A seek can go back only to messages of the last poll. Before the
    first read, a seek sets the number of the first line, so that a new process can continue the
    numbers of the previous process. At most one pipe buffer (64 KiB) is read ahead, so that a
    writer blocks between polls.

    Parameters
    ----------
    max_bytes : int
        A longer line is truncated to `max_bytes` + 1 bytes; its message has the full size.
    descriptor : int
        Open file descriptor from which lines are read.

    Raises
    ------
    ConnectorError
        When a seek goes to lines that are no longer available.

    Examples
    --------
    >>> end, start = os.pipe()
    >>> _ = os.write(start, b'{"id": 1}\\n{"id": 2}\\n'); os.close(start)
    >>> source = StdinSource(descriptor=end)
    >>> [message.payload for message in source.poll(10)], source.is_open
    ([b'{"id": 1}', b'{"id": 2}'], False)
    >>> os.close(end)
    """

    def __init__(self, max_bytes: int = 1_000_000, descriptor: int = STANDARD_INPUT) -> None:
        super().__init__("standard input")
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._given: list[Message] = []
        self._ahead: deque[Message] = deque()
        self._line = bytearray()  # the incomplete line, truncated
        self._size = 0
        self._read_lines: int | None = None  # number of the next line; None before the first read
        self._is_open = True

    @property
    def is_replayable(self) -> bool:
        """False, because lines of standard input cannot be read again."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether standard input is open, so that more lines may follow."""
        return self._is_open

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` lines as messages."""
        while len(self._ahead) < limit and self._read_available_bytes():
            pass
        taken = [self._ahead.popleft() for _ in range(min(limit, len(self._ahead)))]
        if taken:
            self._given, self._next = taken, taken[-1].offset + 1
        return taken

    def _set_next_offset(self, offset: int) -> None:
        """Go back to messages of the last poll or, before the first read, number the first line."""
        if self._read_lines is None:
            super()._set_next_offset(offset)
            return
        held = [*self._given, *self._ahead]
        first = held[0].offset if held else self._read_lines
        if not first <= offset <= self._read_lines:
            raise ConnectorError(
                f"standard input cannot be read again: line {offset} should come next, and what is "
                f"left begins at line {first}; read from a file to be able to go back"
            )
        self._given, self._next = [m for m in held if m.offset < offset], offset
        self._ahead = deque(m for m in held if m.offset >= offset)

    def _read_available_bytes(self) -> bool:
        """Read available bytes without waiting; return whether there were any."""
        if not self._is_open or not select.select([self._descriptor], [], [], 0)[0]:
            return False
        if self._read_lines is None:
            self._read_lines = self._next
        chunk = os.read(self._descriptor, _CHUNK)
        if not chunk:
            self._is_open = False
            if self._size:
                self._store_line_as_message()
            return False
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._append_to_line(part)
            self._store_line_as_message()
        self._append_to_line(rest)
        return True

    def _append_to_line(self, part: bytes) -> None:
        self._line += part[: self._max_bytes + 2 - len(self._line)]
        self._size += len(part)

    def _store_line_as_message(self) -> None:
        assert self._read_lines is not None
        payload, size = bytes(self._line), self._size
        if size == len(payload) and payload.endswith(b"\r"):
            payload, size = payload[:-1], size - 1
        self._ahead.append(
            Message(payload[: self._max_bytes + 1], PARTITION, self._read_lines, size)
        )
        self._read_lines += 1
        self._line, self._size = bytearray(), 0
