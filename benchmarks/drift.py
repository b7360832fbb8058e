"""Recovery of a stream learner from concept drift: accuracy, detection delay, speed and memory.

    python -m benchmarks.drift [--labels 2500] [--draws 5] [--streams ...] [--detectors ...]
                               [--records 50000]

The first table takes some minutes. It uses River's generators with every label known; a concept
lasts `--labels` records. Accuracy is that of predictions on arrival, as means over the changes of
`--draws` draws of the stream:

- over the 1,000 records before a change;
- over the 250 records after the change;
- over 500 records, from 1,000 after the change on;
- over the last 1,000 records of the new concept;
- "fresh": over the same 500 records, of learners that start at the change and therefore have no old
  concept to forget.

The first retraining on drift after a change counts as its detection; all other retrainings on drift
are false alarms. "delay" is the median detection delay, in labels.

The second table has one long stream that changes every twentieth, with a label for 5 % of the
records. It shows rows per CPU second and the memory of the process, tenth by tenth. Use
`--records 500000` for the long form. `--labels 0` or `--records 0` skips a table.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from river.datasets import synth

from streamboost import Schedule, StreamLearner
from streamboost.learner.estimators import fully_labelled_estimator

BATCH = 10
CHANGES = {
    "none": {},
    "adwin": {"on_drift": "adwin"},
    "page_hinkley": {"on_drift": "page_hinkley"},
    "kswin": {"on_drift": "kswin"},
    "adwin, margin": {"on_drift": "adwin", "drift_signal": "margin"},
}


def take(generator, n):
    """Return n records of a generator as arrays."""
    records = [(list(x.values()), int(y)) for x, y in generator.take(n)]
    X, y = zip(*records, strict=True)
    return np.array(X, dtype=np.float32), np.array(y)


def sea(n, draw):
    variants = enumerate((0, 3, 0, 3), 10 * draw)
    return abrupt([take(synth.SEA(variant=v, noise=0.1, seed=i), n) for i, v in variants])


def agrawal(n, draw):
    functions = enumerate((0, 4, 0, 4), 10 * draw)
    return abrupt([take(synth.Agrawal(classification_function=f, seed=i), n) for i, f in functions])


def led(n, draw):
    """Three times the informative segments change places with noise."""
    return abrupt(
        [
            take(
                synth.LEDDrift(
                    seed=i, noise_percentage=0.1, irrelevant_features=True, n_drift_features=d
                ),
                n,
            )
            for i, d in enumerate((0, 3, 5, 7), 10 * draw)
        ]
    )


def gradual(n, draw):
    """Agrawal's first function changes to its fifth over 1,000 records, and back again."""
    X, y, changes = agrawal(n, draw)
    rng = np.random.default_rng(draw)
    for change in changes:
        near = np.arange(change, change + 1000)
        stays = rng.random(1000) > (near - change) / 1000
        place = near[stays] - n
        X[near[stays]], y[near[stays]] = X[place], y[place]
    return X, y, changes


def moving(n, draw):
    """Centroids that move with every record: no change to find, drift all the same."""
    generator = synth.RandomRBFDrift(
        seed_model=draw,
        seed_sample=draw,
        n_classes=4,
        n_features=8,
        n_centroids=20,
        n_drift_centroids=20,
        change_speed=5e-4,
    )
    X, y = take(generator, 4 * n)
    return X, y, []


STREAMS = {
    "SEA, abrupt, recurring": sea,
    "Agrawal, abrupt, recurring": agrawal,
    "LED, abrupt": led,
    "Agrawal, gradual": gradual,
    "RandomRBF, moving": moving,
}


def abrupt(parts):
    """Return the parts one after the other, and where each but the first begins."""
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return X, y, np.cumsum([len(labels) for _, labels in parts])[:-1].tolist()


def follow(X, y, **schedule):
    """Predict and learn every record; return what was right, the trainings and CPU seconds."""
    learner = StreamLearner(
        fully_labelled_estimator(), schedule=Schedule(**schedule), random_state=0
    )
    right, trainings = [], []
    started = time.process_time()
    for at in range(0, len(y), BATCH):
        rows, labels = X[at : at + BATCH], y[at : at + BATCH]
        ids = [str(i) for i in range(at, at + len(labels))]
        scored = learner.score_arrivals(rows)
        learner.query(rows, scored, ids)
        trainings += learner.learn(ids, rows, labels, predicted=scored.labels)
        right += (scored.labels == labels).tolist()
    return np.array(right), trainings, time.process_time() - started


def around(right, changes, n):
    """Return the mean accuracies before, just after, 1,000 after, and at the end of a concept."""
    spans = [(-1000, 0), (0, 250), (1000, 1500), (n - 1000, n)] if changes else []
    return [np.mean([right[c + a : c + b].mean() for c in changes]) for a, b in spans]


