"""Common options of the commands, escaped printing, signal handlers and exit codes."""

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
    from streamboost.pipelines.shutdown import StopToken

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
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")]
UntilIdle = Annotated[
    bool, typer.Option("--until-idle", help="Exit when the sources have no more messages.")
]
Upgrade = Annotated[
    bool,
    typer.Option("--upgrade", help="Replay batches of another release without comparing results."),
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Rebuild a lost state folder.")]
Child = Annotated[
    str,
    typer.Option(
        "--child", hidden=True, help="Set the name in the log, and exit when standard input closes."
    ),
]


def say(*lines: str) -> None:
    """Print lines to standard output, with external text escaped."""
    for line in lines:
        print(escaped(line), flush=True)


def say_block(text: str, file: TextIO | None = None) -> None:
    """Print a text of several lines, escaped, to standard output or to `file`.

    Lines after the first are indented, to distinguish them from the next text.
    """
    print(escaped_block(text), file=file or sys.stdout, flush=True)


def end_with_stdin() -> None:
    """Send SIGTERM to this process when standard input is closed.

    The pipe is also closed if the parent process is killed, on any system.
    """

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="parent", daemon=True).start()


GRACE = 3.0
"""Seconds from the first signal until a wait in progress is interrupted."""

_AGAIN = 0.25


def after_grace(action: Callable[[], None]) -> None:
    """Call `action` in the main thread after `GRACE` seconds, and repeatedly after that.

    May be called in a signal handler.
    """
    signal.signal(signal.SIGALRM, lambda number, frame: action())
    signal.setitimer(signal.ITIMER_REAL, GRACE, _AGAIN)
    # The interpreter removes the handler at exit: a later alarm would kill the process.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)


def stop_on_signals(said: bytes) -> "StopToken":
    """Return a stop token that the first SIGINT or SIGTERM sets; later signals are ignored.

    `said` is written to standard error at the first signal.
    """
    from streamboost.pipelines.shutdown import StopToken

    stop, is_asked = StopToken(), False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        # Checked here, as a signal may arrive before this handler could install another one.
        if is_asked:
            return
        is_asked = True
        for each in (signal.SIGINT, signal.SIGTERM):
            # The interpreter removes the handler at exit: a later signal would kill the process.
            atexit.register(signal.signal, each, signal.SIG_IGN)
        # Unbuffered, as the interrupted code may be writing to Python's buffers.
        os.write(2, said)
        stop.request()
        after_grace(stop.interrupt)

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return stop


def exit_code(error: StreamBoostError) -> int:
    """Return the exit code of an error: 2 for a wrong setting, 1 for all others."""
    return 2 if isinstance(error, ConfigurationError) else 1
