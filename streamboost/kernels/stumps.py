"""Boosting of decision stumps on a few rows, for the residual correction after each label.

There are no bins and histograms, which do not pay on a few rows. Each column is sorted once, and
each round tries all cuts between the values of each column.
"""

import numpy as np

from streamboost.kernels.growing.criteria import TIE
from streamboost.kernels.jit import inner_kernel, kernel
from streamboost.kernels.softmax import softmax

_VECTOR = 16  # the number of rows is padded to a multiple, for vector instructions


@inner_kernel
def _sort_rows_by_column(X, feature, column, n_smaller, n_placed, order):
    """Write the row indices, sorted by the values of a column of `X`, to `order`.

    Missing values are last. Returns the number of values that are not missing. The sort is stable.
    The position of a row is the number of smaller values, which is counted for all rows at once. On
    a few rows, this is faster than other sorts. `column` float32, `n_smaller` and `n_placed` int32
    (at least n,) are workspaces; `column` is NaN after the n rows.
    """
    n = X.shape[0]
    known, gone = 0, n
    for i in range(n):
        column[i] = X[i, feature]
    for i in range(n_smaller.size):
        n_smaller[i] = n_placed[i] = 0
    for j in range(n):
        x = column[j]
        for i in range(column.size):
            n_smaller[i] += np.int32(x < column[i])
    for i in range(n):
        if column[i] == column[i]:
            place = n_smaller[i]
            order[place + n_placed[place]] = i
            n_placed[place] += 1  # later rows of the same value get the next index
            known += 1
        else:
            gone -= 1
            order[gone] = i
    return known


@inner_kernel
def _write_projected_gradients(probabilities, y, weight, direction, gradient, hessian):
    """Write each row's gradient and Hessian along `direction` (K,), times its weight.

    Returns the sums of gradients and of Hessians.
    """
    n, n_classes = probabilities.shape
    sum_g, sum_h = 0.0, 0.0
    for i in range(n):
        mean, square = 0.0, 0.0
        for k in range(n_classes):
            up = direction[k] * probabilities[i, k]
            mean += up
            square += direction[k] * up
        gradient[i] = weight[i] * (direction[y[i]] - mean)
        hessian[i] = weight[i] * max(square - mean * mean, 0.0)
        sum_g += gradient[i]
        sum_h += hessian[i]
    return sum_g, sum_h


@inner_kernel
def _best_cut_of_column(
    X, feature, order, n_known, gradient, hessian, sum_g, sum_h, l2, min_hessian, min_score
):
    """Find the best cut of a column, by the Newton gain of the two sides.

    `order` are the row indices, sorted by the column, of which `n_known` have a value. `sum_g` and
    `sum_h` are the sums over all rows, and `min_hessian` is the least Hessian sum of a side.
    Returns the score of the cut, the index in `order` of the last row on the left, and whether
    missing values go left. The index is -1 unless the score exceeds `min_score`.
    """
    n = order.size
    gone_g, gone_h = 0.0, 0.0
    for i in range(n_known, n):
        gone_g += gradient[order[i]]
        gone_h += hessian[order[i]]
    best, place, missing_left, bar = min_score, -1, False, min_score * TIE
    for side in range(2 if n_known < n else 1):
        g, h = (gone_g, gone_h) if side == 1 else (0.0, 0.0)
        # With missing values on the right, a split may have all known values on the left.
        for i in range(n_known if n_known < n and side == 0 else n_known - 1):
            g += gradient[order[i]]
            h += hessian[order[i]]
            right, low, high = sum_g - g, h + l2, sum_h - h + l2
            # The score is up / down; the division and the other tests are needed for few cuts.
            up, down = g * g * high + right * right * low, low * high
            if up > bar * down and _is_valid_cut(
                X, feature, order, n_known, i, h, sum_h, min_hessian
            ):
                best, place, missing_left = up / down, i, side == 1
                bar = best * TIE
    return best, place, missing_left


