"""The parameters of estimators that boost a log loss."""

from dataclasses import dataclass

from streamboost.boosting.estimator import BoostingClassifier, Pruning

__all__ = ["LogLossClassifier", "NewtonTreesClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class LogLossClassifier(BoostingClassifier):
    """Base of the estimators whose trees are grown on gradients and Hessians.

    Parameters
    ----------
    learning_rate
        Scales every leaf value, in (0, 1].
    l2_regularization
        Penalty λ on leaf values, in units of Hessian.
    """

    learning_rate: float = 0.1
    max_leaf_nodes: int = 20
    min_child_weight: float = 0.3
    l2_regularization: float = 0.1

    def _leaves(self, n_classes: int) -> int:
        return self.max_leaf_nodes


@dataclass(kw_only=True, eq=False, repr=False)
class NewtonTreesClassifier(LogLossClassifier):
    """Base of those among them whose trees may be pruned as they grow.

    Parameters
    ----------
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: no bound on the depth.
    pruning
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions; see
        `LogitBoostClassifier`. Not with categories.
    """

    pruning: Pruning | None = None
