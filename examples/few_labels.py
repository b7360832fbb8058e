"""A pipeline by hand: buy one label in ten, learn it late, and estimate the accuracy."""

from collections import deque

import numpy as np
from sklearn.datasets import load_digits

from streamboost import QueryConfig, StreamLearner

BATCH, DELAY = 10, 50

X, y = load_digits(return_X_y=True)
learner = StreamLearner(query=QueryConfig(budget=0.1), random_state=7)
right, waiting = [], deque()
for start in range(0, len(y), BATCH):
    rows = np.arange(start, min(start + BATCH, len(y)))
    scored = learner.score_arrivals(X[rows])
    right += (scored.labels == y[rows]).tolist()
    asked = learner.query(X[rows], scored, [str(row) for row in rows])
    waiting += zip(asked.ids, asked.propensity, strict=True)
    while waiting and int(waiting[0][0]) <= start - DELAY:  # the answer has come
        id_, propensity = waiting.popleft()
        row = int(id_)
        learner.learn([id_], X[[row]], y[[row]], propensity=[propensity])
learner.expire_requests([id_ for id_, _ in waiting])  # those still on their way will not come

figures = learner.evaluation.since_start().committee
print(f"{learner.ledger.requests} of {len(y)} labels bought, {learner.n_labels} learned")
for what, figure in {
    "estimated from the labels bought": figures.accuracy,
    "their plain mean, which misleads": figures.naive_accuracy,
}.items():
    print(f"{what}: {figure.value:.1%}, between {figure.low:.1%} and {figure.high:.1%}")
print(f"what all labels say: {np.mean(right):.1%}")
print(f"what they say of the second half: {np.mean(right[len(right) // 2 :]):.1%}")
