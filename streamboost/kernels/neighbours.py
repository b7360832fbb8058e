"""Nearest-neighbour kernels: labelled rows most similar by features, or by shared leaves.

The labelled rows are in a ring buffer, whose most recent row is at index `newest`. Ties go to the
most recent row.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["say_neighbours"]

_BY_LEAVES = 5
_TOGETHER = 64  # rows of a block, which is skipped if none of its rows is more similar
_FEW = 8  # largest number of classes that are counted one by one
_ONE, _MANY = 0.5, 1.0  # weights of the prior class shares, with one label and with five


@inner_kernel
def _add_distances(column, x, scale, apart, far):
    """Add the squared distances of the values of a column from `x` to `far`."""
    if x != x:
        for r in range(far.size):
            far[r] += np.float32(0.0) if column[r] != column[r] else apart
    elif scale == 0.0:  # a category
        for r in range(far.size):
            far[r] += np.float32(0.0) if column[r] == x else apart
    else:
        for r in range(far.size):
            step = (column[r] - x) * scale
            square = step * step
            far[r] += square if square == square else apart  # missing


@inner_kernel
def _measure(rows, first, end, x, columns, scale, apart, far):
    """Write the squared distances of the rows `first` to `end` from `x` (D,) to `far` (size,)."""
    part = far[first:end]
    for r in range(part.size):
        part[r] = 0.0
    for c in range(columns.size):
        j = columns[c]
        _add_distances(rows[j][first:end], x[j], scale[c], apart[c], part)


@inner_kernel
def _count_shared(leaves, own, shared):
    """Count, for each row of `leaves` (T, n), the trees in which its leaf equals `own` (T,)."""
    n_trees = leaves.shape[0]
    for r in range(shared.size):
        shared[r] = 0
    for t in range(0, n_trees - 1, 2):  # two at a time: as many reads, half the writes
        one, other, a, b = leaves[t], leaves[t + 1], own[t], own[t + 1]
        for r in range(shared.size):
            shared[r] += (one[r] == a) + (other[r] == b)
    if n_trees % 2 == 1:
        one, a = leaves[n_trees - 1], own[n_trees - 1]
        for r in range(shared.size):
            shared[r] += one[r] == a


@inner_kernel
def _nearest(far, n_near, newest):
    """Return the index of the nearest of the `n_near` most recent rows; ties go to the newest."""
    size = far.size
    best, least = newest, far[newest]
    for age in range(1, n_near):
        r = newest - age
        if r < 0:
            r += size
        if far[r] < least:
            best, least = r, far[r]
    return best


@inner_kernel
def _one(is_its, weight, share):
    """Return the log probability of a class from one label, which may be of that class."""
    return np.log((is_its * weight + _ONE * share) / (weight + _ONE))


@inner_kernel
def _enter(shared, r, best, most):
    """Insert a row into the most similar rows, in descending order; ties go to earlier entries."""
    at = best.size
    while at > 0 and shared > most[at - 1]:
        at -= 1
    for b in range(best.size - 1, at, -1):
        best[b], most[b] = best[b - 1], most[b - 1]
    if at < best.size:
        best[at], most[at] = r, shared


@inner_kernel
def _enter_all(shared, first, end, best, most):
    """Insert the rows `first` to `end`, the most recent last, into the most similar rows."""
    least = most.size - 1
    while end > first:
        start = max(first, end - _TOGETHER)
        block, top = shared[start:end], np.uint8(0)
        for r in range(block.size):
            top = max(top, block[r])
        if top > most[least]:
            for age in range(block.size):
                r = block.size - 1 - age
                if block[r] > most[least]:
                    _enter(np.int64(block[r]), start + r, best, most)
        end = start


@inner_kernel
def _count(y, weight, n_rows, newest, share):
    """Write the share of each class in the total weight, plus one label each, to `share` (K,)."""
    total, plain = 0.0, share.size <= _FEW and n_rows == y.size
    for r in range(y.size if plain else 0):
        plain &= weight[r] == 1.0
    for k in range(share.size):
        share[k] = 1.0
        if plain:  # one class at a time, as sums of ones do not depend on their order
            n = 0
            for r in range(y.size):
                n += y[r] == k
            share[k] += n
    for age in range(0 if plain else n_rows):
        r = newest - age
        if r < 0:
            r += y.size
        share[y[r]] += weight[r]
    for k in range(share.size):
        total += share[k]
    for k in range(share.size):
        share[k] /= total


@kernel
def say_neighbours(
    rows, y, weight, leaves, n_rows, newest, n_near, X, own, columns, root, apart, rate, said
):
    """Write the class log probabilities of rows `X` from the labels of their nearest neighbours.

    Parameters
    ----------
    rows, y, weight, leaves
        Ring buffer of labelled rows, by column: float32 (D, size), with classes int64 (size,),
        weights float64 (size,), and leaves uint8 (T, size) of T trees, at most 255.
    n_rows, newest
        Number of rows, at least one, and the index of the most recent row.
    n_near
        Number of the most recent rows in which the nearest by features is searched.
    X, own
        Rows to predict, float32 (n, D), and their leaves uint8 (n, T).
    columns, root, apart, rate
        `columns` int64 (d,) are the columns of the distance. The difference in column c of these
        is multiplied by `root[c]`, float64 (d,), 0 for categories, and by the column's `rate`,
        float64 (D,). `apart` float32 (d,) is the squared distance of two categories, or of a
        number and a missing value.
    said
        Output, float64 (3, n, K): log probabilities from the nearest row by features, the nearest
        by leaves, and the five nearest by leaves. If T is 0, the last two are not written.
    """
    size, n_classes, n_trees = rows.shape[1], said.shape[2], leaves.shape[0]
    share, scale = np.empty(n_classes), np.empty(columns.size, np.float32)
    _count(y, weight, n_rows, newest, share)
    for c in range(columns.size):
        scale[c] = np.float32(root[c] * rate[columns[c]])
    votes = np.empty(n_classes)
    best, most = np.empty(_BY_LEAVES, np.int64), np.empty(_BY_LEAVES, np.int64)
    far, shared = np.empty(size, np.float32), np.empty(size, np.uint8)
    n_near = min(n_near, n_rows)
    first, wrapped = max(0, newest + 1 - n_near), size - max(0, n_near - newest - 1)
    for i in range(X.shape[0]):
        how = X[i], columns, scale, apart, far
        _measure(rows, first, newest + 1, *how)
        _measure(rows, wrapped, size, *how)
        nearest = _nearest(far, n_near, newest)
        for k in range(n_classes):
            said[0, i, k] = _one(k == y[nearest], weight[nearest], share[k])
        if n_trees == 0:
            continue
        _count_shared(leaves, own[i], shared)
        for b in range(_BY_LEAVES):
            most[b] = -1
        _enter_all(shared, max(0, newest + 1 - n_rows), newest + 1, best, most)
        _enter_all(shared, size - max(0, n_rows - newest - 1), size, best, most)
        n_best = min(_BY_LEAVES, n_rows)
        for k in range(n_classes):
            votes[k] = 0.0
        given = _MANY
        for b in range(n_best):
            votes[y[best[b]]] += weight[best[b]]
            given += weight[best[b]]
        for k in range(n_classes):
            said[1, i, k] = _one(k == y[best[0]], weight[best[0]], share[k])
            said[2, i, k] = np.log((votes[k] + _MANY * share[k]) / given)
