"""Training of every family on the largest and most imbalanced shapes, too slow for the test suite.

    python -m benchmarks.edges [--estimators SammeClassifier ...] [--rows 1000000]

Each line is a process of its own: CPU seconds, and whether all scores are finite. The rare class
has 10 records in 40,000. Its errors (training and test, of 300 rounds) are shown next to the errors
of always predicting the most frequent class. `ABCLogitBoostClassifier(base="search")` grows
K (K - 1) / 2 trees a round: 19,900 with 200 classes.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import streamboost

ESTIMATORS = [
    "ABCLogitBoostClassifier",
    "AdaBoostAClassifier",
    "AdaBoostCostClassifier",
    "AdaBoostM1Classifier",
    "AdaBoostMHClassifier",
    "AOSOLogitBoostClassifier",
    "CDMCBoostClassifier",
    "GambleClassifier",
    "GDMCBoostClassifier",
    "KLogitBoostClassifier",
    "LogitBoostClassifier",
    "OneVsAllAdaBoostClassifier",
    "RebelClassifier",
    "SammeClassifier",
    "SketchLogitBoostClassifier",
]
VARIANTS = {
    "ABCLogitBoostClassifier": [{}, {"base": "search"}],
    "RebelClassifier": [{}, {"weak_learner": "localized_similarity"}],
    "SammeClassifier": [{}, {"variant": "real"}],
}
ROUNDS = {"long": 2, "wide": 5, "classes": 2, "rare": 300}


def long(seed, n_rows):
    """Many rows of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 1000, (n_rows, 2)).astype(np.float32)
    return X, (X[:, 0] > 500).astype(int) + (X[:, 1] % 7 == 3)


def wide(seed, n_rows):
    """Fifty rows of 5,000 columns."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((50, 5000)).astype(np.float32), np.arange(50) % 3


def classes(seed, n_rows):
    """Two hundred classes of five rows."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((1000, 4)).astype(np.float32), np.arange(1000) % 200


def rare(seed, n_rows):
    """A class of 10 rows in 40,000, three others, and one label in fifty wrong."""
    rng = np.random.default_rng(seed)
    X = np.rint(5 * rng.standard_normal((40_000, 2))).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] > 4).astype(int)
    y[X[:, 0] - X[:, 1] > 10] = 2
    y[rng.random(40_000) < 0.02] = 0
    X[:10], y[:10] = 25, 3
    return X, y


SHAPES = {"long": long, "wide": wide, "classes": classes, "rare": rare}


def measure(name, params, shape, n_rows):
    """Fit once; return CPU seconds, whether scores are finite, and the errors of a rare class."""
    X, y = SHAPES[shape](0, n_rows)
    rounds = ROUNDS[shape]
    if params.get("weak_learner") and shape == "rare":
        rounds = 100  # a round takes some 50 passes over the rows
    model = getattr(streamboost, name)(n_estimators=rounds, random_state=0, **params)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # many classes for so few rows
        model.fit(X, y)
    seconds = time.process_time() - start
    errors = []
    if shape == "rare":
        for part, labels in ((X, y), SHAPES[shape](1, n_rows)):
            stages = [100 * float((stage != labels).mean()) for stage in model.staged_predict(part)]
            errors.append([stages[min(r, len(stages)) - 1] for r in (30, 100, 300)])
    return seconds, bool(np.isfinite(model.decision_function(X)).all()), errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--estimators", nargs="+", default=ESTIMATORS)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, params, shape = arguments.one
        print(json.dumps(measure(name, json.loads(params), shape, arguments.rows)))
        return
    commonest = 100 * (rare(0, 0)[1] > 0).mean()
    title = f"Edges; of the rare class the errors in %, the commonest class alone {commonest:.1f} %"
    table = Table(title=title, title_justify="left")
    for column in ("estimator", "shape", "CPU s", "finite", "train 30, 100, 300", "test"):
        table.add_column(column, justify="right" if column == "CPU s" else "left")
    for name in arguments.estimators:
        for params in VARIANTS.get(name, [{}]):
            for shape in arguments.shapes:
                command = [sys.executable, "-m", "benchmarks.edges", "--rows", str(arguments.rows)]
                command += ["--one", name, json.dumps(params), shape]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                seconds, finite, errors = json.loads(done.stdout)
                figures = [", ".join(f"{e:.1f}" for e in part) for part in errors] or ["", ""]
                label = " ".join([name.removesuffix("Classifier"), *params.values()])
                table.add_row(label, shape, f"{seconds:.1f}", str(finite), *figures)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
