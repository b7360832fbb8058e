"""Accuracy, speed and memory on streams with every label, compared with other online learners.

    python -m benchmarks.streams [--sets electricity ...] [--models default ...] [--records 5000]

Each record is predicted and then learned. Accuracy and speed of a line are of the same run, in a
process of its own. Speed is in records per second of that process's CPU time. Memory is River's
count of what the model holds at the end, which does not include what LightGBM holds outside Python.
The other learners are slow: each is measured once on a machine and kept, with its version, in
build/benchmarks/streams.json (delete the file to measure again).

River generates two streams. "agrawal" changes its rule after 2,500 records, and again, and then
back to the second rule. The centroids of "rbf" move all the time.
"""

import argparse
import json
import multiprocessing
import platform
import time
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
from rich.console import Console
from rich.table import Table
from river import base, ensemble, forest, tree
from river.datasets import synth

from benchmarks.data import load
from streamboost.adapters.river import StreamBoostClassifier
from streamboost.learner import Schedule

KEPT = Path("build") / "benchmarks" / "streams.json"

FILES = {
    "segments": "image_segments_river",
    "keystroke": "keystroke",
    "weather": "weather_noaa",
    "outdoor": "outdoor",
    "electricity": "elec2",
}


def agrawal():
    rules = [synth.Agrawal(rule, seed=rule + 1, perturbation=0.05) for rule in (0, 3, 6, 3)]
    return chain.from_iterable(rule.take(2_500) for rule in rules)


def rbf():
    moving = {"change_speed": 0.001, "n_drift_centroids": 20}
    shape = {"n_classes": 4, "n_features": 10, "n_centroids": 20}
    return synth.RandomRBFDrift(seed_model=42, seed_sample=42, **shape, **moving).take(10_000)


MADE = {"agrawal": agrawal, "rbf": rbf}


def records(name, n):
    """Return the first `n` records of a set as River gives them, or None where it is missing.

    No value is missing in any of them.
    """
    if name in MADE:
        return list(islice(MADE[name](), n))
    data = load(FILES[name])
    if data is None:
        return None
    X = data["X"][:n, 2:8] if name == "electricity" else data["X"][:n]
    fields = [f"x{j}" for j in range(X.shape[1])]
    rows = X.astype(float).tolist()
    return [
        (dict(zip(fields, row, strict=True)), int(y))
        for row, y in zip(rows, data["y"][:n], strict=True)
    ]


class RepeatLast(base.Classifier):
    """Predicts the last label."""

    label = None

    def predict_one(self, x):
        return self.label

    def learn_one(self, x, y):
        self.label = y


class LightGBM(base.Classifier):
    """Refitted on the newest 10,000 whenever labels grow by 5 %, at least 50 and at most 500."""

    def __init__(self):
        self.X, self.y, self.due, self.model = [], [], 50, None

    def predict_one(self, x):
        if self.model is None:
            return self.y[-1] if self.y else None
        scores = self.model.booster_.predict(np.array([list(x.values())]))
        best = scores.argmax() if scores.ndim == 2 else int(scores[0] > 0.5)
        return self.model.classes_[best]

    def learn_one(self, x, y):
        self.X.append(list(x.values()))
        self.y.append(y)
        if len(self.y) >= self.due and len(set(self.y[-10_000:])) > 1:
            self.due += min(max(50, len(self.y) // 20), 500)
            self.model = LGBMClassifier(
                n_estimators=100, num_leaves=15, n_jobs=1, random_state=1, verbose=-1
            )
            self.model.fit(np.array(self.X[-10_000:]), self.y[-10_000:])


def bagged(family):
    return family(tree.HoeffdingTreeClassifier(), n_models=10, seed=1)


OURS = {
    "repeat-last": RepeatLast,
    "default": lambda: StreamBoostClassifier(seed=1),
    "committee": lambda: StreamBoostClassifier(experts="committee", seed=1),
    "per-label": lambda: StreamBoostClassifier(
        schedule=Schedule.per_label(), experts="committee", seed=1
    ),
    "per-label+lag": lambda: StreamBoostClassifier(
        schedule=Schedule.per_label(), label_lags=1, experts="committee", seed=1
    ),
}
PEERS = {
    "ARF": lambda: forest.ARFClassifier(n_models=10, seed=1),
    "AMF": lambda: forest.AMFClassifier(n_estimators=10, seed=1),
    "SRP": lambda: bagged(ensemble.SRPClassifier),
    "leveraging": lambda: bagged(ensemble.LeveragingBaggingClassifier),
    "Hoeffding": tree.HoeffdingTreeClassifier,
    "LightGBM": LightGBM,
}
MODELS = OURS | PEERS


def run(name, stream):
    """Predict, then learn each record: accuracy in percent, records per second, megabytes."""
    model = MODELS[name]()
    right = 0
    start = time.process_time()
    for x, y in stream:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    seconds = time.process_time() - start
    return {
        "accuracy": 100 * right / len(stream),
        "speed": len(stream) / seconds,
        "memory": model._raw_memory_usage / 1e6,
    }


def measure(name, set_name, n, answer):
    """Measure one line in a process of its own, and send it."""
    stream = records(set_name, n)
    run(name, stream[:200])  # loads and compiles outside the measurement
    answer.send(run(name, stream))


def line(name, set_name, n):
    """Return what `measure` sends, from the file if a peer was measured on this machine before."""
    library = "lightgbm" if name == "LightGBM" else "river"
    key = f"{platform.node()} {library} {version(library)} {name} {set_name} {n or 'all'}"
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if name in PEERS and key in kept:
        return kept[key]
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=measure, args=(name, set_name, n, theirs))
    child.start()
    theirs.close()
    result = ours.recv()
    child.join()
    if name in PEERS:
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(kept | {key: result}, indent=1))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=[*FILES, *MADE], default=[*FILES, *MADE])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--records", type=int, help="limit to the first N records of each set")
    arguments = parser.parse_args()

    console = Console(width=100)
    for name in arguments.sets:
        stream = records(name, arguments.records)
        if stream is None:
            continue
        table = Table(
            title=f"{name}: {len(stream):,} records, every label; on {platform.node()}",
            title_justify="left",
        )
        for column in ("model", "accuracy %", "records/s", "x ARF", "memory MB"):
            table.add_column(column, justify="left" if column == "model" else "right")
        lines = {model: line(model, name, arguments.records) for model in arguments.models}
        arf = lines["ARF"]["speed"] if "ARF" in lines else None
        for model, result in lines.items():
            cells = [f"{result['accuracy']:.2f}", f"{result['speed']:,.0f}"]
            cells += [f"{result['speed'] / arf:.1f}" if arf else "", f"{result['memory']:.1f}"]
            table.add_row(model, *cells)
        console.print(table)


if __name__ == "__main__":
    main()
