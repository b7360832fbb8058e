"""Helpers that wait for another process or thread, with a deadline."""

import time


def until(condition, seconds=120):
    """Return what `condition` gives once that is true; a test whose wait is in vain fails."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(pause)
        pause = min(1.1 * pause, 0.2)  # who is asked too often turns one away
    return found
