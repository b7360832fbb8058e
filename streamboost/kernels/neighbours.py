"""The labelled records that are most like another: by their features, and by the leaves they share.

Rows stand in a ring whose newest is at place `newest`; of those equally near the newest counts.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["say_neighbours"]

_BY_LEAVES = 5
_ONE, _MANY = 0.5, 1.0  # records that the classes' shares count as, beside one label, beside five


@inner_kernel
def _distance(rows, r, X, i, columns, scale, apart, most):
    """Return the squared distance of two rows, or something beyond `most` where it is more."""
    total = np.float32(0.0)
    for c in range(columns.size):
        a, b = rows[r, columns[c]], X[i, columns[c]]
        step = (a - b) * scale[c]
        if step != step or (scale[c] == 0.0 and a != b):  # one is missing, or another category
            total += np.float32(0.0) if a != a and b != b else apart[c]
        else:
            total += step * step
        if total > most:
            break
    return total


@inner_kernel
def _shared(leaves, r, own, i):
    """Return in how many trees two rows are in the same leaf."""
    shared = 0
    for t in range(leaves.shape[1]):
        shared += leaves[r, t] == own[i, t]
    return shared


@inner_kernel
def _one(is_its, weight, share):
    """Return the log probability of a class by one label, that of the class or of another."""
    return np.log((is_its * weight + _ONE * share) / (weight + _ONE))


@inner_kernel
def _enter(shared, r, best, most):
    """Put a row among the most alike, which are in falling order; one as alike stays before."""
    at = best.size
    while at > 0 and shared > most[at - 1]:
        at -= 1
    for b in range(best.size - 1, at, -1):
        best[b], most[b] = best[b - 1], most[b - 1]
    if at < best.size:
        best[at], most[at] = r, shared


@kernel
def say_neighbours(
    rows, y, weight, leaves, n_rows, newest, n_near, X, own, columns, scale, apart, counts, said
):
    """Write what the neighbours' labels say of rows `X`, as log probabilities.

    Parameters
    ----------
    rows, y, weight, leaves
        Ring of labelled rows, float32 (size, D), with classes int64 (size,), as how many records
        each counts float64 (size,), and leaves uint8 (size, T): of T trees, 0 where there are none.
    n_rows, newest
        How many rows there are, at least one, and where the newest is.
    n_near
        Among how many of the newest the nearest by features is looked for.
    X, own
        float32 (n, D), and the leaves uint8 (n, T).
    columns, scale, apart
        int64 (d,), the columns that count; float32 (d,), what a difference is multiplied by, 0 for
        categories; float32 (d,), the squared distance of two categories, and of a number from
        what is missing.
    counts
        float64 (K,), the weights by class.
    said
        float64 (3, n, K): what the nearest by features says, the nearest by leaves, and the five
        nearest by leaves. The last two stay as they are where T is 0.
    """
    size, n_classes, n_trees = rows.shape[0], counts.size, leaves.shape[1]
    share = np.empty(n_classes)
    total = 0.0
    for k in range(n_classes):
        share[k] = counts[k] + 1.0
        total += share[k]
    for k in range(n_classes):
        share[k] /= total
    votes = np.empty(n_classes)
    best, most = np.empty(_BY_LEAVES, np.int64), np.empty(_BY_LEAVES, np.int64)
    for i in range(X.shape[0]):
        nearest, least = newest, np.float32(np.inf)
        for age in range(min(n_near, n_rows)):
            r = (newest - age) % size
            distance = _distance(rows, r, X, i, columns, scale, apart, least)
            if distance < least:
                nearest, least = r, distance
        for k in range(n_classes):
            said[0, i, k] = _one(k == y[nearest], weight[nearest], share[k])
        if n_trees == 0:
            continue
        most[:] = -1
        for age in range(n_rows):
            r = (newest - age) % size
            shared = _shared(leaves, r, own, i)
            if shared > most[_BY_LEAVES - 1]:
                _enter(shared, r, best, most)
        n_best = min(_BY_LEAVES, n_rows)
        votes[:] = 0.0
        given = _MANY
        for b in range(n_best):
            votes[y[best[b]]] += weight[best[b]]
            given += weight[best[b]]
        for k in range(n_classes):
            said[1, i, k] = _one(k == y[best[0]], weight[best[0]], share[k])
            said[2, i, k] = np.log((votes[k] + _MANY * share[k]) / given)
