"""One estimator of each family and of each of its variants."""

from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from streamboost import (
    ABCLogitBoostClassifier,
    AdaBoostAClassifier,
    AdaBoostCostClassifier,
    AdaBoostM1Classifier,
    AdaBoostMHClassifier,
    AOSOLogitBoostClassifier,
    CDMCBoostClassifier,
    GambleClassifier,
    GDMCBoostClassifier,
    GentleAdaBoostClassifier,
    KLogitBoostClassifier,
    LogitBoostClassifier,
    OneVsAllAdaBoostClassifier,
    RebelClassifier,
    SammeClassifier,
    SketchLogitBoostClassifier,
)

ESTIMATORS = [
    ABCLogitBoostClassifier,
    AdaBoostAClassifier,
    AdaBoostCostClassifier,
    AdaBoostM1Classifier,
    AdaBoostMHClassifier,
    AOSOLogitBoostClassifier,
    CDMCBoostClassifier,
    GambleClassifier,
    GDMCBoostClassifier,
    GentleAdaBoostClassifier,
    KLogitBoostClassifier,
    LogitBoostClassifier,
    OneVsAllAdaBoostClassifier,
    RebelClassifier,
    SammeClassifier,
    SketchLogitBoostClassifier,
]
"""All that are public, with trees of their own."""

TREE_VARIANTS = [
    ABCLogitBoostClassifier(base="search"),
    AOSOLogitBoostClassifier(leaf="pair"),
    AOSOLogitBoostClassifier(leaf="dense"),
    AdaBoostCostClassifier(step="exact"),
    AdaBoostM1Classifier(criterion="error"),
    GambleClassifier(pruning="quick"),
    GambleClassifier(step="exact"),
    RebelClassifier(subcosts="linear", smoothing=0),
    SammeClassifier(variant="real"),
]
OTHER_VARIANTS = [
    GambleClassifier(weak_learner=DecisionTreeRegressor(max_leaf_nodes=15)),
    GambleClassifier(weak_learner=Ridge()),
    RebelClassifier(weak_learner="localized_similarity"),
]

TREES = [*(estimator() for estimator in ESTIMATORS), *TREE_VARIANTS]
"""Those whose weak learners are trees of their own."""

ALL = [*TREES, *OTHER_VARIANTS]


def two_classes_only(estimator):
    """Whether an estimator refuses a third class."""
    return isinstance(estimator, GentleAdaBoostClassifier)
