"""The live status line on a terminal: a real process behind a pseudo-terminal."""

import fcntl
import io
import logging
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading

import pytest
from waiting import until

from streamboost.pipelines.app import live
from streamboost.pipelines.config.templates.brief import render_template
from tests.pipelines.command import ROOT, have_kernels

DOCUMENTS = {
    "pipeline": {"state": "running"},
    "ledger": {"records": 1_234},
    "learner": {"labels": 99},
    "evaluation": {
        "recent": {"committee": {"accuracy": {"value": 0.912, "low": 0.88, "high": 0.94}}}
    },
    "lag": {"records": 40, "labels": 2},
}


def test_the_line_tells_records_rate_accuracy_with_its_interval_labels_and_lag():
    said = live.status_text(DOCUMENTS, 210.04)
    assert said == (
        "1,234 records · 210/s · accuracy 91.2 % (88.0 to 94.0) · 99 labels learned · lag 42"
    )


def test_what_nobody_knows_yet_is_said_without_pythons_words():
    empty = {name: {} for name in DOCUMENTS} | {"lag": {"records": None}}
    said = live.status_text(empty, 0.0)
    assert said == "0 records · 0/s · accuracy — · 0 labels learned · lag unknown"
    assert live.status_text(DOCUMENTS | {"pipeline": {"state": "retrying"}}, 0).startswith(
        "retrying"
    )


def test_a_line_never_wraps():
    assert [live._truncate("x" * n, 40) for n in (39, 40, 90)] == ["x" * 39, *["x" * 38 + "…"] * 2]


def test_a_stream_without_a_terminal_or_that_was_closed_harms_nothing(tmp_path):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    with live.show_status_line(tmp_path, handler):
        handler.handle(logging.LogRecord("x", logging.INFO, "", 0, "told", (), None))
        stream.close()
    assert handler.formatter._fmt == "%(message)s"


@pytest.fixture
def terminal():
    """A pseudo-terminal's end for a process, and what it was told so far."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    told = bytearray()

    def read():
        try:
            while piece := os.read(master, 65_536):
                told.extend(piece)
        except OSError:  # the other end is closed
            return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield slave, told
    os.close(slave)
    thread.join(10)
    os.close(master)


@pytest.mark.slow
def test_run_shows_the_line_on_a_terminal_and_leaves_none_behind(tmp_path, terminal):
    slave, told = terminal
    have_kernels()
    (tmp_path / "p.toml").write_text(render_template())
    process = subprocess.Popen(
        [sys.executable, "-m", "streamboost.pipelines.cli", "run", "p.toml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=slave,
    )
    try:
        until(lambda: re.search(r"\x1b\[K2,310 records · .*accuracy \d".encode(), bytes(told)))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
    until(lambda: b"stopped after batch" in told)
    lines = bytes(told).decode().split("\n")
    seen = [line.rpartition("\x1b[K")[2].strip("\r") for line in lines]
    assert "stopping after this batch" in seen
    assert seen[-1] == "", "nothing is left of the line"
    assert not [line for line in seen if " · " in line]
