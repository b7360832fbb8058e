"""What errors cost, and the subcosts REBEL trains on (Appel, 2017, section 4.3)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamboost.errors import ConfigurationError

__all__ = ["Costs", "Subcosts", "check_cost_matrix", "squared_subcosts"]

Subcosts = Literal["paper", "linear"]


def check_cost_matrix(costs: Any, n_classes: int) -> np.ndarray:
    """Return `costs` as float64 (K, K): what it costs to answer k where j is true, at [j, k].

    Raises
    ------
    ConfigurationError
        When it is not K x K, or an entry is not a finite number, is negative, or stands on the
        diagonal and is not 0; the message names the entry.
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
    """Return the thesis's c+ (K, K) and theta (K,), the subcost of denying the own class.

    For rows of class j: c+_k = sqrt(K-1) C_jk^2 / (2 |C_j|) and c-_j = theta_j =
    |C_j| / (2 sqrt(K-1)), every other c-_k being 0. Then 2 sqrt(c+_k theta_j) = C_jk, by which the
    loss bounds the cost. A class whose errors cost nothing gets zeros: its rows do not count.

    >>> squared_subcosts(np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [2.0, 2.0, 0.0]]))[1].round(3)
    array([1.458, 0.5  , 1.   ])
    """
    norm = np.linalg.norm(costs, axis=1)
    root = np.sqrt(max(len(costs) - 1, 1))
    scale = np.divide(root, 2 * norm, out=np.zeros_like(norm), where=norm > 0)
    return scale[:, None] * costs**2, norm / (2 * root)


@dataclass(frozen=True, slots=True)
class Costs:
    """A cost matrix and the kind of subcosts to train it with.

    ``"paper"`` are those of `squared_subcosts`. Their best scores are
    H_k = log(p_k theta_k / sum_j p_j c+_jk) / 2, which weigh costs by their squares: the largest
    score is not always the class of least expected cost, against what the thesis says.
    ``"linear"`` are c+_k = C_jk and c-_k = max C - C_jk. Their best scores,
    log((max C - R_k) / R_k) / 2, fall as the expected cost R_k of answering k rises, so that the
    largest score is the class of least expected cost. Without a matrix every wrong answer costs 1
    and the two are the same but for a factor.
    """

    matrix: Any = None
    kind: Subcosts = "paper"

    @property
    def decoded(self) -> bool:
        """Whether the class of least expected cost has to be decoded from the scores."""
        return self.matrix is not None and self.kind == "paper"

    def checked(self, n_classes: int) -> np.ndarray:
        """Return the matrix, float64 (K, K); raise ConfigurationError if it cannot be one."""
        if self.matrix is None:
            return np.ones((n_classes, n_classes)) - np.eye(n_classes)
        return check_cost_matrix(self.matrix, n_classes)

    def subcosts(self, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return c+ and c-, float64 (K, K): row j holds the subcosts of rows of class j."""
        C = self.checked(n_classes)
        if self.kind == "linear" and self.matrix is not None:
            return C, C.max(initial=0.0) - C
        plus, own = squared_subcosts(C)
        return plus, np.diag(own)
