"""Link functions: convert scores to class probabilities, with or without error costs."""

from typing import Any, Literal, get_args

import numpy as np

from streamboost.errors import ConfigurationError, ModelFileError
from streamboost.kernels.perron import perron_eigenvectors

Link = Literal["softmax", "sigmoid", "costs"]

NO_COSTS = np.zeros((0, 0))
"""Cost matrix of a committee with equal misclassification costs: empty."""


def class_probabilities(link: Link, scores: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Convert `scores` float64 (n, K) to class probabilities (n, K) by the link function.

    - ``"softmax"`` is for scores proportional to log p_k.
    - ``"sigmoid"`` is for scores proportional to the log odds of each class against all others. The
      sigmoids are divided by their sum.
    - ``"costs"`` is for scores trained with REBEL's subcosts, which `costs` (K, K) define.

    For ``"costs"``, c+ and theta are the subcosts of `squared_subcosts`. At the scores s of least
    expected loss, exp(s_k) sum_j c+_jk p_j = theta_k p_k. Hence p is the positive eigenvector of
    A_kj = exp(s_k) c+_jk / theta_k, with eigenvalue 1. The positive eigenvector is also used if the
    eigenvalue is not 1, as after few rounds. A class whose errors cost nothing gets probability 0,
    as training ignores its rows.
    """
    if link == "softmax":
        return _softmax(scores)
    shares = _softmax(-np.logaddexp(0.0, -scores))  # sigmoids in log space, to avoid underflow
    if link == "costs":
        plus, own = squared_subcosts(costs)
        free = own == 0
        ratio = np.divide(plus.T, own[:, None], out=np.zeros_like(plus), where=~free[:, None])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares[:, free] = 0.0
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        perron_eigenvectors(odds, ratio, shares)
    return shares


def validated_cost_matrix(costs: Any, n_classes: int) -> np.ndarray:
    """Return `costs` as float64 (K, K), after validation; rows are true classes.

    Raises
    ------
    ConfigurationError
        If the matrix is not K x K, or an entry is not finite, negative, or not 0 on the diagonal.
        The message names the entry.
    """
    try:
        C = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"cost_matrix cannot be read as numbers: {error}; give {n_classes} rows of "
            f"{n_classes} numbers, row j holding the costs of each answer where class j is true"
        ) from error
    if C.shape != (n_classes, n_classes):
        raise ConfigurationError(
            f"cost_matrix has shape {C.shape}, and there are {n_classes} classes: give a "
            f"{n_classes} x {n_classes} matrix, its rows and columns in the order of classes_"
        )
    for wrong, why in (
        (~np.isfinite(C), "give a finite number"),
        (C < 0, "costs are not negative; give 0 for an answer that does no harm"),
        (np.diag(np.diag(C)) != 0, "the right answer costs nothing; put 0 on the diagonal"),
    ):
        if wrong.any():
            j, k = (int(place) for place in np.argwhere(wrong)[0])
            raise ConfigurationError(f"cost_matrix[{j}, {k}] = {C[j, k]:g}: {why}")
    return C


def squared_subcosts(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return REBEL's subcosts c+ (K, K) of wrong classes, and theta (K,) of the true class.

    C_jk is the cost of predicting k if j is true, and |C_j| the Euclidean norm of row j of `costs`.
    c+_jk weights a high score of class k for rows of class j: c+_jk = sqrt(K-1) C_jk^2 / (2 |C_j|).
    theta_j weights a low score of the true class j: theta_j = |C_j| / (2 sqrt(K-1)). Then 2
    sqrt(c+_jk theta_j) = C_jk, so that the loss bounds the cost. A class whose errors cost nothing
    gets zeros, so that its rows have no effect.

    >>> squared_subcosts(np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [2.0, 2.0, 0.0]]))[1].round(3)
    array([1.458, 0.5  , 1.   ])
    """
    norm = np.linalg.norm(costs, axis=1)
    root = np.sqrt(max(len(costs) - 1, 1))
    scale = np.divide(root, 2 * norm, out=np.zeros_like(norm), where=norm > 0)
    return scale[:, None] * costs**2, norm / (2 * root)


def check_link(link: str, costs: np.ndarray, n_classes: int) -> None:
    """Raise ModelFileError if `link` is not supported, or if `costs` do not match the link."""
    if link not in get_args(Link):
        raise ModelFileError(
            f"link {link!r}, and this release knows {', '.join(get_args(Link))}: read it with the "
            "release that wrote it"
        )
    if link != "costs":
        if costs.size:
            raise ModelFileError(f"a cost matrix with the link {link!r}: the file is damaged")
        return
    try:
        validated_cost_matrix(costs, n_classes)
    except ConfigurationError as error:
        raise ModelFileError(f"{error}: the file is damaged") from error


def _softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
