"""The dashboard's table of rivals: models that run beside the one that serves."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.wording import NOTHING, amount, estimate

__all__ = ["rivals"]

_SERVING = "what serves"


def rivals(view: View) -> Table:
    """Show the honest accuracy of what serves and of each rival, on the same records."""
    own: Mapping[str, Any] = view.document("evaluation")
    found: Mapping[str, Mapping[str, Any]] = view.document("rivals")
    columns = [
        Column("Model", "words"),
        Column("Accuracy since the start"),
        Column("Of the newest"),
        Column("Records"),
    ]
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


def _share(report: Mapping[str, Any] | None) -> str | Cell:
    figure = ((report or {}).get("committee") or {}).get("accuracy")
    return NOTHING if figure is None else Cell(estimate(figure), bar=figure["value"])


def _value(figures: Mapping[str, Any]) -> float:
    report = figures.get("since_start") or {}
    found = (report.get("committee") or {}).get("accuracy")
    return float(found["value"]) if found else 0.0
