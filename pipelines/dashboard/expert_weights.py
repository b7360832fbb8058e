"""Tables of the weights of the experts, and of the accuracy of shadow models."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.status.formatting import (
    NOTHING,
    RECORDED,
    estimate_text,
    gain_text,
    number_text,
    percent_text,
)

_SERVING = "active model"


_EXPERTS = {
    "committee": "the committee",
    "correction": "the committee, corrected by the newest 50 labels",
    "nearest": "the most similar of the newest 200 labelled records",
    "leaf neighbour": "the most similar of the newest 1,000, by shared tree leaves",
    "leaf neighbours": "the five most similar of the newest 1,000, by shared tree leaves",
    "transitions": "label transition frequencies",
    "linear": "a linear model of the numbers",
    "text": "linear models of the texts",
    "vector": "a logistic regression on the vectors, near the class means",
    "young": "committees trained on the newest labels only",
    "runs": "the records before, where successive records have one class",
}


def expert_weight_table(view: StatusSnapshot) -> Table:
    """Build the table of the experts: name, current weight and method."""
    found: Mapping[str, float] = view.document("experts")
    columns = [Column("Expert", "words"), Column("Weight"), Column("Method", "words")]
    rows: Rows = [
        [name, Cell(percent_text(share), bar=share, colour="series-1"), _EXPERTS.get(name, NOTHING)]
        for name, share in found.items()
    ]
    if not rows:
        return Table(
            "Expert weights",
            columns,
            [],
            "Shown if experts are configured (key experts in [committee]).",
        )
    first = max(found, key=lambda name: found[name])
    summary = f"{first} has the largest weight: {percent_text(found[first])}."
    return Table("Expert weights", columns, rows, summary)


def shadow_model_table(view: StatusSnapshot) -> Table:
    """Build the table that compares the unbiased accuracy of the active and the shadow models."""
    own: Mapping[str, Any] = view.document("evaluation")
    found: Mapping[str, Mapping[str, Any]] = view.document("shadow_models")
    columns = _metric_columns("Model", "Accuracy since the start", "Recent accuracy", "Records")
    if counts := view.document("recorded"):
        columns.append(Column("Versus active model", "words"))
    if not found:
        return Table(
            "Shadow models", columns, [], "No shadow model runs: add [shadow_models.NAME]."
        )
    rows: Rows = [
        [
            name,
            _accuracy_cell(figures.get("since_start")),
            _accuracy_cell(figures.get("recent")),
            number_text((figures.get("since_start") or {}).get("records")),
            *([gain_text((figures.get("since_start") or {}).get("gain"))] if counts else []),
        ]
        for name, figures in ({_SERVING: own} | dict(found)).items()
    ]
    ahead = [
        name
        for name, one in found.items()
        if _accuracy_since_start(one) > _accuracy_since_start(own)
    ]
    summary = f"More accurate than the active model since the start: {', '.join(ahead) or 'none'}."
    if counts:
        told = [f"{n:,} {RECORDED[name]}" for name, n in counts.items() if n]
        summary += f" Predictions of the active model: {'; '.join(told) or 'none'}."
    return Table("Shadow models", columns, rows, summary)


def _metric_columns(first_heading: str, *metric_headings: str) -> list[Column]:
    return [Column(first_heading, "words"), *map(Column, metric_headings)]


def _accuracy_cell(report: Mapping[str, Any] | None) -> str | Cell:
    figure = ((report or {}).get("committee") or {}).get("accuracy")
    return NOTHING if figure is None else Cell(estimate_text(figure), bar=figure["value"])


def _accuracy_since_start(evaluation: Mapping[str, Any]) -> float:
    report = evaluation.get("since_start") or {}
    found = (report.get("committee") or {}).get("accuracy")
    return float(found["value"]) if found else 0.0
