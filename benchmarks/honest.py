"""Coverage of the unbiased estimates: Intervals, label sets and temperatures against all labels.

    python -m benchmarks.honest [--tables intervals allocation annotators sets] [--runs 50]
        [--seeds 20] [--records 10000] [--budgets 0.02 0.05 0.1 0.2] [--processes 1] [--plot FILE]

The learner receives only the labels it requests, each 20 records late; the benchmark knows all
labels. Each run has its own seed.

The table "intervals" shows the default way of requesting labels, with an inclusion probability for
each record. Its columns are:

- the share of the runs whose 95 % interval of the accuracy covers the true accuracy on arrival at
  the end, since the start and for the newest 2,000 records (more if these have fewer than 200
  labels);
- the width of these intervals;
- the share of the runs whose interval, and whose confidence sequence, covers the true accuracy at
  all times, looked at every 100 records; and how many times as wide the sequence is at the end;
- the least number of labels in the window of the newest records, once 200 have arrived;
- the accuracy over the second half.

The table "allocation" has the same columns for sampling uniformly at random, and for shares of an
inclusion probability that is proportional to the uncertainty of the prediction. The rest follows
the rank of the record's utility. The default is 50 %; 100 % is Neyman allocation. Below the table
are the mean differences from the default in the same runs, with standard errors over the runs.

The table "annotators" has the same columns for labels of three annotators in random order. One of
them gives a wrong label, uniform over the other classes, with the probability "wrong". The last
column is the share of the runs at whose end this annotator alone is left out.

The last table evaluates prediction sets, from the first committee to the end of the stream:

- the share of the sets that contain the true label: mean over the seeds, least and greatest of a
  run, share of the runs within two points of the target, and mean over the first quarter of the
  stream, when few labels are known;
- the mean size of the sets, the share of them that contain None (a label without a known class),
  and the share of the records whose true label is not known yet;
- the log loss of the probabilities on arrival, with temperature scaling and without.

Below the table: the number of runs, over all streams, within four and within six points of the
target. If every label is given, it arrives at once, record by record, and five seeds are run.
"""

import argparse
from collections import deque
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from river.datasets import synth

from benchmarks.data import load
from benchmarks.plots import curves
from streamboost import (
    QueryConfig,
    Schedule,
    SketchLogitBoostClassifier,
    StreamLearner,
    WorkingSet,
)
from streamboost.predictions import remove_calibration
from streamboost.query import sampler

BATCH, DELAY = 20, 20
SETS = ["image_segments_river", "keystroke", "outdoor", "weather_noaa", "elec2"]
MADE = ("led", "hyperplane", "stationary", "drifting")
HALVES = ("train", "test")
ANNOTATORS, BAD = ("ann", "bob", "eve"), "eve"
WRONG = (0.0, 0.2, 0.4)
SHARES = (0.22, sampler._DOUBT, 1.0)
"""Shares of an inclusion probability by uncertainty that are compared, the default among them."""
DEFAULT = f"{sampler._DOUBT:.0%}"
UNIFORM = "uniform"
LOOK_EVERY = 100
FIGURES = (
    *("held", "width", "sequence"),
    *("held, newest", "width, newest", "sequence, newest"),
    *("always", "sequence always", "always, newest", "sequence always, newest"),
    *("fewest", "2nd half", "found"),
)
"""Columns of the tables of intervals."""
SHAPES = {"width": "{:.3f}", "width, newest": "{:.3f}", "fewest": "{:.0f}"} | dict.fromkeys(
    ("sequence", "sequence, newest"), "{:.2f}"
)


def radial(seed, n, speed):
    """Return a stream of four classes in drifting clouds. Speed 0 means no drift."""
    settings = {"n_classes": 4, "n_features": 6, "n_centroids": 20}
    source = synth.RandomRBFDrift(
        seed, seed, **settings, change_speed=speed, n_drift_centroids=20 if speed else 0
    )
    records = list(islice(source, n))
    X = np.array([list(x.values()) for x, _ in records], dtype=np.float32)
    return X, np.array([label for _, label in records])


def learner_of(query, seed, **settings):
    """Return a learner that is trained often enough, and fast enough for hundreds of runs."""
    estimator = SketchLogitBoostClassifier(
        n_estimators=60,
        learning_rate=0.3,
        max_leaf_nodes=6,
        min_child_weight=0.02,
        l2_regularization=0.3,
    )
    schedule = Schedule(growth=1.15, retrain_every=500, extend_every=None)
    working_set = WorkingSet(size=2_000)
    return StreamLearner(estimator, working_set, schedule, query, random_state=seed, **settings)


