"""streamboost: boosted multi-class committees that learn from a stream with few labels.

The public names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # as themselves, which makes them public to type checkers
    from streamboost.boosting.cascade import Cascade as Cascade
    from streamboost.boosting.committee import Committee as Committee
    from streamboost.boosting.costs.cdmcboost import CDMCBoostClassifier as CDMCBoostClassifier
    from streamboost.boosting.costs.codeword_trees import (
        AdaBoostCostClassifier as AdaBoostCostClassifier,
    )
    from streamboost.boosting.costs.codeword_trees import GDMCBoostClassifier as GDMCBoostClassifier
    from streamboost.boosting.costs.mh import AdaBoostMHClassifier as AdaBoostMHClassifier
    from streamboost.boosting.costs.rebel import RebelClassifier as RebelClassifier
    from streamboost.boosting.log_loss.abc_logit import (
        ABCLogitBoostClassifier as ABCLogitBoostClassifier,
    )
    from streamboost.boosting.log_loss.aoso import (
        AOSOLogitBoostClassifier as AOSOLogitBoostClassifier,
    )
    from streamboost.boosting.log_loss.klogit import KLogitBoostClassifier as KLogitBoostClassifier
    from streamboost.boosting.log_loss.logit import LogitBoostClassifier as LogitBoostClassifier
    from streamboost.boosting.log_loss.sketch import (
        SketchLogitBoostClassifier as SketchLogitBoostClassifier,
    )
    from streamboost.boosting.reweighting.adaboost_a import (
        AdaBoostAClassifier as AdaBoostAClassifier,
    )
    from streamboost.boosting.reweighting.gamble import GambleClassifier as GambleClassifier
    from streamboost.boosting.reweighting.gentle import (
        GentleAdaBoostClassifier as GentleAdaBoostClassifier,
    )
    from streamboost.boosting.reweighting.one_vs_all import (
        OneVsAllAdaBoostClassifier as OneVsAllAdaBoostClassifier,
    )
    from streamboost.boosting.reweighting.samme import AdaBoostM1Classifier as AdaBoostM1Classifier
    from streamboost.boosting.reweighting.samme import SammeClassifier as SammeClassifier
    from streamboost.evaluation.evaluation import Evaluation as Evaluation
    from streamboost.learner.learner import StreamLearner as StreamLearner
    from streamboost.learner.pool import learn_from_pool as learn_from_pool
    from streamboost.learner.schedule import Schedule as Schedule
    from streamboost.learner.working_set import WorkingSet as WorkingSet
    from streamboost.query.config import QueryConfig as QueryConfig

__version__ = "0.3.0"

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
    "Evaluation": "streamboost.evaluation.evaluation",
    "GDMCBoostClassifier": "streamboost.boosting.costs.codeword_trees",
    "GambleClassifier": "streamboost.boosting.reweighting.gamble",
    "GentleAdaBoostClassifier": "streamboost.boosting.reweighting.gentle",
    "KLogitBoostClassifier": "streamboost.boosting.log_loss.klogit",
    "LogitBoostClassifier": "streamboost.boosting.log_loss.logit",
    "OneVsAllAdaBoostClassifier": "streamboost.boosting.reweighting.one_vs_all",
    "QueryConfig": "streamboost.query.config",
    "RebelClassifier": "streamboost.boosting.costs.rebel",
    "SammeClassifier": "streamboost.boosting.reweighting.samme",
    "Schedule": "streamboost.learner.schedule",
    "SketchLogitBoostClassifier": "streamboost.boosting.log_loss.sketch",
    "StreamLearner": "streamboost.learner.learner",
    "WorkingSet": "streamboost.learner.working_set",
    "learn_from_pool": "streamboost.learner.pool",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamboost' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
