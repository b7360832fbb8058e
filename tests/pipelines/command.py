"""The command line for tests: within this process, or as a separate process."""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

import streamboost
from streamboost.pipelines.app.warmup import warm_up
from streamboost.pipelines.cli import __main__ as cli

ROOT = Path(streamboost.__file__).parents[1]


class Command:
    """Runs the command line in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._started = []

    def __call__(self, *words, code=0):
        """Run to the end within this process, expect exit `code`, and return (stdout, stderr)."""
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, self.environment),
            patch.object(sys, "argv", ["streamboost", *words]),
            _as_in_a_new_process(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main()
        assert (ended.value.code or 0) == code, err.getvalue()
        return out.getvalue(), err.getvalue()

    def start(self, *words):
        """Start a process, for what only one can show: signals, kills, several at once."""
        have_kernels()
        command = [sys.executable, "-m", "streamboost.pipelines.cli", *words]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def stop_all(self):
        for process in self._started:
            process.kill()
            process.communicate()


@cache
def have_kernels():
    """Compile what the processes will load, so that no deadline runs meanwhile."""
    warm_up(lambda _: None, ["sketch"])


@contextlib.contextmanager
def _as_in_a_new_process():
    """Let a command handle signals and log as it likes, and undo it."""
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root, kafka = logging.getLogger(), logging.getLogger("kafka")
    kept = [(log, log.handlers[:], log.level, log.propagate) for log in (root, kafka)]
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for number, handler in signals.items():
            signal.signal(number, handler)
        for log, handlers, level, propagate in kept:
            log.handlers[:], log.propagate = handlers, propagate
            log.setLevel(level)
