"""CPU time of explaining a record with `Committee.contributions`, one thread.

    python -m benchmarks.explanations [--rounds 400] [--repeats 50]

Records are generated, with 20 features and 2 to 26 classes: single rows, and a thousand at once.
Times are medians of CPU time after the kernel is compiled. The compilation time is given below the
table.
"""

import argparse
import subprocess
import sys
import tempfile
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification

from streamboost import SketchLogitBoostClassifier

CLASSES = (2, 5, 10, 26)
FIRST = """
import time
import numpy as np
from streamboost import GambleClassifier
X = np.arange(40.0)[:, None]
committee = GambleClassifier(n_estimators=2).fit(X, np.arange(40) > 20).committee_
start = time.process_time()
committee.contributions(X)
print(time.process_time() - start)
"""


def trained(n_classes, rounds):
    X, y = make_classification(
        4000,
        20,
        n_informative=10,
        n_classes=n_classes,
        n_clusters_per_class=1,
        random_state=0,
    )
    model = SketchLogitBoostClassifier(n_estimators=rounds, random_state=0).fit(X, y)
    return model.committee_, X.astype(np.float32)


def seconds(explain, batches):
    """Return the median CPU seconds of explaining one of the batches."""
    taken = []
    for rows in batches:
        start = time.process_time()
        explain(rows)
        taken.append(time.process_time() - start)
    return float(np.median(taken))


def compiling():
    """Return the CPU seconds of the first call on a machine."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", FIRST], env=environment, capture_output=True, check=True
        )
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    table = Table("classes", "leaves a tree", "one row, ms", "a row of 1,000, ms", "score, ms")
    for n_classes in CLASSES:
        committee, X = trained(n_classes, options.rounds)
        committee.contributions(X[:1])
        ones = [X[i : i + 1] for i in range(options.repeats)]
        table.add_row(
            str(n_classes),
            f"{len(committee.learners.values) / committee.n_trees:.0f}",
            f"{1e3 * seconds(committee.contributions, ones):.2f}",
            f"{seconds(committee.contributions, [X[:1000]]):.2f}",
            f"{1e3 * seconds(committee.class_scores, ones):.2f}",
        )
    Console().print(table)
    print(f"compiling the kernel, once on a machine: {compiling():.1f} s")


if __name__ == "__main__":
    main()
