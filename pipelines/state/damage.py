"""Whether the log is damaged, found out before a pipeline builds on it."""

import math
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread

from streamboost.connectors.sqlite.database import Database
from streamboost.errors import StateError
from streamboost.pipelines.stop import Stop

__all__ = ["refuse_damage"]

_PATIENCE = 0.1
"""Seconds from one look whether it is time to stop to the next."""


def refuse_damage(log: Path, *, most: float = math.inf, stop: Stop | None = None) -> None:
    """Raise StateError where the structure of the SQLite file `log` is damaged.

    One larger than `most` bytes is not looked at, and looking ends when it is time to `stop`. What
    stands within its rows is not checked: there, any bytes are sound.
    """
    if not log.is_file() or log.stat().st_size > most:
        return
    found = _found(log, stop or Stop())
    if found is not None:
        raise StateError(
            f"{log} is damaged ({found}): put it back from a copy, or put there what sqlite3's "
            f"`.recover` can still read of it. To begin anew, move {log.parent} away"
        )


def _found(log: Path, stop: Stop) -> str | None:
    """Return what is damaged; SQLite itself cannot be interrupted while it looks."""
    found: Future[str | None] = Future()

    def look() -> None:
        try:
            found.set_result(Database(log).damage())
        except BaseException as error:  # it belongs to the thread that waits
            found.set_exception(error)

    Thread(target=look, name="streamboost-damage", daemon=True).start()
    while not stop.requested:
        with suppress(TimeoutError):
            return found.result(_PATIENCE)
    return None
