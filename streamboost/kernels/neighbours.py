"""Nearest-neighbour kernels: find the labelled rows that are most similar to a row.

Similarity is a small distance of the features, or a large number of trees in which both rows have
the same leaf. The labelled rows are in a ring buffer, whose most recent row is at index `newest`.
Of equally similar rows, the most recent is chosen.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

_BY_LEAVES = 5
_TOGETHER = 64  # rows of a block, which is skipped if none of its rows is more similar
_FEW = 8  # largest number of classes that are counted one by one
_ONE, _MANY = 0.5, 1.0  # weights of the prior class shares, with one label and with five


@inner_kernel
def _add_squared_differences(column, value, scale, mismatch, distances):
    """Add the squared difference of `value` from each value of `column` to `distances`.

    Differences are multiplied by `scale`. `mismatch` is the squared difference of two categories,
    or of a number and a missing value. A `scale` of 0 marks a categorical column.
    """
    if value != value:
        for r in range(distances.size):
            distances[r] += np.float32(0.0) if column[r] != column[r] else mismatch
    elif scale == 0.0:  # a category
        for r in range(distances.size):
            distances[r] += np.float32(0.0) if column[r] == value else mismatch
    else:
        for r in range(distances.size):
            step = (column[r] - value) * scale
            square = step * step
            distances[r] += square if square == square else mismatch  # missing


@inner_kernel
def _write_squared_distances(rows, first, end, row, columns, scale, mismatch, distances):
    """Write the squared distances of `row` (D,) from the stored rows `first` to `end` - 1.

    The distances are written to `distances[first:end]`; `scale` and `mismatch` hold a number for
    each of `columns`, as in `_add_squared_differences`.
    """
    part = distances[first:end]
    for r in range(part.size):
        part[r] = 0.0
    for c in range(columns.size):
        j = columns[c]
        _add_squared_differences(rows[j][first:end], row[j], scale[c], mismatch[c], part)


@inner_kernel
def _count_shared_leaves(leaves, row_leaves, n_shared):
    """Write the number of trees in which each stored row has the leaf in `row_leaves` (T,).

    `leaves` uint8 (T, n) are the leaves of the stored rows, and `n_shared` (n,) is the output.
    """
    n_trees = leaves.shape[0]
    for r in range(n_shared.size):
        n_shared[r] = 0
    for t in range(0, n_trees - 1, 2):  # two at a time: as many reads, half the writes
        one, other, a, b = leaves[t], leaves[t + 1], row_leaves[t], row_leaves[t + 1]
        for r in range(n_shared.size):
            n_shared[r] += (one[r] == a) + (other[r] == b)
    if n_trees % 2 == 1:
        one, a = leaves[n_trees - 1], row_leaves[n_trees - 1]
        for r in range(n_shared.size):
            n_shared[r] += one[r] == a


@inner_kernel
def _nearest_recent_row(distances, n_near, newest):
    """Return the index of the row with the least of `distances`, among the `n_near` newest rows."""
    size = distances.size
    best, least = newest, distances[newest]
    for age in range(1, n_near):
        r = newest - age
        if r < 0:
            r += size
        if distances[r] < least:
            best, least = r, distances[r]
    return best


@inner_kernel
def _class_log_probability_from_neighbour(is_same_class, label_weight, class_share):
    """Return the log probability of a class, estimated from the label of one neighbour.

    `is_same_class` is 1 if the neighbour has this class, else 0. `label_weight` is the weight of
    its label, and `class_share` the share of the class in all labels.
    """
    return np.log((is_same_class * label_weight + _ONE * class_share) / (label_weight + _ONE))


@inner_kernel
def _insert_neighbour_by_shared_leaves(n_shared, row, best, most_shared):
    """Insert a row into `best` if it shares more leaves than one of these neighbours.

    `best` are row indices in descending order of `most_shared`, their numbers of shared leaves.
    """
    at = best.size
    while at > 0 and n_shared > most_shared[at - 1]:
        at -= 1
    for b in range(best.size - 1, at, -1):
        best[b], most_shared[b] = best[b - 1], most_shared[b - 1]
    if at < best.size:
        best[at], most_shared[at] = row, n_shared


@inner_kernel
def _insert_neighbours_by_shared_leaves(n_shared, first, end, best, most_shared):
    """Insert rows `first` to `end` - 1, newest first, into `best`, the rows sharing most leaves."""
    least = most_shared.size - 1
    while end > first:
        start = max(first, end - _TOGETHER)
        block, top = n_shared[start:end], np.uint8(0)
        for r in range(block.size):
            top = max(top, block[r])
        if top > most_shared[least]:
            for age in range(block.size):
                r = block.size - 1 - age
                if block[r] > most_shared[least]:
                    _insert_neighbour_by_shared_leaves(
                        np.int64(block[r]), start + r, best, most_shared
                    )
        end = start


@inner_kernel
def _write_class_shares(y, weight, n_rows, newest, shares):
    """Write the share of each class in the total weight of the labels to `shares` (K,).

    A weight of 1 is added to each class.
    """
    total, plain = 0.0, shares.size <= _FEW and n_rows == y.size
    for r in range(y.size if plain else 0):
        plain &= weight[r] == 1.0
    for k in range(shares.size):
        shares[k] = 1.0
        if plain:  # one class at a time, as sums of ones do not depend on their order
            n = 0
            for r in range(y.size):
                n += y[r] == k
            shares[k] += n
    for age in range(0 if plain else n_rows):
        r = newest - age
        if r < 0:
            r += y.size
        shares[y[r]] += weight[r]
    for k in range(shares.size):
        total += shares[k]
    for k in range(shares.size):
        shares[k] /= total


@kernel
def write_neighbour_predictions(
    rows,
    y,
    weight,
    leaves,
    n_rows,
    newest,
    n_near,
    X,
    row_leaves,
    columns,
    weight_roots,
    mismatch_distances,
    column_scales,
    log_probabilities,
):
    """Write class log probabilities of the rows `X`, from the labels of similar labelled rows.

    Parameters
    ----------
    rows, y, weight, leaves
        Ring buffer of labelled rows: features float32 (D, size), one row per column of the data;
        classes int64 (size,); weights float64 (size,); leaves uint8 (T, size) in T trees, T at
        most 255.
    n_rows, newest
        Number of rows, at least one, and the index of the most recent row.
    n_near
        Number of the most recent rows among which the nearest row by features is searched.
    X, row_leaves
        Rows to predict, float32 (n, D), and their leaves uint8 (n, T).
    columns, weight_roots, mismatch_distances, column_scales
        `columns` int64 (d,) are the columns of the distance. The difference in column `columns[c]`
        is multiplied by `weight_roots[c]`, float64 (d,), the root of the column's weight or 0 for
        categories, and by `column_scales[columns[c]]`, float64 (D,). `mismatch_distances` float32
        (d,) is the squared distance of two categories, or of a number and a missing value.
    log_probabilities
        Output, float64 (3, n, K): log probabilities from the nearest row by features, from the
        nearest by shared leaves, and from the five nearest by shared leaves. If T is 0, the last
        two are not written.
    """
    size, n_classes, n_trees = rows.shape[1], log_probabilities.shape[2], leaves.shape[0]
    share, scale = np.empty(n_classes), np.empty(columns.size, np.float32)
    _write_class_shares(y, weight, n_rows, newest, share)
    for c in range(columns.size):
        scale[c] = np.float32(weight_roots[c] * column_scales[columns[c]])
    votes = np.empty(n_classes)
    best, most = np.empty(_BY_LEAVES, np.int64), np.empty(_BY_LEAVES, np.int64)
    far, shared = np.empty(size, np.float32), np.empty(size, np.uint8)
    n_near = min(n_near, n_rows)
    first, wrapped = max(0, newest + 1 - n_near), size - max(0, n_near - newest - 1)
    for i in range(X.shape[0]):
        how = X[i], columns, scale, mismatch_distances, far
        _write_squared_distances(rows, first, newest + 1, *how)
        _write_squared_distances(rows, wrapped, size, *how)
        nearest = _nearest_recent_row(far, n_near, newest)
        for k in range(n_classes):
            log_probabilities[0, i, k] = _class_log_probability_from_neighbour(
                k == y[nearest], weight[nearest], share[k]
            )
        if n_trees == 0:
            continue
        _count_shared_leaves(leaves, row_leaves[i], shared)
        for b in range(_BY_LEAVES):
            most[b] = -1
        _insert_neighbours_by_shared_leaves(
            shared, max(0, newest + 1 - n_rows), newest + 1, best, most
        )
        _insert_neighbours_by_shared_leaves(
            shared, size - max(0, n_rows - newest - 1), size, best, most
        )
        n_best = min(_BY_LEAVES, n_rows)
        for k in range(n_classes):
            votes[k] = 0.0
        given = _MANY
        for b in range(n_best):
            votes[y[best[b]]] += weight[best[b]]
            given += weight[best[b]]
        for k in range(n_classes):
            log_probabilities[1, i, k] = _class_log_probability_from_neighbour(
                k == y[best[0]], weight[best[0]], share[k]
            )
            log_probabilities[2, i, k] = np.log((votes[k] + _MANY * share[k]) / given)
