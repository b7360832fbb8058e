"""Coverage of the forecasts of accuracy over labels: 90 % intervals against the later accuracy.

    python -m benchmarks.forecast [--budgets 0.1 0.2 1] [--streams rbf ...] [--seeds 1 2]
                                  [--erring 0.3]

A learner with default settings requests labels of the share `budget`, each 20 records late, over
30,000 records or 10,000 labels. From 300 labels on, and every 100 labels, it forecasts the accuracy
after 200 and after 1,000 more labels. The forecast is compared with the accuracy on all labels of
the stream, over the 2,000 records around the arrival of that label: 1,000 before and 1,000 after.
If this window is not within the stream, the forecast is not counted. The columns are:

- the number of forecasts, and of those withheld: too wide, or further than the labels known;
- the share whose 90 % interval contains the later accuracy, by number of further labels;
- the median width of the intervals, in points, and the mean absolute error of their medians;
- the mean absolute error, in points, of predicting that the estimate of `recent()` stays.

With `--erring`, one of three annotators gives this share of wrong labels.

The model was tuned on the streams of `TUNED`, and on similar streams that are not listed here.
"""

import argparse
from collections import deque

import numpy as np
from rich.console import Console
from rich.table import Table
from river.datasets import synth

from benchmarks.data import load
from streamboost import QueryConfig, StreamLearner
from streamboost.evaluation.learning_curve import FEWEST_LABELS, STEPS

BATCH, DELAY = 20, 20
EVERY = 100
"""Labels between forecasts."""

MOST_LABELS = 10_000
AROUND = 1_000
"""Records of the window before and after the label of a forecast."""

SHAPE = {"n_classes": 4, "n_features": 8, "n_centroids": 20}


def take(source, n):
    """Return `n` records of one of River's generators."""
    records = [(list(x.values()), int(y)) for x, y in source.take(n)]
    X, y = zip(*records, strict=True)
    return np.array(X, dtype=np.float32), np.array(y)


