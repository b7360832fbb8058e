"""Accuracy gain of the ensemble over the committee alone, with few, delayed labels.

    python -m benchmarks.blend [--sets segments ...] [--seeds 5] [--budgets 0.05 0.1] [--delay 100]

Each stream passes in batches of ten records. Labels are requested by margin and learned `--delay`
records later. The figure is the accuracy on arrival of a learner with all experts minus that of
the committee alone with the same seed. It is given over all records and over the second half, as a
mean over the seeds.
"""

import argparse
from collections import deque

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.streams import FILES, MADE, records
from streamboost import QueryConfig, StreamLearner

BATCH = 10


def right(X, y, budget, delay, seed, experts):
    """Return which records were predicted rightly on arrival, bool (n,)."""
    learner = StreamLearner(query=QueryConfig(budget=budget), random_state=seed, experts=experts)
    found, waiting = np.zeros(len(y), dtype=bool), deque()
    for start in range(0, len(y), BATCH):
        rows = np.arange(start, min(start + BATCH, len(y)))
        scored = learner.score_arrivals(X[rows])
        found[rows] = scored.labels == y[rows]
        asked = learner.query(X[rows], scored, [str(i) for i in rows])
        for id, chance in zip(asked.ids, asked.propensity, strict=True):
            waiting.append((int(id), chance))
        due = []
        while waiting and waiting[0][0] + delay <= rows[-1]:
            due.append(waiting.popleft())
        places = [place for place, _ in due]
        learner.learn(
            [str(place) for place in places],
            X[places],
            y[places].tolist(),
            propensity=[chance for _, chance in due],
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*FILES, *MADE]
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--delay", type=int, default=100)
    parser.add_argument("--records", type=int, default=15_000, help="limit to the first N records")
    arguments = parser.parse_args()

    table = Table(title=f"labels {arguments.delay} records late", title_justify="left")
    for column in ("stream", "budget %", "committee %", "all experts less it", "2nd half"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    for name in arguments.sets:
        stream = records(name, arguments.records)
        if stream is None:
            continue
        X = np.array([list(x.values()) for x, _ in stream], dtype=np.float32)
        y = np.array([label for _, label in stream])
        for budget in arguments.budgets:
            run = [
                [
                    right(X, y, budget, arguments.delay, seed, experts)
                    for experts in ("committee", "all")
                ]
                for seed in range(arguments.seeds)
            ]
            share = 100 * np.mean(run, axis=2)
            late = 100 * np.mean(np.array(run)[:, :, len(y) // 2 :], axis=2)
            gains = [np.mean(one[:, 1] - one[:, 0]) for one in (share, late)]
            shown = [f"{share[:, 0].mean():.2f}", *(f"{gain:+.2f}" for gain in gains)]
            table.add_row(name, f"{100 * budget:g}", *shown)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
