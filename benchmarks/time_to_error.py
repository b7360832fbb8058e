"""CPU seconds to LightGBM's best error, one thread, our defaults the same for all sets.

    python -m benchmarks.time_to_error [--seeds 5] [--sets satimage letter ...] [--baseline FOLDER]
        [--plot FILE] [--parameters JSON]

LightGBM, XGBoost (both of 15 leaves, rate 0.1) and scikit-learn's histogram boosting are trained
for 50, 100, 300 and 1000 rounds; for LightGBM, these are stages of one training. The target is
LightGBM's best test error over these, plus one test row. Each model's time is the CPU time of the
cheapest grid point whose error reaches the target (ours: the mean error over the seeds). Our grid
of rounds is finer, as it is trained separately for each number of rounds. The ratios are LightGBM's
time to its own best error, and XGBoost's time to the target, divided by ours. Only measured times
are printed: a model that never reaches the target shows its best error instead.

Sets named ROWSxFEATURESxCLASSES are generated: normal columns, and classes from a noisy linear
function of them. The sets "hastie" and "clusters" have 1,000,000 rows from scikit-learn's
generators: ten normal columns whose squared length decides between two classes, and twenty columns
with five classes of four clusters each. On these two, LightGBM is the only peer. From 200,000 rows
on, our grid of rounds is LightGBM's, as a fit takes seconds to minutes.

JSON are parameters of our estimator instead of the defaults, such as '{"max_leaf_nodes": 8}'.
FOLDER holds another state of the project, for example a `git worktree` of the previous commit. Both
states then train in processes of their own, alternately. The last columns are the baseline's time
and its ratio to ours. If one of them never reaches the target, all rounds that both have tried are
compared. Our times are medians over seeds and repeats.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification, make_hastie_10_2
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

from benchmarks.data import FOLDER, load
from streamboost import SketchLogitBoostClassifier

SETS = ["satimage", "letter", "usps", "segment", "dna180"]
MADE_UP = ["300x20x3", "200000x50x3"]
LARGE = ["hastie", "clusters"]
LARGE_ROWS = 1_000_000
TEST_ROWS = 20_000
MANY_ROWS = 200_000
HERE = Path(__file__).parents[1]
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
    if "x" in name and name[0].isdigit():
        return made_up(*map(int, name.split("x")))
    if name in LARGE:
        X, y = large(name)
        return X[:LARGE_ROWS], y[:LARGE_ROWS], X[LARGE_ROWS:], y[LARGE_ROWS:]
    data = load(name)
    if data is None:
        return None
    rows = data["test_not_in_train"] if "test_not_in_train" in data else slice(None)
    return data["X_train"], data["y_train"], data["X_test"][rows], data["y_test"][rows]


def large(name):
    """Return the training rows and the test rows of a set of `LARGE`, and their classes."""
    n = LARGE_ROWS + TEST_ROWS
    if name == "hastie":
        X, y = make_hastie_10_2(n, random_state=0)
    else:
        X, y = make_classification(
            n,
            n_features=20,
            n_informative=10,
            n_redundant=5,
            n_classes=5,
            n_clusters_per_class=4,
            random_state=0,
        )
    return X.astype(np.float32), y.astype(np.int64)


def made_up(n, n_features, n_classes):
    """Return `n` training rows, and the test rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + TEST_ROWS, n_features), dtype=np.float32)
    scores = X @ rng.standard_normal((n_features, n_classes)) / np.sqrt(n_features)
    y = (scores + 0.5 * rng.standard_normal(scores.shape)).argmax(axis=1)
    return X[:n], y[:n], X[n:], y[n:]


def timed(model, X, y, X_test, y_test):
    """Fit once: CPU seconds, share of test rows wrong."""
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    return seconds, float((model.predict(X_test) != y_test).mean())


def peer(make, data, grid=GRID):
    """Train for each number of rounds: (rounds, seconds, error)."""
    return [(rounds, *timed(make(rounds), *data)) for rounds in grid]


def lightgbm_stages(X, y, X_test, y_test):
    """Train LightGBM for the most rounds: (rounds, seconds, error) after each number of GRID."""
    ends, start = [], time.process_time()
    model = lightgbm(GRID[-1])
    model.fit(X, y, callbacks=[lambda _: ends.append(time.process_time() - start)])
    points = []
    for rounds in GRID:
        error = float((model.predict(X_test, num_iteration=rounds) != y_test).mean())
        points.append((rounds, ends[min(rounds, len(ends)) - 1], error))
    return points


def ours(data, seeds, target, grid, parameters):
    """Measure our `grid` up to the first point at the target: (rounds, seconds, error)."""
    points = []
    for rounds in grid:
        model = SketchLogitBoostClassifier(n_estimators=rounds).set_params(**parameters)
        runs = [timed(model.set_params(random_state=seed), *data) for seed in range(seeds)]
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
    """Return the time and rounds to the target, or the best error, as text; "-" without points."""
    if not points:
        return "-"
    point = cheapest(points, target)
    if point is None:
        return f"best {100 * min(error for *_, error in points):.2f} %"
    return f"{point[1]:.3f} s ({point[0]})"


