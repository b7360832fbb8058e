"""Accuracy with few labels, and of River's ensembles with all of them: the README's first table.

    python -m benchmarks.label_efficiency --tables few [--streams segments ...] [--rows 5000]

Each record is predicted on arrival and labels arrive at once. This project requests 1, 5 and 10 %
of the labels. River's adaptive random forest and aggregated Mondrian forest (ten trees each) learn
every label. River's EntropySampler around the former chooses its own share, which is shown with its
accuracy. The sampler first receives labels, at least 20, until they contain two classes; without
them it would never start. Figures are of the second half of each stream, all in one run.
"""

import numpy as np
from rich.table import Table
from river.active import EntropySampler

from benchmarks.streams import PEERS, records
from streamboost import QueryConfig, StreamLearner

BUDGETS = (0.01, 0.05, 0.1)
BATCH, FIRST = 10, 20


def ours(stream, budget, seed):
    """Return the accuracy over the second half, and the share of the labels bought."""
    learner = StreamLearner(query=QueryConfig(budget=budget), random_state=seed)
    X = np.array([list(x.values()) for x, _ in stream], dtype=np.float32)
    y = np.array([label for _, label in stream])
    right = np.zeros(len(y), dtype=bool)
    for start in range(0, len(y), BATCH):
        rows = np.arange(start, min(start + BATCH, len(y)))
        scored = learner.score(X[rows])
        right[rows] = scored.labels == y[rows]
        asked = learner.query(X[rows], scored, [str(i) for i in rows])
        bought = [int(id) for id in asked.ids]
        learner.learn(asked.ids, X[bought], y[bought], propensity=asked.propensity)
    return right[len(y) // 2 :].mean(), learner.ledger.requests / len(y)


def every_label(name, stream):
    """Return the accuracy over the second half of a peer that learns each record."""
    model, right = PEERS[name](), []
    for x, y in stream:
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    return np.mean(right[len(right) // 2 :])


def sampler(stream):
    """Return the accuracy over the second half, and the share of the labels bought, of River's."""
    model, right, bought, met = EntropySampler(PEERS["ARF"](), seed=1), [], 0, set()
    for x, y in stream:
        guess, asks = model.predict_one(x)
        right.append(guess == y)
        if asks or bought < FIRST or len(met) < 2:
            model.learn_one(x, y)
            met.add(y)
            bought += 1
    return np.mean(right[len(right) // 2 :]), bought / len(right)


def few(console, names, n, seeds):
    """Print the table; this project's figures are means over `seeds` seeds."""
    table = Table(title="Accuracy %, second half", title_justify="left")
    table.add_column("stream, records")
    for column in (
        *(f"ours, {budget:.0%}" for budget in BUDGETS),
        *("EntropySampler, ARF", "ARF, all", "AMF, all"),
    ):
        table.add_column(column, justify="right")
    for name in names:
        stream = records(name, n)
        if stream is None:
            continue
        cells = []
        for budget in BUDGETS:
            found = np.mean([ours(stream, budget, seed) for seed in range(seeds)], axis=0)
            cells.append(f"{100 * found[0]:.1f}")
        accuracy, share = sampler(stream)
        cells.append(f"{100 * accuracy:.1f} with {share:.0%}")
        cells += [f"{100 * every_label(peer, stream):.1f}" for peer in ("ARF", "AMF")]
        table.add_row(f"{name}, {len(stream):,}", *cells)
    console.print(table)
