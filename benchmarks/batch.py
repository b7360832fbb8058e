"""Batch training compared with LightGBM: test error and CPU time, one thread, one setting for all.

    python -m benchmarks.batch [--repeats 5] [--sets satimage letter usps]

Both are timed alternately in the same run. Each repeat has its own seed. Errors are means (with the
least and greatest), times are medians of the process's CPU seconds.
"""

import argparse
import time
import warnings

import numpy as np
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table

from benchmarks.data import load
from streamboost import SketchLogitBoostClassifier

SETS = ["satimage", "letter", "usps"]


def peers(seed):
    """Return the rows of the table: a name and a fresh model."""
    lightgbm = LGBMClassifier(
        n_estimators=300, num_leaves=15, learning_rate=0.1, n_jobs=1, random_state=seed, verbose=-1
    )
    return {
        "SketchLogitBoost": SketchLogitBoostClassifier(random_state=seed),
        "LightGBM": lightgbm,
    }


def measure(model, data):
    """Fit and score once: test error in percent, CPU seconds of either."""
    start = time.process_time()
    model.fit(data["X_train"], data["y_train"])
    fitted = time.process_time()
    wrong = model.predict(data["X_test"]) != data["y_test"]
    return 100 * wrong.mean(), fitted - start, time.process_time() - fitted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")

    table = Table(
        title="Test error and CPU time, one thread; LightGBM: 300 rounds, 15 leaves",
        title_justify="left",
    )
    for column in ("set", "model", "error %", "least", "most", "fit s", "score s", "fit, ratio"):
        table.add_column(column, justify="left" if column in ("set", "model") else "right")
    for name in arguments.sets:
        data = load(name)
        if data is None:
            continue
        data = dict(data)
        # The first call compiles, outside the measurement.
        SketchLogitBoostClassifier(n_estimators=1).fit(data["X_train"], data["y_train"]).predict(
            data["X_test"]
        )
        results = {model: [] for model in peers(0)}
        for seed in range(arguments.repeats):
            for model, estimator in peers(seed).items():
                results[model].append(measure(estimator, data))
        ours = np.median([fit for _, fit, _ in results["SketchLogitBoost"]])
        for model, runs in results.items():
            errors, fits, scores = map(np.array, zip(*runs, strict=True))
            cells = [f"{errors.mean():.2f}", f"{errors.min():.2f}", f"{errors.max():.2f}"]
            cells += [f"{np.median(fits):.3f}", f"{np.median(scores):.3f}"]
            table.add_row(name, model, *cells, f"{np.median(fits) / ours:.1f}")
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
