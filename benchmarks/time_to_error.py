"""CPU seconds to LightGBM's best error, one thread, our defaults the same for all sets.

    python -m benchmarks.time_to_error [--seeds 5] [--sets satimage letter ...]

LightGBM, XGBoost (15 leaves, rate 0.1) and scikit-learn's histogram boosting are trained for 50,
100, 300 and 1000 rounds. The target is LightGBM's best test error over these, plus one test row.
Each model's time is the CPU time of the cheapest grid point whose error (ours: the mean over the
seeds) reaches the target; ours has a finer grid of rounds, as it is trained anew for each. The
ratio is LightGBM's time to its own best error over ours. Only measured times are printed: a model
that never reaches the target shows its best error instead.
"""

import argparse
import time
import warnings

import numpy as np
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from benchmarks.data import load
from streamboost import SketchLogitBoostClassifier

SETS = ["satimage", "letter", "usps", "segment", "dna180"]
GRID = [50, 100, 300, 1000]
OUR_GRID = [*range(15, 100, 5), *range(100, 200, 25), *range(200, 450, 50), 600, 800, 1000]


def lightgbm(rounds):
    return LGBMClassifier(
        n_estimators=rounds, num_leaves=15, learning_rate=0.1, n_jobs=1, verbose=-1
    )


def xgboost(rounds):
    return XGBClassifier(
        n_estimators=rounds,
        max_leaves=15,
        max_depth=0,
        grow_policy="lossguide",
        learning_rate=0.1,
        tree_method="hist",
        n_jobs=1,
    )


def histogram_boosting(rounds):
    return HistGradientBoostingClassifier(
        max_iter=rounds, max_leaf_nodes=15, learning_rate=0.1, early_stopping=False
    )


def split(name):
    """Return the four arrays of a set; segment without the test rows that are training rows."""
    data = load(name)
    if data is None:
        return None
    rows = data["test_not_in_train"] if "test_not_in_train" in data else slice(None)
    return data["X_train"], data["y_train"], data["X_test"][rows], data["y_test"][rows]


def timed(model, X, y, X_test, y_test):
    """Fit once: CPU seconds, share of test rows wrong."""
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    return seconds, float((model.predict(X_test) != y_test).mean())


def peer(make, data, grid=GRID):
    """Train for each number of rounds: (rounds, seconds, error)."""
    return [(rounds, *timed(make(rounds), *data)) for rounds in grid]


def ours(data, seeds, target):
    """Walk our grid up to the first point that reaches the target: (rounds, seconds, error)."""
    points = []
    for rounds in OUR_GRID:
        runs = [
            timed(SketchLogitBoostClassifier(n_estimators=rounds, random_state=seed), *data)
            for seed in range(seeds)
        ]
        seconds, errors = zip(*runs, strict=True)
        points.append((rounds, float(np.median(seconds)), float(np.mean(errors))))
        if points[-1][2] <= target:
            break
    return points


def cheapest(points, target):
    """Return the cheapest point that reaches the target, or None."""
    reached = [point for point in points if point[2] <= target]
    return min(reached, key=lambda point: point[1]) if reached else None


def cell(points, target):
    """Say what it took, or how near it came."""
    point = cheapest(points, target)
    if point is None:
        return f"best {100 * min(error for *_, error in points):.2f} %"
    return f"{point[1]:.2f} s ({point[0]})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")

    table = Table(
        title="CPU seconds to the target error (rounds), one thread", title_justify="left"
    )
    headings = ("set", "ratio", "target %", "ours", "our error %", "LightGBM", "XGBoost", "sklearn")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "set" else "right", no_wrap=True)
    ratios = []
    for name in arguments.sets:
        data = split(name)
        if data is None:
            continue
        SketchLogitBoostClassifier(n_estimators=2).fit(*data[:2]).predict(data[2])  # compiles
        light = peer(lightgbm, data)
        target = min(error for *_, error in light) + 1.0 / len(data[3]) + 1e-12
        mine = ours(data, arguments.seeds, target)
        best_light = min(light, key=lambda point: (point[2], point[1]))
        point = cheapest(mine, target)
        ratio = best_light[1] / point[1] if point else float("nan")
        ratios.append(ratio)
        table.add_row(
            name,
            f"{ratio:.1f}",
            f"{100 * target:.2f}",
            cell(mine, target),
            f"{100 * mine[-1][2]:.2f}",
            f"{best_light[1]:.2f} s ({best_light[0]})",
            cell(peer(xgboost, data), target),
            cell(peer(histogram_boosting, data), target),
        )
    console = Console(width=120)
    console.print(table)
    if ratios:
        console.print(f"Rounds tried: {GRID}; ours {OUR_GRID}")
        console.print(
            f"LightGBM's time over ours: geometric mean {np.exp(np.mean(np.log(ratios))):.1f}, "
            f"least {min(ratios):.1f}"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
