"""Defaults and restrictions of a pipeline file with distributed scoring."""

from collections.abc import Iterator, Mapping
from typing import Any

from streamboost.pipelines.config.connectors.registry import ENDPOINTS
from streamboost.pipelines.config.problems import Problem
from streamboost.pipelines.config.sections import Sections

HELD = ("committee", "linear", "text")
"""Experts that scorers support, as their tables may be some labels behind the learner."""

_WITH = 'with [pipeline] scoring = "distributed"'

_WINDOW, _EXPIRES = "1m", "1d"
"""Default join window, which covers the delay of the scoring log, and default request expiry."""


def add_distributed_defaults(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections `tables`; with distributed scoring, with its defaults added."""
    whole = dict(tables)
    pipeline = whole.get("pipeline")
    if not isinstance(pipeline, dict) or pipeline.get("scoring") != "distributed":
        return whole
    defaults: dict[str, dict[str, Any]] = {
        "pipeline": {"join_window": _WINDOW},
        "requests": {"connector": "kafka", "expires_after": _EXPIRES},
        "committee": {"experts": list(HELD)},
    }
    for section, keys in defaults.items():
        given = whole.get(section, {})
        whole[section] = keys | given if isinstance(given, dict) else given
    return whole


def unsupported_settings(sections: Sections) -> Iterator[Problem]:
    """Yield a problem for each setting that distributed scoring does not support.

    The sections of the learner are checked by `unsupported_learner_settings`.
    """
    if sections.pipeline.scoring != "distributed":
        return
    for name in ENDPOINTS:
        if getattr(sections, name).connector != "kafka":
            text = f'must be "kafka" {_WITH}: a consumer group shares its topics'
            yield Problem(name, "connector", text)
        if getattr(getattr(sections, name), "format", "json") != "json":
            text = f'must be "json" {_WITH}: scorers read and write only plain JSON'
            yield Problem(name, "format", text)
    for section in ("model", "shadow_models", "features"):
        is_recorded = section == "model" and sections.prediction_field is not None
        if getattr(sections, section) and not is_recorded:
            text = f"is not supported {_WITH}: scorers only have committees. Delete this section"
            yield Problem(section, None, text)
    if sections.decision_parameters:
        text = (
            f"is not supported {_WITH}: scorers do not report the costs of decisions. Delete this "
            "section, and decide by `probabilities` of [predictions]"
        )
        yield Problem("decision", None, text)
    if sections.kafka is not None and not sections.kafka.transactions:
        text = f"must be true {_WITH}, as only these transactions store positions"
        yield Problem("kafka", "transactions", text)
    spans = {
        ("pipeline", "join_window"): sections.pipeline.join_window,
        ("requests", "expires_after"): sections.requests.expires_after,
    }
    for (section, key), span in spans.items():
        if isinstance(span, int):
            text = (
                f"is {span} records, but must be a time {_WITH}, as partitions are not counted "
                'together: set a time such as "15m"'
            )
            yield Problem(section, key, text)


def unsupported_learner_settings(
    sections: Sections, settings: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Yield a problem for each learner setting that distributed scoring does not support.

    `settings` are the learner's sections with defaults.
    """
    if sections.pipeline.scoring != "distributed":
        return
    query, schedule, committee = (settings[name] for name in ("query", "schedule", "committee"))
    if query.get("mode") == "pool":
        text = f'must be "stream" {_WITH}: no scorer has the pool of all partitions'
        yield Problem("query", "mode", text)
    if query.get("initial_credit"):
        text = f"must be 0 {_WITH}: partitions have separate budgets, and cannot repay a credit"
        yield Problem("query", "initial_credit", text)
    if query.get("relabel") and query.get("selection", "probability") != "probability":
        text = (
            f'needs selection = "probability" {_WITH}: with other selections, partitions spend '
            "the budget that the learner needs for relabel requests"
        )
        yield Problem("query", "relabel", text)
    if committee["label_lags"]:
        text = f"must be 0 {_WITH}: scorers do not see the newest labels"
        yield Problem("committee", "label_lags", text)
    named = committee["experts"]
    named = [] if isinstance(named, str) and named == "committee" else named
    named = ["all"] if isinstance(named, str) else named
    if unheld := [name for name in named if name not in HELD]:
        text = (
            f"must not have {', '.join(unheld)} {_WITH}: these experts need every label at once, "
            f"and scorers only have {', '.join(HELD)}. Delete the others"
        )
        yield Problem("committee", "experts", text)
    if schedule.get("correction_rounds"):
        text = f"must be 0 {_WITH}: scorers do not see every label"
        yield Problem("schedule", "correction_rounds", text)
    if schedule.get("on_drift") not in (None, "none") and schedule.get("drift_signal") != "error":
        text = f'must be "error" {_WITH}: the learner only has the margins of requested records'
        yield Problem("schedule", "drift_signal", text)
