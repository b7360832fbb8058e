"""Monitoring of a model that another system made: intervals, and reports of a drop.

    python -m benchmarks.judge [--runs 200] [--budget 0.02] [--shapes map label] [--streams ...]
        [--processes 1]

LightGBM (the extra `bench`) is trained once on the first tenth of a stream, and predicts the other
records. The learner evaluates these predictions with labels for 2 % of the records, which arrive
with the next batch. Three streams are stationary. In the other three, the concept changes abruptly,
and lowers the accuracy of LightGBM by about ten points. Each run has its own seed and stream.

The columns of the table are, by shape of the predictions (probabilities, or labels alone):

- LightGBM's accuracy over all records, and its drop at the change;
- the share of the runs whose 95 % interval of the accuracy covers the true accuracy at the end,
  since the start and for the newest records;
- the width of the interval since the start, and its ratio to the width with as many labels that
  are requested uniformly at random;
- the number of false reports of a drop per 10,000 records before the change (a new report begins
  when there was none before);
- the share of the runs that report the drop within 500 labels after the change, and the median
  delay in labels;
- the accuracy of the own model minus that of LightGBM, and the share of the runs whose interval of
  this difference covers the true one.
"""

import argparse
from itertools import product
from multiprocessing import get_context

import numpy as np
from rich.console import Console
from rich.table import Table
from river.datasets import synth

from benchmarks.honest import covers, generated, learner_of, radial
from streamboost import QueryConfig, StreamLearner
from streamboost.checks import labels_to_array
from streamboost.evaluation.report import accuracy_drop
from streamboost.learner import Schedule
from streamboost.predictions import Scored, top_two_gap

BATCH, LOOK_EVERY = 100, 200
STILL, DRIFTING, CHANGE = 30_000, 52_000, 25_000
"""Records of the stationary and of the drifting streams, and the first record after the change."""
LABELS = 500
"""Number of labels within which a drop should be reported."""
FIGURES = (
    *("accuracy", "drop", "held", "held, newest", "width", "ratio"),
    *("false reports", "reported", "delay", "gain", "held, gain"),
)
SHAPES = dict.fromkeys(("width", "false reports"), "{:.3f}") | {
    "ratio": "{:.2f}",
    "delay": "{:.0f}",
}


def joined(kind, seed, before, after):
    """Return a stream of River's generator `kind` whose variant changes once."""
    parts = [(before, CHANGE), (after, DRIFTING - CHANGE)]
    made = [generated(kind(variant, seed + i), n) for i, (variant, n) in enumerate(parts)]
    return tuple(np.concatenate(both) for both in zip(*made, strict=True))


def agrawal(function, seed):
    return synth.Agrawal(function, seed=seed, perturbation=0.1)


def sea(variant, seed):
    return synth.SEA(variant, noise=0.1, seed=seed)


def relabelled_clouds(seed):
    """Return clouds of four classes, an eighth of whose records has the next class later."""
    X, y = radial(seed, DRIFTING, 0.0)
    is_other = (np.arange(DRIFTING) >= CHANGE) & (X[:, 0] > np.quantile(X[:, 0], 0.75))
    is_other &= np.random.default_rng(seed).random(DRIFTING) < 0.5
    return X, np.where(is_other, (y + 1) % 4, y)


STREAMS = {
    "agrawal": lambda seed: generated(agrawal(1, seed), STILL),
    "clouds": lambda seed: radial(seed, STILL, 0.0),
    "led": lambda seed: generated(synth.LED(seed, noise_percentage=0.1), STILL),
    "agrawal, drifting": lambda seed: joined(agrawal, seed, 4, 9),
    "clouds, drifting": relabelled_clouds,
    "sea, drifting": lambda seed: joined(sea, seed, 2, 1),
}


def recorded(X, y, shape):
    """Return the labels of the other records, and LightGBM's predictions for these."""
    from lightgbm import LGBMClassifier

    first = len(y) // 10
    model = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1, n_jobs=1)
    P = model.fit(X[:first], y[:first]).predict_proba(X[first:])
    classes = labels_to_array([str(label) for label in model.classes_])
    labels = classes.astype(object)[P.argmax(axis=1)]
    margins = top_two_gap(np.log(np.maximum(P, 1e-12)))
    if shape == "label":
        P, margins = np.full_like(P, np.nan), np.zeros(len(P))
    return (
        X[first:],
        np.array([str(label) for label in y[first:]]),
        Scored(labels, classes, P, margins, 0),
    )


