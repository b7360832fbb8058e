"""One estimator of each family and of each of its variants."""

from slow import slow

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

KINDS = [GambleClassifier, RebelClassifier, SketchLogitBoostClassifier]
"""One of each room of boosting: those that share it share most of what can go wrong at an edge."""

TREE_VARIANTS = [
    ABCLogitBoostClassifier(base="search"),
    AOSOLogitBoostClassifier(leaf="pair"),
    AOSOLogitBoostClassifier(leaf="dense"),
    AOSOLogitBoostClassifier(leaf="pair", pair_choice="gradient"),
    AdaBoostCostClassifier(step="exact"),
    AdaBoostM1Classifier(criterion="error"),
    GambleClassifier(pruning="quick"),
    GambleClassifier(step="exact"),
    SammeClassifier(criterion="entropy"),
    OneVsAllAdaBoostClassifier(variant="gentle"),
    RebelClassifier(subcosts="linear", smoothing=0),
    SammeClassifier(variant="real"),
]
DEFAULTS = [estimator() for estimator in ESTIMATORS]
TREES = [*DEFAULTS, *TREE_VARIANTS]
"""Those whose weak learners are trees of their own."""

CATEGORICAL = [model for model in TREES if getattr(model, "pruning", None) is None]
"""Those that know categories."""


def others_slow(models):
    """Mark all models or families slow, except one family of each kind of loop by itself."""
    return [
        model if model in KINDS or (model in DEFAULTS and type(model) in KINDS) else slow(model)[0]
        for model in models
    ]


def two_classes_only(estimator):
    """Whether an estimator refuses a third class."""
    return isinstance(estimator, GentleAdaBoostClassifier)
