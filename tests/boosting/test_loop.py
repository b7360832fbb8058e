"""Boosting loop with custom algorithms: several trees a round, and trees that are discarded."""

import numpy as np
from sklearn.datasets import load_iris

from streamboost.boosting.loop import Algorithm, BoostingParameters, boost
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.histogram_input import gradient_histogram_input

X, y = load_iris(return_X_y=True)


class ClassByClass(Algorithm):
    """K Newton trees a round, one per class; a class whose tree does not help is left out."""

    family = "class by class"

    def base_scores(self, data, committee):
        return np.zeros(len(data.classes))

    def temperature(self, n_classes):
        return 1.0

    def initial_state(self, data, scores):
        self.discarded = 0
        return {"y": data.y, "F": scores.copy()}

    def loss(self, F, y):
        top = F - F.max(axis=1, keepdims=True)
        return (np.log(np.exp(top).sum(axis=1)) - top[np.arange(len(y)), y]).sum()

    def grow_round(self, state, grow):
        e = np.exp(state["F"])
        P = e / e.sum(axis=1, keepdims=True)
        kept = []
        for k in range(P.shape[1]):
            g = ((state["y"] == k) - P[:, k]).astype(np.float32)
            h = (P[:, k] * (1 - P[:, k])).astype(np.float32)
            ones = np.ones_like(g)
            tree = grow(gradient_histogram_input(g, h, ones, float(abs(g).sum()), float(h.sum())))
            leaf = tree.leaf_indices(len(g))
            step = np.bincount(leaf, g) / (np.bincount(leaf, h) + 1.0)
            tree.values = np.zeros((tree.n_leaves, P.shape[1]), np.float32)
            tree.values[:, k] = 0.5 * step
            moved = state["F"] + tree.values[leaf]
            if self.loss(moved, state["y"]) < self.loss(state["F"], state["y"]) - 0.05:
                kept.append(tree)
            else:
                self.discarded += 1
        return kept

    def update_state(self, state, trees):
        for tree in trees:
            state["F"] += tree.values[tree.leaf_indices(len(state["y"]))]


def run(n_estimators):
    algorithm = ClassByClass()
    data = TrainingData(X.astype(np.float32), y.astype(np.uint32), np.ones(150), np.arange(3))
    params = BoostingParameters(
        max_leaf_nodes=4,
        max_depth=None,
        max_bins=64,
        min_child_weight=0.1,
        l2_regularization=1.0,
        max_features=None,
        subsample=0.7,
    )
    committee, _ = boost(algorithm, data, n_estimators, params, np.random.default_rng(0))
    return committee, algorithm


def test_rounds_hold_as_many_trees_as_the_algorithm_returns():
    committee, algorithm = run(10)
    per_round = np.diff(committee.learners.rounds)
    assert per_round[0] == 3
    assert per_round.sum() + algorithm.discarded == 30
    assert (committee.class_scores(X).argmax(axis=1) == y).mean() > 0.95


def test_a_round_without_trees_ends_the_training():
    committee, algorithm = run(1000)
    assert committee.n_rounds < 1000
    assert algorithm.discarded >= 3
