"""Slow references for the coupled loss: Schapire and Singer (1999), Appel (2017)."""

import numpy as np
from naive_vectors import stumps_of, tree_of


def neutral_subcosts(K):
    return (np.ones((K, K)) - np.eye(K)) / 2, np.eye(K) / 2


def first_scores(y, weight, plus, minus, smoothing):
    """a_0: the best constant scores."""
    s_plus = (weight[:, None] * plus[y]).sum(0)
    s_minus = (weight[:, None] * minus[y]).sum(0)
    extra = smoothing * (s_plus + s_minus).mean()
    return np.clip(np.log((s_minus + extra) / (s_plus + extra)) / 2, -4, 4)


def coupled_loss(H, y, weight, plus, minus):
    """Equation 4.5, summed."""
    return (weight[:, None] * (plus[y] * np.exp(H) + minus[y] * np.exp(-H))).sum()


def mh_real(X, y, weight, n_rounds, max_leaf_nodes, smoothing=1e-3):
    """AdaBoost.MH on n K yes-or-no rows, the tree shared by all classes."""
    n, K = len(y), y.max() + 1
    Y = np.where(np.arange(K) == y[:, None], 1.0, -1.0)
    F = np.tile(first_scores(y, weight, *neutral_subcosts(K), smoothing), (n, 1))
    for _ in range(n_rounds):
        D = weight[:, None] * np.exp(-Y * F)
        D /= D.sum()

        def masses(rows, D=D):
            yes, no = np.where(Y > 0, D, 0)[rows].sum(0), np.where(Y < 0, D, 0)[rows].sum(0)
            return yes, no

        def score(rows):
            yes, no = masses(rows)
            return (yes + no).sum() - 2 * np.sqrt(yes * no).sum()  # 1 - Z over all leaves

        for rows in tree_of(X, score, max_leaf_nodes):
            yes, no = masses(rows)
            extra = D.sum() / (weight.sum() * K)
            F[rows] += np.clip(np.log((yes + extra) / (no + extra)) / 2, -4, 4)
    return F


def mh_shared_sign(X, y, weight, n_rounds, start):
    """AdaBoost.MH with stumps of ±1 and a coefficient for each class."""
    K = y.max() + 1
    Y = np.where(np.arange(K) == y[:, None], 1.0, -1.0)
    F = np.tile(start, (len(y), 1))
    for _ in range(n_rounds):
        D = weight[:, None] * np.exp(-Y * F)
        best = None
        for phi in stumps_of(X):
            right = np.where(phi[:, None] * Y > 0, D, 0).sum(0)
            wrong = np.where(phi[:, None] * Y < 0, D, 0).sum(0)
            Z = 2 * np.sqrt(right * wrong).sum()
            if best is None or Z / best[0] < 1 - 1e-12:
                best = Z, phi, np.log(right / wrong) / 2
        F += best[1][:, None] * best[2]
    return F


def rebel(X, y, weight, n_rounds, depth, plus, minus, smoothing):
    """Section 4.4, each stump chosen by the loss itself with a held. Returns H and the losses."""
    n = len(y)
    H = np.tile(first_scores(y, weight, plus, minus, smoothing), (n, 1))
    losses = [coupled_loss(H, y, weight, plus, minus)]
    for _ in range(n_rounds):
        wp = weight[:, None] * plus[y] * np.exp(H)
        wm = weight[:, None] * minus[y] * np.exp(-H)
        extra = smoothing * (wp + wm).sum(0).mean()

        def sums(f, wp=wp, wm=wm):
            on, off = (f > 0)[:, None], (f < 0)[:, None]
            return (on * wp + off * wm).sum(0), (on * wm + off * wp).sum(0)

        def fitted(f, extra=extra, sums=sums):
            s_plus, s_minus = sums(f)
            return np.clip(np.log((s_minus + extra) / (s_plus + extra)) / 2, -4, 4)

        def closed_form(f, sums=sums):
            s_plus, s_minus = sums(f)
            return 2 * np.sqrt(s_plus * s_minus).sum()

        f = None
        for stump in stumps_of(X):
            if f is None or closed_form(stump) < closed_form(f) * (1 - 1e-12):
                f = stump
        leaves = [np.flatnonzero(f > 0), np.flatnonzero(f < 0)]
        leaves = [leaf for leaf in leaves if len(leaf)]
        a = fitted(f)
        for _ in range(1, depth):
            grown = []
            for leaf in leaves:
                best = None
                for side in stumps_of(X, leaf):
                    for left in (1.0, -1.0):
                        for right in (1.0, -1.0):
                            g = np.where(side > 0, left, right)[:, None]
                            loss = (wp[leaf] * np.exp(g * a) + wm[leaf] * np.exp(-g * a)).sum()
                            if best is None or loss < best[0] * (1 - 1e-12):
                                best = loss, side, g[:, 0]
                f[leaf] = best[2]
                parts = [leaf[best[1] > 0], leaf[best[1] < 0]]
                grown += [part for part in parts if len(part)]
            leaves = grown
            a = fitted(f)
        H += f[:, None] * a
        losses.append(coupled_loss(H, y, weight, plus, minus))
    return H, losses