def begun_anew(X, y, changes):
    """Return the mean accuracy from 1,000 to 1,500 records of learners that begin at a change."""
    learners = [follow(X[c : c + 1500], y[c : c + 1500])[0] for c in changes]
    return np.mean([right[1000:].mean() for right in learners])


def detections(trainings, changes, n):
    """Return the delays of the changes that were found, and how many false alarms there were."""
    found = [t.labels for t in trainings if t.kind == "drift"]
    firsts = [min((f for f in found if c < f <= c + n), default=None) for c in changes]
    delays = [first - c for first, c in zip(firsts, changes, strict=True) if first is not None]
    return delays, len(found) - len(delays)


def in_words(found, changes):
    """Return the delays in labels and the number of false alarms, as a table shows them."""
    delays, false = [delay for one, _ in found for delay in one], sum(n for _, n in found)
    if not changes:  # it drifts all the time: no retraining is early, late or wrong
        return f"{false} retrained", ""
    missed = len(found) * len(changes) - len(delays)
    median = f"{np.median(delays):.0f}" if delays else "none"
    return median + (f", {missed} missed" if missed and delays else ""), str(false)


def recovery(arguments, console):
    title = f"Accuracy around a change every {arguments.labels:,} labels, all labels known"
    table = Table(title=title, title_justify="left")
    for name in ("stream", "detector"):
        table.add_column(name)
    spans = ("before", "250", "1,000 after", "end")
    for name in ("all", *spans, "fresh", "delay", "false", "CPU s"):
        table.add_column(name, justify="right")
    n = arguments.labels
    for stream in arguments.streams or STREAMS:
        drawn = [STREAMS[stream](n, draw) for draw in range(arguments.draws)]
        changes = drawn[0][2]
        anew = f"{100 * np.mean([begun_anew(*one) for one in drawn]):.1f}" if changes else ""
        for detector in arguments.detectors or CHANGES:
            runs = [follow(X, y, **CHANGES[detector]) for X, y, _ in drawn]
            levels = np.mean([around(right, changes, n) for right, _, _ in runs], axis=0)
            found = [detections(trainings, changes, n) for _, trainings, _ in runs]
            table.add_row(
                stream,
                detector,
                f"{100 * np.mean([right for right, _, _ in runs]):.1f}",
                *([f"{100 * level:.1f}" for level in levels] if changes else [""] * 4),
                anew,
                *in_words(found, changes),
                f"{sum(seconds for _, _, seconds in runs):.0f}",
            )
        table.add_section()
    console.print(table)


def resident():
    """Return the memory of this process in MB, or NaN if the system does not report it."""
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def endurance(arguments, console):
    n = arguments.records
    title = f"{n:,} records, 20 concepts, 5 % of the labels, ADWIN on the error"
    table = Table(title=title, title_justify="left")
    for name in ("records", "accuracy %", "rows / CPU s", "memory, MB", "drifts"):
        table.add_column(name, justify="right")
    learner = StreamLearner(schedule=Schedule(on_drift="adwin"), random_state=0)
    functions = [3 * (i % 2) for i in range(20)]
    parts = [
        take(synth.Agrawal(classification_function=function, seed=i), n // 20)
        for i, function in enumerate(functions)
    ]
    for tenth in range(10):
        rows, labels, _ = abrupt(parts[2 * tenth :][:2])
        right, drifts, started = 0, 0, time.process_time()
        for at in range(0, len(labels), BATCH):
            batch = rows[at : at + BATCH]
            scored = learner.score_arrivals(batch)
            asked = learner.query(batch, scored, [str(i) for i in range(len(batch))])
            chosen = [int(id) for id in asked.ids]
            trainings = learner.learn(
                asked.ids,
                batch[chosen],
                labels[at : at + BATCH][chosen],
                propensity=asked.propensity,
                predicted=scored.labels[chosen],
            )
            drifts += sum(t.kind == "drift" for t in trainings)
            right += (scored.labels == labels[at : at + BATCH]).sum()
        speed = len(labels) / (time.process_time() - started)
        cells = [f"{100 * right / len(labels):.1f}", f"{speed:,.0f}", f"{resident():.0f}"]
        table.add_row(f"{(tenth + 1) * n // 10:,}", *cells, str(drifts))
    console.print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=2500)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--streams", nargs="*", choices=STREAMS)
    parser.add_argument("--detectors", nargs="*", choices=CHANGES)
    parser.add_argument("--records", type=int, default=50_000)
    arguments = parser.parse_args()
    console = Console(width=120)
    if arguments.labels:
        recovery(arguments, console)
    if arguments.records:
        endurance(arguments, console)


if __name__ == "__main__":
    main()
