"""Pool-based active learning on satimage: test error over the number of labels.

    python -m benchmarks.label_efficiency --tables pool [--seeds 5]

The training half is one fixed pool, from which labels are requested in rounds of ten. The error on
the test half is compared with Huang's thesis (2009), whose Active GAMBLE (Algorithm 4) reached
11.3 % with 600 of the 4,435 labels.
"""

import numpy as np
from matplotlib import pyplot as plt
from rich.table import Table

from benchmarks.data import load
from benchmarks.intervals import cell, interval
from streamboost import QueryConfig, StreamLearner

LABELS, ROUND, THESIS = 600, 10, 11.3


def standing_pool(strategy, data, seed):
    """Return {labels: test error in percent} while rounds are asked from the training half."""
    X, y = data["X_train"], data["y_train"]
    n = len(y)
    order = np.random.default_rng(seed).permutation(n)
    ids = [str(i) for i in order]
    query = QueryConfig(
        strategy=strategy,
        mode="pool",
        query_batch_size=ROUND,
        window=n,
        budget=1.0,
        burst=n,
        audit=0,
    )
    learner = StreamLearner(query=query, random_state=seed)
    asked = learner.query(X[order], learner.score(X[order]), ids)  # the first round, at random
    errors = {}
    while True:
        rows = [int(id) for id in asked.ids]
        learner.learn(asked.ids, X[rows], y[rows])
        if learner.n_labels % 50 == 0:
            wrong = learner.predict(data["X_test"]) != data["y_test"]
            errors[learner.n_labels] = 100 * wrong.mean()
        if learner.n_labels >= LABELS:
            return errors
        asked = learner.query_pool(ROUND)


def pool(console, seeds, path):
    """Print and draw test error over labels from satimage's training half as one pool."""
    data = load("satimage")
    if data is None:
        return
    table = Table(title="satimage as a pool: test error %", title_justify="left")
    table.add_column("labels", justify="right")
    figure, panel = plt.subplots(figsize=(6, 4.2))
    columns = []
    for strategy, colour in (("margin", "tab:blue"), ("random", "black")):
        runs = [standing_pool(strategy, data, seed) for seed in range(seeds)]
        labels = list(runs[0])
        values = [[run[n] for run in runs] for n in labels]
        means, halves = zip(*map(interval, values), strict=True)
        x = np.array(labels) + (4 if strategy == "random" else 0)  # bars side by side
        panel.errorbar(x, means, np.nan_to_num(halves), label=strategy, color=colour, capsize=2)
        columns.append([cell(value) for value in values])
        table.add_column(strategy, justify="right")
    for row in zip(labels, *columns, strict=True):
        table.add_row(*map(str, row))
    console.print(table)
    panel.axhline(THESIS, color="0.4", linestyle="--", linewidth=1)
    place = {"xytext": (0, -3), "textcoords": "offset points", "va": "top"}
    panel.annotate(f"Huang (2009), {LABELS} labels", (labels[0], THESIS), fontsize=8, **place)
    panel.set(xlabel="labels", ylabel="test error, %", title="satimage, a fixed pool of 4,435")
    panel.legend(frameon=False, title="bars: 95 % intervals", title_fontsize=8)
    panel.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
