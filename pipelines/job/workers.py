"""A learner and its scorers as children of one process, for one machine."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from streamboost.pipelines.stop import Stop

__all__ = ["run_workers"]

_log = logging.getLogger(__name__)

_LOOK = 0.2
"""Seconds from one look at the children to the next."""

_REST = 1.0
"""Seconds until one that was killed is started again."""


PATIENCE = 20.0
"""Seconds that one may take to end once it is told to, until it is killed."""


def run_workers(path: Path, n: int, options: Sequence[str], stop: Stop) -> int:
    """Run `learn` and `n` times `score` until asked to stop, or one of them fails.

    One that was killed is started again; all end with this process, also where it is killed.
    Returns 0, or the exit code of the one that failed, when all have ended; one that does not end
    in time is killed, as what was committed stays.
    """
    names = ["learner", *(f"scorer {number}" for number in range(1, n + 1))]
    # This process alone can write to it: it closes with its end, of which children hear.
    stdin, held = os.pipe()
    children = [_start(name, path, options, stdin) for name in names]
    failed = 0
    try:
        while not (stop.requested or failed):
            stop.rest(_LOOK)
            for place, child in enumerate(children):
                code = child.poll()
                if code is None or stop.requested:
                    continue
                if code >= 0:
                    failed = failed or code or 1
                    _log.error("%s has ended with code %d: all are stopped", names[place], code)
                    continue
                _log.error("%s was killed by signal %d: it starts again", names[place], -code)
                stop.rest(_REST)
                children[place] = _start(names[place], path, options, stdin)
    finally:
        codes = _end(names, children)
        os.close(stdin)
        os.close(held)
    return failed or max(0, *codes)


def _end(names: Sequence[str], children: "Sequence[subprocess.Popen[bytes]]") -> list[int]:
    """Tell all to end, and see that they do; return their exit codes."""
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    until, codes = time.monotonic() + PATIENCE, []
    for name, child in zip(names, children, strict=True):
        try:
            codes.append(child.wait(max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            _log.warning(
                "%s has not ended within %g s and is killed: what it had committed stays, and the "
                "next run goes on from there",
                name,
                PATIENCE,
            )
            child.kill()
            codes.append(child.wait())
    return codes


def _start(name: str, path: Path, options: Sequence[str], stdin: int) -> "subprocess.Popen[bytes]":
    command = "learn" if name == "learner" else "score"
    line = [sys.executable, "-m", "streamboost.pipelines.cli", command, str(path), *options]
    return subprocess.Popen([*line, "--child", name], stdin=stdin)
