"""Accuracy with few labels, and of River's ensembles with all of them: the README's first table.

    python -m benchmarks.label_efficiency --tables few [--streams segments ...] [--rows 5000]

All models predict and learn one record at a time, and labels arrive at once. This project requests
1, 5 and 10 % of the labels. River's adaptive random forest and aggregated Mondrian forest (ten
trees each) learn every label, and so does the baseline that predicts the last class. River's
EntropySampler around the former chooses its own share, which is shown with its accuracy. The
sampler first receives labels, at least 20, until they contain two classes; without them it would
never start. Figures are means over the seeds of the second half of each stream, in one run, with
their standard errors. The seed sets the model, not the stream.

With CapyMOA (`pip install capymoa`, with Java), a second table has its semi-supervised SLEADE and
its gradient boosted trees, SGBT, with random 1, 5 and 10 % of the labels.
"""

from functools import partial
from importlib.util import find_spec

import numpy as np
from rich.table import Table
from river import forest
from river.active import EntropySampler

from benchmarks.streams import RepeatLast, records
from streamboost import QueryConfig, StreamLearner

if find_spec("capymoa"):
    from benchmarks.moa import SEMI_SUPERVISED
else:
    SEMI_SUPERVISED = {}

BUDGETS = (0.01, 0.05, 0.1)
FIRST = 20
FORESTS = {
    "ARF": lambda seed: forest.ARFClassifier(n_models=10, seed=1 + seed),
    "AMF": lambda seed: forest.AMFClassifier(n_estimators=10, seed=1 + seed),
    "last class": lambda seed: RepeatLast(),
}


def ours(stream, seed, budget):
    """Return the accuracy over the second half."""
    learner = StreamLearner(query=QueryConfig(budget=budget), random_state=seed)
    X = np.array([list(x.values()) for x, _ in stream], dtype=np.float32)
    y = np.array([label for _, label in stream])
    right = np.zeros(len(y), dtype=bool)
    for i in range(len(y)):
        row, id = X[i : i + 1], str(i)
        scored = learner.score_arrivals(row)
        right[i] = scored.labels[0] == y[i]
        asked = learner.query(row, scored, [id])
        if len(asked):
            learner.learn([id], row, y[i : i + 1], propensity=asked.propensity)
    return right[len(y) // 2 :].mean()


def every_label(stream, seed, name):
    """Return the accuracy over the second half of a peer that learns each record."""
    model, right = FORESTS[name](seed), []
    for x, y in stream:
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    return np.mean(right[len(right) // 2 :])


def sampler(stream, seed):
    """Return the accuracy over the second half, and the share of the labels bought, of River's."""
    model = EntropySampler(FORESTS["ARF"](seed), seed=1 + seed)
    right, bought, met = [], 0, set()
    for x, y in stream:
        guess, asks = model.predict_one(x)
        right.append(guess == y)
        if asks or bought < FIRST or len(met) < 2:
            model.learn_one(x, y)
            met.add(y)
            bought += 1
    return np.mean(right[len(right) // 2 :]), bought / len(right)


def semi_supervised(stream, seed, create, budget):
    """Return the accuracy over the second half of a model of CapyMOA with random labels."""
    X = np.array([list(x.values()) for x, _ in stream])
    codes = {}
    y = np.array([codes.setdefault(label, len(codes)) for _, label in stream])
    has_label = np.random.default_rng(seed).random(len(y)) < budget
    model = create(X.shape[1], len(codes), seed)
    right = np.zeros(len(y), dtype=bool)
    for i in range(len(y)):
        right[i] = model.predict(X[i]) == y[i]
        model.learn(X[i], y[i] if has_label[i] else None)
    return right[len(y) // 2 :].mean()


def figure(values):
    """Return mean and standard error of shares as text, in percent."""
    values = 100 * np.array(values)
    if len(values) < 2:
        return f"{values[0]:.1f}"
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


def cell(measure):
    """Return a function of a stream and a number of seeds that returns the figure as text."""
    return lambda stream, seeds: figure([measure(stream, seed) for seed in range(seeds)])


def sampler_cell(stream, seeds):
    """Return the figure of River's sampler as text, with the share of labels."""
    accuracies, shares = zip(*(sampler(stream, seed) for seed in range(seeds)), strict=True)
    return f"{figure(accuracies)} with {np.mean(shares):.0%}"


def few(console, names, n, seeds):
    """Print the tables, a row per stream."""
    columns = {f"ours, {budget:.0%}": cell(partial(ours, budget=budget)) for budget in BUDGETS}
    columns["Entropy Sampler, ARF"] = sampler_cell
    columns |= {f"{name}, all": cell(partial(every_label, name=name)) for name in FORESTS}
    streams = {name: stream for name in names if (stream := records(name, n)) is not None}
    tabulate(console, columns, streams, seeds)
    columns = {
        f"{name}, {budget:.0%}": cell(partial(semi_supervised, create=create, budget=budget))
        for name, create in SEMI_SUPERVISED.items()
        for budget in BUDGETS
    }
    if columns:
        tabulate(console, columns, streams, seeds)


def tabulate(console, columns, streams, seeds):
    """Print the figure of each stream in each column."""
    table = Table(title="Accuracy %, second half", title_justify="left")
    table.add_column("stream, records")
    for name in columns:
        table.add_column(name, justify="right", min_width=10)
    for name, stream in streams.items():
        cells = [column(stream, seeds) for column in columns.values()]
        table.add_row(f"{name}, {len(stream):,}", *cells)
    console.print(table)
