"""What a pipeline file may say where scoring is apart, and what it says where it does not."""

from collections.abc import Iterator, Mapping
from typing import Any

from streamboost.pipelines.config.problems import Problem
from streamboost.pipelines.config.sections import Sections
from streamboost.pipelines.endpoints.registry import ENDPOINTS

__all__ = ["HELD", "filled", "refused", "refused_of_learner"]

HELD = ("committee", "linear", "words")
"""The experts that scorers hold: their tables may be some labels old."""

_WINDOW, _EXPIRES = "1m", "1d"
"""Early labels wait for no longer than progress takes; requests wait for people."""


def filled(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return `tables` with the defaults of scoring apart, where it is."""
    whole = dict(tables)
    pipeline = whole.get("pipeline")
    if not isinstance(pipeline, dict) or pipeline.get("scoring") != "apart":
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


def refused(sections: Sections) -> Iterator[Problem]:
    """Give what does not go with scoring apart of the sections but the learner's."""
    if sections.pipeline.scoring != "apart":
        return
    for name in ENDPOINTS:
        if getattr(sections, name).connector != "kafka":
            text = (
                'must be "kafka" with [pipeline] scoring = "apart": a group shares its topics out'
            )
            yield Problem(name, "connector", text)
        if getattr(getattr(sections, name), "format", "json") != "json":
            text = (
                'must be "json" with [pipeline] scoring = "apart": scorers read and write plain '
                "JSON alone"
            )
            yield Problem(name, "format", text)
    for section in ("model", "rivals", "features"):
        if getattr(sections, section):
            text = (
                'does not go with [pipeline] scoring = "apart": scorers hold committees alone; '
                "leave this section out"
            )
            yield Problem(section, None, text)
    if sections.decided_by:
        text = (
            'does not go with [pipeline] scoring = "apart": what decisions cost is not told by '
            "scorers; leave this section out, and decide by `probabilities` of [predictions]"
        )
        yield Problem("decision", None, text)
    if sections.kafka is not None and not sections.kafka.transactions:
        text = 'must be true with [pipeline] scoring = "apart", where nothing else keeps positions'
        yield Problem("kafka", "transactions", text)
    spans = {
        ("pipeline", "join_window"): sections.pipeline.join_window,
        ("requests", "expires_after"): sections.requests.expires_after,
    }
    for (section, key), span in spans.items():
        if isinstance(span, int):
            text = (
                f"counts {span} records, which nobody counts over all partitions where [pipeline] "
                f'scoring is "apart": write a time such as "15m"'
            )
            yield Problem(section, key, text)


def refused_of_learner(
    sections: Sections, settings: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    """Give what does not go with scoring apart of the learner's sections."""
    if sections.pipeline.scoring != "apart":
        return
    why = 'where [pipeline] scoring is "apart"'
    query, schedule, committee = (settings[name] for name in ("query", "schedule", "committee"))
    if query.get("mode") == "pool":
        text = f'must be "stream" {why}: no scorer sees the pool of all partitions'
        yield Problem("query", "mode", text)
    if query.get("loan"):
        text = f"must be 0 {why}: each partition has a ledger of its own, and none can repay"
        yield Problem("query", "loan", text)
    if query.get("relabel") and query.get("rule", "chance") != "chance":
        text = f'needs rule = "chance" {why}: the others spend in partitions what the learner needs'
        yield Problem("query", "relabel", text)
    if committee["label_lags"]:
        text = f"must be 0 {why}: scorers do not see the newest labels"
        yield Problem("committee", "label_lags", text)
    named = committee["experts"]
    named = [] if isinstance(named, str) and named == "committee" else named
    named = ["all"] if isinstance(named, str) else named
    if unheld := [name for name in named if name not in HELD]:
        text = (
            f"names {', '.join(unheld)} {why}, but scorers hold {', '.join(HELD)} alone: the "
            "others go by every label at once; leave them out"
        )
        yield Problem("committee", "experts", text)
    if schedule.get("correction_rounds"):
        text = f"must be 0 {why}: scorers do not see every label"
        yield Problem("schedule", "correction_rounds", text)
    if schedule.get("on_drift") not in (None, "none") and schedule.get("drift_signal") != "error":
        text = f'must be "error" {why}: the learner sees the margins of those asked about alone'
        yield Problem("schedule", "drift_signal", text)
