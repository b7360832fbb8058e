"""How a pipeline stands, in the documents of its status."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.config import Config
from streamboost.pipelines.runtime import Pipeline
from streamboost.pipelines.sections import FilesInput, KafkaInput, RiverInput, SqliteInput
from streamboost.pipelines.status_notes import Since

__all__ = ["about", "point_of", "standing", "state_of"]

_TABLES = (".csv", ".parquet", ".pq")


def about(config: Config, pipeline: Pipeline) -> dict[str, Any]:
    """Return what stays the same for a whole run, without any path or address."""
    sections, query = config.sections, config.core.query
    return {
        "name": config.name,
        "features": list(pipeline.schema.features),
        "id_field": pipeline.schema.id,
        "time_field": pipeline.schema.time,
        "label_type": pipeline.schema.label,
        "connectors": {
            "source": sections.source.connector,
            "labels": sections.labels.connector,
            "predictions": sections.predictions.connector,
            "requests": sections.requests.connector,
        },
        "accepts_labels": _is_open(sections.labels),
        "accepts_records": _is_open(sections.source),
        "budget": float(query.budget),
        "strategy": {"mode": query.mode, "utility": query.utility, "audit": query.audit},
        "keep_versions": sections.pipeline.keep_versions,
    }


def _is_open(section: SqliteInput | FilesInput | KafkaInput | RiverInput) -> bool:
    """Whether somebody else may add to an input: a log, a topic, a file of lines that grows."""
    if isinstance(section, FilesInput):
        return section.follow and section.path != "-" and not section.path.endswith(_TABLES)
    return isinstance(section, SqliteInput | KafkaInput)


def state_of(pipeline: Pipeline) -> str:
    """Return the word for what a pipeline is doing."""
    if pipeline.retrying:
        return "retrying"
    return "running" if pipeline.is_running else "recovering"


def standing(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """Return the documents that are read off the pipeline between two batches."""
    learner, evaluation = pipeline.learner, pipeline.learner.evaluation.in_numbers()
    ledger = learner.ledger
    committee = learner.committee
    return {
        "learner": {
            **pipeline.committee_in_numbers(),
            "labels_of_classes": committee.classes.tolist() if committee else [],
            "bootstrapped": pipeline.bootstrapped,
            "versions": [_version(pipeline, number) for number in pipeline.versions.numbers],
        },
        "ledger": {
            "records": ledger.records,
            "requests": ledger.requests,
            "audits": ledger.audits,
            "answered": ledger.answered,
            "expired": ledger.expired,
            "pending": ledger.pending,
            "tokens": ledger.tokens,
            "allowed": float(learner.strategy.budget) * ledger.records,
        },
        "join": {
            **pipeline.join.in_numbers(),
            "dead_letters": pipeline.dead_letters,
            "lost_batches": pipeline.lost_batches,
        },
        "evaluation": evaluation,
        "lag": dict(pipeline.watch.lag),
        "latency": pipeline.stopwatch.in_numbers(),
    }


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
        "accuracy": recent["committee"]["accuracy"],
        "accuracy_total": whole["committee"]["accuracy"],
        "naive": recent["committee"]["naive_accuracy"],
        "repeat_last": recent["repeat_last"]["accuracy"],
        "requests": ledger["requests"],
        "audits": ledger["audits"],
        "answered": ledger["answered"],
        "budget_allowed": ledger["allowed"],
        "lag": documents["lag"],
        "version": learner["version"],
        "trees": learner["trees"],
    }
