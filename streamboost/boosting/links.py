"""From scores to class probabilities."""

from typing import Literal, get_args

import numpy as np

from streamboost.boosting.subcosts import check_cost_matrix, squared_subcosts
from streamboost.errors import ConfigurationError, ModelFileError
from streamboost.kernels.perron import perron

__all__ = ["NO_COSTS", "Link", "check_link", "class_probabilities"]

Link = Literal["softmax", "sigmoid", "costs"]

NO_COSTS = np.zeros((0, 0))
"""The costs of a committee that counts every wrong answer the same."""


def class_probabilities(link: Link, scores: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return the probabilities (n, K) behind `scores` float64 (n, K).

    ``"softmax"`` suits scores that grow as log p_k, ``"sigmoid"`` scores that grow as the log odds
    of each class against all others; its sigmoids are divided by their sum. ``"costs"`` are
    probabilities under REBEL's subcosts, which `costs` (K, K) define. With theta_k the subcost of
    denying the own class, the population's best scores s satisfy
    exp(s_k) sum_j c+_jk p_j = theta_k p_k: p is the positive eigenvector, with eigenvalue 1, of
    A_kj = exp(s_k) c+_jk / theta_k. Where training stopped short the eigenvalue is another, and
    the eigenvector is taken all the same. A class whose errors cost nothing gets probability 0:
    nothing was learned about it, and no decision depends on it.
    """
    if link == "softmax":
        return _softmax(scores)
    shares = _softmax(-np.logaddexp(0.0, -scores))  # sigmoids, none of which may vanish first
    if link == "costs":
        plus, own = squared_subcosts(costs)
        free = own == 0
        ratio = np.divide(plus.T, own[:, None], out=np.zeros_like(plus), where=~free[:, None])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares[:, free] = 0.0
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        perron(odds, ratio, shares)
    return shares


def check_link(link: str, costs: np.ndarray, n_classes: int) -> None:
    """Raise ModelFileError unless `link` is known and `costs` belong to it."""
    if link not in get_args(Link):
        raise ModelFileError(
            f"link {link!r}, and this release knows {', '.join(get_args(Link))}: read it with the "
            "release that wrote it"
        )
    if link != "costs":
        if costs.size:
            raise ModelFileError(f"a cost matrix beside the link {link!r}: the file is damaged")
        return
    try:
        check_cost_matrix(costs, n_classes)
    except ConfigurationError as error:
        raise ModelFileError(f"{error}: the file is damaged") from error


def _softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
