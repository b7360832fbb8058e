"""streamboost: boosted multi-class committees that learn from a stream with few labels.

The public names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamboost.active.query import QueryStrategy
    from streamboost.boosting.cascade import Cascade
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.costs.cdmcboost import CDMCBoostClassifier
    from streamboost.boosting.costs.codeword_trees import (
        AdaBoostCostClassifier,
        GDMCBoostClassifier,
    )
    from streamboost.boosting.costs.mh import AdaBoostMHClassifier
    from streamboost.boosting.costs.rebel import RebelClassifier
    from streamboost.boosting.log_loss.abc_logit import ABCLogitBoostClassifier
    from streamboost.boosting.log_loss.aoso import AOSOLogitBoostClassifier
    from streamboost.boosting.log_loss.klogit import KLogitBoostClassifier
    from streamboost.boosting.log_loss.logit import LogitBoostClassifier
    from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
    from streamboost.boosting.reweighting.adaboost_a import AdaBoostAClassifier
    from streamboost.boosting.reweighting.gamble import GambleClassifier
    from streamboost.boosting.reweighting.gentle import GentleAdaBoostClassifier
    from streamboost.boosting.reweighting.one_vs_all import OneVsAllAdaBoostClassifier
    from streamboost.boosting.reweighting.samme import AdaBoostM1Classifier, SammeClassifier
    from streamboost.stream.evaluation.windows import Evaluation
    from streamboost.stream.labelled_rows.working_set import WorkingSet
    from streamboost.stream.learner import StreamLearner
    from streamboost.stream.training.schedule import Schedule

__version__ = "0.2.0"

_HOMES = {
    "ABCLogitBoostClassifier": "streamboost.boosting.log_loss.abc_logit",
    "AOSOLogitBoostClassifier": "streamboost.boosting.log_loss.aoso",
    "AdaBoostAClassifier": "streamboost.boosting.reweighting.adaboost_a",
    "AdaBoostCostClassifier": "streamboost.boosting.costs.codeword_trees",
    "AdaBoostM1Classifier": "streamboost.boosting.reweighting.samme",
    "AdaBoostMHClassifier": "streamboost.boosting.costs.mh",
    "CDMCBoostClassifier": "streamboost.boosting.costs.cdmcboost",
    "Cascade": "streamboost.boosting.cascade",
    "Committee": "streamboost.boosting.committee",
    "Evaluation": "streamboost.stream.evaluation.windows",
    "GDMCBoostClassifier": "streamboost.boosting.costs.codeword_trees",
    "GambleClassifier": "streamboost.boosting.reweighting.gamble",
    "GentleAdaBoostClassifier": "streamboost.boosting.reweighting.gentle",
    "KLogitBoostClassifier": "streamboost.boosting.log_loss.klogit",
    "LogitBoostClassifier": "streamboost.boosting.log_loss.logit",
    "OneVsAllAdaBoostClassifier": "streamboost.boosting.reweighting.one_vs_all",
    "QueryStrategy": "streamboost.active.query",
    "RebelClassifier": "streamboost.boosting.costs.rebel",
    "SammeClassifier": "streamboost.boosting.reweighting.samme",
    "Schedule": "streamboost.stream.training.schedule",
    "SketchLogitBoostClassifier": "streamboost.boosting.log_loss.sketch",
    "StreamLearner": "streamboost.stream.learner",
    "WorkingSet": "streamboost.stream.labelled_rows.working_set",
}

__all__ = [
    "ABCLogitBoostClassifier",
    "AOSOLogitBoostClassifier",
    "AdaBoostAClassifier",
    "AdaBoostCostClassifier",
    "AdaBoostM1Classifier",
    "AdaBoostMHClassifier",
    "CDMCBoostClassifier",
    "Cascade",
    "Committee",
    "Evaluation",
    "GDMCBoostClassifier",
    "GambleClassifier",
    "GentleAdaBoostClassifier",
    "KLogitBoostClassifier",
    "LogitBoostClassifier",
    "OneVsAllAdaBoostClassifier",
    "QueryStrategy",
    "RebelClassifier",
    "SammeClassifier",
    "Schedule",
    "SketchLogitBoostClassifier",
    "StreamLearner",
    "WorkingSet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamboost' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
