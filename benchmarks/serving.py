"""Latency of predicting a batch, idle and while a thread trains the next committee.

    python -m benchmarks.serving [--rows 10000] [--batch 100] [--seconds 4]

Records have the width and number of classes of letter (16 features, 26 classes) and are generated.
The estimator is the learner's default, with a committee trained on `--rows` records. Idle and
training phases alternate every quarter of a second, so that other load falls on both. Times are
wall-clock times, because latency is the question. The benchmark needs two cores without other load.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from streamboost.learner import Schedule, StreamLearner, WorkingSet

FEATURES, CLASSES = 16, 26
TURN = 0.25


def stream(n, rng):
    """Return records (n, FEATURES) around class centres, and their labels."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, n)
    return (centres[y] + rng.normal(size=(n, FEATURES))).astype(np.float32), y


def grown(rows):
    """Return a learner whose committee was trained on `rows` records, and trains no more."""
    rng = np.random.default_rng(1)
    X, y = stream(rows, rng)
    learner = StreamLearner(
        working_set=WorkingSet(size=rows),
        schedule=Schedule(
            first=rows, growth=1e9, retrain_every=None, extend_every=None, training="background"
        ),
    )
    learner.learn([""] * rows, X, y)
    learner.deploy(learner.trainer.wait_for_training(1))
    return learner


def measure(learner, X, seconds, training):
    """Append to `seconds` what scoring X takes, for one turn."""
    end = time.perf_counter() + TURN
    while (start := time.perf_counter()) < end:
        if training and learner.trainer.running_training is None:
            learner.trainer.retrain()
        elif training and (made := learner.trainer.finished_committee()) is not None:
            learner.deploy(made)
            continue
        learner.score(X)
        seconds.append(time.perf_counter() - start)


def settle(learner):
    """Wait for the training under way."""
    if learner.trainer.running_training is not None:
        learner.deploy(learner.trainer.wait_for_training(learner.trainer.running_training.version))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    learner = grown(given.rows)
    X, _ = stream(given.batch, np.random.default_rng(2))
    taken = {"idle": [], "training": []}
    for turn in range(int(given.seconds / TURN)):
        for name, seconds in taken.items():
            measure(learner, X, seconds if turn else [], name == "training")
            settle(learner)
    table = Table(
        title=f"Scoring {given.batch} records while a thread trains on {given.rows:,}",
        title_justify="left",
    )
    for column in ("", "batches", "median ms", "99th percentile ms", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    idle = np.percentile(taken["idle"], 99)
    for name, seconds in taken.items():
        median, late = np.percentile(seconds, [50, 99])
        table.add_row(
            name,
            f"{len(seconds):,}",
            f"{1e3 * median:.2f}",
            f"{1e3 * late:.2f}",
            f"{late / idle:.2f}",
        )
    Console(width=100).print(table)
    print(f"{learner.trainer.made} trainings; aim: a ratio under 2")


if __name__ == "__main__":
    main()
