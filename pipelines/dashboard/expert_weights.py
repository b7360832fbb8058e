"""Tables of the weights of the experts, and of the accuracy of shadow models."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import View
from streamboost.pipelines.status.formatting import (
    NOTHING,
    estimate_text,
    number_text,
    percent_text,
)

__all__ = ["experts", "shadow_models"]

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
    "young": "committees trained on the newest labels only",
}


def experts(view: View) -> Table:
    """Build the table of each expert's weight."""
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


def shadow_models(view: View) -> Table:
    """Build the table of unbiased accuracy: active model and shadow models on equal records."""
    own: Mapping[str, Any] = view.document("evaluation")
    found: Mapping[str, Mapping[str, Any]] = view.document("shadow_models")
    columns = _columns("Model", "Accuracy since the start", "Recent accuracy", "Records")
    if not found:
        return Table(
            "Shadow models", columns, [], "No shadow model runs: add [shadow_models.NAME]."
        )
    rows: Rows = [
        [
            name,
            _share(figures.get("since_start")),
            _share(figures.get("recent")),
            number_text((figures.get("since_start") or {}).get("records")),
        ]
        for name, figures in ({_SERVING: own} | dict(found)).items()
    ]
    ahead = [name for name, one in found.items() if _value(one) > _value(own)]
    summary = f"More accurate than the active model since the start: {', '.join(ahead) or 'none'}."
    return Table("Shadow models", columns, rows, summary)


def _columns(name: str, *figures: str) -> list[Column]:
    return [Column(name, "words"), *map(Column, figures)]


def _share(report: Mapping[str, Any] | None) -> str | Cell:
    figure = ((report or {}).get("committee") or {}).get("accuracy")
    return NOTHING if figure is None else Cell(estimate_text(figure), bar=figure["value"])


def _value(figures: Mapping[str, Any]) -> float:
    report = figures.get("since_start") or {}
    found = (report.get("committee") or {}).get("accuracy")
    return float(found["value"]) if found else 0.0
