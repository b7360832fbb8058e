"""CD-MCBoost: boosting by coordinate descent on a simplex (Saberian and Vasconcelos, 2011)."""

from dataclasses import dataclass

import numpy as np

from streamboost.boosting.costs.simplex import (
    SimplexAlgorithm,
    SimplexClassifier,
    SimplexState,
    simplex_codewords,
)
from streamboost.boosting.loop import Algorithm
from streamboost.kernels.growing.criteria import ERROR
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import vector_histogram_input
from streamboost.trees.tree import Tree

_LEAST_EDGE = 1e-10  # share of the risk; a smaller edge may be a rounding error
_LONGEST = 8.0  # bound of max |u| a in the line search, which is unbounded for a pure tree
_CLOSE = 1e-10


class _CDMCBoost(SimplexAlgorithm):
    """Algorithm of CD-MCBoost: each round adds a ±1 tree to one coordinate of the predictor.

    Coordinates are tried in turn, until a tree lowers the risk.
    """

    def grow_round(self, state: SimplexState, grower: Grower) -> list[Tree]:
        """Return a list of one tree, or an empty list if no tree lowers the risk.

        The tree is for the next coordinate for which a tree lowers the risk.
        """
        n_coordinates = state.scores.shape[1] - 1
        risks = state.risks()
        for turn in range(n_coordinates):
            tree = self._grow_tree_for_coordinate(
                (state.rounds + turn) % n_coordinates, risks, state, grower
            )
            if tree is not None:
                state.rounds += 1
                return [tree]
        return []

    def _grow_tree_for_coordinate(
        self, coordinate_index: int, risks: np.ndarray, state: SimplexState, grower: Grower
    ) -> Tree | None:
        """Return a tree for one coordinate of the predictor, or None if no tree lowers the risk."""
        y, n_classes = state.y, risks.shape[1]
        coordinate = simplex_codewords(n_classes)[:, coordinate_index]
        # The classes before j, class j, and the classes after j share one value each. Hence the
        # pairs of classes have only nine differences in the line search.
        group = np.sign(np.arange(n_classes) - coordinate_index) + 1
        value = coordinate[[0, coordinate_index, -1]]
        by_group = np.stack([risks[:, group == g].sum(axis=1) for g in range(3)], axis=1)
        difference = value[:, None] - value
        pull = (by_group * difference[group[y]]).sum(axis=1) / 2
        by_sign = np.stack([pull, -pull], axis=1)
        unit = float(state.n_records @ by_group.sum(axis=1) / state.n_records.sum())
        histogram_input = vector_histogram_input(ERROR, by_sign, copies=state.n_records, unit=unit)
        tree = grower(histogram_input)
        edges = tree.leaf_sums(
            histogram_input.values[::2]
        )  # integers, whose sums are exact in any order
        answer = np.where(edges >= 0, 1.0, -1.0)
        by_group *= state.n_records[:, None]
        if np.abs(edges).sum() / histogram_input.scale <= _LEAST_EDGE * by_group[tree.rows].sum():
            return None
        weights = np.zeros((2, 3, 3))
        up = answer[tree.leaf_indices(len(y))] > 0
        rows = tree.rows
        np.add.at(weights, (up[rows].astype(int), group[y[rows]]), by_group[rows])
        slopes = np.stack([difference, -difference]) / 2
        step = self.learning_rate * minimize_exponential_sum(weights.ravel(), slopes.ravel())
        tree.values = (step * answer[:, None] * coordinate).astype(np.float32)
        return tree


def minimize_exponential_sum(weights: np.ndarray, slopes: np.ndarray) -> float:
    """Return the number a that minimises the sum over q of weights[q] exp(a slopes[q]).

    `weights` and `slopes` have the same shape. Uses Newton's method within a bracket, to an
    accuracy of 1e-10. |a| is at most 8 / max |slopes|, also if the sum has no minimum.

    >>> round(minimize_exponential_sum(np.array([4.0, 1.0]), np.array([-0.5, 0.5])), 6)
    1.386294
    """
    first = float((weights * slopes).sum())
    if first == 0:
        return 0.0
    sign = -np.sign(first)
    u = sign * slopes

    def derivatives(a: float) -> tuple[float, float]:
        pull = weights * u * np.exp(a * u)
        return float(pull.sum()), float((pull * u).sum())

    longest = _LONGEST / np.abs(u).max()
    low, high = 0.0, min(1.0, longest)
    while derivatives(high)[0] < 0:
        if high == longest:
            return float(sign * longest)
        low, high = high, min(2 * high, longest)
    a = (low + high) / 2
    for _ in range(50):
        gradient, curvature = derivatives(a)
        low, high = (a, high) if gradient < 0 else (low, a)
        moved = a - gradient / curvature
        if not low <= moved <= high:
            moved = (low + high) / 2
        if abs(moved - a) < _CLOSE:
            return float(sign * moved)
        a = moved
    return float(sign * a)


@dataclass(kw_only=True, eq=False, repr=False)
class CDMCBoostClassifier(SimplexClassifier):
    """CD-MCBoost: coordinate descent of the margin risk (Saberian and Vasconcelos, 2011).

    The classes are the corners of a simplex in K-1 dimensions. The rounds process the coordinates
    of the predictor in turn. A round grows one ±1 tree that maximises the correlation with the
    risk's negative gradient (equation 24), followed by a line search of the risk. A stump is a
    sufficient tree for any number of classes. The risk of a row of class c is sum_k exp(-(z_c -
    z_k) / 2), with z_k the predictor's product with the corner of class k. The risk bounds the
    training error and is least at z_k = log p_k up to a constant: `predict_proba` is softmax(z).
    For two classes this is AdaBoost.

    Coordinate j separates class j from the later ones, so results depend on the order of the
    classes. The order is that of `classes_`, and is saved with a committee.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree for one coordinate each; set at least K-1.
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. Two leaves are a stump. None: max(15, 2K)
        leaves, any depth.

    Notes
    -----
    A coordinate for which no tree lowers the risk is skipped. Training ends if no coordinate is
    left. In the paper a round is a whole pass over the coordinates; here each tree is a round.
    `extend` begins with the first coordinate.

    References
    ----------
    M. J. Saberian and N. Vasconcelos, "Multiclass Boosting: Theory and Algorithms", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import CDMCBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CDMCBoostClassifier(n_estimators=40, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    n_estimators: int = 200
    max_leaf_nodes: int | None = 2

    def _create_algorithm(self) -> Algorithm:
        return _CDMCBoost(self.learning_rate)
