"""Test error of GAMBLE and SAMME on concentric spheres (Huang, 2009, section 5.3 and Figure 5.8).

    python -m benchmarks.concentric_spheres [--rounds 400] [--repeats 3]

Records are ten-dimensional standard normal. The class is the quintile of the squared radius:
5,000 records for training, 10,000 for testing. Both boost the same trees: weighted Gini, 15 leaves,
all features, a bin for each of up to 255 values. Each repeat draws new records.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import chi2

from streamboost import GambleClassifier, SammeClassifier

CLASSES, DIMENSIONS = 5, 10


def spheres(n, rng):
    """Return records (n, 10) and the shell each lies in, 0 the innermost."""
    X = rng.standard_normal((n, DIMENSIONS))
    edges = chi2.ppf(np.arange(1, CLASSES) / CLASSES, DIMENSIONS)
    return X, np.searchsorted(edges, (X**2).sum(axis=1))


def models(rounds):
    trees = {"n_estimators": rounds, "max_leaf_nodes": 15, "max_features": 1.0, "max_bins": 255}
    return {
        "GAMBLE": GambleClassifier(**trees),
        "GAMBLE, as printed": GambleClassifier(step="paper", weight_floor=0.0, **trees),
        "SAMME": SammeClassifier(**trees),
        "SAMME.R": SammeClassifier(variant="real", **trees),
    }


def errors(model, train, test, at):
    """Fit, and return the test error in percent after each number of rounds in `at`."""
    stages = list(model.fit(*train).staged_predict(test[0]))
    return [100 * (stages[min(m, len(stages)) - 1] != test[1]).mean() for m in at]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    at = [m for m in (10, 30, 100, 200, 400, 1000) if m < arguments.rounds] + [arguments.rounds]
    table = Table(title=f"Test error in %, mean of {arguments.repeats} draws", title_justify="left")
    table.add_column("after rounds")
    for m in at:
        table.add_column(str(m), justify="right")
    runs = {name: [] for name in models(1)}
    for seed in range(arguments.repeats):
        rng = np.random.default_rng(seed)
        train, test = spheres(1000 * CLASSES, rng), spheres(10_000, rng)
        for name, model in models(arguments.rounds).items():
            runs[name].append(errors(model, train, test, at))
    for name, found in runs.items():
        table.add_row(name, *(f"{m:.1f}" for m in np.mean(found, axis=0)))
    gain = np.array(runs["SAMME"]) - np.array(runs["GAMBLE"])
    table.add_section()
    table.add_row("SAMME less GAMBLE", *(f"{m:.1f}" for m in gain.mean(axis=0)))
    table.add_row("its least", *(f"{m:.1f}" for m in gain.min(axis=0)))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
