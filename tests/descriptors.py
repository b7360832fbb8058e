"""Open file descriptors of this process."""

import os
from pathlib import Path


def times_open(path):
    """Return how many descriptors of this process lead to the file `path`."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(handle))
        except FileNotFoundError:  # that of this very look
            continue
    return found.count(str(path))
