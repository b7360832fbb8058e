"""Copying checkpoints beside the loop, which never waits for it."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Thread

from streamboost.errors import StateError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.engine.loop import Loop
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.state.copies import Copies, Copy, Folder, Remote
from streamboost.pipelines.stop import Stop

__all__ = ["Copying", "copied", "copies_of"]

_log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds that the end of a run waits for the last copy."""

HASTE = 1.5
"""The same, where somebody asked to stop; the next run copies what this one did not."""

_LOOK = 0.05


class Copying(Watcher):
    """A thread that copies the newest checkpoint, one at a time; others meanwhile are left out.

    Parameters
    ----------
    copies : where to
    read : gives what is to be copied of a batch's checkpoint; None: nothing
    tell : told what goes wrong, between two batches
    """

    def __init__(
        self, copies: Copies, read: Callable[[int], Copy], tell: Callable[[str], None]
    ) -> None:
        self._copies = copies
        self._read = read
        self._tell = tell
        self._changed = Condition()
        self._wanted: int | None = None
        self._under_way: int | None = None
        self._is_closing = False
        self._trouble = ""
        self._thread = Thread(target=self._work, name="copies", daemon=True)
        self._thread.start()

    def put(self, sequence: int) -> None:
        """Have the checkpoint of a batch copied."""
        with self._changed:
            self._wanted = sequence
            self._changed.notify()

    def between_batches(self) -> None:
        """Tell what has gone wrong since the last time."""
        with self._changed:
            trouble, self._trouble = self._trouble, ""
        if trouble:
            self._tell(trouble)

    def close(self, stop: Stop) -> None:
        """Wait for the last copy, but not for ever."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        until = time.monotonic() + PATIENCE
        while self._thread.is_alive() and time.monotonic() < until:
            if stop.requested:
                until = min(until, time.monotonic() + HASTE)
                self._thread.join(max(0.0, until - time.monotonic()))
            else:
                self._thread.join(_LOOK)
        with self._changed:
            missing = self._wanted or self._under_way
            if missing is not None:
                self._note(missing, "it takes too long to wait for; the next run copies it")
        self.between_batches()

    def _work(self) -> None:
        while (sequence := self._next()) is not None:
            try:
                self._copy(sequence)
            # It is the thread's last resort: what ends it silently ends all copies.
            except Exception as error:
                with self._changed:
                    is_late = isinstance(error, FileNotFoundError) and self._wanted is not None
                    if not is_late:  # its files made way for those of newer ones
                        self._note(sequence, str(error) or repr(error))

    def _next(self) -> int | None:
        with self._changed:
            self._under_way = None
            while self._wanted is None:
                if self._is_closing:
                    return None
                self._changed.wait()
            self._under_way, self._wanted = self._wanted, None
            return self._under_way

    def _copy(self, sequence: int) -> None:
        copy = self._read(sequence)
        newest = max(self._copies.sequences, default=0)
        if newest > sequence:
            raise StateError(
                f"there is one of batch {newest}, which another state has led to: move "
                f"{self._copies.file(newest)} away, or name another place"
            )
        self._copies.write(copy)

    def _note(self, sequence: int, why: str) -> None:
        self._trouble = (
            f"the checkpoint of batch {sequence} is not copied to {self._copies.place}: {why}"
        )


def copies_of(config: Config) -> Copies | None:
    """Return where copies are kept; None where nobody wants any.

    Raises ConfigurationError where what serves the address is not installed.
    """
    where = config.sections.pipeline.checkpoint_copy
    if where is None:
        return None
    return Copies(Remote(where) if "://" in where else Folder(config.resolve(where)), config.name)


@contextmanager
def copied(copies: Copies | None, loop: Loop) -> Iterator[None]:
    """Have the checkpoints of a recovered pipeline copied, the newest that is there at once."""
    checkpoints, versions = loop.checkpoints, loop.pipeline.versions
    if copies is None or checkpoints is None:
        yield
        return

    def read(sequence: int) -> Copy:
        path = checkpoints.path(sequence)
        copy = Copy.of(str(path), path.read_bytes(), {})
        files = {version: versions.file(version) for version in copy.manifest["versions"]}
        return Copy(
            copy.checkpoint, {n: file.read_bytes() for n, file in files.items()}, copy.manifest
        )

    def tell(trouble: str) -> None:
        _log.warning("%s", trouble)
        loop.tell(trouble)

    copying = Copying(copies, read, tell)
    for newest in checkpoints.sequences[:1]:
        copying.put(newest)
    checkpoints.on_saved = copying.put
    loop.watchers.append(copying)
    try:
        yield
    finally:
        checkpoints.on_saved = None
        copying.close(loop.stop)
