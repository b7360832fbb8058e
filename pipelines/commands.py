"""What an operator tells a pipeline while it runs.

A command is queued in ``commands.db`` of the state folder. It enters with the next batch, takes
effect before that batch's records are predicted, and stands in its journal entry, so that a replay
obeys it at the same place. One that cannot be obeyed is refused in the log, and enters no batch.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.sqlite import SqliteSink, SqliteSource
from streamboost.errors import ConfigurationError

__all__ = ["KINDS", "Command", "command_source", "decode_commands", "queue_command"]

Kind = Literal["promote", "rollback", "pause", "resume", "retrain"]
KINDS: tuple[Kind, ...] = ("promote", "rollback", "pause", "resume", "retrain")

FILE = "commands.db"
STREAM = "commands"


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """One command.

    ``promote`` lets the challenger serve now, although the labels have not decided yet.
    ``rollback`` lets the kept `version` serve, under a new number; a training under way is given
    up. ``pause`` keeps the committee that serves and starts no training; the pipeline goes on
    predicting, asking, and keeping the labels that come. ``resume`` ends that. ``retrain`` trains
    anew, as soon as no training is under way.
    """

    command: Kind
    version: int | None = None

    def __post_init__(self) -> None:
        if (self.version is None) == (self.command == "rollback"):
            raise ConfigurationError(
                f"{self.command} with version {self.version}: rollback needs the number of a kept "
                "version, and the other commands take none"
            )

    def __str__(self) -> str:
        return self.command if self.version is None else f"{self.command} {self.version}"


_decode = msgspec.json.Decoder(Command).decode


def queue_command(state: Path, command: Command) -> None:
    """Have the pipeline whose state folder is `state` obey `command` in its next batch."""
    with closing(SqliteSink(state / FILE, STREAM)) as sink:
        sink.write([msgspec.json.encode(command)])
        sink.flush()


def command_source(state: Path) -> SqliteSource:
    """Return the queue of a state folder, to be read."""
    return SqliteSource(state / FILE, STREAM)


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
