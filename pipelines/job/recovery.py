"""Copies checkpoints, and rebuilds a lost state folder.

In Kafka the journal outlives the folder, and contains the schema and configuration of its start.
A replay of the journal, from its start or from a copy, ends with the newest batch. With SQLite
the journal was in the folder: the pipeline continues from the newest copy.

The initial committee is kept in the state, because a replay starts with the same committee.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TYPE_CHECKING

from streamboost.connectors.base import Committed, Transaction
from streamboost.connectors.files.rotation import open_regular
from streamboost.connectors.sqlite.database import Database, append
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import (
    ConfigurationError,
    ConnectorError,
    GapError,
    ModelFileError,
    StateError,
)
from streamboost.pipelines.config.binding import refuse_another
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.endpoints.base import Endpoint
from streamboost.pipelines.engine.loop import Loop
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.state import commands
from streamboost.pipelines.state.copies import Copies, Copy, Folder, Remote
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from streamboost.pipelines.stop import Stop
from streamboost.storage import unseal, write_bytes

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = [
    "Beginning",
    "Copying",
    "begun_with",
    "copied",
    "copies_of",
    "keep_beginning",
    "rebuild",
    "refuse_lost",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """A committee trained beforehand, and the SHA-256 of its file."""

    committee: "Committee"
    digest: str


def begun_with(config: Config, state: State) -> Beginning | None:
    """Return what the pipeline began with, or is to begin with; None: with nothing.

    Raises ConfigurationError where that cannot be read.
    """
    blob = _blob(config, state)
    if blob is None:
        return None
    from streamboost.boosting.committee import Committee  # which loads the kernels

    where = f"[bootstrap] committee = {config.sections.bootstrap.committee!r}"
    try:
        arrays, _ = unseal(where, blob, kind="committee")
        committee = Committee.from_arrays(arrays)
    except ModelFileError as error:
        raise ConfigurationError(
            f"{where} is no committee that `committee_.save` wrote: {error}"
        ) from error
    return Beginning(committee, hashlib.sha256(blob).hexdigest())


def keep_beginning(config: Config, state: State, *, begun: bool) -> None:
    """Keep in `state` what a pipeline is to begin with; what it has `begun` with stays."""
    named = config.sections.bootstrap.committee
    if named is None:
        return
    if not (begun and state.committee.exists()):
        blob = _file(config, named)
        with state.told():
            write_bytes(state.committee, blob)
        return
    file = config.resolve(named)
    if file.is_file() and file.read_bytes() != state.committee.read_bytes():
        _log.warning("%s is another committee now than what the pipeline began with", file)


def _blob(config: Config, state: State) -> bytes | None:
    named = config.sections.bootstrap.committee
    if named is None:
        return None
    with state.told():
        if state.committee.exists():
            return state.committee.read_bytes()
    return _file(config, named)


def _file(config: Config, named: str) -> bytes:
    try:
        with open_regular(config.resolve(named)) as file:
            return file.read()
    except (OSError, ConnectorError) as error:
        raise ConfigurationError(
            f"[bootstrap] committee = {named!r} cannot be read: {error}; paths are seen from the "
            "folder of the pipeline file"
        ) from error


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


def refuse_lost(config: Config, committed: Committed | None, copies: Copies | None) -> None:
    """Raise StateError where a pipeline would begin though a copy says that it has before."""
    if committed is not None or copies is None or not (known := copies.sequences):
        return
    mend = "if the state folder is lost, go on from there by `streamboost run --rebuild`"
    if config.commits_to_kafka:
        mend = "if the journal's topic was deleted, nothing can go on from there"
    raise StateError(
        f"no batch is committed, but {copies.place} holds a copy of {config.name}'s checkpoint of "
        f"batch {known[0]}: {mend}; to begin anew, move {copies.file(known[0])} and its like away"
    )


def rebuild(
    config: Config,
    state: State,
    transaction: Transaction,
    committed: Committed | None,
    copies: Copies | None,
) -> Committed:
    """Fill an empty state folder, and return from where the sources go on.

    Raises
    ------
    GapError
        When the journal's beginning is gone, and there is no copy.
    StateError
        When the folder is not empty, there is nothing to make it from, or another configuration
        than the file's has led to that.
    """
    if state.is_made:
        raise StateError(
            f"{state.path} is not empty, and --rebuild fills an empty state folder: run without "
            "it, or move the folder away first"
        )
    copy = copies.newest() if copies is not None else None
    if isinstance(transaction, SqliteTransaction):
        committed = _as_copied(config, copy, copies)
        origin = _checked(config, state, copy.manifest["origin"] if copy else {})
        transaction.begin_after(committed)
    else:
        if committed is None:
            raise StateError(
                f"the journal of {config.name} is empty, so there is nothing to make again: begin "
                "anew, without --rebuild"
            )
        begun = _begun(transaction) if copy is None else _continued(copy, transaction, committed)
        origin = _checked(config, state, begun)
    state.fill(origin, copy)
    _begin_commands(state, committed)
    made = "the journal"
    if copy is not None and copies is not None:
        copies.set_aside_after(copy.sequence)  # damaged, or of another release
        made = f"the copy of batch {copy.sequence} in {copies.place}"
    _log.warning("%s is made again from %s. Lost: %s", state.path, made, _gone(config, copy))
    left = {k: v for k, v in committed.positions.items() if k not in _lost(config)}
    return Committed(committed.sequence, left)


def _checked(config: Config, state: State, origin: dict[str, str]) -> dict[str, str]:
    """Return `origin`; StateError where another configuration than this had led to it."""
    refuse_another(config, state, origin["fingerprint"], origin["configuration"])
    return origin


def _as_copied(config: Config, copy: Copy | None, copies: Copies | None) -> Committed:
    """Return what was committed at the time of the copy."""
    if copy is None:
        which = f"{copies.place} holds none" if copies else "[pipeline] checkpoint_copy names none"
        if copies is None and config.sections.pipeline.checkpoint_copy is not None:
            which = (
                "those at [pipeline] checkpoint_copy hold River's models as pickles, which are "
                "read nowhere but where they were written: begin anew, without --rebuild"
            )
        raise StateError(
            f"there is nothing to make the state of {config.name} from: its journal was in the "
            "state folder itself, and of a copy, which would have kept what was learned and the "
            f"place to read on from, {which}"
        )
    left = {k: v for k, v in copy.manifest["positions"].items() if k not in _lost(config)}
    return Committed(copy.sequence, left)


def _begun(transaction: Transaction) -> dict[str, str]:
    """Return in what the journal begins."""
    first, message = next(transaction.journal(), (0, b""))
    if first > 1:
        raise GapError(
            f"the journal begins with batch {first}, so that what came before cannot be "
            "replayed: name the place of a copy as [pipeline] checkpoint_copy"
        )
    origin = JournalEntry.decode(message).origin
    assert origin is not None, "the first entry has what a state folder is made again from"
    return origin


def _continued(copy: Copy, transaction: Transaction, committed: Committed) -> dict[str, str]:
    """Return in what a copy was made; StateError where the journal does not go on from it."""
    sequence = copy.sequence
    found = next(iter(transaction.journal(sequence - 1)), None)
    is_gone = found is not None and found[0] > sequence
    digest = JournalEntry.decode(found[1]).digest if found is not None and not is_gone else ""
    if sequence > committed.sequence or (not is_gone and digest != copy.manifest["digest"]):
        raise StateError(
            f"the copy of batch {sequence} does not belong to this journal, which ends with batch "
            f"{committed.sequence}: name the place of its own as [pipeline] checkpoint_copy, or "
            "leave that out to replay from the journal's beginning"
        )
    origin: dict[str, str] = copy.manifest["origin"]
    return origin


def _lost(config: Config) -> set[str]:
    """Return the sources that were streams of the lost log, and begin anew."""
    sections = config.sections
    asked = getattr(sections, next(iter(sections.labels.listens_to), "labels"))
    read: dict[str, Endpoint] = {"records": sections.source, "labels": asked}
    return {name for name, section in read.items() if _is_in_log(config, section)}


def _begin_commands(state: State, committed: Committed) -> None:
    """Have the queue of commands go on at the offset at which they are read."""
    read = committed.positions.get("commands", {}).get("0", 0)
    with closing(Database(state.path / commands.FILE)) as queue, queue.writing() as connection:
        append(connection, commands.STREAM, [b""])
        connection.execute(f'DELETE FROM "{commands.STREAM}"')
        last = (read - 1, commands.STREAM)
        connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", last)


def _is_in_log(config: Config, section: Endpoint) -> bool:
    place = section.place(config.surroundings)
    return place is not None and place.whole == os.path.realpath(config.surroundings.log)


def _gone(config: Config, copy: Copy | None) -> str:
    """Say what nobody can make again."""
    lost = (
        "commands that waited, the history in status.db, who labelled what (labelling.db), Label "
        "Studio's tasks (label_studio.db) and the tokens"
    )
    if copy is not None and not config.commits_to_kafka:
        again = sorted({"records", "labels"} - _lost(config))
        lost += (
            ", the streams of log.db, and what was predicted, asked for and learned after batch "
            f"{copy.sequence}: {' and '.join(again) or 'nothing'} after it are read again, and "
            "labels asked for since are not counted in the budget"
        )
    return lost
