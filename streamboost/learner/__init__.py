"""Stream learner, with its settings: working set, training schedule, queries and decisions."""

from streamboost.evaluation.decisions import Decisions
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.report import Report
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule, Training
from streamboost.learner.working_set import WorkingSet
from streamboost.predictions import Scored
from streamboost.query.config import QueryConfig, Requests
from streamboost.query.querier import Querier

__all__ = [
    "Decisions",
    "Evaluation",
    "Querier",
    "QueryConfig",
    "Report",
    "Requests",
    "Schedule",
    "Scored",
    "StreamLearner",
    "Training",
    "WorkingSet",
]
