"""Peak memory of training beyond its input, in bytes per value of the input.

    python -m benchmarks.memory [--rows 500000] [--columns 54] [--classes 7]
        [--estimators SketchLogitBoostClassifier ...] [--inputs numbers ...]

The binned rows have one byte per value, so that the figures are also multiples of them. Each line
is a process of its own. "traced" is what numpy and Python allocated at the peak, beyond the float32
input; "resident" is how far the process itself grew beyond what it held as `fit` began.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import streamboost

ESTIMATORS = ["SketchLogitBoostClassifier", "GambleClassifier"]
INPUTS = ["numbers", "missing", "categories", "weights"]


def data(kind, n_rows, n_columns, n_classes):
    """Return the rows, labels and weights of an input, and its categorical columns."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_columns), dtype=np.float32)
    for f in range(n_columns):
        X[:, f] = np.floor(rng.random(n_rows, dtype=np.float32) * 1000)
    y = (X[:, 0] * n_classes / 1000 + (X[:, 1] > 700)).astype(np.int64) % n_classes
    if kind == "missing":
        for f in range(n_columns):
            X[rng.random(n_rows, dtype=np.float32) < 0.1, f] = np.nan
    weight = rng.random(n_rows) + 0.5 if kind == "weights" else None
    return X, y, weight, np.arange(n_columns // 2) if kind == "categories" else None


def measure(name, kind, n_rows, n_columns, n_classes):
    """Fit once and return bytes per value: traced, resident."""
    model = getattr(streamboost, name)(n_estimators=3, random_state=0)
    X, y, weight, categorical = data(kind, n_rows, n_columns, n_classes)
    model.set_params(categorical_features=categorical)
    model.fit(X[:5000], y[:5000])  # compiles outside the measurement
    unit = 1 if sys.platform == "darwin" else 1024
    held = current() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    model.fit(X, y, weight)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - held
    tracemalloc.start()
    model.fit(X, y, weight)
    traced = tracemalloc.get_traced_memory()[1]
    return traced / X.size, resident / X.size


def current():
    """Return the resident bytes of this process, or 0 if the system does not report them."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=54)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--estimators", nargs="+", default=ESTIMATORS)
    parser.add_argument("--inputs", nargs="+", default=INPUTS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shape = arguments.rows, arguments.columns, arguments.classes
    if arguments.one:
        print(json.dumps(measure(*arguments.one, *shape)))
        return
    title = "Peak memory of fit beyond its input, {:,} x {} float32, {} classes".format(*shape)
    table = Table(title=title, title_justify="left")
    for column in ("estimator", "input", "traced, bytes/value", "resident, bytes/value"):
        table.add_column(column, justify="right" if "bytes" in column else "left")
    for name in arguments.estimators:
        for kind in arguments.inputs:
            sizes = ["--rows", "--columns", "--classes"]
            options = [str(x) for pair in zip(sizes, shape, strict=True) for x in pair]
            command = [sys.executable, "-m", "benchmarks.memory", *options, "--one", name, kind]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            traced, resident = json.loads(done.stdout)
            table.add_row(name, kind, f"{traced:.2f}", f"{resident:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
