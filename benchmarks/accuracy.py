"""Test error of the default estimator, compared with LightGBM's best, on every set.

    python -m benchmarks.accuracy [--seeds 5] [--sets glass vowel ...]

LightGBM (15 leaves, rate 0.1) is trained for 1000 rounds and evaluated after 50, 100, 300 and 1000.
Its best of the four means counts, which favours it. The default estimator is evaluated once. If a
set has no test half, seed s trains both on the same random 70 % of the rows and tests on the rest.
Streams are used as batches. Errors are means over the seeds, in percent.
"""

import argparse
import warnings

import numpy as np
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.data import load
from streamboost import SketchLogitBoostClassifier

SETS = [
    "dna180",
    "elec2",
    "glass",
    "image_segments_river",
    "keystroke",
    "letter",
    "nursery",
    "outdoor",
    "satimage",
    "segment",
    "splice60",
    "usps",
    "vowel",
    "weather_noaa",
]
GRID = [50, 100, 300, 1000]
ARRAYS = ["X", "y", "X_train", "y_train", "X_test", "y_test", "test_not_in_train"]


def split(data, seed):
    """Return training and test rows: the official halves, or a random 70/30 split."""
    if "X" in data:
        X, y = data["X"], data["y"]
    elif len(data["y_test"]) == 0:
        X, y = data["X_train"], data["y_train"]
    else:
        # Some test rows of segment are training rows.
        rows = data["test_not_in_train"] if "test_not_in_train" in data else slice(None)
        return data["X_train"], data["y_train"], data["X_test"][rows], data["y_test"][rows]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    return X, y, X_test, y_test


def lightgbm(X, y, X_test, y_test):
    """Return the error at each point of the grid."""
    model = LGBMClassifier(
        n_estimators=GRID[-1], num_leaves=15, learning_rate=0.1, n_jobs=1, verbose=-1
    ).fit(X, y)
    return [np.mean(model.predict(X_test, num_iteration=rounds) != y_test) for rounds in GRID]


def ours(X, y, X_test, y_test, seed):
    """Return the error of the defaults."""
    model = SketchLogitBoostClassifier(random_state=seed).fit(X, y)
    return np.mean(model.predict(X_test) != y_test)


def compare(name, seeds):
    """Return the row of one set: what to print, or None where it is missing."""
    data = load(name)
    if data is None:
        return None
    data = {key: data[key] for key in ARRAYS if key in data}  # elec2 holds more, not all loadable
    splits = [split(data, seed) for seed in range(seeds)]
    official = len(data.get("y_test", ())) > 0
    peer = 100 * np.mean(
        [lightgbm(*halves) for halves in splits[: 1 if official else None]], axis=0
    )
    mine = 100 * np.array([ours(*halves, seed) for seed, halves in enumerate(splits)])
    X, y, X_test, _ = splits[0]
    best = int(peer.argmin())
    return (
        name,
        f"{mine.mean() - peer[best]:+.2f}",
        f"{mine.mean():.2f}",
        f"{mine.std():.2f}",
        f"{peer[best]:.2f}",
        str(GRID[best]),
        f"{len(X):,}",
        f"{len(X_test):,}",
        str(X.shape[1]),
        str(len(np.unique(y))),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")

    table = Table(title="Test error in percent", title_justify="left")
    headings = ("set", "ours less", "ours", "±", "LightGBM", "rounds", "rows", "tested", "D", "K")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "set" else "right", no_wrap=True)
    for name in arguments.sets:
        row = compare(name, arguments.seeds)
        if row is not None:
            table.add_row(*row)
    Console(width=110).print(table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
