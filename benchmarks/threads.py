"""Histogram time of two Python threads with half of the features each, compared with one thread.

    python -m benchmarks.threads

The table shows the node size above which two threads are faster. Training uses one thread, because
few nodes of a tree are that large. Times are the best of fifteen alternate runs.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from streamboost.kernels.growing.histograms import (
    add_packed_gradients_to_histogram,
    add_row_vectors_to_histogram,
)

SIZES = [(2_000, 16), (16_000, 16), (7_291, 51), (50_000, 25), (100_000, 25), (200_000, 25)]
WIDE_ROWS = 65_536  # from here on a row adds two numbers
BINS = 64

add_row_vectors = njit(lambda *args: add_row_vectors_to_histogram(*args), nogil=True)
add_packed_gradients = njit(lambda *args: add_packed_gradients_to_histogram(*args), nogil=True)


def filler(n_rows, n_features):
    """Return a function that fills the histograms of the features `a` to `b`."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, BINS, (n_features, n_rows), dtype=np.uint8)
    rows = np.arange(n_rows, dtype=np.uint32)
    features = np.arange(n_features, dtype=np.uint32)
    first = (np.arange(n_features) * BINS).astype(np.uint64)
    hist = np.zeros(n_features * BINS * 2, dtype=np.int64)
    histogram_input = rng.integers(0, 100, 2 * n_rows)

    def fill(a, b):
        args = hist, codes, features[a:b], first[a:b], rows, 0, n_rows, histogram_input
        if n_rows > WIDE_ROWS:
            add_row_vectors(*args, 2)
        else:
            add_packed_gradients(*args)

    return fill


def seconds(contenders, repeats=15):
    """Return the best time of each contender, timed alternately."""
    taken = np.empty((repeats + 1, len(contenders)))
    for times in taken:
        for i, run in enumerate(contenders):
            start = time.perf_counter()
            run()
            times[i] = time.perf_counter() - start
    return taken[1:].min(axis=0)  # the first compiles


def main():
    table = Table(title="Filling one node's histogram", title_justify="left")
    for column in ("rows", "features", "one thread us", "two threads us", "gain"):
        table.add_column(column, justify="right")
    with ThreadPoolExecutor(2) as pool:
        for n, d in SIZES:
            fill = filler(n, d)
            half = (d // 2 + 3) // 4 * 4  # whole passes of four features

            def together(fill=fill, parts=((0, half), (half, d))):
                list(pool.map(lambda part: fill(*part), parts))

            one, two = seconds([lambda fill=fill, d=d: fill(0, d), together])
            table.add_row(
                f"{n:,}", str(d), f"{1e6 * one:.0f}", f"{1e6 * two:.0f}", f"{one / two:.2f}"
            )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
