"""SHAP values of trees: path-dependent feature contributions, computed leaf by leaf.

The path to a leaf of value v tests d features. A row satisfies the tests of feature i (o_i = 1) or
not (o_i = 0), and a share z_i of the training rows satisfies them. If the features S are known, the
probability of reaching the leaf is prod_{i in S} o_i prod_{i not in S} z_i. The contribution of
feature j is

    v (o_j - z_j) sum_S |S|! (d - |S| - 1)! / d!  prod_{i in S} o_i  prod_{i not in S, i != j} z_i
    = v (o_j - z_j) int_0^1 prod_{i != j} (o_i t + z_i (1 - t)) dt,

since int t^s (1 - t)^(d - 1 - s) dt = s! (d - s - 1)! / d!. The integrand is a polynomial of degree
d - 1: ceil(d / 2) points of Gauss and Legendre integrate it without error.

Lundberg, Erion and Lee (2018) and Lundberg et al. (2020) define these "path dependent" values for
trees. Their algorithm passes polynomials down the tree; this one passes only o and z.
"""

from typing import NamedTuple

import numpy as np

from streamboost.kernels.jit import inner_kernel, kernel

POINTS = 4  # quadrature points per block, sufficient for eight features

RULE = np.dtype([("point", np.float64, (POINTS,)), ("weight", np.float64, (POINTS,))])

TESTED_FEATURE = np.dtype(
    [
        ("feature", np.int64),
        ("passes", np.float64),  # 1 if the row satisfies all tests of the feature so far, else 0
        ("share", np.float64),  # share of the training rows that satisfy them
        ("integral", np.float64),  # of the module's formula, at a leaf
        ("factor", np.float64, (POINTS,)),  # o t + z (1 - t) at each quadrature point t
    ]
)

PATH_STEP = np.dtype(
    [
        ("node", np.int64),
        ("n_visited", np.int64),  # number of its visited children
        ("place", np.int64),  # index of its feature among the tested features
        ("is_first", np.int64),  # whether no ancestor tests the feature
        ("goes_left", np.int64),
        ("passes", np.float64),  # state of the feature before this node
        ("share", np.float64),
    ]
)


class _ForestArrays(NamedTuple):
    """Arrays of a forest, and the share of each node's training weight that goes left."""

    nodes: np.ndarray  # this and the next three as in `add_scores_with_categories`
    set_of: np.ndarray
    sets: np.ndarray
    values: np.ndarray
    left_share: np.ndarray  # float64 (nodes,)


class _TraversalWorkspace(NamedTuple):
    """Reusable arrays for the traversal of a tree: its path, tested features, and SHAP values."""

    path: np.ndarray  # PATH_STEP: the nodes from the root to the present node
    tested: np.ndarray  # TESTED_FEATURE: the features that these nodes test
    rules: np.ndarray  # RULE (blocks + 1, blocks)
    value: np.ndarray  # float64 (K, padded): the values of a leaf
    phi: np.ndarray  # float64 (D, K padded): the SHAP values of a row


@kernel
def write_left_shares(nodes, roots, values, cover, left_share, expected):
    """Write the share of each node's training weight that goes left; add mean scores to `expected`.

    Shapes: `nodes`, `roots` and `values` as in `add_scores`; `cover` (leaves,), the weight of the
    training rows in each leaf, in a unit that may differ between trees; `left_share` float64
    (nodes,); `expected` float64 (K,), the mean score of each class over the training rows. Returns
    the number of nodes on the longest path.
    """
    n, most = nodes.size, 0
    weight, height, reach = np.empty(n), np.empty(n, np.int64), np.zeros(n)
    for at in range(n - 1, -1, -1):  # children have higher indices than their parents
        left, right = nodes[at].left, nodes[at].right
        on_left = np.float64(cover[~left]) if left < 0 else weight[left]
        on_right = np.float64(cover[~right]) if right < 0 else weight[right]
        weight[at] = on_left + on_right
        left_share[at] = on_left / weight[at] if weight[at] > 0.0 else 0.5
        below = max(0 if left < 0 else height[left], 0 if right < 0 else height[right])
        height[at] = below + 1
        most = max(most, height[at])
    for t in range(roots.size):
        if roots[t] >= 0:
            reach[roots[t]] = 1.0
        else:
            for k in range(values.shape[1]):
                expected[k] += values[~roots[t], k]
    for at in range(n):
        for side in range(2):
            child = nodes[at].right if side else nodes[at].left
            chance = reach[at] * (1.0 - left_share[at] if side else left_share[at])
            if child >= 0:
                reach[child] = chance
            else:
                for k in range(values.shape[1]):
                    expected[k] += chance * values[~child, k]
    return most


@inner_kernel
def _value_goes_left(trees, node_index, value):
    node, at_set = trees.nodes[node_index], trees.set_of[node_index]
    if at_set >= 0:
        code = np.int64(value)
        return (trees.sets[at_set, code >> 3] >> (code & 7)) & 1 == 1
    return value <= node.threshold or (node.missing_left and value != value)


