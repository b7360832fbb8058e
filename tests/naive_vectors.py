"""Slow references for the boosters on simplex codewords, with the steps of the papers."""

import naive
import numpy as np
from scipy.optimize import minimize_scalar

from streamboost.trees.bins import Bins


def problem(seed, n=80, K=3, d=3):
    """Rows, classes and weights: noisy regions around random centres."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    y = ((X[:, None] - rng.standard_normal((K, d)) * 1.5) ** 2).sum(axis=2).argmin(axis=1)
    noisy = rng.random(n) < 0.15
    y[noisy] = rng.integers(0, K, noisy.sum())
    return X, y, rng.random(n) + 0.5


def coded(X):
    """Codes and number of bins of `X`, whose columns have few enough values for exact bins."""
    bins = Bins.fit(X.astype(np.float32), np.ones(len(X)), 255)
    return bins.transform(X.astype(np.float32)), bins.n_bins


def tree_of(X, score, max_leaf_nodes):
    """Rows by leaf, as lists, of the tree that greedily maximises the sum of `score(rows)`."""
    codes, n_bins = coded(X)
    root = naive.grow(codes, n_bins, score, lambda rows: float(len(rows)), max_leaf_nodes)
    return [sorted(leaf) for leaf in naive.leaves_of(root)]


def stumps_of(X, rows=None):
    """Every division of `rows` (None: all) by a threshold, as arrays of ±1; the constant first."""
    codes, n_bins = coded(X)
    rows = np.arange(len(X)) if rows is None else np.asarray(rows)
    yield np.ones(len(rows))
    for f in range(len(codes)):
        for code in range(n_bins[f] - 1):
            side = np.where(codes[f, rows] <= code, 1.0, -1.0)
            if abs(side.sum()) < len(rows):
                yield side


# Saberian and Vasconcelos (2011), in the space of codewords.


def codewords(M):
    """The recursion of the paper's reference [3]."""
    if M == 1:
        return np.zeros((1, 0))
    Y = np.zeros((M, M - 1))
    Y[0, 0] = 1
    Y[1:, 0] = -1 / (M - 1)
    Y[1:, 1:] = np.sqrt(1 - 1 / (M - 1) ** 2) * codewords(M - 1)
    return Y


def simplex_risk(f, y, weight):
    """R(f) of equation 15, less the constant terms."""
    Y = codewords(y.max() + 1)
    z = f @ Y.T
    e = np.exp(-(z[np.arange(len(y)), y][:, None] - z) / 2)
    return (weight[:, None] * e).sum() - weight.sum()


def descent_directions(f, y, weight):
    """w_i of equation 31, (n, M-1)."""
    Y = codewords(y.max() + 1)
    w = np.zeros_like(f)
    for i, c in enumerate(y):
        for k in range(len(Y)):
            w[i] += weight[i] / 2 * (Y[c] - Y[k]) * np.exp(-f[i] @ (Y[c] - Y[k]) / 2)
    return w


def best_step(f, g, y, weight):
    """The line search of equations 26 and 33, by scipy."""
    found = minimize_scalar(
        lambda a: simplex_risk(f + a * g, y, weight),
        bracket=(0, 1),
        options={"xtol": 1e-12},
    )
    return found.x


def gd_mcboost(X, y, weight, n_rounds, max_leaf_nodes):
    """Algorithm 1, right. Returns z (n, M)."""
    Y = codewords(y.max() + 1)
    f = np.zeros((len(y), Y.shape[1]))
    for _ in range(n_rounds):
        w = descent_directions(f, y, weight)
        g = np.zeros_like(f)
        for rows in tree_of(X, lambda rows, w=w: (w[rows].sum(0) @ Y.T).max(), max_leaf_nodes):
            g[rows] = Y[(w[rows].sum(0) @ Y.T).argmax()]
        f += best_step(f, g, y, weight) * g
    return f @ Y.T


def cd_mcboost(X, y, weight, n_rounds):
    """Algorithm 1, left, with stumps; each coordinate is one round. Returns z (n, M)."""
    Y = codewords(y.max() + 1)
    f = np.zeros((len(y), Y.shape[1]))
    for m in range(n_rounds):
        j = m % Y.shape[1]
        w = descent_directions(f, y, weight)[:, j]
        best = None
        for left in stumps_of(X):
            # A tree of ±1 on either side, the constant among them.
            g = np.where(left > 0, np.sign(w[left > 0].sum()), 0.0)
            g = np.where(left < 0, np.sign(w[left < 0].sum()), g)
            if best is None or g @ w > best @ w * (1 + 1e-12):
                best = g
        g = np.zeros_like(f)
        g[:, j] = best
        f += best_step(f, g, y, weight) * g
    return f @ Y.T


def adaboost_cost(X, y, weight, n_rounds, max_leaf_nodes, step):
    """AdaBoost-Cost as Mukherjee and Schapire state it: votes, a cost matrix, an edge."""
    n, K = len(y), y.max() + 1
    votes = np.zeros((n, K))
    for _ in range(n_rounds):
        C = weight[:, None] * np.exp(votes - votes[np.arange(n), y][:, None])
        C[np.arange(n), y] = 0
        C[np.arange(n), y] = -C.sum(axis=1)
        leaves = tree_of(X, lambda rows, C=C: -C[rows].sum(0).min(), max_leaf_nodes)
        h = np.empty(n, dtype=int)
        for rows in leaves:
            h[rows] = C[rows].sum(0).argmin()
        cost = C[np.arange(n), h]
        if step == "bound":
            edge = -cost.sum() / -C[np.arange(n), y].sum()
            alpha = np.log((1 + edge) / (1 - edge)) / 2
        else:
            alpha = np.log(-cost[h == y].sum() / cost[h != y].sum()) / 2
        votes[np.arange(n), h] += alpha
    return votes


def adaboost(X, y, weight, n_rounds, start=None):
    """Discrete AdaBoost with stumps (Freund and Schapire). Returns its margin f (n,)."""
    sign = np.where(y == 1, 1.0, -1.0)
    f = np.zeros(len(y)) if start is None else start.copy()
    for _ in range(n_rounds):
        w = weight * np.exp(-sign * f)
        w /= w.sum()
        best = min(stumps_of(X), key=lambda h: -abs(h @ (w * sign)))
        best = best * np.sign(best @ (w * sign))
        error = w[best != sign].sum()
        f += np.log((1 - error) / error) / 2 * best
    return f
