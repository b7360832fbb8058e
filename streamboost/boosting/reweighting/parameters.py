"""Base class and parameters of the estimators that boost class weights."""

from dataclasses import dataclass

from streamboost.boosting.estimator import BoostingClassifier, Pruning


@dataclass(kw_only=True, eq=False, repr=False)
class ClassWeightClassifier(BoostingClassifier):
    """Base class of the estimators whose trees are grown on class weights.

    Parameters
    ----------
    subsample
        Share of the rows for the search of a tree's splits, drawn without replacement. Leaf values
        are computed on all rows.
    """

    max_leaf_nodes: int | None = None
    min_child_weight: float = 0.0
    weight_trimming: float = 0.0
    pruning: Pruning | None = None