@inner_kernel
def _add_quadrature_points(tested, n_tested, points):
    """Add four quadrature points to the integral of each of the `n_tested` features.

    The integrand of feature j is the product over the other features in the module's formula. There
    are no branches on `passes` (o_i), as these would take most of the time.
    """
    t0, t1, t2, t3 = points.point[0], points.point[1], points.point[2], points.point[3]
    p0, p1, p2, p3 = points.weight[0], points.weight[1], points.weight[2], points.weight[3]
    for i in range(n_tested):
        a = tested[i]
        z, d = a.share, a.passes - a.share
        f0, f1, f2, f3 = z + d * t0, z + d * t1, z + d * t2, z + d * t3
        a.factor[0], a.factor[1], a.factor[2], a.factor[3] = f0, f1, f2, f3
        p0, p1, p2, p3 = p0 * f0, p1 * f1, p2 * f2, p3 * f3
    for i in range(n_tested):
        f = tested[i].factor
        tested[i].integral += (p0 / f[0] + p1 / f[1]) + (p2 / f[2] + p3 / f[3])


@inner_kernel
def _add_leaf_contributions(leaf, n_tested, values, workspace):
    """Add the contributions of one leaf to the SHAP values of the features that its path tests."""
    tested, value, phi = workspace.tested, workspace.value, workspace.phi
    for i in range(n_tested):
        tested[i].integral = 0.0
    n_blocks = (n_tested + 2 * POINTS - 1) // (2 * POINTS)
    for b in range(n_blocks):
        _add_quadrature_points(tested, n_tested, workspace.rules[n_blocks, b])
    for k in range(values.shape[1]):
        value[k] = values[leaf, k]
    for i in range(n_tested):
        due = tested[i].integral * (tested[i].passes - tested[i].share)
        f = tested[i].feature
        for k in range(value.size):
            phi[f, k] += due * value[k]


@inner_kernel
def _find_tested_feature(path_step, tested, n_tested, feature, goes_left):
    """Write the index in `tested` of the `feature` that a node splits to `path_step`.

    A feature that the path has not tested before is appended to `tested`. `goes_left` is True if
    the row goes left at the node.
    """
    p = 0
    while p < n_tested and tested[p].feature != feature:
        p += 1
    a = tested[p]
    path_step.place, path_step.is_first, path_step.goes_left = p, p == n_tested, goes_left
    if path_step.is_first:
        a.feature, a.passes, a.share = feature, 1.0, 1.0
    path_step.passes, path_step.share = a.passes, a.share


@inner_kernel
def _add_tree_contributions(trees, root, X, row, workspace):
    """Add the SHAP values of all leaves of a tree for one row, in a depth-first traversal."""
    path, tested = workspace.path, workspace.tested
    h, n_tested = 0, 0
    path[0].node, path[0].n_visited = root, 0
    while h >= 0:
        step = path[h]
        at = step.node
        if step.n_visited == 0:
            f = trees.nodes[at].feature
            _find_tested_feature(step, tested, n_tested, f, _value_goes_left(trees, at, X[row, f]))
            n_tested += step.is_first
        a = tested[step.place]
        if step.n_visited == 2:
            n_tested -= step.is_first
            a.passes, a.share = step.passes, step.share
            h -= 1
            continue
        left = step.n_visited == 0
        step.n_visited += 1
        a.passes = step.passes if left == step.goes_left else 0.0
        a.share = step.share * (trees.left_share[at] if left else 1.0 - trees.left_share[at])
        if a.passes == 0.0 and a.share == 0.0:
            continue  # no row reaches the child, for any set of known features
        child = trees.nodes[at].left if left else trees.nodes[at].right
        if child < 0:
            _add_leaf_contributions(~child, n_tested, trees.values, workspace)
        else:
            h += 1
            path[h].node, path[h].n_visited = child, 0


@kernel
def add_contributions(
    nodes, set_of, sets, roots, values, left_share, X, rules, path, tested, contributions
):  # fmt: skip
    """Add the SHAP values of the features of each row to `contributions` (n, K, D + 1).

    `nodes`, `set_of`, `sets`, `roots`, `values` and `X` are as in `add_scores_with_categories`;
    `left_share` is computed by `write_left_shares`. `rules` is RULE (blocks + 1, blocks): rule b
    has its points, between 0 and 1, in its first b blocks, and is exact for 8 b features. The
    workspaces `path` PATH_STEP and `tested` TESTED_FEATURE have the size of the longest path. The
    last column of `contributions` is not changed. The time is O(leaves (d^2 + d K)) per row.
    """
    n_classes, n_features = values.shape[1], X.shape[1]
    # The classes are padded with zeros to multiples of 16, as loops with remainders are slower.
    width = n_classes if n_classes <= POINTS else (n_classes + 15) & ~15
    trees = _ForestArrays(nodes, set_of, sets, values, left_share)
    workspace = _TraversalWorkspace(
        path, tested, rules, np.zeros(width), np.empty((n_features, width))
    )
    for i in range(X.shape[0]):
        for j in range(n_features):
            for k in range(width):
                workspace.phi[j, k] = 0.0
        for t in range(roots.size):
            if roots[t] >= 0:
                _add_tree_contributions(trees, roots[t], X, i, workspace)
        for k in range(n_classes):
            for j in range(n_features):
                contributions[i, k, j] += workspace.phi[j, k]
