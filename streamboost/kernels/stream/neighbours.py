"""The labelled records that are most like another: by their features, and by the leaves they share.

Rows stand in a ring whose newest is at place `newest`; of those equally near the newest counts.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["say_neighbours"]

_BY_LEAVES = 5
_TOGETHER = 64  # rows that are passed over if none of them is more alike
_FEW = 8  # classes that are counted one by one
_ONE, _MANY = 0.5, 1.0  # records that the classes' shares count as, beside one label, beside five


@inner_kernel
def _add_distances(column, x, scale, apart, far):
    """Add how far the values of a column are from `x`, squared."""
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
    """Write how far the rows `first` to `end` are from `x` (D,), squared, to `far` (size,)."""
    part = far[first:end]
    for r in range(part.size):
        part[r] = 0.0
    for c in range(columns.size):
        j = columns[c]
        _add_distances(rows[j][first:end], x[j], scale[c], apart[c], part)


@inner_kernel
def _count_shared(leaves, own, shared):
    """Count for each of the rows (T, n) the trees where it is in the leaf `own` (T,)."""
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
    """Return the place of the least of the newest `n_near`; the newest of those that tie."""
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


@inner_kernel
def _enter_all(shared, first, end, best, most):
    """Put the rows `first` to `end`, the newest of which is the last, among the most alike."""
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
    """Write to `share` (K,) what each class has of all weights and one label of each."""
    total, plain = 0.0, share.size <= _FEW and n_rows == y.size
    for r in range(y.size if plain else 0):
        plain &= weight[r] == 1.0
    for k in range(share.size):
        share[k] = 1.0
        if plain:  # a class at a time: sums of ones do not depend on their order
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
    """Write what the neighbours' labels say of rows `X`, as log probabilities.

    Parameters
    ----------
    rows, y, weight, leaves
        Ring of labelled rows, by column: float32 (D, size), with classes int64 (size,), as how many
        records each counts float64 (size,), and leaves uint8 (T, size): of T trees, 0 where there
        are none, 255 at most.
    n_rows, newest
        How many rows there are, at least one, and where the newest is.
    n_near
        Among how many of the newest the nearest by features is looked for.
    X, own
        float32 (n, D), and the leaves uint8 (n, T).
    columns, root, apart, rate
        int64 (d,), the columns that count; float64 (d,) and float64 (D,), which multiply a
        difference, the first by place among these, 0 for categories; float32 (d,), the squared
        distance of two categories, and of a number from what is missing.
    said
        float64 (3, n, K): what the nearest by features says, the nearest by leaves, and the five
        nearest by leaves. The last two stay as they are where T is 0.
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
