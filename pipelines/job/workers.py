"""A learner and its scorers as children of one process, for one machine."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from streamboost.pipelines.stop import Stop

__all__ = ["run_workers"]

_log = logging.getLogger(__name__)

_LOOK = 0.2
"""Seconds from one look at the children to the next."""

_REST = 1.0
"""Seconds until one that was killed is started again."""


def run_workers(path: Path, n: int, options: Sequence[str], stop: Stop) -> int:
    """Run `learn` and `n` times `score` until asked to stop, or one of them fails.

    One that was killed is started again; all end with this process, also where it is killed.
    Returns 0, or the exit code of the one that failed, when all have ended.
    """
    kinds = ["learn", *["score"] * n]
    # This process alone can write to it: it closes with its end, of which children hear.
    stdin, held = os.pipe()
    children = [_start(kind, path, options, stdin) for kind in kinds]
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
                    _log.error("`%s` has ended with code %d: all are stopped", kinds[place], code)
                    continue
                _log.error("`%s` was killed by signal %d: it starts again", kinds[place], -code)
                stop.rest(_REST)
                children[place] = _start(kinds[place], path, options, stdin)
    finally:
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        codes = [child.wait() for child in children]
        os.close(stdin)
        os.close(held)
    return failed or max(0, *codes)


def _start(kind: str, path: Path, options: Sequence[str], stdin: int) -> "subprocess.Popen[bytes]":
    line = [sys.executable, "-m", "streamboost.pipelines.cli", kind, str(path), *options]
    return subprocess.Popen([*line, "--end-with-stdin"], stdin=stdin)
