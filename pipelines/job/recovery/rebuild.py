"""Making a lost state folder again: from a copy of a checkpoint, and the journal where it is left.

In Kafka the journal outlives the folder, and says in which schema and configuration it begins: a
replay of it, from its beginning or from a copy, ends where the newest batch had. With SQLite the
journal was in the folder, so that a copy is all there is: the pipeline goes on as it was then.
"""

import logging
import os
from contextlib import closing

from streamboost.connectors.base import Committed, Transaction
from streamboost.connectors.sqlite.database import Database, append
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import GapError, StateError
from streamboost.pipelines.config.binding import refuse_another
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.endpoints.base import Endpoint
from streamboost.pipelines.state import commands
from streamboost.pipelines.state.copies import Copies, Copy
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry

__all__ = ["rebuild", "refuse_lost"]

_log = logging.getLogger(__name__)


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
