"""streamboost: boosted multi-class committees that learn from a stream with few labels.

The public names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamboost.active.query import QueryStrategy
    from streamboost.boosting.abc_logit import ABCLogitBoostClassifier
    from streamboost.boosting.adaboost_a import AdaBoostAClassifier
    from streamboost.boosting.aoso import AOSOLogitBoostClassifier
    from streamboost.boosting.cascade import Cascade
    from streamboost.boosting.cdmcboost import CDMCBoostClassifier
    from streamboost.boosting.codeword_trees import AdaBoostCostClassifier, GDMCBoostClassifier
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.gamble import GambleClassifier
    from streamboost.boosting.gentle import GentleAdaBoostClassifier
    from streamboost.boosting.klogit import KLogitBoostClassifier
    from streamboost.boosting.logit import LogitBoostClassifier
    from streamboost.boosting.mh import AdaBoostMHClassifier
    from streamboost.boosting.one_vs_all import OneVsAllAdaBoostClassifier
    from streamboost.boosting.rebel import RebelClassifier
    from streamboost.boosting.samme import AdaBoostM1Classifier, SammeClassifier
    from streamboost.boosting.sketch import SketchLogitBoostClassifier
    from streamboost.stream.evaluation import Evaluation
    from streamboost.stream.learner import StreamLearner
    from streamboost.stream.schedule import Schedule
    from streamboost.stream.working_set import WorkingSet

__version__ = "0.2.0"

_HOMES = {
    "ABCLogitBoostClassifier": "streamboost.boosting.abc_logit",
    "AOSOLogitBoostClassifier": "streamboost.boosting.aoso",
    "AdaBoostAClassifier": "streamboost.boosting.adaboost_a",
    "AdaBoostCostClassifier": "streamboost.boosting.codeword_trees",
    "AdaBoostM1Classifier": "streamboost.boosting.samme",
    "AdaBoostMHClassifier": "streamboost.boosting.mh",
    "CDMCBoostClassifier": "streamboost.boosting.cdmcboost",
    "Cascade": "streamboost.boosting.cascade",
    "Committee": "streamboost.boosting.committee",
    "Evaluation": "streamboost.stream.evaluation",
    "GDMCBoostClassifier": "streamboost.boosting.codeword_trees",
    "GambleClassifier": "streamboost.boosting.gamble",
    "GentleAdaBoostClassifier": "streamboost.boosting.gentle",
    "KLogitBoostClassifier": "streamboost.boosting.klogit",
    "LogitBoostClassifier": "streamboost.boosting.logit",
    "OneVsAllAdaBoostClassifier": "streamboost.boosting.one_vs_all",
    "QueryStrategy": "streamboost.active.query",
    "RebelClassifier": "streamboost.boosting.rebel",
    "SammeClassifier": "streamboost.boosting.samme",
    "Schedule": "streamboost.stream.schedule",
    "SketchLogitBoostClassifier": "streamboost.boosting.sketch",
    "StreamLearner": "streamboost.stream.learner",
    "WorkingSet": "streamboost.stream.working_set",
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
