"""Slow reference of `kernels.stacking`: the sum of experts, and a softmax regression by AdaGrad."""

import numpy as np


def normalized(scores):
    return scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()


def mix(weights, said):
    """The normalized sum of what experts say, (n, K)."""
    summed = sum(weight * one for weight, one in zip(weights, said, strict=True))
    return np.array([normalized(row) for row in summed])


def scaled(row, mean, rate, furthest):
    """1 and a row in standard deviations, of length about 1."""
    z = np.clip((row.astype(float) - mean) * rate, -furthest, furthest)
    return np.append(1.0, np.nan_to_num(z)) / np.sqrt(len(row) + 1)


def say_linear(X, mean, rate, furthest, weights):
    return np.array([normalized(weights @ scaled(row, mean, rate, furthest)) for row in X])


def learn_linear(row, mean, rate, furthest, k, step, weight, weights, squares):
    """The weights and squares (K, D + 1) after one step of AdaGrad."""
    x = scaled(row, mean, rate, furthest)
    off = np.exp(normalized(weights @ x)) - np.eye(len(weights))[k]
    slope = weight * np.outer(off, x)
    squares = squares + slope**2
    return weights - step * slope / np.sqrt(squares), squares
