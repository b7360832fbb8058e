"""Slow reference of the evaluation kernels: each sum computed from its definition."""

import numpy as np

from streamboost.evaluation.sufficient_stats import BINS, LEAST_PROBABILITY


def sums(judged):
    """Every sum over `judged`, by name."""
    P, others = judged.P, judged.others
    n, K = P.shape
    known = judged.truth >= 0
    hot = np.eye(K)[judged.truth] * known[:, None]
    values = np.where(known[:, None], hot, P)
    d = (hot - P) * known[:, None]
    v = others * known
    u = v * (v + 1.0)
    found = {
        "counts": np.array([n, known.sum(), v.sum(), u.sum()]),
        "seen": hot.sum(axis=0),
        "truth": values.sum(axis=0),
        "truth_shift": v @ d,
        "first": u @ d,
        "second": np.einsum("i,ij,ik->jk", u, d, d),
        "model": np.einsum("i,ijk->jk", others, covariances(P)),
        "hits": ((judged.truth == judged.predicted.T) & known).sum(axis=1),
    }
    by = []
    for predicted in judged.predicted.T:
        A = np.eye(K)[predicted] * (predicted >= 0)[:, None]
        own = u * (A * d).sum(axis=1)
        by.append(
            {
                "predicted": A.sum(axis=0),
                "cells": A.T @ values,
                "cells_shift": A.T @ (v[:, None] * d),
                "first_own": A.T @ own,
                "second_own": A.T @ (own[:, None] * d),
                "represented": A.T @ (others[:, None] * P),
                "model_own": np.einsum("i,ij,ijk->jk", others, A, covariances(P)),
            }
        )
    return found | {name: np.array([one[name] for one in by]) for name in by[0]}


def covariances(P):
    """Of the one-hot labels that P expects, (n, K, K)."""
    return np.einsum("ij,jk->ijk", P, np.eye(P.shape[1])) - P[:, :, None] * P[:, None]


def means(judged):
    """The rows of the means."""
    K, committee = judged.P.shape[1], judged.predicted[:, 0]
    rows = np.zeros((BINS + 1 + K, 11))
    for p, a, k, others in zip(judged.P, committee, judged.truth, judged.others, strict=True):
        if a < 0 or p.sum() == 0:
            continue
        right = np.where(np.arange(K) == a, 1.0, 0.0)
        loss = -np.log(np.clip(p, LEAST_PROBABILITY, 1.0))
        unsure = p[a] * (1.0 - p[a])
        accuracy = mean(right, k, p[a], unsure, p[a] ** 2, others, p[a])
        rows[min(int(p[a] * BINS), BINS - 1)] += accuracy
        rows[BINS + 1 + a] += accuracy
        expected = p @ loss
        doubt = ((loss - expected) ** 2).sum() / max(K - 1, 1)
        rows[BINS] += mean(loss, k, expected, p @ loss**2 - expected**2, doubt, others, p[a])
    return rows


def costs(judged):
    """The row of costs."""
    row = np.zeros((1, 11))
    for p, paid, k, others in zip(
        judged.P, judged.decision_cost, judged.truth, judged.others, strict=True
    ):
        if np.isnan(paid).any():
            continue
        expected = p @ paid
        doubt = ((paid - expected) ** 2).sum() / max(len(p) - 1, 1)
        spread = max(p @ paid**2 - expected**2, 0.0)
        row += mean(paid, k, expected, spread, doubt, others, 0.0)
    return row


def mean(values, k, expected, spread, doubt, others, sure):
    """What a record of class `k`, whose value that decides, adds to a row."""
    if k < 0:
        known = [1.0, 1.0, expected, 0.0, 0.0, 0.0, 0.0, 0.0]
    else:
        r, u = values[k] - expected, others * (others + 1.0)
        known = [1.0, 0.0, values[k], others, u, others * r, u * r, u * r**2]
    return np.array([*known, others * spread, sure, others * doubt])
