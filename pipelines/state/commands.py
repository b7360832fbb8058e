"""Commands of operators to a running pipeline, and their queue.

A command is queued in ``commands.db`` of the state folder, and is read with the next batch. The
command takes effect before the records of that batch are predicted. The journal entry of the batch
has the command, so that a replay applies it to the same batch. Invalid commands are rejected in the
log, and are part of no batch.

If the queue's file is lost or damaged, only queued commands are lost. The offset of a command is
its time in microseconds, so commands in a new file have higher offsets than those read before.
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
from streamboost.connectors.sqlite.database import Database, append_payloads, table_exists
from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import ConfigurationError, ConnectorError

_log = logging.getLogger(__name__)

Kind = Literal[
    "promote",
    "rollback",
    "pause",
    "resume",
    "retrain",
    "merge",
    "unmerge",
    "drop",
    "retract",
    "decide",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

FILE = "commands.db"
STREAM = "commands"

_BUSY_SECONDS = 2.0
"""Seconds to wait for a locked queue: in `serve`, a waiting call occupies a thread."""


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """Command of an operator to a pipeline.

    ========  ==================================================================================
    promote   deploys the challenger before the labels have decided
    rollback  deploys the kept `version` under a new number, and cancels a training in progress
    pause     keeps the active committee and starts no training; predictions, requests and labels
              continue
    resume    ends a pause
    retrain   trains a new committee, after a training in progress has ended
    merge     merges class `label` into class `into`, for future labels too
    unmerge   undoes the merge of `label`: its original labels get their class back
    drop      removes class `label` and its labels, for future labels too
    retract   retracts the labels that `annotator` gave so far, and retrains; the labels of others
              stay
    decide    makes decisions by `decision` (`Decisions`), until the configuration changes its
              decisions; an empty `decision` ends decisions
    ========  ==================================================================================

    With `new`, merge and decide may name a class that no label has had yet.
    """

    command: Kind
    version: int | None = None
    label: str | None = None
    into: str | None = None
    decision: dict[str, Any] | None = None
    new: bool = False
    annotator: str | None = None

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
        if bool(self.annotator) != (self.command == "retract"):
            raise ConfigurationError(
                f"{self.command} with the annotator {self.annotator!r}: retract needs the name of "
                "the annotator whose labels are retracted, and the other commands take none"
            )
        wanted = {"merge": 2, "unmerge": 1, "drop": 1}.get(self.command, 0)
        given = [name for name in (self.label, self.into) if name is not None]
        if len(given) != wanted or (wanted and not self.label) or len({*given}) < wanted:
            told = " and ".join(map(repr, given)) or "no class"
            raise ConfigurationError(
                f"{self.command} with {told}: merge needs a class and another class as its "
                "target, unmerge and drop need one class, and the other commands take none"
            )

    @property
    def possible_new_classes(self) -> list[str]:
        """Classes that may be new if `new` is set: merge target, or classes of a decision."""
        if self.decision is None:
            return [] if self.into is None else [self.into]
        costs = self.decision.get("costs") or {}
        names = [*costs, *(name for row in costs.values() for name in row)]
        return list(dict.fromkeys([*names, *(self.decision.get("threshold") or {})]))

    def __str__(self) -> str:
        decision = None if self.decision is None else msgspec.json.encode(self.decision).decode()
        new = "--new" if self.new else None
        about = (self.version, self.label, self.into, self.annotator, decision, new)
        return " ".join([self.command, *(str(one) for one in about if one is not None)])


_decode = msgspec.json.Decoder(Command).decode


def queue_command(state_folder: Path, command: Command) -> None:
    """Queue `command` for the next batch of the pipeline whose state is in `state_folder`.

    A damaged queue is renamed, and a new one is created. Raises UnavailableError if other programs
    keep the queue locked.
    """
    path = state_folder / FILE
    with (
        _lock_against_other_writers(state_folder),
        closing(Database(path, busy_seconds=_BUSY_SECONDS)) as database,
    ):
        if path.is_dir() or database.find_damage() is not None:
            aside = _rename_damaged_queue(path)
            _log.warning(
                "%s is damaged: it is renamed to %s, and a new queue is created",
                path,
                aside,
                extra={"event": "command_queue_damaged"},
            )
        with database.write_transaction() as connection:
            now = time.time_ns() // 1_000
            append_payloads(connection, STREAM, [msgspec.json.encode(command)], min_offset=now)


@contextmanager
def _lock_against_other_writers(folder: Path) -> Iterator[None]:
    """Context manager that locks `folder`; ConnectorError if it cannot be locked."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConnectorError(
            f"no command can be queued in {folder}: {error}; check that it is a folder with write "
            "permission"
        ) from error


def _rename_damaged_queue(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    for suffix in ("-wal", "-shm", ""):
        place = path.with_name(path.name + suffix)
        if place.exists():
            place.rename(aside.with_name(aside.name + suffix))
    return aside


class CommandSource(SqliteSource):
    """Source of an operator's queued commands.

    A read error does not stop the pipeline. It is reported once, until a read succeeds.

    Attributes
    ----------
    on_error : callback with the error text, in addition to the log
    """

    def __init__(self, state: Path) -> None:
        super().__init__(state / FILE, STREAM)
        self.on_error: Callable[[str], None] = lambda trouble: None
        self._path = state / FILE
        self._has_failed = False

    def poll(self, limit: int) -> list[Message]:
        """Poll up to `limit` commands; return none if the queue cannot be read."""
        try:
            messages = super().poll(limit)
        except Exception as error:  # a damaged queue must not stop the pipeline
            self._report_first_read_error(error)
            return []
        self._has_failed = False
        return messages

    def lag(self) -> int:
        """Return the number of queued commands. They are counted, as their offsets are times."""
        with self._database.read_transaction() as connection:
            if connection is None or not table_exists(connection, STREAM):
                return 0
            query = f"SELECT count(*) FROM {STREAM} WHERE offset >= ?"
            return int(connection.execute(query, (self._next,)).fetchone()[0])

    def beginning_offsets(self) -> None:
        """Return None, as offsets are times, so the first offset is unknown."""

    def _skip_deleted_messages(self, first: int) -> None:
        """Do nothing, as offsets are times: those between two commands were never used."""

    def _report_first_read_error(self, error: Exception) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        reason: object = error
        if isinstance(error, ConnectorError):
            # The only error without a cause is a position after the end.
            reason = error.__cause__ or "it lacks commands that were read before"
        text = (
            f"{self._path} is lost or cannot be read: {reason}. The pipeline continues, and "
            "applies commands that are queued from now on. If no command can be queued, move the "
            "file away"
        )
        _log.warning("%s", text, extra={"event": "command_queue_damaged"})
        self.on_error(text)


def decode_commands(
    messages: Sequence[Message], on_invalid: Callable[[str, Exception], None]
) -> list[Command]:
    """Return the commands in `messages`; for an invalid one, call `on_invalid(text, error)`."""
    commands = []
    for message in messages:
        try:
            commands.append(_decode(message.payload))
        except (msgspec.MsgspecError, ConfigurationError) as error:
            on_invalid(message.payload.decode(errors="replace"), error)
    return commands
