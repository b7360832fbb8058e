"""The parameters of estimators that boost class weights."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.estimator import BoostingClassifier, Pruning

__all__ = ["ClassWeightClassifier"]


class ClassWeightClassifier(BoostingClassifier):
    """Base of the estimators whose trees are grown on the weights of the classes."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "max_leaf_nodes": [*BoostingClassifier._parameter_constraints["max_leaf_nodes"], None],
        "pruning": [StrOptions({"quick"}), None],
    }
    _parameter_constraints.pop("l2_regularization")

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 1.0,
        max_leaf_nodes: int | None = None,
        max_depth: int | None = None,
        max_bins: int = 64,
        min_child_weight: float = 0.0,
        max_features: float | None = None,
        subsample: float = 1.0,
        weight_trimming: float = 0.0,
        pruning: Pruning | None = None,
        categorical_features: Any = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.min_child_weight = min_child_weight
        self.max_features = max_features
        self.subsample = subsample
        self.weight_trimming = weight_trimming
        self.pruning = pruning
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _leaves(self, n_classes: int) -> int:
        # Trees with fewer leaves than classes can stall: once a split has parted groups of classes
        # cleanly, all weights are equal again and the same split wins again.
        return self.max_leaf_nodes or max(15, 2 * n_classes)
