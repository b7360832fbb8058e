"""The parameters of estimators that boost class weights."""

from dataclasses import dataclass
from typing import Any, ClassVar

from streamboost.boosting.estimator import BoostingClassifier, Pruning

__all__ = ["ClassWeightClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class ClassWeightClassifier(BoostingClassifier):
    """Base of the estimators whose trees are grown on the weights of the classes.

    Parameters
    ----------
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: max(15, 2K) leaves, any depth.
    min_child_weight
        Least weight in a child, the mean record weighing 1.
    subsample
        Share of the rows among which a tree's splits are sought, drawn without replacement; its
        leaf values are those of all rows.
    weight_trimming
        Share of the total weight, its lightest rows, that may be left out of the search for a
        round's splits, in [0, 1); they may return later (Friedman, Hastie and Tibshirani, 2000).
    pruning
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions; see
        `GambleClassifier`. Not with categories.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "max_leaf_nodes": [*BoostingClassifier._parameter_constraints["max_leaf_nodes"], None],
    }

    max_leaf_nodes: int | None = None
    min_child_weight: float = 0.0
    weight_trimming: float = 0.0
    pruning: Pruning | None = None

    def _leaves(self, n_classes: int) -> int:
        # Trees with fewer leaves than classes can stall: once a split has parted groups of classes
        # cleanly, all weights are equal again and the same split wins again.
        return self.max_leaf_nodes or max(15, 2 * n_classes)
