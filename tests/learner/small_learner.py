"""A learner with small committees and 300 records, for the tests of learners."""

import numpy as np

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner import StreamLearner

RNG = np.random.default_rng(12)
X = RNG.random((300, 3), dtype=np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
Y = np.where(X[:, 0] < 0.3, "low", np.where(X[:, 1] < 0.5, "middle", "high")).tolist()
IDS = [str(i) for i in range(len(X))]


def small(**settings):
    estimator = SketchLogitBoostClassifier(
        n_estimators=8, learning_rate=0.5, max_leaf_nodes=4, min_child_weight=0.01
    )
    return StreamLearner(**{"estimator": estimator, "random_state": 3, **settings})


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def learn(learner, start, stop, **more):
    return learner.learn(IDS[start:stop], X[start:stop], Y[start:stop], **more)
