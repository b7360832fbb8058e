"""Misclassification costs, and the loss weights that REBEL derives from them (subcosts).

See Appel, 2017, section 4.3.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamboost.boosting.links import squared_subcosts, validated_cost_matrix

Subcosts = Literal["paper", "linear"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost matrix of the classification errors, and the formula of REBEL's subcosts (Appel, 2017).

    Subcosts are the weights c+ and c- of the terms of the training loss: for a row of class j with
    scores H, the loss is the sum over classes k of c+_jk exp(H_k) + c-_jk exp(-H_k).

    The `kind` ``"paper"`` means the subcosts of `squared_subcosts`. The scores of least loss are
    H_k = log(p_k theta_k / sum_j p_j c+_jk) / 2, which weight costs by their squares. Contrary to
    the thesis, the largest score is not always the class of least expected cost.

    The `kind` ``"linear"`` means c+_jk = C_jk and c-_jk = max C - C_jk. The scores of least loss,
    log((max C - R_k) / R_k) / 2, fall as the expected cost R_k of predicting k rises. Hence the
    largest score is the class of least expected cost.

    `matrix` is array-like (K, K), with one row per true class. If it is None, each error costs 1,
    and both kinds are equal up to a factor.
    """

    matrix: Any = None
    kind: Subcosts = "paper"

    @property
    def minimizes_expected_cost(self) -> bool:
        """Whether the class of least expected cost is predicted, else that of the largest score."""
        return self.matrix is not None and self.kind == "paper"

    def validated_matrix(self, n_classes: int) -> np.ndarray:
        """Return the cost matrix float64 (K, K); raise ConfigurationError if it is invalid."""
        if self.matrix is None:
            return np.ones((n_classes, n_classes)) - np.eye(n_classes)
        return validated_cost_matrix(self.matrix, n_classes)

    def subcosts(self, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return REBEL's subcosts (c+, c-), each float64 (K, K), with one row per true class.

        In row j and column k, c+ penalizes a high score of class k for records of class j, and c-
        a low score (Appel, 2017, section 4.3).
        """
        C = self.validated_matrix(n_classes)
        if self.kind == "linear" and self.matrix is not None:
            return C, C.max(initial=0.0) - C
        plus, own = squared_subcosts(C)
        return plus, np.diag(own)
