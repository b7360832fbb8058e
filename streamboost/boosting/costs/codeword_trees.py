"""GD-MCBoost and AdaBoost-Cost: boosting of trees whose leaves predict classes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamboost.boosting.costs.simplex import (
    FARTHEST,
    SimplexAlgorithm,
    SimplexClassifier,
    SimplexState,
)
from streamboost.boosting.loop import Algorithm
from streamboost.kernels.growing.criteria import ERROR
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import vector_histogram_input
from streamboost.trees.tree import Tree

Step = Literal["exact", "bound"]

_LEAST_EDGE = 1e-10  # share of the risk; a smaller edge may be a rounding error


@dataclass(eq=False)
class _CodewordTreeAlgorithm(SimplexAlgorithm):
    """Algorithm of GD-MCBoost and AdaBoost-Cost: each round grows a tree that predicts classes."""

    step: Step

    def grow_round(self, state: SimplexState, grower: Grower) -> list[Tree]:
        """Return a list of one tree, or an empty list if the tree does not lower the risk."""
        residual = -state.risks()
        n, n_classes = residual.shape
        own = np.arange(n), state.y
        residual[own] = -residual.sum(axis=1)  # M / (2 (M-1)) of it is <y_k, w_i>
        unit = float(state.n_records @ residual[own] / state.n_records.sum())
        histogram_input = vector_histogram_input(ERROR, residual, copies=state.n_records, unit=unit)
        tree = grower(histogram_input)
        # The sums are integers, so that ties of classes do not depend on the order of the rows. The
        # unit cancels in the step.
        residual = histogram_input.values.reshape(n, n_classes)
        named = np.empty(tree.n_leaves, dtype=np.int64)
        right = wrong = 0
        for m, (start, stop) in enumerate(zip(tree.start, tree.stop, strict=True)):
            rows = tree.rows[start:stop]
            named[m] = residual[rows].sum(axis=0).argmax()
            gains = residual[rows, named[m]]
            right += int(gains[state.y[rows] == named[m]].sum())
            wrong -= int(gains[state.y[rows] != named[m]].sum())
        whole = int(residual[own][tree.rows].sum())
        if right - wrong <= _LEAST_EDGE * whole:
            return []
        # A vote of v adds 2 v (M-1)/M to z of the predicted class, and -2 v/M to the other z.
        step = 2 * self.learning_rate * vote_weight(right, wrong, whole, self.step)
        values = np.full((tree.n_leaves, n_classes), -step / n_classes)
        values[np.arange(tree.n_leaves), named] += step
        tree.values = values.astype(np.float32)
        return [tree]


def vote_weight(correct_risk: float, wrong_risk: float, total_risk: float, step: Step) -> float:
    """Return the weight v of a tree's vote for the predicted class.

    The vote raises the score z of this class by 2 v relative to all other scores. e_ik is the risk
    of row i for the wrong class k (`SimplexState.risks`).

    Parameters
    ----------
    correct_risk
        A, the sum of the risks e_ik of each row i that the tree predicts correctly, over all k.
    wrong_risk
        B, the sum of the risk e_ih of each row i that the tree predicts wrongly, as class h.
    total_risk
        T, the sum of the risks of all rows, over all k.
    step
        ``"exact"``: log(A / B) / 2, which minimises A exp(-v) + B exp(v) plus a constant.
        ``"bound"``: log((1 + d) / (1 - d)) / 2 with d = (A - B) / T, which minimises an upper bound
        of that risk and is never longer.

    Examples
    --------
    >>> round(vote_weight(6.0, 1.0, 8.0, "exact"), 6), round(vote_weight(6.0, 1.0, 8.0, "bound"), 6)
    (0.89588, 0.733169)
    """
    if step == "bound":
        edge = (correct_risk - wrong_risk) / total_risk
        correct_risk, wrong_risk = 1 + edge, 1 - edge
    return float(np.log(correct_risk / max(wrong_risk, correct_risk * np.exp(-2 * FARTHEST))) / 2)


class GDMCBoostClassifier(SimplexClassifier):
    """GD-MCBoost: gradient descent of the margin risk (Saberian and Vasconcelos, 2011).

    Each round grows one tree whose leaves predict classes. The tree maximises the correlation with
    the risk's negative gradient (equations 31 and 32, with the codeword of the class as the leaf's
    output). The step along the tree minimises the risk, in closed form. For a row of class c with
    scores z, the risk is sum_k exp(-(z_c - z_k) / 2). It bounds the training error, and is least at
    z_k = log p_k up to a constant: `predict_proba` is softmax(z). For two classes this is AdaBoost.

    With these trees, GD-MCBoost is AdaBoost-Cost with a longer step: the same tree minimises the
    same cost. The difference between the two in the paper's Table 2 can only be due to the step or
    to the construction of the trees. The paper leaves the scale of a weak learner open (without a
    scale, its equation 32 is unbounded); here the codewords have unit norm.

    Notes
    -----
    Training ends early if no tree lowers the risk. The factor of a vote is at most exp(4), as the
    optimal step of a pure tree is infinite. Committees of `AdaBoostCostClassifier` and
    `CDMCBoostClassifier` hold the same scores and may be extended by this estimator.

    References
    ----------
    M. J. Saberian and N. Vasconcelos, "Multiclass Boosting: Theory and Algorithms", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import GDMCBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GDMCBoostClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    def _create_algorithm(self) -> Algorithm:
        return _CodewordTreeAlgorithm(self.learning_rate, "exact")


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostCostClassifier(SimplexClassifier):
    """AdaBoost-Cost: trees of least cost, with costs from the margins (Mukherjee and Schapire).

    Let V be the votes of the earlier trees. Predicting class k for a row of class c costs
    e_k = exp(V_k - V_c), and predicting c earns the sum of all e_k. Each round grows one tree of
    least cost. The weight of its vote is log((1 + d) / (1 - d)) / 2, with d its edge (`step`). This
    is GD-MCBoost with a shorter step, z being twice the votes less their mean. Hence the risk and
    `predict_proba` are as in `GDMCBoostClassifier`.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each vote; the paper uses 1.
    step
        ``"bound"`` minimises an upper bound of the risk, as published; ``"exact"`` minimises the
        risk, which makes this GD-MCBoost. See `vote_weight`.

    Notes
    -----
    Training ends early if no tree lowers the risk.

    References
    ----------
    I. Mukherjee and R. E. Schapire, "A theory of multiclass boosting", NIPS 2010; as compared with
    in M. J. Saberian and N. Vasconcelos, "Multiclass Boosting: Theory and Algorithms", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import AdaBoostCostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostCostClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    step: Step = "bound"

    def _create_algorithm(self) -> Algorithm:
        return _CodewordTreeAlgorithm(self.learning_rate, self.step)