def one_point(x, point, reach):
    d = ((x - point) ** 2).sum()
    return 1.0 if np.isinf(reach) else (reach - d) / (reach + d)


def two_point(x, first, second):
    """With the thesis's d and m, scaled to be ±1 at the two points."""
    d, m = (first - second) / 2, (first + second) / 2
    u = x - m
    return 4 * (d @ d) * (d @ u) / (3 * (d @ d) ** 2 + (u @ u) ** 2)


def similarities(X, y, weight, n_rounds, plus, minus, smoothing, refinements=0):
    """Chapter 5 on distinct rows, step by step as numbered there. Returns H and the losses."""
    n = len(y)
    H = np.tile(first_scores(y, weight, plus, minus, smoothing), (n, 1))
    losses = [coupled_loss(H, y, weight, plus, minus)]
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    for _ in range(n_rounds):
        wp = weight[:, None] * plus[y] * np.exp(H)
        wm = weight[:, None] * minus[y] * np.exp(-H)
        total = (wp + wm).sum(0)
        extra = smoothing * total.mean()

        def fitted(f, wp=wp, wm=wm, extra=extra):
            f = f[:, None]
            s_plus = (wp * (1 + f) / 2 + wm * (1 - f) / 2).sum(0)
            s_minus = (wp * (1 - f) / 2 + wm * (1 + f) / 2).sum(0)
            a = np.clip(np.log((s_minus + extra) / (s_plus + extra)) / 2, -4, 4)
            return a, (s_plus * np.exp(a) + s_minus * np.exp(-a)).sum()

        def promised(f, wp=wp, wm=wm, total=total):
            if refinements == 0:
                return fitted(f)[1]
            slope = (f[:, None] * (wp - wm)).sum(0)
            curvature = (f[:, None] ** 2 * (wp + wm)).sum(0)
            return total.sum() - (slope**2 / curvature / 2).sum()

        candidates = [np.ones(n)]  # 0
        # 1: the leading eigenvector of the n x n matrix, then signs until they stay.
        U = (wm - wp) / np.sqrt(total)
        values, vectors = np.linalg.eigh(U @ U.T)
        assert values[-2] < values[-1] * (1 - 1e-6), "the data should have one leading direction"
        b = np.where(vectors[:, -1] >= 0, 1, -1)
        for _ in range(20):
            b = np.where(U @ (U.T @ b) >= 0, 1, -1)
        # 2: the exact point to isolate.
        alone = []
        for i in range(n):
            f = np.where(np.arange(n) == i, 1.0, -1.0)[:, None]
            s_plus = (wp * (f > 0) + wm * (f < 0)).sum(0)
            alone.append(2 * np.sqrt(s_plus * (total - s_plus)).sum())
        i = int(np.argmin(alone))
        reach = np.delete(distances[i], i).min() / 2
        candidates.append(np.array([one_point(x, X[i], reach) for x in X]))  # 3
        J = [j for j in range(n) if b[j] != b[i]]
        for _ in range(50):
            if not J:
                break
            j = min(J, key=lambda j: distances[i, j])  # 4
            f = np.array([two_point(x, X[i], X[j]) for x in X])
            candidates.append(f)  # 5
            J = [m for m in J if f[m] > -0.5 and m != j]  # 6
        f = min(candidates, key=promised)
        a, _ = fitted(f)
        f = f[:, None]

        def loss(a, f=f, wp=wp, wm=wm):
            return (wp * np.exp(f * a) + wm * np.exp(-f * a)).sum(0)

        for _ in range(refinements):
            p, q = wp * np.exp(f * a), wm * np.exp(-f * a)
            step = -(f * (p - q)).sum(0) / (f**2 * (p + q)).sum(0)
            moved = np.clip(a + np.clip(step, -1, 1), -4, 4)
            a = np.where(loss(moved) < loss(a), moved, a)
        H += f * a
        losses.append(coupled_loss(H, y, weight, plus, minus))
    return H, losses


def similarity_scores(committee, X):
    """F(x) of a committee of similarities, record by record and learner by learner."""
    part = committee.learners
    Z = np.nan_to_num((X - part.coordinates.centre) * part.coordinates.scale).astype(np.float32)
    out = np.tile(committee.base, (len(X), 1))
    points = part.points.astype(float)
    for i, z in enumerate(Z.astype(float)):
        for (first, second), reach, a in zip(
            part.pairs, part.reach, part.coefficients, strict=True
        ):
            f = (
                one_point(z, points[first], reach)
                if second < 0
                else two_point(z, points[first], points[second])
            )
            out[i] += f * a
    return out


def perron(odds, ratio):
    """The positive eigenvector of diag(odds) ratio, its sum 1."""
    values, vectors = np.linalg.eig(odds[:, None] * ratio)
    v = np.abs(vectors[:, values.real.argmax()].real)
    return v / v.sum()
