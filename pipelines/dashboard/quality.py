"""Unbiased estimates: metrics of the committee, recall and precision by class, calibration."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.status.formatting import (
    NOTHING,
    estimate_text,
    number_text,
    percent_text,
)

_WAITING = "Shown once enough requested labels have arrived."
_NO_PROBABILITIES = "Not available: the records carry labels without probabilities."

_FIGURES = (
    ("Accuracy", ("committee", "accuracy"), "share predicted correctly (prequential)"),
    ("Accuracy, at all times", ("anytime_accuracy",), "interval for those who watch it live"),
    ("Balanced accuracy", ("committee", "balanced_accuracy"), "mean of the classes' recall"),
    ("Kappa", ("committee", "kappa"), "Cohen's: 0 % is chance, 100 % is perfect"),
    ("Log loss", ("log_loss",), "of the probabilities, in nats: lower is better"),
    ("Repeating the last label", ("repeat_last", "accuracy"), "accuracy of this baseline"),
    ("The most frequent label", ("majority", "accuracy"), "accuracy of this baseline"),
)


def metrics_table(view: StatusSnapshot) -> Table:
    """Build the table of metrics such as accuracy, since the start and in the sliding window."""
    whole, recent = _evaluation_reports(view)
    columns = [
        Column("Metric", "words"),
        Column("Since the start"),
        Column("Sliding window"),
        Column("Definition", "words"),
    ]
    found = [
        (
            title,
            _metric_at_path(whole, path),
            _metric_at_path(recent, path),
            meaning,
            path == ("log_loss",),
        )
        for title, path, meaning in _FIGURES
    ]
    if not any(one or other for _, one, other, _, _ in found):
        return Table("Metrics", columns, [], _WAITING)
    rows = [
        [title, _metric_text(one, plain), _metric_text(other, plain), meaning]
        for title, one, other, meaning, plain in found
    ]
    judged, newest = (
        f"{number_text(report.get('records'))} records {when}, of which "
        f"{number_text(report.get('answered'))} have a label that counts"
        for report, when in ((whole, "since the start"), (recent, "in the window"))
    )
    summary = f"{judged}; {newest}; 95 % intervals. {_label_assumption_text(whole)}"
    return Table("Metrics", columns, rows, summary)


def _label_assumption_text(report: Mapping[str, Any]) -> str:
    """Name the annotators whose labels are excluded, and the accuracy with their labels."""
    names, before = report.get("left_out"), report.get("accuracy_with_left_out")
    if not names:
        return "The labels are taken as right."
    return (
        f"The labels of {', '.join(names)} are left out, as they disagree with the predictions "
        f"more often than the others'. With them the accuracy would be {estimate_text(before)}."
    )


def lowest_recall(view: StatusSnapshot) -> tuple[str, Mapping[str, float], str] | None:
    """Return the class with the lowest recall, its recall, and the records that this covers.

    These are the records of the sliding window if its recall is known, else all evaluated records.
    """
    for report, is_recent in zip(reversed(_evaluation_reports(view)), (True, False), strict=True):
        if found := [one for one in report.get("classes") or () if one.get("recall")]:
            worst = min(found, key=lambda one: float(one["recall"]["value"]))
            return str(worst["label"]), worst["recall"], _period_text(report, is_recent=is_recent)
    return None


def _period_text(report: Mapping[str, Any], *, is_recent: bool) -> str:
    """Name the records of a report: those of the sliding window, or all since the start."""
    if not is_recent:
        return "since the start"
    return f"in the newest {number_text(report.get('records'))} records"


def misclassified_records_address(view: StatusSnapshot, label: str) -> str:
    """Return the address of the misclassified records of the class `label`."""
    pipeline = view.document("pipeline").get("name")
    return page_address("/records", pipeline, true=label, wrong="true")


def class_table(view: StatusSnapshot) -> Table:
    """Build the table of each class's frequency, recall and precision, overall and recent."""
    whole, recent = _evaluation_reports(view)
    pipeline = view.document("pipeline").get("name")
    late = {str(one["label"]): one for one in recent.get("classes") or ()}
    columns = [
        Column("Class", "words"),
        Column("Share"),
        Column("Recall since the start"),
        Column("Recall in the sliding window"),
        Column("Precision since the start"),
        Column("Precision in the sliding window"),
    ]
    known = [one for one in whole.get("classes") or () if one.get("recall")]
    if not known:
        return Table("Classes", columns, [], _WAITING)
    rows: list[list[str | Cell]] = []
    for one in known:
        name = str(one["label"])
        new: Mapping[str, Any] = late.get(name) or {}
        link = page_address("/records", pipeline, true=name)
        rows.append(
            [
                Cell(name, link=link),
                percent_text((one.get("share") or {}).get("value")),
                *(
                    _estimate_cell(part.get(key))
                    for key in ("recall", "precision")
                    for part in (one, new)
                ),
            ]
        )
    newest = [one for one in late.values() if one.get("recall")]
    told = [
        f"{worst['label']} has the lowest recall {when}: {estimate_text(worst['recall'])}."
        for when, found in (
            (_period_text(recent, is_recent=True), newest),
            (_period_text(whole, is_recent=False), known),
        )
        for worst in sorted(found, key=lambda one: float(one["recall"]["value"]))[:1]
    ]
    return Table("Classes", columns, rows, " ".join(told))


def reliability_table(view: StatusSnapshot) -> Table:
    """Build the calibration table: mean predicted probability and accuracy by bin."""
    whole, _ = _evaluation_reports(view)
    bins = [one for one in whole.get("reliability") or () if one.get("records")]
    columns = [
        Column("Probability", "words"),
        Column("Mean probability"),
        Column("Accuracy"),
        Column("Records"),
    ]
    told = [one for one in bins if one.get("accuracy") and one.get("confidence") is not None]
    if not told:
        alone = view.document("recorded").get("labels_alone")
        return Table("Calibration", columns, [], _NO_PROBABILITIES if alone else _WAITING)
    rows: list[list[str | Cell]] = [
        [
            f"{percent_text(one['low'])} to {percent_text(one['high'])}",
            percent_text(one.get("confidence")),
            _estimate_cell(one.get("accuracy")),
            number_text(one["records"]),
        ]
        for one in bins
    ]
    total = sum(one["records"] for one in told)
    away = sum(one["records"] * abs(one["confidence"] - one["accuracy"]["value"]) for one in told)
    more = sum(one["records"] * (one["confidence"] - one["accuracy"]["value"]) for one in told)
    summary = (
        f"Predictions are {'overconfident' if more > 0 else 'underconfident'} on average "
        f"(calibration error {100 * away / total:.1f} points)."
    )
    return Table("Calibration", columns, rows, summary)


def _evaluation_reports(view: StatusSnapshot) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the reports (since the start, recent); empty ones if there are none."""
    found = view.document("evaluation")
    return found.get("since_start") or {}, found.get("recent") or {}


def _metric_at_path(report: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, float] | None:
    """Return the estimate at `path`, the keys of nested reports; None if it is missing."""
    found: Any = report
    for key in path:
        found = (found or {}).get(key)
    return found or None


def _metric_text(estimate: Mapping[str, float] | None, is_plain_number: bool) -> str:
    if estimate is None or not is_plain_number:
        return estimate_text(estimate)
    return f"{estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"


def _estimate_cell(estimate: Mapping[str, float] | None) -> Cell:
    if estimate is None:
        return Cell(NOTHING)
    return Cell(estimate_text(estimate), bar=estimate["value"], colour="series-1")
