"""How log lines look: for people or, one JSON object a line, for programs.

Each has the sequence of the newest batch; 0 stands for before the first. A message is one line, and
what comes from outside is escaped in it.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from textwrap import indent
from typing import TextIO

from streamboost.escaping import escaped, escaped_block

__all__ = ["AsJson", "Escaping", "as_text", "begin", "stamped"]

_TEXT = "%(asctime)s %(levelname)s [%(sequence)s] %(message)s"


def begin(*, as_json: bool, called: str = "") -> "logging.StreamHandler[TextIO]":
    """Log to standard error from now on, for programs or for people, by what is returned.

    Each line of one that is `called` something, beside others, says so.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(AsJson(called) if as_json else as_text(called))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return handler


def as_text(called: str = "") -> logging.Formatter:
    """Return the form for people.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "trained", (), None)
    >>> as_text().format(record)
    '... INFO [0] trained'
    >>> as_text("scorer 2").format(record)
    'scorer 2 | ... INFO [0] trained'
    """
    return _AsText(called)


class Escaping(logging.Formatter):
    """Messages alone, each one line, what comes from outside escaped in them."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and below it the indented trace of an exception."""
        return escaped_block(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without the trace."""
        return escaped(super().formatMessage(record))


class _AsText(Escaping):
    """The form for people."""

    def __init__(self, called: str) -> None:
        super().__init__(_TEXT, defaults={"sequence": 0})
        self._called = f"{called} | " if called else ""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and below it the indented trace of an exception."""
        return indent(super().format(record), self._called, lambda line: True)


class AsJson(logging.Formatter):
    """The form for programs: `time`, `level`, `sequence`, `logger`, `message`, perhaps `trace`.

    And `worker`, for one that is `called` something.
    """

    def __init__(self, called: str = "") -> None:
        super().__init__()
        self._called = {"worker": called} if called else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "sequence": getattr(record, "sequence", 0),
            "logger": record.name,
            "message": record.getMessage(),
            **self._called,
        }
        if record.exc_info:
            line["trace"] = record.exc_text or self.formatException(record.exc_info)
        return escaped(json.dumps(line, ensure_ascii=False))


@contextmanager
def stamped(sequence: Callable[[], int]) -> Iterator[None]:
    """Give every line that the root logger's handlers write the batch it belongs to."""

    def stamp(record: logging.LogRecord) -> bool:
        record.sequence = sequence()
        return True

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(stamp)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(stamp)
