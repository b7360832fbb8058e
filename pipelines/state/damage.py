"""Integrity check of the SQLite log before a run or a verification."""

import math
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread

from streamboost.connectors.sqlite.database import Database
from streamboost.errors import StateError
from streamboost.pipelines.shutdown import StopToken

_PATIENCE = 0.1
"""Seconds between two checks for a stop request."""


def refuse_damaged_log(
    log: Path, *, max_bytes: float = math.inf, stop: StopToken | None = None
) -> None:
    """Raise StateError if the structure of the SQLite file `log` is damaged.

    A file larger than `max_bytes` is not checked, and a `stop` request ends the check. The content
    of rows is not checked, as any bytes are valid there.
    """
    if not log.is_file() or log.stat().st_size > max_bytes:
        return
    found = _find_damage_in_log(log, stop or StopToken())
    if found is not None:
        raise StateError(
            f"{log} is damaged ({found}): put it back from a copy, or recover its rows into a new "
            f"file with sqlite3's `.recover`. To start with an empty state, move {log.parent} away"
        )


def _find_damage_in_log(log: Path, stop: StopToken) -> str | None:
    """Return a text about the damage in the SQLite file; None: no damage, or a stop request.

    The check runs in a thread, because SQLite cannot be interrupted by a stop request.
    """
    found: Future[str | None] = Future()

    def find_damage_in_thread() -> None:
        try:
            found.set_result(Database(log).find_damage())
        except BaseException as error:  # raised again in the waiting thread
            found.set_exception(error)

    Thread(target=find_damage_in_thread, name="streamboost-damage", daemon=True).start()
    while not stop.requested:
        with suppress(TimeoutError):
            return found.result(_PATIENCE)
    return None
