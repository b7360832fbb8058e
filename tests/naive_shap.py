"""Slow reference of SHAP values: every subset of the features, every split."""

from itertools import combinations
from math import factorial

import numpy as np


def goes_left(forest, at, x):
    """Where a value goes at a node; of categories, their code."""
    if forest.set_of[at] >= 0:
        bits = np.unpackbits(forest.sets[forest.set_of[at]], bitorder="little")
        return bool(bits[int(x)])
    node = forest.nodes[at]
    return bool(node["missing_left"]) if np.isnan(x) else bool(x <= node["threshold"])


def leaves_met(forest, X, weight):
    """What the rows of `X` weigh in each leaf of all trees."""
    met = np.zeros(len(forest.values))
    for x, w in zip(forest.category_codes.transform(X), weight, strict=True):
        for root in forest.roots:
            at = root
            while at >= 0:
                node = forest.nodes[at]
                at = node["left" if goes_left(forest, at, x[node["feature"]]) else "right"]
            met[~at] += w
    return met


def expected(forest, cover, at, x, known):
    """The value of the tree below a node where only the features `known` of `x` are."""
    if at < 0:
        return forest.values[~at].astype(float)
    node = forest.nodes[at]
    left, right = (expected(forest, cover, node[side], x, known) for side in ("left", "right"))
    if node["feature"] in known:
        return left if goes_left(forest, at, x[node["feature"]]) else right
    a, b = (weight_below(forest, cover, node[side]) for side in ("left", "right"))
    return (a * left + b * right) / (a + b) if a + b > 0 else (left + right) / 2


def weight_below(forest, cover, at):
    if at < 0:
        return float(cover[~at])
    return sum(weight_below(forest, cover, forest.nodes[at][side]) for side in ("left", "right"))


def contributions(forest, cover, X):
    """Shapley values by their definition, and the empty set's value: (n, K, D + 1)."""
    n, n_features = X.shape
    out = np.zeros((n, forest.n_classes, n_features + 1))
    for i, x in enumerate(forest.category_codes.transform(X)):
        worth = {
            known: sum(expected(forest, cover, root, x, known) for root in forest.roots)
            for size in range(n_features + 1)
            for known in map(frozenset, combinations(range(n_features), size))
        }
        for known, value in worth.items():
            s = len(known)
            for j in set(range(n_features)) - known:
                share = factorial(s) * factorial(n_features - s - 1) / factorial(n_features)
                out[i, :, j] += share * (worth[known | {j}] - value)
        out[i, :, -1] = worth[frozenset()]
    return out
