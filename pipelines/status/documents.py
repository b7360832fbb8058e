"""Documents of a pipeline's status: their content and how they are read from a running pipeline.

=====================  ======================================================================
``pipeline``           name and configuration, `state` (recovering, running, retrying, stopped),
                       `sequence` of the batch that the documents describe, `time` of the newest
                       commit, further `fields`
``learner``            the active committee, the running training, the versions kept
``comparisons``        the newest comparisons of `versions` with an earlier one on the same records,
                       the current one last (`PairedComparison.to_json`)
``experts``            the weight of each expert in predictions, as a share of all
``annotators``         by annotator: number of `labels`, how often they `agreed` with others on
                       `shared` records, and with confident predictions (`confirmed` of `judged`);
                       among the kept records, the labels in conflict (`against`) of those
                       `compared`, the records with labels of others (`together`), and those
                       where a majority `outvoted` the annotator
``shadow_models``      the metrics of shadow models, in the form of ``evaluation``
``recorded``           counts of the predictions of another system, which records carry
``workers``            with distributed scoring, by partition: its scorer (`worker`), `lag`,
                       records per second (`rate`), the committee's `version`, number of `records`
                       so far, and `tick` of its newest batch
``ledger``             counts of requests and answers, and the requests that the budget `allowed`
``join``               counters of records and labels
``fields``             by field: records with a field unknown to the schema (`unknown`), and values
                       that could not be read (`unreadable`)
``evaluation``         the unbiased estimates, since the start and in the sliding window, each with
                       its `records`, `answered` requests, and those still `waiting`
``forecast``           the accuracy after further labels, with 90 % intervals (`Forecast`); empty
                       without one (too few labels, predictions of another system)
``changes``            detected changes of the stream: their number (`total`), and the `newest`
                       with the numbers of records and labels at its detection and at its start
``lag``                consumer lag in messages, keyed by source
``latency``            median and 99th percentile of the seconds of each stage of a batch
``classes``            class mix in the sliding window: counts of predictions and of answers
``confusion``          confusion matrix of requested labels in the sliding window: true classes in
                       rows, predicted ones in columns; requested records are the hard ones, and
                       `evaluation` has an estimate for all
``features``           missing rates, means, quartiles and PSI, the largest PSI first, with the
                       largest PSI since the start (`peak`) and its time (`peaked`), the time at
                       which the feature first counted as shifted (`began`), the estimated record
                       number and time at which that shift `started`, the last time before it at
                       which the PSI was small (`calm`), and whether the feature is `shifted` now
``distributions``      histograms of the features with the largest PSI, then and now
``importances``        feature importances of the active committee: gain, as shares of all
``typical``            the median of each column (`names`) for each class (`classes`) among the
                       newest labelled records
``feature_reference``  the reference sample of feature drift: bin edges, counts and means
``trouble``            the last error of this run; empty if there was none
``heartbeat``          `time` of the pipeline's last publication, also while no records arrive
=====================  ======================================================================

The `state` of a killed pipeline stays unchanged. The lock of the state folder shows whether a
process is running.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamboost.connectors.messages.schema import Schema
from streamboost.evaluation.report import Report, accuracy_drop
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.runner.commands import known_classes
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.status.recent import MOST_CLASSES, IntervalStats

MOST_KNOWN = 5_000
"""Maximum number of known classes to publish; with more, only the pipeline checks commands."""

MOST_LABELS = 500
"""Maximum number of the committee's classes to publish, to choose an answer from."""


def static_columns(pipeline: Pipeline) -> dict[str, int]:
    """Map the features whose encoding never changes to their columns of `Records.X`."""
    features, fields = pipeline.learner.features, pipeline.schema.features
    if features is None:
        return {name: at for at, name in enumerate(fields)}
    return {features.names[at]: at for at in features.static_columns}


def pipeline_document(config: Config, pipeline: Pipeline) -> dict[str, Any]:
    """Return the part of the document ``pipeline`` that does not change during a run."""
    sections, query = config.sections, config.learner_config.query
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
        "accepts_labels": sections.labels.read_only_reason is None,
        "accepts_records": sections.source.read_only_reason is None,
        "budget": float(query.budget),
        "query": {
            "mode": query.mode,
            "selection": query.selection if query.mode == "stream" else None,
            "strategy": query.strategy,
            "audit": query.audit,
        },
        "keep_versions": sections.pipeline.keep_versions,
    }


