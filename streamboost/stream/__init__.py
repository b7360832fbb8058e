"""When to learn: working set, schedule and the stream learner."""

from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy, Requests
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.evaluation import Evaluation
from streamboost.stream.evaluation.report import Report
from streamboost.stream.labelled_rows.working_set import WorkingSet
from streamboost.stream.learner import StreamLearner
from streamboost.stream.scoring import Scored
from streamboost.stream.training.schedule import Schedule, Training

__all__ = [
    "Decisions",
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
