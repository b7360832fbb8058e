"""Log formats: text for people, or one JSON object per line for programs.

Each line has the sequence of the newest batch, 0 before the first. A message is a single line, and
control characters of external data are escaped.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from textwrap import indent
from typing import TextIO

from streamboost.escaping import escape_block, escape_line

OTHER_EVENT = "other"
"""Event of the messages of other libraries."""

_TEXT = "%(asctime)s %(levelname)s [%(sequence)s] %(message)s"


def configure_logging(*, as_json: bool, process_name: str = "") -> "logging.StreamHandler[TextIO]":
    """Configure logging to standard error, as JSON or text; return the handler.

    If `process_name` is given, each line has this name.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(process_name) if as_json else text_formatter(process_name))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return handler


def text_formatter(prefix: str = "") -> logging.Formatter:
    """Return a formatter with time, level and batch number; `prefix` begins each line.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "trained", (), None)
    >>> text_formatter().format(record)
    '... INFO [0] trained'
    >>> text_formatter("scorer 2").format(record)
    'scorer 2 | ... INFO [0] trained'
    """
    return _TextFormatter(prefix)


class EscapingFormatter(logging.Formatter):
    """Formatter that writes a message as one line, with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the indented traceback of an exception."""
        return escape_block(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without the traceback."""
        return escape_line(super().formatMessage(record))


class _TextFormatter(EscapingFormatter):
    def __init__(self, prefix: str) -> None:
        super().__init__(_TEXT, defaults={"sequence": 0})
        self._process_name = f"{prefix} | " if prefix else ""

    def format(self, record: logging.LogRecord) -> str:
        return indent(super().format(record), self._process_name, lambda line: True)


class JsonFormatter(logging.Formatter):
    """JSON formatter: time, level, sequence, logger, event, message, and `trace` (a traceback).

    The event is a name that stays the same when the message changes.

    If `process_name` is given, it is the value of the key `worker`.
    """

    def __init__(self, process_name: str = "") -> None:
        super().__init__()
        self._process_name = {"worker": process_name} if process_name else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the log record as one line of JSON."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "sequence": getattr(record, "sequence", 0),
            "logger": record.name,
            "event": getattr(record, "event", OTHER_EVENT),
            "message": record.getMessage(),
            **self._process_name,
        }
        if record.exc_info:
            line["trace"] = record.exc_text or self.formatException(record.exc_info)
        return escape_line(json.dumps(line, ensure_ascii=False))


@contextmanager
def add_sequence_to_log(sequence: Callable[[], int]) -> Iterator[None]:
    """Context manager that adds the batch number, returned by `sequence`, to all log records.

    The log records are those of the root logger's handlers.
    """

    def add_sequence(record: logging.LogRecord) -> bool:
        record.sequence = sequence()
        return True

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(add_sequence)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(add_sequence)
