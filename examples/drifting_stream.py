"""Concept drift half-way through a stream: accuracy with and without a drift detector (ADWIN)."""

import numpy as np
from river.datasets import synth

from streamboost import Schedule, StreamLearner

CHANGE, BATCH = 1500, 50
records = [
    *synth.Agrawal(classification_function=0, seed=1).take(CHANGE),
    *synth.Agrawal(classification_function=4, seed=2).take(CHANGE),
]
X = np.array([list(x.values()) for x, _ in records])
y = np.array([int(label) for _, label in records])

for name, schedule in {
    "nobody looks": Schedule(),
    "ADWIN looks": Schedule(on_drift="adwin"),
}.items():
    learner = StreamLearner(schedule=schedule, random_state=7)
    right = np.zeros(len(y), dtype=bool)
    for start in range(0, len(y), BATCH):
        batch = slice(start, start + BATCH)
        scored = learner.score_arrivals(X[batch])
        right[batch] = scored.labels == y[batch]
        ids = [str(start + i) for i in range(BATCH)]
        # On drift the older rows are dropped, so that training sees the new rule only.
        for training in learner.learn(ids, X[batch], y[batch], predicted=scored.labels):
            if training.kind == "drift":
                print(f"{name}: drift noticed {training.labels - CHANGE} records after the change")
    for what, part in {
        "before the change": slice(CHANGE),
        "on the 500 records after it": slice(CHANGE, CHANGE + 500),
        "from then on": slice(CHANGE + 500, None),
    }.items():
        print(f"{name}: accuracy {what} {right[part].mean():.1%}")
