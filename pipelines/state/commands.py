"""What an operator tells a pipeline while it runs.

A command is queued in ``commands.db`` of the state folder. It enters with the next batch, takes
effect before that batch's records are predicted, and stands in its journal entry, so that a replay
obeys it at the same place. One that cannot be obeyed is refused in the log, and enters no batch.

Whatever becomes of the queue's file, no more than commands in it is lost. The offset of a command
is the microsecond in which it was queued: where the file had to be made anew, what is queued then
comes after all that was read of the one before.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.sqlite.database import Database, append, table_exists
from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import ConfigurationError, ConnectorError

__all__ = ["KINDS", "Command", "CommandSource", "decode_commands", "queue_command"]

_log = logging.getLogger(__name__)

Kind = Literal[
    "promote", "rollback", "pause", "resume", "retrain", "merge", "unmerge", "drop", "decide"
]
KINDS: tuple[Kind, ...] = get_args(Kind)

FILE = "commands.db"
STREAM = "commands"


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """One command.

    ``promote`` lets the challenger serve now, although the labels have not decided yet.
    ``rollback`` lets the kept `version` serve, under a new number; a training under way is given
    up. ``pause`` keeps the committee that serves and starts no training; the pipeline goes on
    predicting, asking, and keeping the labels that come. ``resume`` ends that. ``retrain`` trains
    anew, as soon as no training is under way. ``merge`` makes the class `label` one with `into`,
    and ``drop`` forgets it and what was labelled so; both hold for labels to come, too. ``unmerge``
    ends the merge of `label`: labels that were given as that class are of it again. ``decide``
    has the pipeline decide by `decision` from now on (`Decisions`), until the file says something
    else of it; by an empty one, no more. With `new`, merge and decide may name a class that no
    label has had yet.
    """

    command: Kind
    version: int | None = None
    label: str | None = None
    into: str | None = None
    decision: dict[str, Any] | None = None
    new: bool = False

    def __post_init__(self) -> None:
        if (self.version is None) == (self.command == "rollback"):
            about = "without a" if self.version is None else f"with {self.version} as its"
            raise ConfigurationError(
                f"{self.command} {about} version: rollback needs the number of a kept version, and "
                "the other commands take none"
            )
        if (self.decision is None) == (self.command == "decide"):
            raise ConfigurationError(
                f"{self.command} with the decision {self.decision}: decide needs costs or "
                "thresholds, or none of them to end it, and the other commands take neither"
            )
        if self.new and self.command not in ("merge", "decide"):
            raise ConfigurationError(
                f"{self.command} with new: only merge and decide name classes that may be new"
            )
        wanted = {"merge": 2, "unmerge": 1, "drop": 1}.get(self.command, 0)
        given = [name for name in (self.label, self.into) if name is not None]
        if len(given) != wanted or (wanted and not self.label) or len({*given}) < wanted:
            told = " and ".join(map(repr, given)) or "no class"
            raise ConfigurationError(
                f"{self.command} with {told}: merge needs a class and another that it "
                "is to be, unmerge and drop need one, and the other commands take none"
            )

    @property
    def may_be_new(self) -> list[str]:
        """The classes named that may be new ones, where `new` says so: to merge into, to decide."""
        if self.decision is None:
            return [] if self.into is None else [self.into]
        costs = self.decision.get("costs") or {}
        names = [*costs, *(name for row in costs.values() for name in row)]
        return list(dict.fromkeys([*names, *(self.decision.get("threshold") or {})]))

    def __str__(self) -> str:
        decision = None if self.decision is None else msgspec.json.encode(self.decision).decode()
        new = "--new" if self.new else None
        about = (self.version, self.label, self.into, decision, new)
        return " ".join([self.command, *(str(one) for one in about if one is not None)])


_decode = msgspec.json.Decoder(Command).decode


def queue_command(state: Path, command: Command) -> None:
    """Have the pipeline whose state folder is `state` obey `command` in its next batch.

    A queue that is damaged is set aside for a new one.
    """
    path = state / FILE
    with _alone_in(state), closing(Database(path)) as database:
        if path.is_dir() or database.damage() is not None:
            aside = _set_aside(path)
            _log.warning("%s is damaged; it is set aside as %s for a new one", path, aside)
        with database.writing() as connection:
            now = time.time_ns() // 1_000
            append(connection, STREAM, [msgspec.json.encode(command)], at_least=now)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process queues into `folder`, lest one sets aside what another made."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConnectorError(
            f"no command can be queued in {folder}: {error}; see that it is a folder that can be "
            "written"
        ) from error


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    for suffix in ("-wal", "-shm", ""):
        place = path.with_name(path.name + suffix)
        if place.exists():
            place.rename(aside.with_name(aside.name + suffix))
    return aside


class CommandSource(SqliteSource):
    """The queue of a state folder, to be read; that it cannot be is said once, and stops nobody.

    Attributes
    ----------
    on_trouble : told of it, besides the log
    """

    def __init__(self, state: Path) -> None:
        super().__init__(state / FILE, STREAM)
        self.on_trouble: Callable[[str], None] = lambda trouble: None
        self._path = state / FILE
        self._has_failed = False

    def poll(self, limit: int) -> list[Message]:
        """Read at most `limit` commands, none where they cannot be read."""
        try:
            messages = super().poll(limit)
        except Exception as error:  # whatever it is, the pipeline has to go on
            self._say(error)
            return []
        self._has_failed = False
        return messages

    def lag(self) -> int:
        """Return how many commands wait: offsets do not count them."""
        with self._database.reading() as connection:
            if connection is None or not table_exists(connection, STREAM):
                return 0
            query = f"SELECT count(*) FROM {STREAM} WHERE offset >= ?"
            return int(connection.execute(query, (self._next,)).fetchone()[0])

    def beginning(self) -> None:
        """Return None: nobody deletes commands, and the first one's offset is when it came."""

    def _say(self, error: Exception) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        reason: object = error
        if isinstance(error, ConnectorError):
            # Only of a position beyond the end there is no cause.
            reason = error.__cause__ or "commands were read of it that it does not hold any more"
        text = (
            f"{self._path} is lost or cannot be read: {reason}. The pipeline goes on, and obeys "
            "what `streamboost tell` or `serve` queues from now on; where they cannot, move the "
            "file away"
        )
        _log.warning("%s", text)
        self.on_trouble(text)


def decode_commands(
    messages: Sequence[Message], refuse: Callable[[str, Exception], None]
) -> list[Command]:
    """Return the commands in `messages`; `refuse` is told of what is none."""
    commands = []
    for message in messages:
        try:
            commands.append(_decode(message.payload))
        except (msgspec.MsgspecError, ConfigurationError) as error:
            refuse(message.payload.decode(errors="replace"), error)
    return commands