def arrivals(learner, X, y, batch=BATCH, delay=DELAY, sources=None):
    """Feed a stream to `learner`; yield each batch's rows, predictions and label sets.

    `y` are the labels that arrive, by the annotators `sources`.
    """
    waiting = deque()
    for start in range(0, len(X), batch):
        rows = np.arange(start, min(start + batch, len(X)))
        scored = learner.score_arrivals(X[rows])
        yield rows, scored, learner.evaluator.make_prediction_sets(scored)
        asked = learner.query(X[rows], scored, [str(i) for i in rows])
        waiting.extend(zip(asked.ids, asked.propensity.tolist(), strict=True))
        while waiting and int(waiting[0][0]) + delay <= rows[-1]:
            i, chance = int(waiting[0][0]), waiting.popleft()[1]
            who = None if sources is None else [sources[i]]
            learner.learn([str(i)], X[i : i + 1], y[i : i + 1], propensity=[chance], sources=who)
    learner.expire_requests([id for id, _ in waiting])


def with_errors(y, wrong, seed):
    """Return labels by three annotators, one of whom errs with the probability `wrong`."""
    rng = np.random.default_rng([seed, 39])
    who, classes = rng.integers(len(ANNOTATORS), size=len(y)), np.unique(y)
    errs = (who == ANNOTATORS.index(BAD)) & (rng.random(len(y)) < wrong)
    place = np.searchsorted(classes, y) + rng.integers(1, len(classes), size=len(y))
    return np.where(errs, classes[place % len(classes)], y), [ANNOTATORS[i] for i in who]


def covers(estimate, truth):
    return estimate is None or estimate.low <= truth <= estimate.high


