"""QuickBoost's pruning: additions and CPU time with and without, for the very same trees.

    python -m benchmarks.quickboost [--sets usps satimage made-up]

GAMBLE with stumps and with trees, all features offered. "Made-up" is of the shape of the thesis's
data: two classes, 4,000 rows, 3,000 features, a few of them telling. Without pruning a child's
histogram is its parent's less its sibling's; a pruned node has nothing to subtract from, so that
pruning must first win back that half. It pays for stumps (a sixth to a twentieth of the additions,
0.4 to 0.8 of the time), a little for trees of 8 leaves, and not for trees of 20. CPU seconds are of
growing alone (a fit less a fit of one round), the least of three in turn.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import load
from streamboost import GambleClassifier

REPEATS = 3
SHAPES = [(2, 200), (8, 50), (20, 25)]  # leaves, rounds


def rows_of(name):
    """Return the training rows and labels of a set, or None where it is missing."""
    if name == "made-up":
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 4_000)
        X = rng.standard_normal((4_000, 3_000), dtype=np.float32)
        shift = 0.6 * rng.random(3_000) ** 4
        return X + np.outer(2 * y - 1, shift).astype(np.float32), y
    data = load(name)
    return None if data is None else (data["X_train"].astype(np.float32), data["y_train"])


def cost(X, y, n_rounds, leaves, pruning):
    """Fit once: CPU seconds and the model."""
    model = GambleClassifier(
        n_estimators=n_rounds,
        max_leaf_nodes=leaves,
        max_features=1.0,
        pruning=pruning,
        random_state=0,
    )
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start, model


def compare(X, y, n_rounds, leaves):
    """Return additions and CPU seconds without pruning and with, in turn; check the trees."""
    seconds = np.empty((REPEATS, 2, 2))
    models = {}
    for repeat in seconds:
        for i, pruning in enumerate((None, "quick")):
            repeat[i, 0], _ = cost(X, y, 1, leaves, pruning)
            repeat[i, 1], models[pruning] = cost(X, y, n_rounds + 1, leaves, pruning)
    plain, quick = (model.committee_.forest for model in models.values())
    assert np.array_equal(plain.nodes, quick.nodes)
    assert np.array_equal(plain.values, quick.values)
    least = seconds.min(axis=0)
    return [model.n_adds_ for model in models.values()], least[:, 1] - least[:, 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["usps", "satimage", "made-up"])
    arguments = parser.parse_args()

    table = Table(title="GAMBLE without pruning and with (identical trees)", title_justify="left")
    columns = ("set", "leaves", "rounds", "adds M", "quick M", "ratio", "CPU s", "quick s", "ratio")
    for column in columns:
        table.add_column(column, justify="left" if column == "set" else "right")
    for name in arguments.sets:
        rows = rows_of(name)
        if rows is None:
            continue
        for leaves, n_rounds in SHAPES:
            (plain, quick), (slow, fast) = compare(*rows, n_rounds, leaves)
            cells = [f"{plain / 1e6:.1f}", f"{quick / 1e6:.1f}", f"{quick / plain:.2f}"]
            cells += [f"{slow:.2f}", f"{fast:.2f}", f"{fast / slow:.2f}"]
            table.add_row(name, str(leaves), str(n_rounds), *cells)
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
