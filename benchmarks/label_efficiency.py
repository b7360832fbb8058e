"""Accuracy bought with few labels: query strategies over budgets, on streams and from a pool.

    python -m benchmarks.label_efficiency [--sets segments letter satimage] [--seeds 5]
        [--budgets 0.01 0.02 0.05 0.1 0.2] [--strategies ...] [--rows N] [--delay N] [--out FOLDER]
        [--plot FILE] [--tables few strategies pool] [--streams segments keystroke ...]

Streams: one pass in batches of ten records. Each record is predicted, then labels are requested.
Labels that are due (at once, or `--delay` records later) are learned. The figure is the accuracy of
the predictions on arrival over the second half, with the 95 % t interval over the seeds, and its
difference from random queries on the same streams. The seed shuffles letter and satimage (both
halves concatenated); River's ImageSegments keeps its order. All strategies train the same learner.
"every label" trains on every record, "repeat last" predicts the previous label. scikit-activeml's
strategies run if the package is installed. Its budgets are soft, so the table shows the number of
labels bought.

The table "few" is that of `benchmarks.few_labels`, and "pool" that of `benchmarks.standing_pool`.
"""

import argparse
from collections import deque
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import load
from benchmarks.few_labels import few
from benchmarks.intervals import cell, interval
from benchmarks.plots import curves
from benchmarks.standing_pool import pool
from streamboost import QueryConfig, StreamLearner

try:
    from benchmarks.activeml import PEERS, Peer
except ImportError:
    PEERS = {}

FILES = {"segments": "image_segments_river", "letter": "letter", "satimage": "satimage"}
OURS = {
    "margin": {},
    "entropy": {"strategy": "entropy"},
    "vote entropy": {"strategy": "vote_entropy"},
    "quantile filter": {"selection": "quantile_filter"},
    "variable uncertainty": {"strategy": "least_confident", "selection": "variable_uncertainty"},
    "pool": {"mode": "pool"},
    "random": {"strategy": "random"},
}
BATCH = 10


class Ours:
    """A learner that asks by a strategy of its own."""

    def __init__(self, budget, seed, settings):
        strategy = QueryConfig(budget=budget, **settings)
        self.learner = StreamLearner(query=strategy, random_state=seed)

    def ask(self, X, scored, ids):
        return self.learner.query(X, scored, ids).ids


def stream(name, seed, rows):
    """Return X, y of a set in the order that the seed gives it; None where it is missing."""
    data = load(FILES[name])
    if data is None:
        return None
    if name == "segments":
        X, y = data["X"], data["y"]
        order = np.arange(len(y))
    else:
        X, y = (np.concatenate([data[f"{a}_train"], data[f"{a}_test"]]) for a in "Xy")
        order = np.random.default_rng(seed).permutation(len(y))
    return X[order[:rows]], y[order[:rows]]