def schema_document(schema: Schema) -> dict[str, Any]:
    """Return the feature names and the label type, for the document ``pipeline``."""
    return {
        "features": list(schema.features),
        "label_type": schema.label_kind or schema.label,
    }


def runner_state(runner: Runner) -> str:
    """Return the state of a pipeline: "running", "recovering" or "retrying"."""
    if runner.retrying:
        return "retrying"
    return "running" if runner.is_running else "recovering"


def status_documents(runner: Runner) -> dict[str, dict[str, Any]]:
    """Return the status documents of a running pipeline, keyed by document name.

    Call this between two batches only, as it reads the state of the pipeline.
    """
    pipeline, numbers = runner.pipeline, runner.pipeline.counters()
    learner, evaluation = pipeline.learner, pipeline.learner.evaluation
    committee, (since_start, recent) = learner.committee, evaluation.both_reports()
    known = known_classes(pipeline)
    return {
        "learner": {
            **numbers["committee"],
            "labels_of_classes": committee.classes[:MOST_LABELS].tolist() if committee else [],
            "known_classes": known if len(known) <= MOST_KNOWN else None,
            "merged_classes": pipeline.classes.merged_classes,
            "dropped_classes": pipeline.classes.dropped_classes,
            "initial_labels": numbers["initial_labels"],
            "versions": [
                _version_document(pipeline, number) for number in pipeline.versions.version_numbers
            ],
        },
        "experts": numbers["experts"],
        "changes": numbers["changes"],
        "annotators": numbers["annotators"],
        "shadow_models": numbers.get("shadow_models", {}),
        "recorded": numbers.get("recorded", {}),
        "workers": numbers.get("workers", {}),
        "ledger": {
            **numbers["ledger"],
            "pending": learner.ledger.pending,
            "allowed": float(learner.query_config.budget) * numbers["ledger"]["records"],
        },
        "join": {
            **numbers["join"],
            "dead_letters": numbers["dead_letters"],
            "lost_batches": numbers["lost_batches"],
            "deleted_unread": numbers["deleted_unread"],
        },
        "fields": numbers["fields"],
        "evaluation": {
            "since_start": _truncated_report(since_start),
            "recent": _truncated_report(recent),
            "drop": accuracy_drop(since_start, recent),
            "pending": evaluation.n_open_requests,
            "unanswered": evaluation.unanswered,
        },
        "forecast": runner.pipeline.forecast(),
        "comparisons": {"versions": learner.trainer.shadow.to_json()},
        "lag": dict(runner.backlog.lag),
        "latency": runner.stage_timer.quantiles(),
    }


def _truncated_report(report: Report) -> Report:
    """Return the report with at most `MOST_CLASSES` classes; if shortened, without confusion."""
    if len(report.classes) <= MOST_CLASSES:
        return report
    return replace(report, classes=report.classes[:MOST_CLASSES], confusion=None)


def _version_document(pipeline: Pipeline, version: int) -> dict[str, Any]:
    held = pipeline.versions.committee(version)
    if held is None:
        return {"version": version, "trees": None, "rounds": None, "classes": None}
    return {
        "version": version,
        "trees": held.n_trees,
        "rounds": held.n_rounds,
        "classes": len(held.classes),
    }


def chart_point(
    documents: Mapping[str, Mapping[str, Any]], interval: IntervalStats, seconds: float
) -> dict[str, Any]:
    """Return the values of one point of the time charts.

    They are the counts of the last `seconds` (`interval`), and values from the status `documents`.
    """
    ledger, learner = documents["ledger"], documents["learner"]
    recent, whole = documents["evaluation"]["recent"], documents["evaluation"]["since_start"]
    return {
        "seconds": seconds,
        "batches": interval.batches,
        "records": interval.records,
        "labels": interval.labels,
        "busy": interval.busy,
        "margins": interval.margins,
        "accuracy": recent.committee.accuracy,
        "anytime_accuracy": recent.anytime_accuracy,
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
