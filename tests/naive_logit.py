"""Slow references for the LogitBoost family: sums over rows, and whole trainings."""

import naive
import numpy as np
from naive import Node, softmax

from streamboost.trees.bins import Bins

TIE = 1e-9


def log_loss(F, y, w=None):
    w = np.ones(len(y)) if w is None else w
    return -(w * np.log(softmax(np.asarray(F, dtype=float))[np.arange(len(y)), y])).sum()


def separate_loss(F, y, w=None):
    """The log loss without its sum-to-one constraint: sum_k exp(F_k - 1) - F_y."""
    w = np.ones(len(y)) if w is None else w
    F = np.asarray(F, dtype=float)
    return (w * (np.exp(F - 1).sum(axis=1) - F[np.arange(len(y)), y])).sum()


def sums(P, y, w, rows):
    """Negative gradient G and Hessian H of the log loss, summed over some rows."""
    R = np.eye(P.shape[1])[y]
    G = (w[rows, None] * (R - P)[rows]).sum(axis=0)
    H = sum(w[r] * (np.diag(P[r]) - np.outer(P[r], P[r])) for r in rows)
    return G, H


def pair(P, y, w, rows, by_gain=True):
    """The class that gains and the class that loses (Sun et al., 2014, equations 33 and 32)."""
    G, H = sums(P, y, w, rows)
    a = next(k for k in range(len(G)) if G[k] >= G.max() - TIE * w[rows].sum())
    if not by_gain:
        return a, next(
            k
            for k in range(len(G))
            if k != a and G[k] <= min(np.delete(G, a)) + TIE * w[rows].sum()
        )
    score = [
        (G[a] - G[k]) ** 2 / max(H[a, a] + H[k, k] - 2 * H[a, k], 1e-300) if k != a else -1.0
        for k in range(len(G))
    ]
    return a, next(k for k in range(len(G)) if score[k] * (1 + TIE) >= max(score))


def pair_derivatives(P, y, a, b):
    """Each row's negative gradient and Hessian as F_a rises and F_b falls."""
    g = ((y == a) - P[:, a]) - ((y == b) - P[:, b])
    return g, P[:, a] + P[:, b] - (P[:, a] - P[:, b]) ** 2


def leaf_pair(P, y, w, rows, l2, clamp=4.0, by_gain=True):
    a, b = pair(P, y, w, rows, by_gain)
    g, h = pair_derivatives(P, y, a, b)
    t = min((w * g)[rows].sum() / ((w * h)[rows].sum() + l2), clamp)
    return t * (np.eye(P.shape[1])[a] - np.eye(P.shape[1])[b])


def leaf_dense(P, y, w, rows, l2, clamp=4.0):
    G, H = sums(P, y, w, rows)
    K = len(G)
    H = H + l2 * np.eye(K)
    f = np.linalg.solve(H + np.trace(H) / K**2, G)
    return np.clip(f - f.mean(), -clamp, clamp)


def leaf_separate(P, y, w, rows, l2, clamp=2.0):
    R = np.eye(P.shape[1])[y]
    G = (w[rows, None] * (R - P)[rows]).sum(axis=0)
    return np.clip(G / ((w[rows, None] * P[rows]).sum(axis=0) + l2), -clamp, clamp)


def grow_with_node_histogram_inputs(codes, n_bins, choose, l2, max_leaf_nodes, min_child):
    """Grow best leaf first; `choose(rows)` gives each node the g and h of its own split."""

    def node_of(rows):
        node = Node(rows)
        g, h = choose(rows)
        naive.best_split(
            node,
            codes,
            n_bins,
            lambda part: naive.newton_score(g, h, part, l2),
            lambda part: h[part].sum(),
            min_child,
        )
        return node

    root = node_of(list(range(codes.shape[1])))
    leaves = [root]
    while len(leaves) < max_leaf_nodes and any(leaf.split for leaf in leaves):
        node = max((leaf for leaf in leaves if leaf.split), key=lambda leaf: leaf.gain)
        f, code, missing_left = node.split
        left = [r for r in node.rows if naive.goes_left(codes, n_bins, missing_left, f, code, r)]
        node.children = [node_of(left), node_of([r for r in node.rows if r not in set(left)])]
        leaves.remove(node)
        leaves += node.children
    return root


class Training:
    """What every transcription shares: codes, labels, weights, scores, and the trees' limits."""

    def __init__(self, codes, n_bins, y, w, rate, l2, leaves, min_child):
        self.codes, self.n_bins, self.y, self.w = codes, n_bins, y, w
        self.rate, self.l2, self.leaves, self.min_child = rate, l2, leaves, min_child
        self.K = int(y.max()) + 1
        share = np.bincount(y, weights=w) + 1
        self.log_share = np.log(share / share.sum())
        self.F = np.tile(self.log_share - self.log_share.mean(), (len(y), 1))

    def leaves_of(self, g, h):
        """The rows of each leaf of the Newton tree of weighted g and h."""
        root = naive.grow(
            self.codes,
            self.n_bins,
            lambda rows: naive.newton_score(g, h, rows, self.l2),
            lambda rows: h[rows].sum(),
            self.leaves,
            min_child=self.min_child,
        )
        return [list(leaf) for leaf in naive.leaves_of(root)]

    def scalar_tree(self, g, h, direction):
        """What a tree of one-dimensional Newton steps along a direction adds to the scores."""
        g, h, f = self.w * g, self.w * h, np.zeros_like(self.F)
        for rows in self.leaves_of(g, h):
            step = np.clip(g[rows].sum() / (h[rows].sum() + self.l2), -4, 4)
            f[rows] = self.rate * step * direction
        return f


