"""The dashboard's tables of who predicts: experts in what serves, and rivals."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.status.formatting import NOTHING, amount, estimate, percent

__all__ = ["experts", "rivals"]

_SERVING = "what serves"


_EXPERTS = {
    "committee": "the committee",
    "correction": "the committee, corrected by the newest 50 labels",
    "nearest": "the most similar of the newest 200 labelled records",
    "leaf neighbour": "the most similar of the newest 1,000, as the committee's trees see it",
    "leaf neighbours": "the five most similar of these",
    "sequence": "which label followed the newest known one before",
    "linear": "a linear model of the numbers",
    "words": "linear models of the texts",
}


def experts(view: View) -> Table:
    """Show how much each expert counts."""
    found: Mapping[str, float] = view.document("experts")
    columns = [Column("Expert", "words"), Column("Weight"), Column("What it goes by", "words")]
    rows: Rows = [
        [name, Cell(percent(share), bar=share, colour="series-1"), _EXPERTS.get(name, NOTHING)]
        for name, share in found.items()
    ]
    if not rows:
        return Table("Experts", columns, [], "The committee alone decides: [committee] experts.")
    first = max(found, key=lambda name: found[name])
    summary = f"Of all, {first} counts most, with {percent(found[first])} of the weight."
    return Table("Experts", columns, rows, summary)


def rivals(view: View) -> Table:
    """Show the honest accuracy of what serves and of each rival, on the same records."""
    own: Mapping[str, Any] = view.document("evaluation")
    found: Mapping[str, Mapping[str, Any]] = view.document("rivals")
    columns = _columns("Model", "Accuracy since the start", "Of the newest", "Records")
    if not found:
        return Table("Rivals", columns, [], "No model runs beside what serves: [rivals.NAME].")
    rows: Rows = [
        [
            name,
            _share(figures.get("since_start")),
            _share(figures.get("recent")),
            amount((figures.get("since_start") or {}).get("records")),
        ]
        for name, figures in ({_SERVING: own} | dict(found)).items()
    ]
    ahead = [name for name, one in found.items() if _value(one) > _value(own)]
    summary = f"Ahead of what serves, as far as labels tell: {', '.join(ahead) or 'none'}."
    return Table("Rivals", columns, rows, summary)


def _columns(who: str, *figures: str) -> list[Column]:
    return [Column(who, "words"), *map(Column, figures)]


def _share(report: Mapping[str, Any] | None) -> str | Cell:
    figure = ((report or {}).get("committee") or {}).get("accuracy")
    return NOTHING if figure is None else Cell(estimate(figure), bar=figure["value"])


def _value(figures: Mapping[str, Any]) -> float:
    report = figures.get("since_start") or {}
    found = (report.get("committee") or {}).get("accuracy")
    return float(found["value"]) if found else 0.0
