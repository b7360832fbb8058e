"""What the commands share: where the pipeline file is, printing, signals, and exit codes."""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from streamboost.errors import ConfigurationError, StreamBoostError
from streamboost.escaping import escaped, escaped_block

if TYPE_CHECKING:
    from streamboost.pipelines.stop import Stop

__all__ = [
    "DEFAULT_FILE",
    "Child",
    "LogJson",
    "PipelineFile",
    "Rebuild",
    "UntilIdle",
    "Upgrade",
    "end_with_stdin",
    "exit_code",
    "say",
    "say_block",
    "stop_on_signals",
]

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline file.", show_default=True)]
DEFAULT_FILE = Path("pipeline.toml")
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object a line.")]
UntilIdle = Annotated[
    bool, typer.Option("--until-idle", help="End when the sources have nothing more.")
]
Upgrade = Annotated[
    bool, typer.Option("--upgrade", help="Replay what another release made, not comparing.")
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Make a lost state folder again.")]
Child = Annotated[
    str, typer.Option("--child", hidden=True, help="Be called so, and end with standard input.")
]


def say(*lines: str) -> None:
    """Print lines to standard output, with what comes from outside escaped in them."""
    for line in lines:
        print(escaped(line), flush=True)


def say_block(text: str, file: TextIO | None = None) -> None:
    """Print a text of several lines, escaped, to standard output or to `file`.

    Lines after the first are indented, so that they do not look like the next text.
    """
    print(escaped_block(text), file=file or sys.stdout, flush=True)


def end_with_stdin() -> None:
    """Have this process end as by SIGTERM, once nobody is left who could write to its input.

    The pipe closes also where its writer was killed, on any system.
    """

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="parent", daemon=True).start()


GRACE = 3.0
"""Seconds from the first signal until a wait that is under way is given up."""

_AGAIN = 0.25


def after_grace(action: Callable[[], None]) -> None:
    """Call `action` in the main thread from `GRACE` seconds on, repeatedly.

    For a signal handler.
    """
    signal.signal(signal.SIGALRM, lambda number, frame: action())
    signal.setitimer(signal.ITIMER_REAL, GRACE, _AGAIN)
    # An ending interpreter takes the handler away: the next alarm would kill the process.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)


def stop_on_signals(said: bytes) -> "Stop":
    """Return a stop that SIGINT and SIGTERM ask for, which are ignored from then on.

    `said` is written to standard error when they do.
    """
    from streamboost.pipelines.stop import Stop

    stop, is_asked = Stop(), False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        # Not by another handler: the next signal may come before this one could set it.
        if is_asked:
            return
        is_asked = True
        for each in (signal.SIGINT, signal.SIGTERM):
            # An ending interpreter takes the handler away: the next one would kill the process.
            atexit.register(signal.signal, each, signal.SIG_IGN)
        # Past Python's buffers, which the interrupted line may be writing to.
        os.write(2, said)
        stop.request()
        after_grace(stop.interrupt)

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return stop


def exit_code(error: StreamBoostError) -> int:
    """Return 2 where a setting is wrong, and 1 where something failed."""
    return 2 if isinstance(error, ConfigurationError) else 1
