"""streamboost: boosted multi-class committees that learn from a stream with few labels.

The public names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # as themselves, which makes them public to type checkers
    from streamboost.active.query import QueryStrategy as QueryStrategy
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
    from streamboost.stream.evaluation.evaluation import Evaluation as Evaluation
    from streamboost.stream.labelled_rows.working_set import WorkingSet as WorkingSet
    from streamboost.stream.learner import StreamLearner as StreamLearner
    from streamboost.stream.pool import learn_from_pool as learn_from_pool
    from streamboost.stream.training.schedule import Schedule as Schedule

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
    "Evaluation": "streamboost.stream.evaluation.evaluation",
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
    "learn_from_pool": "streamboost.stream.pool",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamboost' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
