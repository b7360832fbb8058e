"""Slow, obvious references for cascades and for pruning."""

import naive
import numpy as np


def cascade(committee, X, ends, thresholds):
    """The scores with which each row leaves, and after how many trees."""
    forest = committee.forest
    scores = np.tile(committee.base, (len(X), 1))
    used = []
    for i, x in enumerate(X):
        for t, root in enumerate(forest.roots):
            scores[i] += forest.values[naive.leaf_of(forest, root, x)]
            second, first = np.sort(scores[i])[-2:]
            if t + 1 in ends and first - second >= thresholds[list(ends).index(t + 1)]:
                break
        used.append(t + 1)
    return scores, used


def thresholds(committee, X, ends, tolerance):
    """At each place, try every margin as the threshold and keep the least that is allowed."""
    staged = [np.tile(committee.base, (len(X), 1))]
    for root in committee.forest.roots:
        leaf = [naive.leaf_of(committee.forest, root, x) for x in X]
        staged.append(staged[-1] + committee.forest.values[leaf])
    answer = staged[-1].argmax(axis=1)
    alive, spent, found = set(range(len(X))), 0, []
    for end in ends[:-1]:
        top = np.sort(staged[end], axis=1)
        margin = top[:, -1] - top[:, -2]
        wrong = staged[end].argmax(axis=1) != answer
        allowed = tolerance * len(X) * end / committee.n_trees
        for theta in [*sorted(margin[list(alive)]), np.inf]:
            gone = {i for i in alive if margin[i] >= theta}
            if spent + sum(wrong[i] for i in gone) <= allowed:
                break
        spent += sum(wrong[i] for i in gone)
        alive -= gone
        found.append(theta)
    return [*found, np.inf]
