"""How a pipeline stands, in the documents of its status.

=====================  ======================================================================
``pipeline``           what it is called and made of, `state` (recovering, running, retrying,
                       stopped), `sequence` of the batch as of which all this is told, `time`
                       of the newest commit, further `fields`
``learner``            the committee that serves, what is being trained, the versions kept
``experts``            the weight that each has in predictions, as a share of all
``annotators``         by who gave them: how many `labels`, how often they `agreed` with others on
                       `shared` records, and with confident predictions (`confirmed` of `judged`);
                       and of the records that are kept how many labels are `against` the others
                       of those `compared`, and on how many records others answered `together`, and
                       had `outvoted` them
``rivals``             the figures of models that run beside what serves, as ``evaluation``'s
``workers``            where scoring is apart, by partition: who scores it (`worker`), `lag`,
                       records a second (`rate`), committee's `version`, `records` so far, and
                       `tick` of its newest batch
``ledger``             what was asked, answered, and what the budget had `allowed`
``join``               counters of records and labels
``fields``             records with each field that came later (`unknown`), and values by field that
                       could not be read (`unreadable`)
``evaluation``         the honest figures, since the start and of late, each with the `records` it
                       is of, the `answered` requests that tell, and those still `waiting`
``lag``                messages to be read, by source
``latency``            median and 99th percentile of the seconds that a batch's parts take
``classes``            of late: how often predicted, and how often answered where asked
``confusion``          of late, of the labels asked for: true classes in rows, predicted in columns;
                       these are the hard ones, and `evaluation` has an estimate for all
``features``           missing rates, means, quartiles and stability, the least stable first, with
                       the largest index since the start (`peak`), when that was (`peaked`), when
                       it first counted as shifted (`began`), the records and the time at which
                       that shift started (`started`), and was last unseen (`calm`), and
                       whether it is `shifted`
``distributions``      of the features that moved most: the values in each bin, then and now
``importances``        what splits on each feature gain the committee that serves, as shares of all
``typical``            the median of each column (`names`) for each class (`classes`) among the
                       newest labelled records
``feature_reference``  what the features are compared with
``trouble``            what went wrong last in this run; empty if nothing did
``beat``               `time` at which the pipeline last said anything, also while nothing comes
=====================  ======================================================================

A killed pipeline's `state` stays as it was: whether a process runs is told by the state's lock.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.engine.changes import known_classes
from streamboost.pipelines.engine.loop import Loop
from streamboost.pipelines.engine.pipeline import Pipeline
from streamboost.pipelines.status.recent import MOST_CLASSES, Since
from streamboost.stream.evaluation.report import Report

__all__ = ["about", "of_schema", "point_of", "standing", "state_of", "steady_of"]

MOST_KNOWN = 5_000
"""Of more classes it is not published which there are: the pipeline alone checks commands."""

MOST_LABELS = 500
"""Of the classes that the committee knows, to choose an answer from."""


def steady_of(pipeline: Pipeline) -> dict[str, int]:
    """Return the columns of `Records.X` that mean the same whatever is learned, by their names."""
    features, fields = pipeline.learner.features, pipeline.schema.features
    if features is None:
        return {name: at for at, name in enumerate(fields)}
    return {features.names[at]: at for at in features.steady}


def about(config: Config, pipeline: Pipeline) -> dict[str, Any]:
    """Return what stays the same for a whole run, without any path or address."""
    sections, query = config.sections, config.core.query
    return {
        "name": config.name,
        "id_field": pipeline.schema.id,
        "time_field": pipeline.schema.time,
        "connectors": {
            "source": sections.source.connector,
            "labels": sections.labels.connector,
            "predictions": sections.predictions.connector,
            "requests": sections.requests.connector,
        },
        "accepts_labels": sections.labels.closed is None,
        "accepts_records": sections.source.closed is None,
        "budget": float(query.budget),
        "strategy": {
            "mode": query.mode,
            "rule": query.rule if query.mode == "stream" else None,
            "utility": query.utility,
            "audit": query.audit,
        },
        "keep_versions": sections.pipeline.keep_versions,
    }


def of_schema(schema: Schema) -> dict[str, Any]:
    """Return what stays the same until the file adds a field, or a first label comes."""
    return {
        "features": list(schema.features),
        "label_type": schema.labels_are or schema.label,
    }


def state_of(loop: Loop) -> str:
    """Return the word for what a pipeline is doing."""
    if loop.retrying:
        return "retrying"
    return "running" if loop.is_running else "recovering"


def standing(loop: Loop) -> dict[str, dict[str, Any]]:
    """Return the documents that are read off the pipeline between two batches."""
    pipeline, numbers = loop.pipeline, loop.pipeline.numbers()
    learner, evaluation = pipeline.learner, pipeline.learner.evaluation
    committee, (since_start, recent) = learner.committee, evaluation.both()
    known = known_classes(pipeline)
    return {
        "learner": {
            **numbers["committee"],
            "labels_of_classes": committee.classes[:MOST_LABELS].tolist() if committee else [],
            "known_classes": known if len(known) <= MOST_KNOWN else None,
            "merged_classes": pipeline.classes.merged,
            "bootstrapped": numbers["bootstrapped"],
            "versions": [_version(pipeline, number) for number in pipeline.versions.numbers],
        },
        "experts": numbers["experts"],
        "annotators": numbers["annotators"],
        "rivals": numbers.get("rivals", {}),
        "workers": numbers.get("workers", {}),
        "ledger": {
            **numbers["ledger"],
            "pending": learner.ledger.pending,
            "allowed": float(learner.strategy.budget) * numbers["ledger"]["records"],
        },
        "join": {
            **numbers["join"],
            "dead_letters": numbers["dead_letters"],
            "lost_batches": numbers["lost_batches"],
            "deleted_unread": numbers["deleted_unread"],
        },
        "fields": numbers["fields"],
        "evaluation": {
            "since_start": _bounded(since_start),
            "recent": _bounded(recent),
            "pending": evaluation.pending,
            "unanswered": evaluation.unanswered,
        },
        "lag": dict(loop.backlog.lag),
        "latency": loop.stopwatch.in_numbers(),
    }


def _bounded(report: Report) -> Report:
    """Return a report without what grows with the square of very many classes."""
    if len(report.classes) <= MOST_CLASSES:
        return report
    return replace(report, classes=report.classes[:MOST_CLASSES], confusion=None)


def _version(pipeline: Pipeline, number: int) -> dict[str, Any]:
    held = pipeline.versions.held(number)
    if held is None:
        return {"version": number, "trees": None, "rounds": None, "classes": None}
    return {
        "version": number,
        "trees": held.n_trees,
        "rounds": held.n_rounds,
        "classes": len(held.classes),
    }


def point_of(
    documents: Mapping[str, Mapping[str, Any]], since: Since, seconds: float
) -> dict[str, Any]:
    """Return what the curves need of `documents` and of what happened in the last `seconds`."""
    ledger, learner = documents["ledger"], documents["learner"]
    recent, whole = documents["evaluation"]["recent"], documents["evaluation"]["since_start"]
    return {
        "seconds": seconds,
        "batches": since.batches,
        "records": since.records,
        "labels": since.labels,
        "busy": since.busy,
        "margins": since.margins,
        "accuracy": recent.committee.accuracy,
        "accuracy_total": whole.committee.accuracy,
        "naive": recent.committee.naive_accuracy,
        "repeat_last": recent.repeat_last.accuracy,
        "requests": ledger["requests"],
        "audits": ledger["audits"],
        "answered": ledger["answered"],
        "expired": ledger["expired"],
        "open": documents["join"]["open_requests"],
        "budget_allowed": ledger["allowed"],
        "lag": documents["lag"],
        "version": learner["version"],
        "trees": learner["trees"],
        "experts": documents["experts"],
    }