def in_turn(sources, n):
    """Return `n` records of `sources`, each with an equal part, one after the other."""
    parts = [take(source, n // len(sources)) for source in sources]
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def recorded(name, n, columns=slice(None)):
    """Return the first `n` records of a data set, or None where it is missing."""
    data = load(name)
    if data is None:
        return None
    halves = ("",) if "X" in data.files else ("_train", "_test")
    X, y = (np.concatenate([data[part + half] for half in halves]) for part in "Xy")
    return X[:n, columns], y[:n]


def agrawal(rules, n):
    return in_turn([synth.Agrawal(f, seed=i, perturbation=0.05) for i, f in enumerate(rules, 1)], n)


def sea(variants, n):
    return in_turn([synth.SEA(v, noise=0.1, seed=i) for i, v in enumerate(variants, 1)], n)


def moving_rbf(n):
    moving = {"n_drift_centroids": 20, "change_speed": 0.0005}
    return take(synth.RandomRBFDrift(2, 2, **SHAPE, **moving), n)


def hyperplane(n):
    return take(synth.Hyperplane(1, n_features=8, n_drift_features=4, mag_change=0.0005), n)


TUNED = {
    "rbf": lambda n: take(synth.RandomRBF(1, 1, **SHAPE), n),
    "sea": lambda n: sea([0], n),
    "letter": lambda n: recorded("letter", n),
    "weather": lambda n: recorded("weather_noaa", n),
    "hyperplane, drifts": hyperplane,
    "agrawal, 3 changes": lambda n: agrawal([0, 4, 0, 4], n),
}
HELD_OUT = {
    "random tree": lambda n: take(synth.RandomTree(1, 1, n_classes=4), n),
    "led": lambda n: take(synth.LED(1, noise_percentage=0.1, irrelevant_features=True), n),
    "waveform": lambda n: take(synth.Waveform(1), n),
    "electricity": lambda n: recorded("elec2", n, slice(2, 8)),
    "rbf, drifts": moving_rbf,
    "sea, 3 changes": lambda n: sea([0, 3, 0, 3], n),
}


def answers(y, erring, seed):
    """Return labels by three annotators, of whom one errs in the share `erring`, and their names.

    Without errors, the annotators have no names.
    """
    if not erring:
        return y, [None] * len(y)
    rng, classes = np.random.default_rng(seed), np.unique(y)
    names = rng.choice(["ann", "bob", "eve"], len(y))
    errs = (names == "eve") & (rng.random(len(y)) < erring)
    place = np.searchsorted(classes, y) + rng.integers(1, len(classes), len(y))
    return np.where(errs, classes[place % len(classes)], y), names.tolist()


def run(X, y, budget, seed, erring=0.0):
    """Return what was right, labels known by record, and the forecasts (labels, forecast, now).

    A forecast is None where it was withheld, and with errors also where no annotator is left out.
    """
    learner = StreamLearner(query=QueryConfig(budget=budget), random_state=seed)
    given, names = answers(y, erring, seed)
    waiting, found = deque(), []
    right, known, n_labels = np.zeros(len(y), bool), np.zeros(len(y), int), 0
    for start in range(0, len(y), BATCH):
        rows = np.arange(start, min(start + BATCH, len(y)))
        scored = learner.score_arrivals(X[rows])
        right[rows], known[rows] = scored.labels == y[rows], n_labels
        asked = learner.query(X[rows], scored, [str(i) for i in rows])
        waiting.extend(zip(asked.ids, asked.propensity.tolist(), strict=True))
        while waiting and int(waiting[0][0]) + DELAY <= rows[-1]:
            i, chance = int(waiting[0][0]), waiting.popleft()[1]
            learner.learn(
                [str(i)], X[i : i + 1], given[i : i + 1], propensity=[chance], sources=[names[i]]
            )
            n_labels += 1
        if n_labels >= FEWEST_LABELS + EVERY * len(found):
            now = learner.evaluation.recent().committee.accuracy
            counts = learner.evaluation.annotator_errors.left_out or not erring
            found.append((n_labels, learner.forecast() if counts else None, now.value))
    return right, known, found


def judged(right, known, forecasts):
    """Return rows of a step, the interval (low, value, high), the later accuracy, and that now.

    The interval is NaN where the forecast was withheld.
    """
    total, rows = np.concatenate([[0], np.cumsum(right)]), []
    for labels, forecast, now in forecasts:
        given = {one.labels: one.accuracy for one in forecast.steps} if forecast else {}
        for step in STEPS:
            at = int(np.searchsorted(known, labels + step))
            if at < AROUND or at + AROUND > len(right):
                continue
            later = (total[at + AROUND] - total[at - AROUND]) / (2 * AROUND)
            one = given.get(step)
            interval = (one.low, one.value, one.high) if one else (np.nan,) * 3
            rows.append((step, *interval, later, now))
    return np.reshape(rows, (-1, 6))


def cells(rows):
    """Return the table's cells of the rows of `judged`."""
    given = rows[~np.isnan(rows[:, 1])]
    if not len(given):
        return ["0", f"{len(rows)}"]
    step, low, value, high, later, now = given.T
    held = (low <= later) & (later <= high)
    shares = [held, *(held[step == one] for one in STEPS)]
    points = np.median(high - low), np.abs(value - later).mean(), np.abs(now - later).mean()
    return [
        f"{len(given)}",
        f"{len(rows) - len(given)}",
        *(f"{100 * one.mean():.0f}" if len(one) else "" for one in shares),
        *(f"{100 * one:.1f}" for one in points),
    ]


def show(title, parts):
    """Print a table of rows of `judged` by line."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    steps = [f"{step:,} more" for step in STEPS]
    for column in ("forecasts", "withheld", "held, %", *steps, "width", "error", "error, stays"):
        table.add_column(column, justify="right")
    for name, rows in parts.items():
        table.add_row(name, *cells(rows))
    Console(width=120).print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.1, 0.2, 1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--erring", type=float, default=0.0)
    parser.add_argument("--streams", nargs="+", choices=[*TUNED, *HELD_OUT])
    arguments = parser.parse_args()
    whole = {}
    for budget in arguments.budgets:
        n, parts = min(arguments.records, int(MOST_LABELS / budget)), {}
        for name, make in (TUNED | HELD_OUT).items():
            if name in (arguments.streams or [name]) and (data := make(n)) is not None:
                runs = [
                    judged(*run(*data, budget, seed, arguments.erring)) for seed in arguments.seeds
                ]
                parts[name] = np.concatenate(runs)
        for title, streams in (("tuned", TUNED), ("held out", HELD_OUT), ("all", parts)):
            if found := [parts[name] for name in streams if name in parts]:
                whole[f"{budget:.0%}, {title}"] = np.concatenate(found)
        show(f"Forecasts of the accuracy, nominal 90 %, budget {budget:.0%}", parts)
    show("All streams", whole)


if __name__ == "__main__":
    main()
