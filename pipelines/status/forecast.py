"""Texts of a forecast of the accuracy over labels, equal in commands and on pages."""

from collections.abc import Iterator, Mapping
from typing import Any

from streamboost.evaluation.learning_curve import FEWEST_LABELS, MOST_RECORDS_PER_LABEL, STEPS
from streamboost.pipelines.status.formatting import (
    count_text,
    estimate_text,
    gain_text,
    percent_text,
)

__all__ = ["forecast_lines", "target_lines"]

_DAY = 86_400.0


def forecast_lines(
    forecast: Mapping[str, Any], report: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """Yield sentences about a forecast (`Forecast` as a mapping), or why there is none.

    `report` is the report of the sliding window, for the most frequent error.
    """
    if not forecast and (names := (report or {}).get("left_out")):
        named = ", ".join(names)
        yield f"No forecast while the labels of {named} are left out of the accuracy."
        yield "They disagree with the predictions more often than the others'."
        return
    if not forecast:
        share = f"at least one for every {MOST_RECORDS_PER_LABEL} records"
        yield f"No forecast yet: it needs {FEWEST_LABELS} labels, and {share}."
        yield "Predictions of another system (`prediction_field`) have no forecast."
        return
    if not forecast["steps"]:
        n = count_text(forecast["n_missing_labels"], "more label")
        yield f"Inconclusive: about {n} are needed for a forecast."
    for step in forecast["steps"]:
        text = f"{gain_text(step['gain'])}; accuracy {estimate_text(step['accuracy'])}"
        yield f"{count_text(step['labels'], 'more label')}: {text}."
    yield from target_lines(forecast, report)


def target_lines(
    forecast: Mapping[str, Any],
    report: Mapping[str, Any] | None = None,
    seconds_per_label: float | None = None,
) -> Iterator[str]:
    """Yield sentences about missing steps, and when more labels reach the next round accuracies.

    With `seconds_per_label`, the duration is given in days, else in records, at the present budget.
    """
    shown = {one["labels"] for one in forecast["steps"]}
    for n in [n for n in STEPS if shown and n not in shown]:
        missing = "inconclusive" if n <= forecast["labels"] else f"shown from {n:,} labels on"
        yield f"{count_text(n, 'more label')}: {missing}."
    targets = [one for one in forecast["targets"] if one["labels"] is not None]
    for one in targets:
        labels = one["labels"]
        if seconds_per_label is None:
            cost = f"{_round(labels * forecast['records_per_label']):,} records"
        else:
            cost = count_text(round(labels * seconds_per_label / _DAY, 1), "day")
        high = "or more" if one["high"] is None else f"to {_round(one['high']):,}"
        span = f"{_round(one['low']):,} {high}"
        yield (
            f"{percent_text(one['accuracy'])} is reached after about {_round(labels):,} more "
            f"labels ({span}), in {cost}."
        )
    missed = [one["accuracy"] for one in forecast["targets"] if one["labels"] is None]
    if missed:
        if missed[0] <= forecast["ceiling"]:
            yield f"{percent_text(missed[0])} is uncertain even with ten times the labels."
        ceiling = percent_text(forecast["ceiling"])
        yield f"More labels will probably not raise the accuracy above {ceiling}."
        if error := _most_frequent_error(report or {}):
            yield f"The most frequent error: {error}."


def _round(value: float) -> int:
    return int(float(f"{value:.2g}"))


def _most_frequent_error(report: Mapping[str, Any]) -> str | None:
    cells, classes = report.get("confusion") or (), report.get("classes") or ()
    errors = {
        (i, j): max(n, 0.0) for i, row in enumerate(cells) for j, n in enumerate(row) if i != j
    }
    total = sum(errors.values())
    if not total:
        return None
    (i, j), n = max(errors.items(), key=lambda one: one[1])
    predicted, true = classes[i]["label"], classes[j]["label"]
    return f"{true} predicted as {predicted} ({n / total:.0%} of the errors)"
