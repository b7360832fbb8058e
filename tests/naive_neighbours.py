"""Slow reference of `kernels.neighbours`: compares every labelled row with every other."""

import numpy as np


def by_features(row, other, columns, scale, apart):
    """The squared distance of two rows, summed in float32 as the kernel does."""
    total = np.float32(0)
    for a, b, s, far in zip(row[columns], other[columns], scale, apart, strict=True):
        if np.isnan(a) and np.isnan(b):
            step = np.float32(0)
        elif np.isnan(a) or np.isnan(b):
            step = far
        elif s == 0:
            step = far if a != b else np.float32(0)
        else:
            step = ((a - b) * s) ** 2
        total += step
    return total


def smoothed(labels, weights, share, strength):
    """Log probabilities by some labels and the classes' shares, which count as `strength`."""
    votes = strength * share
    for k, weight in zip(labels, weights, strict=True):
        votes[k] += weight
    return np.log(votes / votes.sum())


def say_neighbours(rows, y, weight, leaves, n_near, X, own, columns, scale, apart, counts):
    """What the neighbours' labels say, (3, n, K); labelled rows are given newest first."""
    share = (counts + 1) / (counts + 1).sum()
    said = np.full((3, len(X), len(counts)), np.nan)
    for i, x in enumerate(X):
        # Of those that are equally far the newest is the first, which sorting keeps there.
        far = [by_features(row, x, columns, scale, apart) for row in rows[:n_near]]
        nearest = int(np.argsort(far, kind="stable")[0])
        said[0, i] = smoothed(y[[nearest]], weight[[nearest]], share, 0.5)
        if leaves.shape[1]:
            shared = [sum(a == b) for a, b in zip(leaves, [own[i]] * len(leaves), strict=True)]
            alike = np.argsort(np.negative(shared), kind="stable")
            said[1, i] = smoothed(y[alike[:1]], weight[alike[:1]], share, 0.5)
            said[2, i] = smoothed(y[alike[:5]], weight[alike[:5]], share, 1.0)
    return said
