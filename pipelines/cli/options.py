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
from streamboost.escaping import escape_block, escape_line

if TYPE_CHECKING:
    from streamboost.pipelines.shutdown import StopToken

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline file.", show_default=True)]
DEFAULT_FILE = Path("pipeline.toml")
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")]
UntilIdle = Annotated[
    bool, typer.Option("--until-idle", help="Exit when the sources have no more messages.")
]
Upgrade = Annotated[
    bool,
    typer.Option(
        "--upgrade",
        help="Replay batches of another release of streamboost, or of another sentence encoder, "
        "without verifying the results.",
    ),
]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Rebuild a lost state folder.")]
Child = Annotated[
    str,
    typer.Option(
        "--child", hidden=True, help="Set the name in the log, and exit when standard input closes."
    ),
]


def print_lines(*lines: str) -> None:
    """Print lines to standard output, with external text escaped."""
    for line in lines:
        print(escape_line(line), flush=True)


def print_block(text: str, file: TextIO | None = None) -> None:
    """Print a text of several lines, with external text escaped, to `file` or standard output.

    Lines after the first are indented.
    """
    print(escape_block(text), file=file or sys.stdout, flush=True)


def exit_when_stdin_closes() -> None:
    """Start a thread that sends SIGTERM to this process when standard input is closed.

    If standard input is a pipe from the parent process, the end of the parent closes it.
    """

    def wait_for_close() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait_for_close, name="parent", daemon=True).start()


GRACE = 3.0
"""Seconds from the first signal until a wait in progress is interrupted."""

_REPEAT_INTERVAL = 0.25


def call_after_grace_period(action: Callable[[], None]) -> None:
    """Start a timer that calls `action` after `GRACE` seconds, and then every 0.25 seconds.

    `action` is called in the main thread. The timer may be started in a signal handler.
    """
    signal.signal(signal.SIGALRM, lambda number, frame: action())
    signal.setitimer(signal.ITIMER_REAL, GRACE, _REPEAT_INTERVAL)
    # The interpreter removes the handler at exit: a later alarm would kill the process.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)


def stop_on_signals(message: bytes) -> "StopToken":
    """Install handlers of SIGINT and SIGTERM; return the stop token that the first signal sets.

    The first signal also writes `message` to standard error. Later signals are ignored.
    """
    from streamboost.pipelines.shutdown import StopToken

    stop, is_requested = StopToken(), False

    def request_stop_once(number: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        # Checked here, as a signal may arrive before this handler could install another one.
        if is_requested:
            return
        is_requested = True
        for each in (signal.SIGINT, signal.SIGTERM):
            # The interpreter removes the handler at exit: a later signal would kill the process.
            atexit.register(signal.signal, each, signal.SIG_IGN)
        # Unbuffered, as the interrupted code may be writing to Python's buffers.
        os.write(2, message)
        stop.request_stop()
        call_after_grace_period(stop.raise_if_interruptible)

    signal.signal(signal.SIGINT, request_stop_once)
    signal.signal(signal.SIGTERM, request_stop_once)
    return stop


def exit_code(error: StreamBoostError) -> int:
    """Return the exit code of an error: 2 for a wrong setting, 1 for all others."""
    return 2 if isinstance(error, ConfigurationError) else 1
