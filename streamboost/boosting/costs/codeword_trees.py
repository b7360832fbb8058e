"""Boosting trees that name classes: GD-MCBoost and AdaBoost-Cost, one algorithm with two steps."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.costs.simplex import (
    FARTHEST,
    SimplexAlgorithm,
    SimplexClassifier,
    SimplexState,
)
from streamboost.boosting.loop import Algorithm
from streamboost.kernels.growing.criteria import ERROR
from streamboost.trees.grower import Grower
from streamboost.trees.statistics import vector_statistic
from streamboost.trees.tree import Tree

__all__ = ["AdaBoostCostClassifier", "GDMCBoostClassifier", "vote_step"]

Step = Literal["exact", "bound"]

_LEAST_EDGE = 1e-10  # of the risk; below it a tree does no better than rounding


class _CodewordTrees(SimplexAlgorithm):
    """One round: a tree whose leaves name classes, and one coefficient for all its codewords."""

    def __init__(self, learning_rate: float, step: Step) -> None:
        super().__init__(learning_rate)
        self._step = step

    def round(self, state: SimplexState, grow: Grower) -> list[Tree]:
        residual = -state.risks()
        n, n_classes = residual.shape
        own = np.arange(n), state.y
        residual[own] = -residual.sum(axis=1)  # M / (2 (M-1)) of it is <y_k, w_i>
        unit = float(state.given @ residual[own] / state.given.sum())
        statistic = vector_statistic(ERROR, residual, copies=state.given, unit=unit)
        tree = grow(statistic)
        # Whole numbers, whose unit drops out of the step: classes tie in any order of the rows.
        residual = statistic.values.reshape(n, n_classes)
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
        # A vote of v moves z by 2 v (M-1)/M along the codeword of the class named.
        step = 2 * self._learning_rate * vote_step(right, wrong, whole, self._step)
        values = np.full((tree.n_leaves, n_classes), -step / n_classes)
        values[np.arange(tree.n_leaves), named] += step
        tree.values = values.astype(np.float32)
        return [tree]


def vote_step(right: float, wrong: float, whole: float, step: Step) -> float:
    """Return how much a tree's vote for a class should count; z moves by twice that.

    Parameters
    ----------
    right
        A, the whole risk sum_k e_ik of the rows it names correctly.
    wrong
        B, the risk e_ih of the class h it names, over the rows it names wrongly.
    whole
        Z, the risk of all rows.
    step
        ``"exact"``: log(A / B) / 2, the minimum of A exp(-v) + B exp(v) plus what the tree does
        not touch. ``"bound"``: log((1 + d) / (1 - d)) / 2 with d = (A - B) / Z, which minimises an
        upper bound of it and is never longer.

    Examples
    --------
    >>> round(vote_step(6.0, 1.0, 8.0, "exact"), 6), round(vote_step(6.0, 1.0, 8.0, "bound"), 6)
    (0.89588, 0.733169)
    """
    if step == "bound":
        edge = (right - wrong) / whole
        right, wrong = 1 + edge, 1 - edge
    return float(np.log(right / max(wrong, right * np.exp(-2 * FARTHEST))) / 2)


class GDMCBoostClassifier(SimplexClassifier):
    """GD-MCBoost: gradient descent of the margin risk (Saberian and Vasconcelos, 2011).

    Each round grows one tree whose leaves name classes, so as to maximise its correlation with the
    risk's negative gradient (equations 31 and 32, with the class's codeword for the leaf's
    output), and moves the predictor along it to the least risk, which has a closed form. The risk
    sum_k exp(-(z_c - z_k) / 2) bounds the training error, and is least at z_k = log p_k up to a
    constant: `predict_proba` is softmax(z). For two classes this is AdaBoost.

    With trees that name classes it is AdaBoost-Cost with a longer step: the same tree minimises
    the same cost. The paper reports a gap between the two in its Table 2, which can only come from
    the step or from how the trees were built. The paper leaves the scale of a weak learner open
    (its equation 32 is unbounded without one); codewords have unit norm.

    Parameters
    ----------
    n_estimators
    learning_rate
    max_leaf_nodes, max_depth
    max_bins
    max_features
    subsample
    pruning
    categorical_features
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
    validation_score_
    feature_importances_
    n_adds_

    Notes
    -----
    Training ends early when no tree lowers the risk. A tree votes by a factor of at most exp(4),
    where a pure one has no best step. `extend` with a class the committee does not know trains
    anew on the rows it is given, with as many rounds in all. Committees of `AdaBoostCostClassifier`
    and `CDMCBoostClassifier` hold the same scores and may be extended by this estimator.

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

    def _algorithm(self) -> Algorithm:
        return _CodewordTrees(self.learning_rate, "exact")


@dataclass(kw_only=True, eq=False, repr=False)
class AdaBoostCostClassifier(SimplexClassifier):
    """AdaBoost-Cost: trees of least cost, the costs following the margins (Mukherjee and Schapire).

    Naming class k for a row of class c costs e_k = exp(V_k - V_c), V being the votes so far, and
    naming c earns the sum of them all. Each round grows one tree of least cost, and its vote for
    the class it names counts log((1 + d) / (1 - d)) / 2, with d its edge (`step`). That is
    GD-MCBoost with trees that name classes, z being twice the votes less their mean, and a shorter
    step: what is said of the risk and of `predict_proba` in `GDMCBoostClassifier` holds here.

    Parameters
    ----------
    n_estimators
    learning_rate
        Scales every vote; the paper uses 1.
    step
        ``"bound"`` minimises an upper bound of the risk, as published; ``"exact"`` minimises the
        risk, which makes this GD-MCBoost. See `vote_step`.
    max_leaf_nodes, max_depth
    max_bins
    max_features
    subsample
    pruning
    categorical_features
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
    validation_score_
    feature_importances_
    n_adds_

    Notes
    -----
    Training ends early when no tree lowers the risk. `extend` with a class the committee does not
    know trains anew on the rows it is given, with as many rounds in all.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SimplexClassifier._parameter_constraints,
        "step": [StrOptions({"exact", "bound"})],
    }

    step: Step = "bound"

    def _algorithm(self) -> Algorithm:
        return _CodewordTrees(self.learning_rate, self.step)
