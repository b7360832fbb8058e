"""The data sets the benchmarks read."""

import os
import sys
from pathlib import Path

import numpy as np

_DEFAULT = Path(__file__).parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("STREAMBOOST_DATA", _DEFAULT))


def load(name):
    """Return the arrays of a data set, or None (and a word about it) where it is missing."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        print(f"skipped {name}: {path} is missing; set STREAMBOOST_DATA", file=sys.stderr)
        return None
    return np.load(path)