def logitboost(training, rounds):
    """Friedman et al. (2000) by sums: K trees, their values centred over the classes."""
    t, unit = training, np.eye(training.K)
    for _ in range(rounds):
        P = softmax(t.F)
        f = sum(
            t.scalar_tree((t.y == k) - P[:, k], P[:, k] * (1 - P[:, k]), unit[k])
            for k in range(t.K)
        )
        t.F = t.F + (t.K - 1) / t.K * (f - f.mean(axis=1, keepdims=True))
    return t.F


def abc_logitboost(training, rounds, base):
    """Li (2010): K-1 trees against the class of the largest loss, or all K tried."""
    t, unit = training, np.eye(training.K)
    for _ in range(rounds):
        P = softmax(t.F)

        def against(b, P=P):
            return t.F + sum(
                t.scalar_tree(*pair_derivatives(P, t.y, k, b), unit[k] - unit[b])
                for k in range(t.K)
                if k != b
            )

        if base == "worst":
            own = -t.w * np.log(P[np.arange(len(t.y)), t.y])
            t.F = against(int(np.bincount(t.y, weights=own).argmax()))
        else:
            t.F = min((against(b) for b in range(t.K)), key=lambda F: log_loss(F, t.y, t.w))
    return t.F


def aoso(training, rounds, leaf, by_gain=True):
    """Sun et al. (2014), section 4, with the leaf given."""
    t = training
    for _ in range(rounds):
        P = softmax(t.F)

        def choose(rows, P=P):
            g, h = pair_derivatives(P, t.y, *pair(P, t.y, t.w, rows, by_gain))
            return t.w * g, t.w * h

        root = grow_with_node_histogram_inputs(
            t.codes, t.n_bins, choose, t.l2, t.leaves, t.min_child
        )
        for rows in map(list, naive.leaves_of(root)):
            t.F[rows] += t.rate * leaf(P, t.y, t.w, rows, t.l2)
    return t.F


def k_logitboost(training, rounds):
    """Sun et al. (2014), section 6: every class by itself."""
    t = training
    t.F = np.tile(1 + t.log_share, (len(t.y), 1))
    for _ in range(rounds):
        P = np.exp(t.F - 1)
        G, H = t.w[:, None] * (np.eye(t.K)[t.y] - P), t.w[:, None] * P
        root = naive.grow(
            t.codes,
            t.n_bins,
            lambda rows, G=G, H=H: (G[rows].sum(0) ** 2 / (H[rows].sum(0) + t.l2)).sum(),
            lambda rows, H=H: H[rows].sum(),
            t.leaves,
            min_child=t.min_child,
        )
        for rows in map(list, naive.leaves_of(root)):
            t.F[rows] += t.rate * leaf_separate(P, t.y, t.w, rows, t.l2)
    return t.F


def sketch(training, rounds, drawn):
    """SketchLogitBoost, a direction, features and rows to train on being given for each round."""
    t = training
    for u, features, chosen in drawn[:rounds]:
        P, codes, n_bins = softmax(t.F), t.codes[features], t.n_bins[features]
        g, h = t.w * (u[t.y] - P @ u), t.w * (P @ u**2 - (P @ u) ** 2)
        g, h, rows = g[chosen], h[chosen], np.flatnonzero(chosen)
        root = naive.grow(
            codes[:, chosen],
            n_bins,
            lambda part, g=g, h=h: naive.newton_score(g, h, part, t.l2),
            lambda part, h=h: h[part].sum(),
            t.leaves,
            min_child=t.min_child,
        )
        f = np.empty_like(t.F)
        for r in range(len(t.y)):
            node = root
            while node.children:
                feature, code, missing_left = node.split
                left = naive.goes_left(codes, n_bins, missing_left, feature, code, r)
                node = node.children[0 if left else 1]
            f[r] = t.rate * naive.newton_leaf(P, t.y, t.w, rows[node.rows], t.l2)
        t.F = t.F + f
    return t.F


def small(seed, n=60, K=4, d=3):
    """Few rows, many values, some missing, whole weights: no two splits tie."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    X = (rng.standard_normal((n, d)) + y[:, None] * rng.standard_normal(d)).astype(np.float32)
    X[rng.random((n, d)) < 0.1] = np.nan
    return X, y, rng.integers(1, 4, n).astype(float)


def transcribe(X, y, w, algorithm, *args, l2=0.3, min_child=0.4):
    """The scores of `algorithm` after four rounds of trees of 5 leaves at rate 0.5."""
    bins = Bins.fit(X, w, 64)
    training = Training(bins.transform(X), bins.n_bins, y, w, 0.5, l2, 5, min_child)
    return algorithm(training, 4, *args)


SETTINGS = {
    "n_estimators": 4,
    "learning_rate": 0.5,
    "max_leaf_nodes": 5,
    "l2_regularization": 0.3,
    "min_child_weight": 0.4,
}


def scores(model, X):
    """F with one column per class, for two classes too."""
    return model.committee_.class_scores(X)
