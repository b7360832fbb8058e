"""Speed of scoring, compared with LightGBM and XGBoost at equal error: batches and single rows.

    python -m benchmarks.scoring [--sets satimage letter ...] [--repeats 7]

The target is LightGBM's best test error over 50, 100, 300 and 1000 rounds, plus one test row. Each
model scores with the fewest rounds of its grid that reach the target (LightGBM: with its best). If
none reaches the target, the model scores with its best, which is marked. Batches are the whole test
half. Single rows go through `Committee.decision` and the boosters of the others, without
scikit-learn's checks. Times are medians of CPU time, with one thread.
"""

import argparse
import time

import numpy as np
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from benchmarks.data import load
from benchmarks.time_to_error import GRID, OUR_GRID, SETS, split
from streamboost import SketchLogitBoostClassifier


def lightgbm(X, y):
    """Return a function of rows and n that scores the rows with the first n rounds."""
    model = LGBMClassifier(
        n_estimators=GRID[-1], num_leaves=15, learning_rate=0.1, n_jobs=1, verbose=-1
    )
    booster = model.fit(X, y).booster_
    return lambda rows, rounds: booster.predict(rows, num_iteration=rounds, num_threads=1)


def xgboost(X, y):
    model = XGBClassifier(
        n_estimators=GRID[-1],
        max_leaves=15,
        max_depth=0,
        grow_policy="lossguide",
        learning_rate=0.1,
        tree_method="hist",
        n_jobs=1,
    )
    booster = model.fit(X, y).get_booster()
    return lambda rows, rounds: booster.inplace_predict(rows, iteration_range=(0, rounds))


def ours(X, y):
    """Return the same of ours; a committee of fewer rounds is trained as such."""
    committees = {}

    def score(rows, rounds):
        if rounds not in committees:
            model = SketchLogitBoostClassifier(n_estimators=rounds, random_state=0)
            committees[rounds] = model.fit(X, y).committee_
        return committees[rounds].class_scores(rows)

    return score


def wrong(score, rounds, X, y):
    """Return the share of rows whose largest score is not their class's."""
    return float(np.mean(score(X, rounds).argmax(axis=1) != y))


def enough(score, grid, X, y, target):
    """Return the fewest rounds that reach the target, or the best, and whether they do."""
    errors = []
    for rounds in grid:
        errors.append(wrong(score, rounds, X, y))
        if errors[-1] <= target:
            return rounds, True
    return grid[int(np.argmin(errors))], False


def seconds(score, X, rounds, repeats):
    """Return the median CPU seconds of scoring `X` once."""
    calls = 1 if len(X) > 1 else 200
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            score(X, rounds)
        times.append((time.process_time() - start) / calls)
    return float(np.median(times))


def compare(name, repeats):
    """Return the rows of the table for one set."""
    X, y, X_test, y_test = split(name)
    models = {"ours": ours(X, y), "LightGBM": lightgbm(X, y), "XGBoost": xgboost(X, y)}
    errors = [wrong(models["LightGBM"], rounds, X_test, y_test) for rounds in GRID]
    target = min(errors) + 1.0 / len(y_test) + 1e-12
    rows = []
    for model, score in models.items():
        grid = OUR_GRID if model == "ours" else GRID
        rounds, reached = enough(score, grid, X_test, y_test, target)
        if model == "LightGBM":
            rounds = GRID[int(np.argmin(errors))]
        batch = seconds(score, X_test, rounds, repeats)
        single = seconds(score, X_test[:1], rounds, repeats)
        rows.append((model, rounds, reached, len(X_test) / batch, 1e6 * single))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()

    table = Table(title="Scoring, one thread (* the target is not reached)", title_justify="left")
    for heading in ("set", "model", "ours is faster by", "rows/s", "one row, µs", "rounds"):
        table.add_column(heading, justify="left" if heading in ("set", "model") else "right")
    for name in arguments.sets:
        if load(name) is None:
            continue
        rows = compare(name, arguments.repeats)
        for model, rounds, reached, rate, single in rows:
            cells = f"{rows[0][3] / rate:.1f}", f"{rate:,.0f}", f"{single:.1f}"
            table.add_row(name, model, *cells, f"{rounds}{'' if reached else '*'}")
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
