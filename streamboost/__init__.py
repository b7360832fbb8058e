"""streamboost: boosted multi-class committees that learn from a stream with few labels.

The public names are loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamboost.active.query import QueryStrategy
    from streamboost.boosting.cascade import Cascade
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.gamble import GambleClassifier
    from streamboost.boosting.sketch import SketchLogitBoostClassifier
    from streamboost.stream.learner import StreamLearner
    from streamboost.stream.schedule import Schedule
    from streamboost.stream.working_set import WorkingSet

__version__ = "0.1.0"

_HOMES = {
    "Cascade": "streamboost.boosting.cascade",
    "Committee": "streamboost.boosting.committee",
    "GambleClassifier": "streamboost.boosting.gamble",
    "QueryStrategy": "streamboost.active.query",
    "Schedule": "streamboost.stream.schedule",
    "SketchLogitBoostClassifier": "streamboost.boosting.sketch",
    "StreamLearner": "streamboost.stream.learner",
    "WorkingSet": "streamboost.stream.working_set",
}

__all__ = [
    "Cascade",
    "Committee",
    "GambleClassifier",
    "QueryStrategy",
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