@inner_kernel
def _is_valid_cut(X, feature, order, n_known, cut, left_hessian, sum_h, min_hessian):
    """Return True if the values on both sides of a cut differ, and both Hessian sums suffice.

    Each sum must be at least `min_hessian`.
    """
    if left_hessian < min_hessian or sum_h - left_hessian < min_hessian:
        return False
    return cut + 1 >= n_known or X[order[cut], feature] != X[order[cut + 1], feature]


@inner_kernel
def _threshold_of_cut(X, feature, order, n_known, cut):
    """Return the threshold of the cut after `order[cut]`; values up to the threshold go left."""
    if cut == n_known - 1:
        return np.float32(np.inf)
    low, high = X[order[cut], feature], X[order[cut + 1], feature]
    middle = np.float32((np.float64(low) + np.float64(high)) / 2)
    # Between neighbouring floats the midpoint rounds to one of them; use the lower one.
    return low if middle >= high else middle


@inner_kernel
def _best_split_of_features(
    X, features, order, n_known, gradient, hessian, sum_g, sum_h, l2, min_hessian
):
    """Find the best split over all `features`.

    Row j of `order` has the row indices, sorted by feature j, of which `n_known[j]` have a value.
    Returns the index in `features`, the cut as in `_best_cut_of_column`, and whether missing values
    go left.
    """
    best, at, place, missing_left = sum_g * sum_g / (sum_h + l2), -1, -1, False
    for j in range(features.size):
        score, cut, left = _best_cut_of_column(
            X,
            features[j],
            order[j],
            n_known[j],
            gradient,
            hessian,
            sum_g,
            sum_h,
            l2,
            min_hessian,
            best,
        )
        if cut >= 0:
            best, at, place, missing_left = score, j, cut, left
    return at, place, missing_left


@inner_kernel
def _write_stump(node, stump, X, feature, order, n_known, cut, missing_left, leaf):
    """Write a stump to `node`, and the leaf of each row, 0 (left) or 1 (right), to `leaf` (n,)."""
    n = order.size
    if n_known == n:  # without missing values in training, later ones go to the larger side
        missing_left = 2 * (cut + 1) >= n
    node.feature, node.missing_left = feature, missing_left
    node.threshold = _threshold_of_cut(X, feature, order, n_known, cut)
    node.left, node.right = ~(2 * stump), ~(2 * stump + 1)
    for i in range(cut + 1, n):
        leaf[order[i]] = 0 if i >= n_known and missing_left else 1


@inner_kernel
def _write_leaf_steps(probabilities, y, weight, leaf, l2, clamp, hessian, step):
    """Write the Newton steps of both leaves to `step` float64 (2, K); see `leaf_steps_diagonal`.

    `leaf` (n,) is the leaf of each row; `hessian` (2, K) is a workspace.
    """
    n, n_classes = probabilities.shape
    for side in range(2):
        for k in range(n_classes):
            step[side, k], hessian[side, k] = 0.0, l2
    for i in range(n):
        side, w = leaf[i], weight[i]
        for k in range(n_classes):
            p = np.float64(probabilities[i, k])
            step[side, k] -= w * p
            hessian[side, k] += w * (p * (1.0 - p))
        step[side, y[i]] += w
    for side in range(2):
        mean = 0.0
        for k in range(n_classes):
            step[side, k] /= max(hessian[side, k], 1e-12)
            mean += step[side, k] / n_classes
        for k in range(n_classes):
            centred = (n_classes - 1) / n_classes * (step[side, k] - mean)
            step[side, k] = min(max(centred, -clamp), clamp)


@inner_kernel
def _update_scores_and_probabilities(scores, probabilities, leaf, values, leaf_factors):
    """Add leaf values (2, K) to the scores of the rows, and update the probabilities.

    `leaf_factors` (2, K) are the exponentials of the values. Probabilities are multiplied by these
    factors, and then normalised. As steps are clamped, float32 is precise enough for a few stumps.
    """
    n, n_classes = scores.shape
    for i in range(n):
        side, total = leaf[i], np.float32(0.0)
        for k in range(n_classes):
            scores[i, k] += values[side, k]
            probabilities[i, k] *= leaf_factors[side, k]
            total += probabilities[i, k]
        for k in range(n_classes):
            probabilities[i, k] /= total


