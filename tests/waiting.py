"""Waiting for what another process or thread does, with a deadline."""

import time


def until(condition, seconds=120):
    """Return what `condition` gives once that is true; a test whose wait is in vain fails."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)
    return found
