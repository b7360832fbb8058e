"""Trees that say ±1, each class with a coefficient of its own (Appel, 2017, section 4.4)."""

import numpy as np

from streamboost.boosting.costs.coupled_loss import LEAST_GAIN, CoupledState, CoupledTrees, bound
from streamboost.boosting.costs.subcosts import Costs
from streamboost.kernels.growing.criteria import ERROR, STUMP
from streamboost.trees.grower import Grower
from streamboost.trees.layers import add_layer
from streamboost.trees.statistics import vector_statistic
from streamboost.trees.tree import Tree

__all__ = ["SignTrees"]


class SignTrees(CoupledTrees):
    """One round: a ±1 tree grown layer by layer, its coefficients refitted after each.

    The first split minimises the loss over all stumps (equation 4.10). In a further layer the
    coefficients a are held, and each leaf becomes the stump that minimises the loss; since
    exp(±a f) = cosh a ± f sinh a, that is a weighted ±1 fit in which the row's label and weight
    are those of <w- - w+, sinh a>. (The thesis gives no formula; a in the place of sinh a would be
    right to first order only.) A leaf that no stump improves still takes its better sign. Then a
    is fitted anew on the whole tree, so no layer raises the loss. A tree of one leaf, a constant,
    is a candidate as well.
    """

    def __init__(
        self, learning_rate: float, smoothing: float, costs: Costs, max_depth: int
    ) -> None:
        super().__init__(learning_rate, smoothing, costs)
        self._max_depth = max_depth

    def round(self, state: CoupledState, grow: Grower) -> list[Tree]:
        """Return one tree, or none if none lowers the loss."""
        plus, minus = state.weights()
        total = (plus[grow.rows] + minus[grow.rows]).sum(axis=0)
        pull = plus - minus
        unit = float(plus.sum() + minus.sum()) / state.n_records
        tree = grow(vector_statistic(STUMP, pull, total, unit=unit), max_leaf_nodes=2)
        sums = tree.leaf_sums(pull)
        sign = np.array([1.0, -1.0])[: tree.n_leaves]
        a = self._coefficients(total, sign @ sums)
        for _ in range(1, self._max_depth):
            gain = -(pull @ np.sinh(a))
            by_sign = np.stack([gain, -gain], axis=1)
            deeper = add_layer(grow, tree, vector_statistic(ERROR, by_sign, unit=unit))
            better = np.where(deeper.leaf_sums(gain) >= 0, 1.0, -1.0)
            if deeper.n_leaves == tree.n_leaves and (better == sign).all():
                break
            tree, sign, sums = deeper, better, deeper.leaf_sums(pull)
            a = self._coefficients(total, sign @ sums)
        if not bound(total, sign @ sums, a) < (1 - LEAST_GAIN) * total.sum():
            return []
        tree.values = (self._learning_rate * sign[:, None] * a).astype(np.float32)
        return [tree]