@kernel
def boost_correction_stumps(
    X,
    features,
    y,
    age_weight,
    row_weight,
    initial_scores,
    directions,
    rate,
    l2,
    min_hessian,
    clamp,
    value_factor,
    nodes,
    roots,
    values,
):
    """Boost stumps on the rows as `boost_stumps` does, without changing `initial_scores`.

    The weight of a row is `age_weight` float64 (n,) times `row_weight` float64 (n,).
    `initial_scores` float64 (n, K) are the scores before the first stump. The leaf `values` are
    multiplied by `value_factor`. Returns the number of nodes, or -1 if a class in `y` is negative.
    """
    n, n_classes = initial_scores.shape
    weight, scores = np.empty(n), np.empty((n, n_classes), np.float32)
    for i in range(n):
        if y[i] < 0:
            return -1
        weight[i] = age_weight[i] * row_weight[i]
        for k in range(n_classes):
            scores[i, k] = initial_scores[i, k]
    n_nodes = boost_stumps(
        X,
        features,
        y,
        weight,
        scores,
        directions,
        rate,
        l2,
        min_hessian,
        clamp,
        nodes,
        roots,
        values,
    )
    for leaf in range(values.shape[0]):
        for k in range(n_classes):
            values[leaf, k] *= np.float32(value_factor)
    return n_nodes


@kernel
def boost_stumps(
    X, features, y, weight, scores, directions, rate, l2, min_hessian, clamp, nodes, roots, values
):
    """Grow one stump for each of `directions`, one after another; write nodes and leaf values.

    Shapes: `X` float32 (n, D), NaN where missing; `features` int64 (d,), the columns that may be
    split; `y` int64 (n,); `weight` float64 (n,); `scores` float32 (n, K), to which the stumps'
    values are added; `directions` float32 (m, K). Outputs: `nodes` FOREST_NODE (m,); `roots` int32
    (m,), negative for a stump without a split; `values` float32 (2m, K), where stump i has the rows
    2i and 2i + 1. `min_hessian` is the least sum of Hessians in a leaf. Returns the number of
    nodes.
    """
    n, n_classes = scores.shape
    order, known = np.empty((features.size, n), np.int64), np.empty(features.size, np.int64)
    whole = (n + _VECTOR - 1) // _VECTOR * _VECTOR
    column = np.full(whole, np.float32(np.nan))
    below, taken = np.empty(whole, np.int32), np.empty(whole, np.int32)
    for j in range(features.size):
        known[j] = _sort_rows_by_column(X, features[j], column, below, taken, order[j])
    probabilities = np.empty((n, n_classes), np.float32)
    step, room = np.empty((2, n_classes)), np.empty((2, n_classes))
    gradient, hessian, leaf = np.empty(n), np.empty(n), np.empty(n, np.int64)
    factor, n_nodes = np.empty((2, n_classes), np.float32), 0
    softmax(scores, probabilities)
    for m in range(directions.shape[0]):
        sum_g, sum_h = _write_projected_gradients(
            probabilities, y, weight, directions[m], gradient, hessian
        )
        j, place, side = _best_split_of_features(
            X, features, order, known, gradient, hessian, sum_g, sum_h, l2, min_hessian
        )
        for i in range(n):
            leaf[i] = 0
        roots[m] = ~(2 * m)
        if j >= 0:
            _write_stump(nodes[n_nodes], m, X, features[j], order[j], known[j], place, side, leaf)
            roots[m] = n_nodes
            n_nodes += 1
        _write_leaf_steps(probabilities, y, weight, leaf, l2, clamp, room, step)
        for side in range(2):
            for k in range(n_classes):
                values[2 * m + side, k] = rate * step[side, k]
                factor[side, k] = np.exp(values[2 * m + side, k])
        _update_scores_and_probabilities(
            scores, probabilities, leaf, values[2 * m : 2 * m + 2], factor
        )
    return n_nodes
