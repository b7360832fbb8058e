"""Base classes and parameters of the estimators that boost a log loss."""

from dataclasses import dataclass

from streamboost.boosting.estimator import BoostingClassifier, Pruning


@dataclass(kw_only=True, eq=False, repr=False)
class LogLossClassifier(BoostingClassifier):
    """Base class of the estimators that minimise the log loss."""

    learning_rate: float = 0.1
    max_leaf_nodes: int = 20
    min_child_weight: float = 0.3
    l2_regularization: float = 0.1


@dataclass(kw_only=True, eq=False, repr=False)
class NewtonTreesClassifier(LogLossClassifier):
    """Base class of the log-loss estimators that support QuickBoost's pruning.

    Parameters
    ----------
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. None: no bound on the depth.
    pruning
        ``"quick"``: QuickBoost's pruning, which gives the same trees with fewer additions; see
        `LogitBoostClassifier`. Not with categories.
    """

    pruning: Pruning | None = None
