"""What errors cost, and the subcosts REBEL trains on (Appel, 2017, section 4.3)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamboost.boosting.links import check_cost_matrix, squared_subcosts

__all__ = ["Costs", "Subcosts"]

Subcosts = Literal["paper", "linear"]


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