def judged(X, y, query, seed, wrong=None):
    """Return a run's `FIGURES`."""
    learner = learner_of(query, seed)
    labels, sources = (y, None) if wrong is None else with_errors(y, wrong, seed)
    right, always, fewest = np.empty(0, dtype=bool), np.ones(4, dtype=bool), np.inf
    since_start = recent = None
    for rows, scored, _ in arrivals(learner, X, labels, sources=sources):
        right = np.append(right, scored.labels == y[rows])
        if len(right) % LOOK_EVERY == 0 or len(right) == len(y):
            since_start, recent = learner.evaluation.both_reports()
            end = since_start.records
            if not end:
                continue
            if since_start.answered >= 200:
                fewest = min(fewest, recent.answered)
            for i, report in enumerate((since_start, recent)):
                truth = right[end - report.records : end].mean()
                now = (
                    covers(report.committee.accuracy, truth),
                    covers(report.anytime_accuracy, truth),
                )
                always[2 * i : 2 * i + 2] &= now
    found = []
    for report in (since_start, recent):
        one, end = report.committee.accuracy, since_start.records
        truth = right[end - report.records : end].mean()
        wide = report.anytime_accuracy
        found += (
            [np.nan] * 3
            if one is None or one.high == one.low
            else [
                covers(one, truth),
                one.high - one.low,
                (wide.high - wide.low) / (one.high - one.low),
            ]
        )
    alone = since_start.left_out == (BAD,)
    return [*found, *always, fewest, right[len(right) // 2 :].mean(), alone]


def one_run(task):
    """Return `judged` of one run.

    `task` has the stream's name, its records, budget, seed, query settings, error rate, and the
    share by uncertainty.
    """
    name, records, budget, seed, settings, wrong, sampler._DOUBT = task
    X, y = dict(streams(records, [name], MADE))[name](seed)
    return judged(X, y, QueryConfig(budget=budget, **settings), seed, wrong)


def intervals(arguments, console):
    """Show how often the intervals and the sequences held the accuracy."""
    kinds = {DEFAULT: ({}, None, sampler._DOUBT)}
    run_cells(arguments, console, "95 % intervals of the accuracy", "uncertainty", kinds)


def allocation(arguments, console):
    """Compare shares of the inclusion probability by uncertainty, and uniform sampling."""
    kinds = {f"{share:.0%}": ({}, None, share) for share in SHARES}
    kinds[UNIFORM] = ({"strategy": "random"}, None, sampler._DOUBT)
    runs = run_cells(arguments, console, "Inclusion probabilities", "uncertainty", kinds)
    width, second_half = (runs[..., FIGURES.index(name)] for name in ("width", "2nd half"))
    default = list(kinds).index(DEFAULT)
    for (i, budget), (k, kind) in product(enumerate(arguments.budgets), enumerate(kinds)):
        gains = 100 * (second_half[:, i, k] - second_half[:, i, default])
        error = gains.std() / np.sqrt(gains.size)
        wide = 100 * np.nanmean(np.nanmean(width[:, i, k], axis=1))
        console.print(
            f"{budget:.0%}, {kind}: {wide:.1f} points wide; "
            f"{gains.mean():+.2f} ± {error:.2f} points of accuracy against {DEFAULT}"
        )
    if arguments.plot:
        draw(arguments.plot, arguments.budgets, np.nanmean(runs, axis=3), list(kinds))


def annotators(arguments, console):
    """Show the same figures if one annotator in three errs."""
    kinds = {f"{wrong:.0%}": ({}, wrong, sampler._DOUBT) for wrong in WRONG}
    run_cells(arguments, console, "One annotator in three gives wrong labels", "wrong", kinds)


def run_cells(arguments, console, title, what, kinds):
    """Run all cells, print their means, and return all (streams, budgets, kinds, runs, figures).

    `kinds` maps the names of column `what` to query settings, an error rate and a share by
    uncertainty.
    """
    names = [*MADE, *(name for name in arguments.sets if load(name) is not None)]
    cells = list(product(names, arguments.budgets, kinds))
    tasks = [
        (name, arguments.records, budget, seed, *kinds[kind])
        for name, budget, kind in cells
        for seed in range(arguments.runs)
    ]
    with get_context("spawn").Pool(arguments.processes) as pool:
        runs = np.array(pool.map(one_run, tasks, chunksize=5), dtype=float)
    shape = len(names), len(arguments.budgets), len(kinds)
    runs[np.isinf(runs)] = np.nan
    runs = runs.reshape(*shape, -1, len(FIGURES))
    found = np.nanmean(runs, axis=3)
    table = Table(title=f"{title}, {arguments.runs} runs each", title_justify="left")
    for column in ("stream", "budget", what, *FIGURES):
        table.add_column(column, justify="left" if column == "stream" else "right")
    rows = [(*cell, one) for cell, one in zip(cells, found.reshape(-1, len(FIGURES)), strict=True)]
    for name, summary in (("mean", np.nanmean), ("least", np.nanmin)):
        pairs = product(arguments.budgets, kinds)
        each = summary(found, 0).reshape(-1, len(FIGURES))
        rows += [(name, *pair, one) for pair, one in zip(pairs, each, strict=True)]
    for name, budget, kind, figures in rows:
        told = [SHAPES.get(f, "{:.1%}").format(v) for f, v in zip(FIGURES, figures, strict=True)]
        table.add_row(name, f"{budget:.0%}", kind, *told)
    console.print(table)
    return runs


def draw(path, budgets, found, kinds):
    """Draw coverage over the budget: means over streams, with extremes of the default.

    `found` (streams, budgets, kinds, figures) are means of `judged`.
    """
    found, xs = 100.0 * found, [100.0 * budget for budget in budgets]
    panels = {}
    for title, column in (("since the start", "held"), ("newest records", "held, newest")):
        panels[title] = {
            name: (
                xs,
                *(
                    of(found[:, :, kinds.index(kind), FIGURES.index(column)], axis=0)
                    for of in (np.nanmean, *bounds)
                ),
            )
            for name, kind, bounds in (
                ("probability", DEFAULT, (np.nanmin, np.nanmax)),
                (UNIFORM, UNIFORM, ()),
            )
        }
    curves(path, panels, "labels asked for, %", "intervals that held, %", level=95.0)


def sets_and_losses(X, y, query, coverage, seed):
    """Return what a row of the second table shows of one run."""
    learner = learner_of(query, seed, coverage=coverage)
    held, early, sizes, others, new, losses = [], [], [], [], [], []
    steps = (1, 0) if query.budget == 1.0 else (BATCH, DELAY)
    for rows, scored, sets in arrivals(learner, X, y, *steps):
        if not scored.version:
            continue
        named = set(learner.classes)
        truth = [label if label in named else None for label in y[rows].tolist()]
        held += [label in labels for label, labels in zip(truth, sets, strict=True)]
        if rows[0] < len(y) / 4:
            early = list(held)
        sizes += [len(labels) for labels in sets]
        others += [None in labels for labels in sets]
        new += [label is None for label in truth]
        losses.append([log_losses(one, y[rows]) for one in (scored, remove_calibration(scored))])
    lists = (held, early, sizes, others, new, *np.concatenate(losses, axis=1))
    return [np.mean(values) for values in lists]


def log_losses(scored, y):
    chances = np.where(scored.classes == y[:, None], scored.probabilities, 0.0).sum(axis=1)
    return -np.log(np.clip(chances, 1e-7, 1.0))


def generated(source, n):
    """Return `n` records of one of River's generators."""
    records = list(source.take(n))
    X = np.array([list(x.values()) for x, _ in records], dtype=np.float32)
    return X, np.array([label for _, label in records])


def streams(n, sets, made=("stationary", "drifting")):
    """Yield (name, function of a seed) for streams of `n` records."""
    if "led" in made:
        drift = {"noise_percentage": 0.1, "irrelevant_features": True}
        yield "led", lambda seed: generated(synth.LEDDrift(seed, n_drift_features=3, **drift), n)
    if "hyperplane" in made:
        moving = {"n_features": 8, "n_drift_features": 4, "mag_change": 0.0005}
        yield "hyperplane", lambda seed: generated(synth.Hyperplane(seed, **moving), n)
    yield "stationary", lambda seed: radial(900 + seed, n, 0.0)
    yield "drifting", lambda seed: radial(900 + seed, n, 0.0005)
    for name in sets:
        if name not in MADE and (data := load(name)) is not None:
            X, y = (
                data[part]
                if part in data.files
                else np.concatenate([data[f"{part}_{a}"] for a in HALVES])
                for part in "Xy"
            )
            yield name, lambda seed, X=X[:n], y=y[:n]: (X, y)


def label_sets(arguments, console):
    title = "Label sets and temperatures"
    table = Table(title=title, title_justify="left")
    for column in ("stream", "labels"):
        table.add_column(column, no_wrap=True)
    for column in (
        *("target", "held", "least", "most", "within 2", "1st quarter"),
        *("size", "None", "new", "log loss", "own"),
    ):
        table.add_column(column, justify="right")
    kinds = {"every one": QueryConfig(strategy="random", budget=1.0, audit=0.0)}
    for budget in (0.2, 0.1, 0.05):
        kinds[f"{100 * budget:g} %"] = QueryConfig(budget=budget)
    worst, gaps = dict.fromkeys(kinds, 0.0), {kind: np.empty(0) for kind in kinds}
    for name, make in streams(arguments.records, arguments.sets):
        for kind, query in kinds.items():
            for target in arguments.targets:
                n_seeds = min(arguments.seeds, 5 if kind == "every one" else arguments.seeds)
                runs = np.array(
                    [sets_and_losses(*make(s), query, target, s) for s in range(n_seeds)]
                )
                held, early, size, others, new, *losses = runs.mean(axis=0)
                shares = runs[:, 0]
                worst[kind] = max(worst[kind], abs(held - target))
                gaps[kind] = np.append(gaps[kind], off := np.abs(shares - target))
                near = np.mean(off <= 0.02)
                cells = [name, kind, f"{target:.0%}"]
                cells += [f"{share:.1%}" for share in (held, shares.min(), shares.max())]
                cells += [f"{near:.0%}", f"{early:.1%}", f"{size:.2f}", f"{others:.0%}"]
                table.add_row(*cells, f"{new:.1%}", *(f"{loss:.3f}" for loss in losses))
        table.add_section()
    console.print(table)
    for kind, gap in worst.items():
        four, six = (np.sum(gaps[kind] <= bound) for bound in (0.04, 0.06))
        near = f"of {len(gaps[kind])} runs {four} within 4 points, {six} within 6"
        console.print(f"labels: {kind}; means within {100 * gap:.1f} points of the target; {near}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.02, 0.05, 0.1, 0.2])
    tables = ["intervals", "allocation", "annotators", "sets"]
    parser.add_argument("--tables", nargs="+", choices=tables, default=tables)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how often intervals held")
    parser.add_argument("--targets", nargs="+", type=float, default=[0.9])
    arguments = parser.parse_args()
    console = Console(width=200)
    if "intervals" in arguments.tables:
        intervals(arguments, console)
    if "allocation" in arguments.tables:
        allocation(arguments, console)
    if "annotators" in arguments.tables:
        annotators(arguments, console)
    if "sets" in arguments.tables:
        label_sets(arguments, console)


if __name__ == "__main__":
    main()
