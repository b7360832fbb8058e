"""Forecast of the accuracy over labels, as a panel."""

from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot
from streamboost.pipelines.status.forecast import forecast_lines, missing_steps, target_lines
from streamboost.pipelines.status.formatting import (
    count_text,
    estimate_text,
    gain_text,
    number_text,
)

_LEAST_SECONDS = 3_600.0
"""Least observed time for a duration per label."""


def forecast_table(view: StatusSnapshot) -> Table:
    """Build the table of the accuracy now and after more labels, with 90 % intervals."""
    forecast = view.document("forecast")
    evaluation = view.document("evaluation")
    columns = [Column("Labels", "words"), Column("Accuracy"), Column("Gain")]
    if not forecast or not forecast["steps"]:
        lines = forecast_lines(forecast, evaluation, is_recorded=bool(view.document("recorded")))
        return Table("Forecast", columns, [], " ".join(lines))
    rows: list[list[str | Cell]] = [["now, fitted", estimate_text(forecast["accuracy"]), ""]]
    rows += [
        [
            f"{number_text(one['labels'])} more",
            estimate_text(one["accuracy"]),
            gain_text(one["gain"]),
        ]
        for one in forecast["steps"]
    ]
    rows += [[f"{number_text(n)} more", missing, ""] for n, missing in missing_steps(forecast)]
    texts = [*target_lines(forecast, evaluation, _seconds_per_label(view))]
    left = view.n_labels_left
    if left is not None and left < max(one["labels"] for one in forecast["steps"]):
        texts.append(f"The budget has {count_text(left, 'label')} left now; it grows with records.")
    return Table("Forecast", columns, rows, " ".join(texts))


def _seconds_per_label(view: StatusSnapshot) -> float | None:
    """Return the time per answered request in the shown time range; None if it is too short."""
    if not view.points:
        return None
    first, last = view.points[0], view.points[-1]
    seconds = (last["time"] - first["time"]) / 1_000.0
    labels = (last.get("answered") or 0) - (first.get("answered") or 0)
    return seconds / labels if seconds >= _LEAST_SECONDS and labels > 0 else None
