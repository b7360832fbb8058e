"""Supervisor that runs a learner and its scorers as child processes on one machine."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from streamboost.pipelines.shutdown import StopToken

_log = logging.getLogger(__name__)

_POLL_INTERVAL = 0.2
"""Seconds between two checks of the child processes."""

_RESTART_DELAY = 1.0
"""Seconds before a killed child process is started again."""


PATIENCE = 20.0
"""Seconds between SIGTERM and SIGKILL to a child process that does not end."""


def run_workers(path: Path, n: int, options: Sequence[str], stop: StopToken) -> int:
    """Run one process of `learn` and `n` of `score` until a stop request, or until one fails.

    A child process that was killed is started again. If this process ends or is killed, all
    children end too. A child that does not end in time is killed; its committed data stays. Returns
    0, or the exit code of the failed child, after all children have ended.
    """

    names = ["learner", *(f"scorer {number}" for number in range(1, n + 1))]
    # Only this process holds the write end of the pipe: children read EOF when it ends.
    stdin, held = os.pipe()
    children = [_start_child(name, path, options, stdin) for name in names]
    failed = 0
    try:
        while not (stop.requested or failed):
            stop.wait(_POLL_INTERVAL)
            for index, child in enumerate(children):
                code = child.poll()
                if code is None or stop.requested:
                    continue
                if code >= 0:
                    failed = failed or code or 1
                    _log.error(
                        "%s has failed with code %d: all processes are stopped",
                        names[index],
                        code,
                        extra={"event": "worker_failed"},
                    )
                    continue
                _log.error(
                    "%s was killed by signal %d: it starts again",
                    names[index],
                    -code,
                    extra={"event": "worker_restarted"},
                )
                stop.wait(_RESTART_DELAY)
                children[index] = _start_child(names[index], path, options, stdin)
    finally:
        codes = _terminate_child_processes(names, children)
        os.close(stdin)
        os.close(held)
    return failed or max(0, *codes)


def _terminate_child_processes(
    names: Sequence[str], children: "Sequence[subprocess.Popen[bytes]]"
) -> list[int]:
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    until, codes = time.monotonic() + PATIENCE, []
    for name, child in zip(names, children, strict=True):
        try:
            codes.append(child.wait(max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            _log.warning(
                "%s has not ended within %g s and is killed: the next run continues after its "
                "newest commit",
                name,
                PATIENCE,
                extra={"event": "worker_stop_timeout"},
            )
            child.kill()
            codes.append(child.wait())
    return codes


def _start_child(
    name: str, path: Path, options: Sequence[str], stdin: int
) -> "subprocess.Popen[bytes]":
    command = "learn" if name == "learner" else "score"
    line = [sys.executable, "-m", "streamboost.pipelines.cli", command, str(path), *options]
    return subprocess.Popen([*line, "--child", name], stdin=stdin)
