"""Speed of soft cascades, and how often their prediction differs from the full committee's.

    python -m benchmarks.cascade [--sets letter satimage] [--tolerances 0.002 0.01 0.05]

A quarter of the training rows is held out to set the thresholds. All figures are measured on the
test rows with one thread. The full committee and its cascades are timed alternately (medians of
seven).
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import load
from streamboost import Cascade, SketchLogitBoostClassifier

REPEATS = 7


def contenders(committee, held_back, tolerances):
    """Return a name, a scoring function and the cascade (or None) of each row of the table."""
    exact = Cascade.fit(committee, exact=True)
    found = [("full committee", committee.class_scores, None), ("exact", exact.class_scores, exact)]
    for tolerance in tolerances:
        cascade = Cascade.fit(committee, held_back, tolerance=tolerance)
        found.append((f"tolerance {tolerance:g}", cascade.class_scores, cascade))
    return found


def seconds(scorers, X):
    """Return the median seconds of each scorer on X, timed alternately."""
    taken = []
    for _ in range(REPEATS + 1):
        taken.append([])
        for score in scorers:
            start = time.perf_counter()
            score(X)
            taken[-1].append(time.perf_counter() - start)
    return np.median(taken[1:], axis=0)  # the first compiles


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["letter", "satimage"])
    parser.add_argument("--tolerances", nargs="+", type=float, default=[0.002, 0.01, 0.05])
    arguments = parser.parse_args()

    table = Table(title="Cascades on fresh rows, 400 trees of 40 leaves", title_justify="left")
    columns = ("set", "scoring", "trees used", "rows/s", "speed", "disagrees %", "error %")
    for column in columns:
        table.add_column(column, justify="left" if column in ("set", "scoring") else "right")
    for name in arguments.sets:
        data = load(name)
        if data is None:
            continue
        X, y = data["X_train"].astype(np.float32), data["y_train"]
        X_test, y_test = data["X_test"].astype(np.float32), data["y_test"]
        held_back = np.random.default_rng(0).permutation(len(X)) < len(X) // 4
        model = SketchLogitBoostClassifier(random_state=0).fit(X[~held_back], y[~held_back])
        committee = model.committee_
        rows = contenders(committee, X[held_back], arguments.tolerances)
        times = seconds([score for _, score, _ in rows], X_test)
        full = committee.class_scores(X_test).argmax(axis=1)
        for (label, score, cascade), took in zip(rows, times, strict=True):
            answer = score(X_test).argmax(axis=1)
            used = committee.n_trees if cascade is None else cascade.n_trees_used(X_test).mean()
            cells = [f"{used:.0f}", f"{len(X_test) / took:,.0f}", f"{times[0] / took:.2f}"]
            cells += [f"{100 * (answer != full).mean():.2f}"]
            cells += [f"{100 * (committee.classes[answer] != y_test).mean():.2f}"]
            table.add_row(name, label, *cells)
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
