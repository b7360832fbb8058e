"""Texts of a forecast of the accuracy over labels, equal in commands and on pages."""

from collections.abc import Iterator, Mapping
from typing import Any

from streamboost.evaluation.learning_curve import (
    FEWEST_LABELS,
    MOST_RECORDS_PER_LABEL,
    STEPS,
    WIDEST,
)
from streamboost.pipelines.status.formatting import (
    count_text,
    estimate_text,
    gain_text,
    percent_text,
)

_DAY = 86_400.0

_INCONCLUSIVE = f"inconclusive, as the interval is wider than {100 * WIDEST:.0f} points"


def forecast_lines(
    forecast: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None = None,
    *,
    is_recorded: bool = False,
) -> Iterator[str]:
    """Yield sentences about a forecast (`Forecast` as a mapping), or why there is none.

    `evaluation` has the reports since the start and of the sliding window (`Evaluation.to_json`).
    `is_recorded` means that another system makes the predictions.
    """
    if not forecast:
        yield _missing_forecast_text(evaluation or {}, is_recorded=is_recorded)
        return
    if not forecast["steps"]:
        n = count_text(forecast["n_missing_labels"], "more label")
        yield f"Inconclusive: about {n} are needed for a forecast."
    for step in forecast["steps"]:
        text = f"{gain_text(step['gain'])}; accuracy {estimate_text(step['accuracy'])}"
        yield f"{count_text(step['labels'], 'more label')}: {text}."
    for labels, missing in missing_steps(forecast):
        yield f"{count_text(labels, 'more label')}: {missing}."
    yield from target_lines(forecast, evaluation)


def missing_steps(forecast: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the numbers of further labels without a forecast, each with the reason.

    Empty if there is no step at all.
    """
    shown = {one["labels"] for one in forecast["steps"]}
    return [
        (n, _INCONCLUSIVE if n <= forecast["labels"] else f"shown from {n:,} labels on")
        for n in STEPS
        if shown and n not in shown
    ]


def _missing_forecast_text(evaluation: Mapping[str, Any], *, is_recorded: bool) -> str:
    """Say in a sentence why there is no forecast, and how many labels are missing."""
    if is_recorded:
        return "No forecast: labels do not change the predictions of another system."
    whole, recent = (evaluation.get(part) or {} for part in ("since_start", "recent"))
    names = ", ".join(whole.get("left_out") or ())
    whose = f" by other annotators than {names}" if names else ""
    if not whole:
        share = f"at least one for every {MOST_RECORDS_PER_LABEL} records"
        return f"No forecast yet: it needs {FEWEST_LABELS} labels, and {share}."
    missing = FEWEST_LABELS - (whole.get("answered") or 0)
    if missing > 0:
        more = count_text(missing, "more label")
        return f"No forecast yet: it needs {FEWEST_LABELS} labels{whose}, about {more}."
    density = (recent.get("records") or 0) / max(recent.get("answered") or 0, 1)
    if density > MOST_RECORDS_PER_LABEL:
        return (
            f"No forecast: it needs a label{whose} for every {MOST_RECORDS_PER_LABEL} records. "
            f"There is one for every {density:.0f}."
        )
    return f"No forecast yet: about 100 more labels{whose} are needed."


def target_lines(
    forecast: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None = None,
    seconds_per_label: float | None = None,
) -> Iterator[str]:
    """Yield sentences about when more labels reach the next round accuracies.

    The last sentence names the annotators that are left out of the accuracy. With
    `seconds_per_label`, the duration is given in days, else in records, at the present budget.
    """
    report = (evaluation or {}).get("recent") or {}
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
        uncertain = [one for one in missed if one <= forecast["ceiling"]]
        ceiling = percent_text(forecast["ceiling"])
        if uncertain:
            yield f"{percent_text(uncertain[0])} is uncertain even with ten times the labels."
        if len(uncertain) < len(missed):
            highest = percent_text(missed[-1])
            yield f"{highest} will probably not be reached: more labels give {ceiling} at most."
        else:
            yield f"More labels will probably not raise the accuracy above {ceiling}."
        if error := _most_frequent_error(report):
            yield f"The most frequent error: {error}."
    if names := report.get("left_out"):
        yield (
            f"The accuracy does not use the labels of {', '.join(names)}. Numbers of further "
            "labels include these."
        )


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
