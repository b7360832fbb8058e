"""CPU time of training on few rows, as streams do repeatedly, and on many rows, one thread.

    python -m benchmarks.few_rows [--baseline FOLDER] [--repeats 5]

The estimator is the default of streams (150 rounds). LightGBM has as many rounds and leaves. FOLDER
holds another state of the project, for example a `git worktree` of the previous commit. The models
of a line run in processes of their own, alternately, and times are medians of the processes. The
last column is the time divided by that of this state. A process trains on 200,000 rows only once.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

SHAPES = [
    (300, 20, 3),
    (300, 14, 2),
    (300, 60, 3),
    (1000, 20, 3),
    (5000, 20, 3),
    (5000, 16, 26),
    (200_000, 50, 3),
]
HERE = Path(__file__).parents[1]


def rows(n, n_features, n_classes):
    """Return normal columns, and classes from a noisy linear function of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    scores = X @ rng.standard_normal((n_features, n_classes))
    return X, (scores + 1.5 * rng.standard_normal((n, n_classes))).argmax(axis=1)


def ours():
    from streamboost.learner.estimators import default_estimator

    def train(X, y, seed):
        return default_estimator().train(X, y, seed=seed)

    def extend(X, y, seed, committee):
        return default_estimator().train(X, y, seed=seed, committee=committee)

    return train, extend


def lightgbm():
    from lightgbm import LGBMClassifier

    def train(X, y, seed, begun=None):
        model = LGBMClassifier(n_estimators=150, num_leaves=6, n_jobs=1, verbose=-1)
        return model.fit(X, y, init_model=begun)

    return train, train


def milliseconds(run, n_rows):
    taken = []
    for seed in range(15 if n_rows < 1000 else 5 if n_rows < 100_000 else 1):
        start = time.process_time()
        run(seed)
        taken.append(1000 * (time.process_time() - start))
    return float(np.median(taken))


def measure(model, shape):
    """Return the milliseconds of a training and of an extension."""
    train, extend = {"ours": ours, "lightgbm": lightgbm}[model]()
    X, y = rows(*shape)
    begun = train(X, y, 0)  # the first call compiles
    return [
        milliseconds(lambda seed: train(X, y, seed), len(X)),
        milliseconds(lambda seed: extend(X, y, seed, begun), len(X)),
    ]


def in_a_process(model, folder):
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", model]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps([ms for shape in SHAPES for ms in measure(arguments.one, shape)]))
        return
    contenders = {"this": ("ours", HERE), "LightGBM": ("lightgbm", HERE)}
    if arguments.baseline:
        contenders["baseline"] = "ours", arguments.baseline.resolve()
    runs = {name: [] for name in contenders}
    for _ in range(arguments.repeats):
        for name, contender in contenders.items():
            runs[name].append(in_a_process(*contender))
    medians = {name: np.median(times, axis=0) for name, times in runs.items()}
    table = Table(title="CPU milliseconds a training of 150 rounds", title_justify="left")
    for column in ("rows", "features", "classes", "what", "model", "ms", "times this"):
        table.add_column(column, justify="left" if column in ("what", "model") else "right")
    lines = [(*map(str, shape), what) for shape in SHAPES for what in ("fit", "extend")]
    for i, line in enumerate(lines):
        for name, times in medians.items():
            ratio = times[i] / medians["this"][i]
            table.add_row(*line, name, f"{times[i]:.2f}", f"{ratio:.2f}")
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
