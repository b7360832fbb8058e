"""Base class and parameters of the estimators that boost class weights."""

from dataclasses import dataclass

from streamboost.boosting.estimator import BoostingClassifier, Pruning

__all__ = ["ClassWeightClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class ClassWeightClassifier(BoostingClassifier):
    """Base class of the estimators whose trees are grown on class weights.

    Parameters
    ----------
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. None: max(15, 2K) leaves, any depth.
    min_child_weight
        Least weight in a child, at a mean record weight of 1.
    subsample
        Share of the rows for the search of a tree's splits, drawn without replacement. Leaf values
        are computed on all rows.
    weight_trimming
        Share of the total weight that may be trimmed, in [0, 1): the rows of the lowest weight are
        left out of the split search of a round (Friedman, Hastie and Tibshirani, 2000).
    pruning
        ``"quick"``: QuickBoost's pruning, which gives the same trees with fewer additions; see
        `GambleClassifier`. Not with categories.
    """

    max_leaf_nodes: int | None = None
    min_child_weight: float = 0.0
    weight_trimming: float = 0.0
    pruning: Pruning | None = None