def second_half(asker, X, y, delay):
    """Return the accuracy on arrival over the second half, and the labels bought, in percent."""
    learner, waiting = asker.learner, deque()
    right, bought = np.zeros(len(y), dtype=bool), 0
    for start in range(0, len(y), BATCH):
        rows = np.arange(start, min(start + BATCH, len(y)))
        scored = learner.score_arrivals(X[rows])
        right[rows] = scored.labels == y[rows]
        asked = [int(id) for id in asker.ask(X[rows], scored, [str(i) for i in rows])]
        bought += len(asked)
        waiting.extend((rows[-1] + delay, i) for i in asked)
        due = []
        while waiting and waiting[0][0] <= rows[-1]:
            due.append(waiting.popleft()[1])
        learner.learn([str(i) for i in due], X[due], y[due])
    return 100 * right[len(y) // 2 :].mean(), 100 * bought / len(y)


def make(strategy, budget, seed):
    """Return the asker of that name."""
    if strategy in OURS:
        return Ours(budget, seed, OURS[strategy])
    return Peer(strategy, budget, seed)


def references(name, seed, arguments):
    """Return the accuracy with every label, and that of repeating the last one."""
    X, y = stream(name, seed, arguments.rows)
    everything = Ours(1.0, seed, {"strategy": "random", "audit": 0})
    half = len(y) // 2
    repeated = 100 * (y[half:] == y[half - 1 : -1]).mean()
    return second_half(everything, X, y, arguments.delay)[0], repeated


def measure(name, arguments):
    """Return accuracies and shares bought, each {(strategy, budget): one value per seed}."""
    accuracy, bought = {}, {}
    for seed in range(arguments.seeds):
        X, y = stream(name, seed, arguments.rows)
        for budget in arguments.budgets:
            for strategy in arguments.strategies:
                asker = make(strategy, budget, seed)
                figures = second_half(asker, X, y, arguments.delay)
                accuracy.setdefault((strategy, budget), []).append(figures[0])
                bought.setdefault((strategy, budget), []).append(figures[1])
    return accuracy, bought


def tabulate(console, title, accuracy, bought, arguments):
    """Print a row per strategy and budget: accuracy, difference to random, labels bought."""
    table = Table(title=title, title_justify="left")
    for column in ("budget %", "strategy", "accuracy %", "less random", "bought %"):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for budget in arguments.budgets:
        at_random = np.array(accuracy.get(("random", budget), np.nan))
        for strategy in arguments.strategies:
            values = np.array(accuracy[strategy, budget])
            difference = "" if strategy == "random" else cell(values - at_random, "+")
            cells = [cell(values), difference, f"{np.mean(bought[strategy, budget]):.2f}"]
            table.add_row(f"{100 * budget:g}", strategy, *cells)
        table.add_section()
    console.print(table)


def draw(found, lines, arguments):
    """Draw accuracy over budget, a panel per set, with that of every label.

    Intervals are drawn for margin and random; the others' stand in the table.
    """
    xs, panels = [100 * budget for budget in arguments.budgets], {}
    for name, accuracy in found.items():
        each = panels[name] = {}
        for strategy in arguments.strategies:
            pairs = [interval(accuracy[strategy, budget]) for budget in arguments.budgets]
            means, halves = np.transpose(pairs)
            bounds = (means - halves, means + halves) if strategy in ("margin", "random") else ()
            each[strategy] = (xs, means, *bounds)
        each["every label"] = (xs, [lines[name][0]] * len(xs))
    y = "accuracy on arrival, second half, %"
    curves(arguments.plot, panels, "labels asked for, %", y)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    strategies = [*OURS, *PEERS]
    tables = ["few", "strategies", "pool"]
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables)
    given = ["segments", "keystroke", "weather", "outdoor", "electricity", "agrawal", "rbf"]
    parser.add_argument("--streams", nargs="+", default=given, help='of the table "few"')
    parser.add_argument("--sets", nargs="+", choices=FILES, default=list(FILES))
    budgets = [0.01, 0.02, 0.05, 0.1, 0.2]
    parser.add_argument("--budgets", nargs="+", type=float, default=budgets)
    parser.add_argument("--strategies", nargs="+", choices=strategies, default=strategies)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="limit to N records of each set")
    parser.add_argument("--delay", type=int, default=0, help="records until a label comes")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the table of strategies")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    return parser.parse_args()


def strategies(console, arguments):
    """Print and draw the table of query strategies."""
    found, lines, shares = {}, {}, {}
    for name in arguments.sets:
        if stream(name, 0, 1) is None:
            continue
        found[name], bought = measure(name, arguments)
        shares = bought
        lines[name] = references(name, 0, arguments)
        title = f"{name}: every label {lines[name][0]:.2f} %, repeat last {lines[name][1]:.2f} %"
        tabulate(console, title, found[name], bought, arguments)
    if found:
        mean = {key: np.mean([a[key] for a in found.values()], axis=0) for key in shares}
        tabulate(console, "mean over the sets", mean, shares, arguments)
    if found and arguments.plot:
        draw(found, lines, arguments)


def main():
    arguments = parse()
    console = Console(width=130)
    if "few" in arguments.tables:
        few(console, arguments.streams, arguments.rows, arguments.seeds)
    if "strategies" in arguments.tables:
        strategies(console, arguments)
    if "pool" in arguments.tables:
        arguments.out.mkdir(parents=True, exist_ok=True)
        pool(console, arguments.seeds, arguments.out / "label_efficiency_pool.png")
        console.print(f"drawn into {arguments.out}")


if __name__ == "__main__":
    main()
