"""Plain references of the families that boost class weights, on scikit-learn's trees.

Each reference returns scores of the training rows. Trees that split these rows alike are then
equal, whatever the exact thresholds between two rows are.
"""

import numpy as np
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


def votes(X, y, D, p, n_rounds, max_leaf_nodes, bonus):
    """AdaBoost.A with SAMME's bonus ln(K - 1), AdaBoost.M1's 0, or for D = p without the .A.

    Returns the votes (n, K) after each round. D shapes the tree, q = p exp(...) gives its vote.
    """
    K = y.max() + 1
    q, V, stages = p.copy(), np.zeros((len(y), K)), []
    for _ in range(n_rounds):
        tree = DecisionTreeClassifier(max_leaf_nodes=max_leaf_nodes, random_state=0)
        h = tree.fit(X, y, sample_weight=D).predict(X)
        error = q[h != y].sum() / q.sum()
        alpha = np.log((1 - error) / error) + bonus
        if alpha <= 1e-5:
            break
        V[np.arange(len(y)), h] += alpha
        D, q = D * np.exp(alpha * (h != y)), q * np.exp(alpha * (h != y))
        D, q = D / D.sum(), q / q.sum()
        stages.append(V.copy())
    return stages


def adaboost_a_as_printed(X, y, D1, p, n_rounds, max_leaf_nodes):
    """Algorithm 1 and equation 1 of Duarte and Milidiú (2007): y = ±1, q as D p / D1."""
    D, f = D1 / D1.sum(), np.zeros(len(y))
    for _ in range(n_rounds):
        tree = DecisionTreeClassifier(max_leaf_nodes=max_leaf_nodes, random_state=0)
        h = tree.fit(X, y, sample_weight=D).predict(X)
        share = D * p / D1
        alpha = 0.5 * np.log(share[h == y].sum() / share[h != y].sum())
        f += alpha * h
        D = D * np.exp(-alpha * y * h)
        D /= D.sum()
    return f


def adaboost(X, sign, weight, n_rounds, fit):
    """Discrete AdaBoost; `fit(X, sign, w)` returns h(X) in ±1."""
    w, f = weight / weight.sum(), np.zeros(len(sign))
    for _ in range(n_rounds):
        h = fit(X, sign, w)
        error = w[h != sign].sum()
        alpha = 0.5 * np.log((1 - error) / error)
        f += alpha * h
        w = w * np.exp(-alpha * sign * h)
        w /= w.sum()
    return f


def best_stump(X, sign, w):
    """The answers of the stump of least weighted error, constant ones included."""
    best, answers = np.inf, None
    for j in range(X.shape[1]):
        for threshold in [-np.inf, *np.unique(X[:, j])]:
            for polarity in (1, -1):
                h = np.where(X[:, j] <= threshold, -polarity, polarity)
                error = w[h != sign].sum()
                if error < best - 1e-12:
                    best, answers = error, h
    return answers


def gentle(X, sign, weight, n_rounds, max_leaf_nodes):
    """Gentle AdaBoost, the exponent with its minus: F of the training rows."""
    w, F = weight / weight.sum(), np.zeros(len(sign))
    for _ in range(n_rounds):
        tree = DecisionTreeRegressor(max_leaf_nodes=max_leaf_nodes, random_state=0)
        g = tree.fit(X, sign, sample_weight=w).predict(X)
        F += g
        w = w * np.exp(-sign * g)
        w /= w.sum()
    return F


def samme_real(X, y, weight, n_rounds, max_leaf_nodes):
    """SAMME.R, its leaf shares smoothed by one record: F of the training rows."""
    n, K = len(y), y.max() + 1
    w, F = weight / weight.sum(), np.zeros((n, K))
    for _ in range(n_rounds):
        tree = DecisionTreeClassifier(max_leaf_nodes=max_leaf_nodes, random_state=0)
        leaf = tree.fit(X, y, sample_weight=w).apply(X)
        for m in np.unique(leaf):
            rows = leaf == m
            share = np.bincount(y[rows], weights=w[rows], minlength=K) / w[rows].sum()
            records = weight[rows].sum()
            log_q = np.log((records * share + 1 / K) / (records + 1))
            F[rows] += (K - 1) * (log_q - log_q.mean())
        w = np.exp(-F[np.arange(n), y] / (K - 1))
        w = weight * (np.maximum(w, 3e-5 * w.max()) if K > 2 else w)
        w /= w.sum()
    return F


def gamble_1(X, y, weight, n_rounds, regressor, floor=0.0):
    """Algorithm 1 of Huang (2009): both regressions, column by column; F of the training rows.

    For more than two classes no record weighs less than `floor` of the heaviest.
    """
    n, K = len(y), y.max() + 1
    Y = np.where(y[:, None] == np.arange(K), 1.0, -1.0 / (K - 1))
    F = np.zeros((n, K))
    for _ in range(n_rounds):
        w = np.exp(-(Y * F).sum(axis=1) / K)
        w = weight * (np.maximum(w, floor * w.max()) if K > 2 else w)
        w *= weight.sum() / w.sum()
        g, h = np.empty((n, K)), np.empty((n, K))
        for k in range(K):
            g[:, k] = clone(regressor).fit(X, Y[:, k], sample_weight=w).predict(X)
            h[:, k] = clone(regressor).fit(X, Y[:, k] ** 2, sample_weight=w).predict(X)
        r = K * np.clip(g, -1 / (K - 1), 1) / np.clip(h, 1 / (K - 1) ** 2, 1)
        F += r - r.mean(axis=1, keepdims=True)
    return F


def kept_after_trimming(weight, share):
    """Which rows stay: drop the lightest weights, all rows of one together, while they fit."""
    dropped = np.zeros(len(weight), dtype=bool)
    for value in np.unique(weight):
        lightest = weight <= value
        if weight[lightest].sum() > share * weight.sum():
            break
        dropped = lightest
    return ~dropped
