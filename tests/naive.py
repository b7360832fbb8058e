"""Slow references: each does in plain Python what a kernel or an estimator does fast."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    rows: list[int]
    depth: int = 0
    gain: float = 0.0
    split: tuple[int, int, bool] | None = None  # feature, code, missing goes left
    children: list["Node"] = field(default_factory=list)


def newton_score(g, h, rows, l2):
    """G^2 / (H + l2) of some rows."""
    G, H = g[rows].sum(), h[rows].sum()
    return G * G / (H + l2) if H + l2 > 0 else 0.0


def gini_score(w, y, rows):
    """sum_k S_k^2 / W of some rows."""
    S = np.bincount(y[rows], weights=w[rows])
    return (S * S).sum() / S.sum() if S.sum() > 0 else 0.0


def goes_left(codes, n_bins, missing_left, feature, code, row):
    c = codes[feature, row]
    return missing_left if c == n_bins[feature] else bool(c <= code)


def best_split(node, codes, n_bins, score, weight_of, min_child):
    """Try every feature, code and side for missing values; keep the first of the best."""
    whole = score(node.rows)
    best = whole
    for f in range(len(codes)):
        has_missing = bool((codes[f] == n_bins[f]).any())
        for missing_left in (False, True) if has_missing else (False,):
            for code in range(n_bins[f] if has_missing and not missing_left else n_bins[f] - 1):
                left = [r for r in node.rows if goes_left(codes, n_bins, missing_left, f, code, r)]
                right = [r for r in node.rows if r not in set(left)]
                if min(weight_of(left), weight_of(right)) < max(min_child, 1e-300):
                    continue
                total = score(left) + score(right)
                if total > best * (1 + 1e-12):
                    best = total
                    node.gain, node.split = total - whole, (f, code, missing_left)


def grow(codes, n_bins, score, weight_of, max_leaf_nodes, max_depth=10**9, min_child=0.0):
    """Grow a tree best leaf first; return its root."""
    root = Node(list(range(codes.shape[1])))
    best_split(root, codes, n_bins, score, weight_of, min_child)
    leaves = [root]
    while len(leaves) < max_leaf_nodes:
        open_ = [leaf for leaf in leaves if leaf.split and leaf.depth < max_depth]
        if not open_:
            break
        node = max(open_, key=lambda leaf: leaf.gain)
        f, code, missing_left = node.split
        for side in (True, False):
            rows = [
                r for r in node.rows if goes_left(codes, n_bins, missing_left, f, code, r) is side
            ]
            child = Node(rows, node.depth + 1)
            best_split(child, codes, n_bins, score, weight_of, min_child)
            node.children.append(child)
        leaves.remove(node)
        leaves += node.children
    return root


def leaves_of(node):
    """The leaves' rows, in no particular order, as a set."""
    if not node.children:
        return {frozenset(node.rows)}
    return leaves_of(node.children[0]) | leaves_of(node.children[1])


def softmax(F):
    e = np.exp(F - F.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def newton_leaf(P, y, w, rows, l2, clamp=4.0):
    """(K-1)/K of the centred diagonal Newton step of some rows, clamped."""
    K = P.shape[1]
    R = np.eye(K)[y]
    G = (w[rows, None] * (R - P)[rows]).sum(axis=0)
    D = (w[rows, None] * (P * (1 - P))[rows]).sum(axis=0)
    t = G / (D + l2)
    return np.clip((K - 1) / K * (t - t.mean()), -clamp, clamp)


def leaf_of(forest, root, x):
    """Walk one record down one tree, node by node."""
    at = int(root)
    while at >= 0:
        node = forest.nodes[at]
        v = x[node["feature"]]
        left = node["missing_left"] if np.isnan(v) else v <= node["threshold"]
        at = int(node["left"] if left else node["right"])
    return ~at


def forest_scores(committee, X):
    """F(x), row by row and tree by tree."""
    forest = committee.learners
    out = np.tile(committee.base, (len(X), 1))
    for i, x in enumerate(X):
        for root in forest.roots:
            out[i] += forest.values[leaf_of(forest, root, x)]
    return out


def gamble(X, y, weight, n_rounds, max_leaf_nodes, floor=0.0):
    """Algorithm 2 of Huang (2009), on scikit-learn's weighted regression trees.

    No record weighs less than `floor` of the heaviest, which the text does not say. Returns the
    scores of the training rows (n, K), and each round's leaf of each row.
    """
    from sklearn.tree import DecisionTreeRegressor

    n, K = len(y), y.max() + 1
    Y = np.full((n, K), -1.0 / (K - 1))
    Y[np.arange(n), y] = 1.0
    F = np.zeros((n, K))
    w = weight / weight.sum()
    leaves = []
    for _ in range(n_rounds):
        tree = DecisionTreeRegressor(max_leaf_nodes=max_leaf_nodes, random_state=0)
        tree.fit(X, Y, sample_weight=w)
        leaf = tree.apply(X)
        leaves.append(leaf)
        f = np.empty((n, K))
        for m in np.unique(leaf):
            rows = leaf == m
            g = np.average(Y[rows], axis=0, weights=w[rows])
            h = np.average(Y[rows] ** 2, axis=0, weights=w[rows])
            r = K * g / h
            f[rows] = r - r.mean()
        F += f
        w = np.exp(-(Y * F).sum(axis=1) / K)
        w = weight * np.maximum(w, floor * w.max())
        w /= w.sum()
    return F, leaves
