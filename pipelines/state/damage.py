"""Integrity check of the SQLite log before a run or a verification."""

import math
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread

from streamboost.connectors.sqlite.database import Database
from streamboost.errors import StateError
from streamboost.pipelines.shutdown import StopToken

__all__ = ["refuse_damage"]

_PATIENCE = 0.1
"""Seconds between two checks for a stop request."""


def refuse_damage(log: Path, *, most: float = math.inf, stop: StopToken | None = None) -> None:
    """Raise StateError if the structure of the SQLite file `log` is damaged.

    A file larger than `most` bytes is not checked, and a `stop` request ends the check. The content
    of rows is not checked, as any bytes are valid there.
    """
    if not log.is_file() or log.stat().st_size > most:
        return
    found = _found(log, stop or StopToken())
    if found is not None:
        raise StateError(
            f"{log} is damaged ({found}): put it back from a copy, or put there what sqlite3's "
            f"`.recover` can still read of it. To start with an empty state, move {log.parent} away"
        )


def _found(log: Path, stop: StopToken) -> str | None:
    """Return a description of the damage, or None; runs in a thread, as SQLite is uninterruptible.

    Also returns None after a stop request.
    """
    found: Future[str | None] = Future()

    def look() -> None:
        try:
            found.set_result(Database(log).find_damage())
        except BaseException as error:  # raised again in the waiting thread
            found.set_exception(error)

    Thread(target=look, name="streamboost-damage", daemon=True).start()
    while not stop.requested:
        with suppress(TimeoutError):
            return found.result(_PATIENCE)
    return None
