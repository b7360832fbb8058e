"""Buy one label in ten: the loop of a pipeline, by hand, on arrays."""

import numpy as np
from sklearn.datasets import load_digits

from streamboost import QueryStrategy, StreamLearner

X, y = load_digits(return_X_y=True)
learner = StreamLearner(query=QueryStrategy(budget=0.1), random_state=7)
right = []
for start in range(0, len(y), 10):
    rows = np.arange(start, min(start + 10, len(y)))
    ids = [str(row) for row in rows]
    scored = learner.score(X[rows])
    right += (scored.labels == y[rows]).tolist()
    asked = learner.query(X[rows], scored, ids)
    bought = [int(id_) for id_ in asked.ids]
    learner.learn(asked.ids, X[bought], y[bought].tolist(), propensity=asked.propensity)

half = len(right) // 2
print(f"{learner.ledger.requests} of {len(y)} labels bought")
print(f"accuracy on arrival, second half: {np.mean(right[half:]):.1%}")
