"""Perron eigenvectors: class probabilities of models that were trained with error costs."""

import numpy as np

from streamboost.kernels.jit import kernel

_STEPS = 1000
_CLOSE = 1e-13


@kernel
def perron_eigenvectors(odds, ratio, shares):
    """Write the positive eigenvector of each row's matrix A to `shares` (n, K).

    The matrix is A_kj = odds_k ratio_kj, with the row's `odds`.

    `odds` float64 (n, K) and `ratio` float64 (K, K) are not negative. On entry, each row of
    `shares` is an initial guess that sums to 1; the result sums to 1, too. The method is power
    iteration on A / r + I, with r the growth of the last step. The identity I is added as negative
    eigenvalues of A would cause oscillation. The result of a row does not depend on the other rows.
    """
    n, n_classes = shares.shape
    moved = np.empty(n_classes)
    for i in range(n):
        for _ in range(_STEPS):
            growth = 0.0
            for k in range(n_classes):
                total = 0.0
                for j in range(n_classes):
                    total += ratio[k, j] * shares[i, j]
                moved[k] = odds[i, k] * total
                growth += moved[k]
            if not growth > 0.0:
                break
            change = 0.0
            for k in range(n_classes):
                step = 0.5 * (moved[k] / growth - shares[i, k])
                shares[i, k] += step
                change = max(change, abs(step))
            if change < _CLOSE:
                break
