"""Status line of `streamboost run` on a terminal, refreshed twice a second."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from streamboost.escaping import escape_line
from streamboost.pipelines.status.formatting import count_text, estimate_text, number_text
from streamboost.pipelines.status.reader import StatusReader

EVERY = 0.5
"""Seconds between two refreshes."""

ERASE = "\r\x1b[K"
"""Control sequence that clears the current line of a terminal (ECMA-48, EL)."""

USUAL = 80
"""Assumed number of columns if the terminal reports none."""

NARROWEST = 20
"""Minimum number of columns, for terminals that report fewer."""


@contextmanager
def show_status_line(state: Path, handler: "logging.StreamHandler[TextIO]") -> Iterator[None]:
    """Context manager that shows a status line of a pipeline below the log lines of `handler`.

    `state` is the pipeline's state folder. A separate thread reads the status documents that the
    pipeline publishes in this run.
    """
    reader, began, over = StatusReader(state), time.time() * 1000, threading.Event()
    before = handler.formatter or logging.Formatter()

    def write_status_line(text: str) -> None:
        handler.acquire()  # keeps the status line out of a log line that is being written
        try:
            with suppress(OSError, ValueError):  # a terminal that was closed
                handler.stream.write(ERASE + text)
                handler.stream.flush()
        finally:
            handler.release()

    def refresh_until_closed() -> None:
        while not over.wait(EVERY):
            documents = reader.documents()
            if (documents.get("pipeline") or {}).get("started", 0) >= began:
                points = reader.chart_points(int(time.time() * 1000) - 10_000)
                rate = points[-1]["records_per_second"] if points else 0.0
                write_status_line(
                    _truncate(
                        escape_line(status_text(documents, rate)), _terminal_width(handler.stream)
                    )
                )
        reader.close()

    thread = threading.Thread(target=refresh_until_closed, name="streamboost-live", daemon=True)
    handler.setFormatter(_StatusLineErasingFormatter(before))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        handler.setFormatter(before)
        write_status_line("")


def status_text(documents: Mapping[str, Any], rate: float) -> str:
    """Format the status line from status documents, with `rate` records per second.

    >>> documents = {"ledger": {"records": 2310}, "learner": {"labels": 1}, "lag": {"records": 7}}
    >>> status_text(documents, 42)
    '2,310 records · 42/s · accuracy — · 1 label learned · lag 7'
    """
    found = {name: documents.get(name) or {} for name in ("evaluation", "lag", "ledger", "learner")}
    committee = (found["evaluation"].get("recent") or {}).get("committee") or {}
    lags = [lag for lag in found["lag"].values() if lag is not None]
    parts = [
        count_text(found["ledger"].get("records", 0), "record"),
        f"{number_text(round(rate, 1))}/s",
        f"accuracy {estimate_text(committee.get('accuracy'))}",
        f"{count_text(found['learner'].get('labels', 0), 'label')} learned",
        f"lag {sum(lags):,}" if lags else "lag unknown",
    ]
    state = (documents.get("pipeline") or {}).get("state", "running")
    return " · ".join(parts if state == "running" else [str(state), *parts])


class _StatusLineErasingFormatter(logging.Formatter):
    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return ERASE + self._inner.format(record)


def _terminal_width(stream: TextIO) -> int:
    try:
        return max(os.get_terminal_size(stream.fileno()).columns or USUAL, NARROWEST)
    except (OSError, ValueError):
        return USUAL


def _truncate(text: str, columns: int) -> str:
    return text if len(text) < columns else f"{text[: columns - 2]}…"