def rows_of(scored, rows):
    return Scored(
        scored.labels[rows], scored.classes, scored.probabilities[rows], scored.margins[rows], 0
    )


def monitored(learner, X, y, predictions, change=None):
    """Return the last two reports, own accuracy by record, false reports, and the delay.

    Without `change`, the first record after the change, reports of a drop are not looked for.
    """
    own_right, waiting = np.zeros(len(y), dtype=bool), None
    n_false, delay, is_reported, n_before = 0, np.nan, False, 0
    for start in range(0, len(y), BATCH):
        rows = np.arange(start, min(start + BATCH, len(y)))
        if waiting is not None and len(waiting):
            taught = [int(id) for id in waiting.ids]
            learner.learn(waiting.ids, X[taught], y[taught], propensity=waiting.propensity)
        own = learner.score_arrivals(X[rows])
        own_right[rows] = own.labels == y[rows]
        ids = [str(i) for i in rows]
        waiting = learner.query(X[rows], own, ids, rows_of(predictions, rows))
        if change is None:
            continue
        if start < change:
            n_before = learner.ledger.answered
        if start % LOOK_EVERY:
            continue
        drop = accuracy_drop(*learner.evaluation.both_reports())
        now = drop is not None and drop.low > 0.0
        if now and not is_reported:
            if start < change:
                n_false += 1
            elif np.isnan(delay):
                delay = learner.ledger.answered - n_before
        is_reported = now
    return learner.evaluation.both_reports(), own_right, n_false, delay


def one_run(task):
    """Return the `FIGURES` of one run; `task` has the stream's name, shape, budget and seed."""
    name, shape, budget, seed = task
    X, y = STREAMS[name](1_000 + seed)
    is_drifting = "drifting" in name
    X, y, predictions = recorded(X, y, shape)
    change = CHANGE - DRIFTING // 10 if is_drifting else len(y)
    learner = learner_of(QueryConfig(budget=budget), seed)
    (whole, recent), own, n_false, delay = monitored(learner, X, y, predictions, change)
    by_chance = QueryConfig(budget=budget, strategy="random")
    untrained = StreamLearner(
        query=by_chance, schedule=Schedule(first=len(y) + 1), random_state=seed
    )  # neither these requests nor the interval depend on the own model
    (random, _), *_ = monitored(untrained, X, y, predictions)
    right = predictions.labels == y
    end = whole.records
    one, late, gain = whole.committee.accuracy, recent.committee.accuracy, whole.gain_alone
    return [
        right.mean(),
        right[:change].mean() - right[change:].mean() if is_drifting else np.nan,
        covers(one, right[:end].mean()),
        covers(late, right[end - recent.records : end].mean()),
        one.high - one.low,
        one.half_width / random.committee.accuracy.half_width,
        n_false / change * 10_000,
        delay <= LABELS if is_drifting else np.nan,
        delay,
        own[:end].mean() - right[:end].mean(),
        covers(gain, own[:end].mean() - right[:end].mean()),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--budget", type=float, default=0.02)
    parser.add_argument("--shapes", nargs="+", default=["map", "label"], choices=["map", "label"])
    parser.add_argument("--streams", nargs="+", default=list(STREAMS), choices=list(STREAMS))
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    cells = list(product(arguments.streams, arguments.shapes))
    tasks = [(*cell, arguments.budget, seed) for cell in cells for seed in range(arguments.runs)]
    with get_context("spawn").Pool(arguments.processes) as pool:
        runs = np.array(pool.map(one_run, tasks, chunksize=1), dtype=float)
    runs = runs.reshape(len(cells), arguments.runs, -1)
    table = Table(title=f"{arguments.runs} runs each", title_justify="left")
    for column in ("stream", "prediction", *FIGURES):
        table.add_column(column, justify="left" if column == "stream" else "right")
    for cell, found in zip(cells, runs, strict=True):
        table.add_row(*cell, *texts_of(found))
    for shape in arguments.shapes:
        some = [found for cell, found in zip(cells, runs, strict=True) if cell[1] == shape]
        table.add_row("mean", shape, *texts_of(np.concatenate(some)))
    Console().print(table)


def texts_of(found):
    """Return the cells of a row for the figures (runs, figures): means, and the median delay."""
    texts = []
    for name, column in zip(FIGURES, found.T, strict=True):
        known = column[~np.isnan(column)]
        summary = np.median if name == "delay" else np.mean
        text = SHAPES.get(name, "{:.1%}").format(summary(known)) if len(known) else ""
        texts.append(text)
    return texts


if __name__ == "__main__":
    main()
