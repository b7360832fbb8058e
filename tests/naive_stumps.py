"""Slow reference of `kernels.stumps`: tries every cut of every column on every row."""

import numpy as np


def cuts(column):
    """Every way to part a column's rows: threshold, where missing goes, and who goes left."""
    known = np.unique(column[~np.isnan(column)])
    missing = np.isnan(column)
    middles = ((known[:-1].astype(float) + known[1:]) / 2).astype(np.float32)
    middles = np.where(middles >= known[1:], known[:-1], middles)
    for missing_left in (False, True) if missing.any() else (None,):
        ends = [*middles, np.float32(np.inf)] if missing_left is False and len(known) else middles
        for threshold in ends:
            yield (
                threshold,
                missing_left,
                np.where(missing, bool(missing_left), column <= threshold),
            )


def stump(X, features, g, h, l2, least):
    """Return the best split: feature, threshold, missing_left (None: nothing missing), left rows.

    None where no split gains.
    """

    def score(rows):
        return g[rows].sum() ** 2 / (h[rows].sum() + l2)

    best, found = score(np.ones(len(g), dtype=bool)), None
    for f in features:
        for threshold, missing_left, left in cuts(X[:, f]):
            if min(h[left].sum(), h[~left].sum()) < least:
                continue
            total = score(left) + score(~left)
            if total > best * (1 + 1e-9):
                best, found = total, (f, threshold, missing_left, left)
    return found


def boost_stumps(X, features, y, weight, scores, directions, rate, l2, least, clamp):
    """Return the splits and the leaf values (2, K) of each round; `scores` are added to."""
    n, K = scores.shape
    truth = np.eye(K)[y]
    rounds = []
    for u in directions.astype(float):
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        g = weight * (u[y] - p @ u)
        h = weight * (p @ u**2 - (p @ u) ** 2)
        split = stump(X, features, g, h, l2, least)
        left = np.ones(n, dtype=bool) if split is None else split[3]
        values = np.zeros((2, K))
        for side, rows in enumerate((left, ~left)):
            w = weight[rows, None]
            step = (w * (truth - p)[rows]).sum(axis=0)
            step /= np.maximum(l2 + (w * (p * (1 - p))[rows]).sum(axis=0), 1e-12)
            step = (K - 1) / K * (step - step.mean())
            values[side] = rate * np.clip(step, -clamp, clamp)
            scores[rows] += values[side]
        rounds.append((split, values))
    return rounds
