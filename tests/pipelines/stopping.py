"""Helpers that send SIGTERM to a process and check its exit."""

import os
import signal
import subprocess
import time

SOON = 10.0
"""Seconds, for each that wants a core; it is to be 5 where nothing else works on the machine."""


def stopped(process):
    """Return what a process said that was asked to stop, and see that it did."""
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    try:
        crowd = max(1.0, os.getloadavg()[0] / os.cpu_count())
        _, said = process.communicate(timeout=SOON * crowd)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"it still ran: {process.communicate()[1]}") from None
    assert process.returncode == 0, said
    print(f"it took {time.monotonic() - began:.1f} s")
    return said


def lines(process, word):
    """Read what a process says until a line with `word`."""
    said = []
    while word not in (line := process.stderr.readline()):
        assert line, said
        said.append(line)
