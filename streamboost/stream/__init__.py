"""When to learn: working set, schedule and the stream learner."""

from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy, Requests
from streamboost.stream.evaluation import Evaluation
from streamboost.stream.figures import Report
from streamboost.stream.learner import StreamLearner
from streamboost.stream.schedule import Schedule, Training
from streamboost.stream.scoring import Scored
from streamboost.stream.working_set import WorkingSet

__all__ = [
    "Evaluation",
    "Querier",
    "QueryStrategy",
    "Report",
    "Requests",
    "Schedule",
    "Scored",
    "StreamLearner",
    "Training",
    "WorkingSet",
]
