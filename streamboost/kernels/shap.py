"""What each feature did to a row's score: SHAP values of trees, a leaf at a time.

A leaf of value v asks d features on its way. The row passes what it asks of feature i or does not,
o_i = 1 or 0, and of the training's rows a share z_i would. Where the features S are known, the
chance to come to the leaf is prod_{i in S} o_i prod_{i not in S} z_i, and feature j is owed

    v (o_j - z_j) sum_S |S|! (d - |S| - 1)! / d!  prod_{i in S} o_i  prod_{i not in S, i != j} z_i
    = v (o_j - z_j) int_0^1 prod_{i != j} (o_i t + z_i (1 - t)) dt,

since int t^s (1 - t)^(d - 1 - s) dt = s! (d - s - 1)! / d!. The integrand is a polynomial of degree
d - 1: ceil(d / 2) points of Gauss and Legendre integrate it without error.
"""

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

__all__ = ["BLOCK", "add_contributions", "weigh_paths"]

BLOCK = 4  # points that are computed at a time, a number the compiler knows


@kernel
def weigh_paths(nodes, roots, values, cover, left_share, expected):
    """Write which share of each node's weight goes left, and add up what trees score on average.

    Shapes: `nodes`, `roots` and `values` as in `add_scores`; `cover` (leaves,), the weight of the
    training's rows in each leaf, in any unit for each tree; `left_share` float64 (nodes,);
    `expected` float64 (K,). Returns the most questions between a root and a leaf.
    """
    n, most = nodes.size, 0
    weight, height, reach = np.empty(n), np.empty(n, np.int64), np.zeros(n)
    for at in range(n - 1, -1, -1):  # children stand behind their parents
        left, right = nodes[at].left, nodes[at].right
        on_left = np.float64(cover[~left]) if left < 0 else weight[left]
        on_right = np.float64(cover[~right]) if right < 0 else weight[right]
        weight[at] = on_left + on_right
        left_share[at] = on_left / weight[at] if weight[at] > 0.0 else 0.5
        height[at] = 1 + max(
            0 if left < 0 else height[left],
            0 if right < 0 else height[right],
        )
        most = max(most, height[at])
    for t in range(roots.size):
        if roots[t] >= 0:
            reach[roots[t]] = 1.0
            continue
        for k in range(values.shape[1]):
            expected[k] += values[~roots[t], k]
    for at in range(n):
        for side in range(2):
            child = nodes[at].left if side == 0 else nodes[at].right
            chance = reach[at] * (left_share[at] if side == 0 else 1.0 - left_share[at])
            if child >= 0:
                reach[child] = chance
                continue
            for k in range(values.shape[1]):
                expected[k] += chance * values[~child, k]
    return most


@inner_kernel
def _goes_left(nodes, set_of, sets, at, x):
    node = nodes[at]
    if set_of[at] >= 0:
        code = np.int64(x)
        return (sets[set_of[at], code >> 3] >> (code & 7)) & 1 == 1
    return x <= node.threshold or (node.missing_left and x != x)