def reached_by_each(name, target, arguments, folders):
    """Measure our grid in processes of each state, alternately; return the points by state."""
    walks = {state: [] for state in folders}
    for _ in range(arguments.repeats):
        for state, folder in folders.items():
            walks[state].append(in_a_process(folder, name, target, arguments))
    # The errors are the same in every repeat, and so are the points reached.
    return {
        state: [
            (rounds, float(np.median([walk[i][1] for walk in of])), error)
            for i, (rounds, _, error) in enumerate(of[0])
        ]
        for state, of in walks.items()
    }


def in_a_process(folder, name, target, arguments):
    """Measure our grid with the project in `folder`, on the data of this state."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "STREAMBOOST_DATA": str(FOLDER),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "--walk", name, repr(target)]
    command += ["--seeds", str(arguments.seeds), "--parameters", json.dumps(arguments.parameters)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return [tuple(point) for point in json.loads(done.stdout)]


def walk(name, target, arguments):
    """Measure our grid on a set, after compilation."""
    data = split(name)
    grid = OUR_GRID if len(data[0]) < MANY_ROWS else GRID
    SketchLogitBoostClassifier(n_estimators=2).fit(*data[:2]).predict(data[2])
    return ours(data, arguments.seeds, target, grid, arguments.parameters)


def compare(name, arguments):
    """Return the cells of a set's line, its ratios by model, and its curves."""
    data = split(name)
    if data is None:
        return None
    light, others = lightgbm_stages(*data), [[], []]
    if name not in LARGE:
        others = [peer(xgboost, data), peer(histogram_boosting, data)]
    target = min(error for *_, error in light) + 1.0 / len(data[3]) + 1e-12
    folders = {"ours": HERE}
    if arguments.baseline:
        folders["baseline"] = arguments.baseline.resolve()
    walked = reached_by_each(name, target, arguments, folders)
    best_light = min(light, key=lambda point: (point[2], point[1]))
    mine = cheapest(walked["ours"], target)
    theirs = {"LightGBM": best_light, "XGBoost": cheapest(others[0], target)}
    ratios = {who: point[1] / mine[1] for who, point in theirs.items() if point and mine}
    if arguments.baseline:
        ratios["baseline"] = beside(walked, target)
    cells = [
        name,
        said(ratios, "LightGBM"),
        said(ratios, "XGBoost"),
        f"{100 * target:.2f}",
        cell(walked["ours"], target),
        f"{100 * walked['ours'][-1][2]:.2f}",
        f"{best_light[1]:.3f} s ({best_light[0]})",
        *(cell(points, target) for points in others),
    ]
    if arguments.baseline:
        cells += [cell(walked["baseline"], target), said(ratios, "baseline")]
    walks = {"streamboost": walked["ours"], "LightGBM": light, "XGBoost": others[0]}
    return cells, ratios, {who: drawn(points) for who, points in walks.items()}


def drawn(points):
    """Return CPU seconds and errors in percent, in the order of the rounds."""
    return [point[1] for point in points], [100 * point[2] for point in points]


def beside(walked, target):
    """Return the ratio of the baseline's time to ours: to the target, or for equal rounds."""
    points = [cheapest(of, target) for of in walked.values()]
    if None in points:
        both = min(map(len, walked.values()))
        points = [np.sum(of[:both], axis=0) for of in walked.values()]
    mine, other = points
    return other[1] / mine[1]


def said(ratios, who):
    """Return a ratio as text, or "-" without one."""
    return f"{ratios[who]:.2f}" if who in ratios else "-"


def summary(ratios, names):
    """Yield a line for each model with its mean and least ratio over the sets of `names`."""
    for who in dict.fromkeys(who for of_set in ratios.values() for who in of_set):
        its = [ratios[name][who] for name in names if who in ratios.get(name, {})]
        if its:
            yield (
                f"{who}'s time over ours, on {len(its)} of {len(names)} sets ({', '.join(names)}): "
                f"geometric mean {np.exp(np.mean(np.log(its))):.2f}, least {min(its):.2f}"
            )


def arguments_given():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=[*SETS, *MADE_UP])
    parser.add_argument("--baseline", type=Path, metavar="FOLDER")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw error over CPU seconds")
    parser.add_argument("--parameters", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--walk", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = arguments_given()
    warnings.filterwarnings("ignore")
    if arguments.walk:
        name, target = arguments.walk
        print(json.dumps(walk(name, float(target), arguments)))
        return
    table = Table(
        title="CPU seconds to the target error (rounds), one thread", title_justify="left"
    )
    headings = ["set", "ratio", "to XGB", "target %", "ours", "our error %"]
    headings += ["LightGBM", "XGBoost", "sklearn"]
    headings += ["baseline", "times ours"] if arguments.baseline else []
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "set" else "right", no_wrap=True)
    ratios, panels = {}, {}
    for name in arguments.sets:
        compared = compare(name, arguments)
        if compared:
            cells, ratios[name], panels[name] = compared
            table.add_row(*cells)
    if arguments.plot:
        from benchmarks.plots import curves  # which another state may lack

        curves(arguments.plot, panels, "CPU seconds of training", "test error, %", log=True)
    console = Console(width=160)
    console.print(table)
    console.print(f"Rounds tried: {GRID}; ours {OUR_GRID}, from {MANY_ROWS:,} rows on {GRID}")
    for names in ([n for n in ratios if n in SETS], [n for n in ratios if n not in SETS]):
        for line in summary(ratios, names):
            console.print(line, highlight=False)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
