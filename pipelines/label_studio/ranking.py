"""Ranking of a project's tasks: predictions whose score sorts the tasks in Label Studio.

Two groups of tasks get a prediction: tasks without annotation that should be labelled next, and
annotated tasks whose label looks wrong. In both groups, the lowest score comes first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamboost.connectors.base import Message
from streamboost.connectors.label_studio.project import (
    ChoicesTag,
    LabelStudioPrediction,
    LabelStudioProject,
    LabelStudioTask,
)
from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.models.restored_learner import restore_learner
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.formatting import count_text, estimate_text
from streamboost.pipelines.status.reader import StatusReader

if TYPE_CHECKING:
    from streamboost.learner.learner import StreamLearner

_MOST = 50
"""Maximum number of tasks in each of the two groups."""

_NEWEST = 5_000
"""Maximum number of labels that are judged: the newest ones."""


def as_messages(payloads: Iterable[bytes]) -> list[Message]:
    """Return `payloads` as messages of one partition, for the decoders of a schema."""
    return [Message(payload, "0", n, len(payload)) for n, payload in enumerate(payloads)]


def publish_ranking(
    config: Config,
    project: LabelStudioProject,
    choices: ChoicesTag,
    tasks: Sequence[LabelStudioTask],
    payloads: Mapping[int, bytes],
) -> list[str]:
    """Rank tasks by the newest checkpoint, and replace the predictions of earlier rankings.

    `payloads` are the records of the tasks to rank, by task number. Predictions of earlier rankings
    are deleted from all `tasks`. Returns lines about the accuracy and the two groups of tasks. If
    there is no checkpoint, nothing is ranked.
    """
    checkpoint = State(config.state).checkpoints.newest()
    if checkpoint is None:
        return [f"next: run the pipeline {config.name}, then repeat this command to rank the tasks"]
    schema, learner = restore_learner(
        checkpoint, config.encoders, "tasks can be ranked only without River models"
    )
    status = StatusReader(config.state)
    requested = {one["id"] for one in status.requests() if one.get("excluded_annotators") is None}
    status.close()
    ranked = [task for task in tasks if task.id in payloads]
    untouched = [payloads[task.id] for task in ranked if not task.is_touched]
    best = _rank_records(schema, learner, untouched, requested)
    doubtful = _rank_labels(learner, {str(task.id): task for task in ranked})
    shown = () if config.sections.serve.blind else choices.labels
    model_version = f"streamboost {config.name}"
    for task in tasks:
        for prediction in task.predictions:
            if prediction.id is not None and prediction.model_version == model_version:
                project.delete_prediction(prediction.id)
    found = [
        LabelStudioPrediction(
            task=int(id),
            model_version=model_version,
            score=score,
            result=choices.annotation_result(str(label)) if str(label) in shown else [],
        )
        for id, label, score in (*best, *doubtful)
    ]
    project.create_predictions(found)
    if found:
        project.select_model_version(model_version)
    n_requested = sum(id in requested for id, *_ in best)
    accuracy = (checkpoint[1]["evaluation"]["recent"]["committee"] or {}).get("accuracy")
    return [
        "accuracy: not known yet; label the requested tasks"
        if accuracy is None
        else f"accuracy: {estimate_text(accuracy)}",
        f"label next: {count_text(len(best), 'task')}, {n_requested} of them requested",
        f"labels that look wrong: {len(doubtful)}",
        f'These tasks have a prediction of the model version "{model_version}".',
    ]


_Ranked = list[tuple[str, Any, float]]
"""Record ids, each with the predicted label and a score."""


def _rank_records(
    schema: Schema, learner: "StreamLearner", payloads: Sequence[bytes], requested: set[str]
) -> _Ranked:
    """Return the records to label next, with scores 1 - utility.

    Requested records precede others, as only their labels count in the estimates.
    """
    records, _ = schema.decode(as_messages(payloads))
    X = (
        learner.add_label_lags(records.X)
        if records.values is None
        else learner.encode_records(records.values)
    )
    labels, utilities = learner.score(X).labels.tolist(), learner.utility(X).tolist()
    ranked = sorted(
        zip(records.ids, labels, utilities, strict=True),
        key=lambda one: (one[0] not in requested, -one[2]),
    )
    return [(id, label, 1.0 - utility) for id, label, utility in ranked[:_MOST]]


def _rank_labels(learner: "StreamLearner", tasks: Mapping[str, LabelStudioTask]) -> _Ranked:
    """Return the records whose label, given by one annotator, looks wrong; with its probability."""
    from streamboost.learner.doubtful_labels import find_doubtful_labels

    found = find_doubtful_labels(learner.estimator, *learner.newest_labelled(_NEWEST))
    return [
        (one.id, one.predicted, one.probability)
        for one in found
        if one.id in tasks
        and [answer.label for answer in tasks[one.id].answers].count(str(one.label)) == 1
    ][:_MOST]