@inner_kernel
def _add_leaf(values, leaf, n_asked, feature, passes, share, rules, factor, owed, phi):
    """Add what a leaf owes to each of the `n_asked` features on its way to `phi` (D, K).

    Those that the row does not pass have factors z (1 - t), so that all of them are owed the same.
    """
    n_blocks = (n_asked + 2 * BLOCK - 1) // (2 * BLOCK)
    rule, failed = rules[n_blocks], 0.0
    for i in range(n_asked):
        owed[i] = 0.0
    for b in range(n_blocks):
        first = BLOCK * b
        t0, t1, t2, t3 = rule[0, first], rule[0, first + 1], rule[0, first + 2], rule[0, first + 3]
        p0, p1, p2, p3 = rule[1, first], rule[1, first + 1], rule[1, first + 2], rule[1, first + 3]
        for i in range(n_asked):
            z, d = share[i], passes[i] - share[i]
            f0, f1, f2, f3 = z + d * t0, z + d * t1, z + d * t2, z + d * t3
            factor[i, 0], factor[i, 1], factor[i, 2], factor[i, 3] = f0, f1, f2, f3
            p0, p1, p2, p3 = p0 * f0, p1 * f1, p2 * f2, p3 * f3
        failed -= p0 / (1.0 - t0) + p1 / (1.0 - t1) + p2 / (1.0 - t2) + p3 / (1.0 - t3)
        for i in range(n_asked):
            if passes[i] > 0.0:
                owed[i] += (
                    p0 / factor[i, 0] + p1 / factor[i, 1] + p2 / factor[i, 2] + p3 / factor[i, 3]
                )
    for i in range(n_asked):
        due = owed[i] * (1.0 - share[i]) if passes[i] > 0.0 else failed
        for k in range(values.shape[1]):
            phi[feature[i], k] += due * values[leaf, k]


@kernel
def add_contributions(nodes, set_of, sets, roots, values, left_share, X, rules, most, out):
    """Add to `out` float64 (n, K, D + 1) what each feature did to each score of each row.

    `nodes`, `set_of`, `sets`, `roots`, `values` and `X` are as in `add_mixed_scores`; `left_share`
    and `most` come from `weigh_paths`; `points` (q,) are those of an integral from 0 to 1, and
    `powers` (most + 1, q) their weights times (1 - t)^m. The last column of `out` stays as it is.
    """
    n_classes, n_features = values.shape[1], X.shape[1]
    phi = np.empty((n_features, n_classes))
    factor, owed = np.empty((most, BLOCK)), np.empty(most)
    # The features on the way: which they are, whether the row passes, and the share that would.
    feature, passes, share = np.empty(most, np.int64), np.empty(most), np.empty(most)
    # The way itself: nodes, where their features stand above, and how these stood before.
    way, turn, place = (
        np.empty(most + 1, np.int64),
        np.empty(most + 1, np.int64),
        np.empty(most + 1, np.int64),
    )
    fresh, goes_left = np.empty(most + 1, np.bool_), np.empty(most + 1, np.bool_)
    passed, shared = np.empty(most + 1), np.empty(most + 1)
    for i in range(X.shape[0]):
        for j in range(n_features):
            for k in range(n_classes):
                phi[j, k] = 0.0
        for t in range(roots.size):
            if roots[t] < 0:
                continue
            h, n_asked = 0, 0
            way[0], turn[0] = roots[t], 0
            while h >= 0:
                at = way[h]
                if turn[h] == 0:
                    f = nodes[at].feature
                    goes_left[h] = _goes_left(nodes, set_of, sets, at, X[i, f])
                    p = 0
                    while p < n_asked and feature[p] != f:
                        p += 1
                    place[h], fresh[h] = p, p == n_asked
                    if fresh[h]:
                        feature[p], passes[p], share[p] = f, 1.0, 1.0
                        n_asked += 1
                    passed[h], shared[h] = passes[p], share[p]
                p = place[h]
                if turn[h] == 2:
                    if fresh[h]:
                        n_asked -= 1
                    passes[p], share[p] = passed[h], shared[h]
                    h -= 1
                    continue
                left = turn[h] == 0
                turn[h] += 1
                passes[p] = passed[h] if goes_left[h] == left else 0.0
                share[p] = shared[h] * (left_share[at] if left else 1.0 - left_share[at])
                if passes[p] == 0.0 and share[p] == 0.0:  # nobody comes there, whatever is known
                    continue
                child = nodes[at].left if left else nodes[at].right
                if child < 0:
                    _add_leaf(
                        values, ~child, n_asked, feature, passes, share, rules, factor, owed, phi
                    )
                else:
                    h += 1
                    way[h], turn[h] = child, 0
        for k in range(n_classes):
            for j in range(n_features):
                out[i, k, j] += phi[j, k]
