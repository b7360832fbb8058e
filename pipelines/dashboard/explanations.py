"""Explains a prediction by the contribution of each feature."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.dashboard.drift import find_shifted_feature
from streamboost.pipelines.dashboard.labelling_request import UNTOLD
from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.status.feature_drift import RECORDS
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    field_text,
    number_text,
    percent_text,
)

StoredRecord = Mapping[str, Any]

LONGEST = 40
"""Maximum number of characters of a value in a table."""

_ABOUT = (
    "SHAP values of the committee's scores: + favours the class, - opposes it. Mean ± SD: mean and "
    f"standard deviation over the newest {RECORDS:,} records at most."
)


def explanation_summary(view: StatusSnapshot) -> str:
    """Describe the columns of SHAP values, and the committee's weight among the experts."""
    weight = view.document("experts").get("committee")
    if weight is None:
        return _ABOUT
    return (
        f"{_ABOUT} Other experts are not included: the committee has {percent_text(weight)} of the "
        "weight now."
    )


def contrast_class(explanation: Mapping[str, Any], label: str, true_class: Any) -> str | None:
    """Return the class to compare `label` with; None if there is no other class.

    The result is the true class if that differs from `label`, otherwise the likeliest other class.
    """
    rest = [name for name in explanation["classes"] if name != label]
    return true_class if true_class in rest else rest[0] if rest else None


def contrast_contributions(
    explanation: Mapping[str, Any], label: str, rival: str | None
) -> list[tuple[str, float]]:
    """Return (feature, contribution to class `label` minus that to `rival`), largest first.

    If `rival` is None, nothing is subtracted.

    >>> why = {"classes": ["a", "b"], "features": [["x", 2.0, 1.5], ["y", 1.0, -0.5]]}
    >>> contrast_contributions(why, "a", "b"), contrast_contributions(why, "a", None)
    ([('y', 1.5), ('x', 0.5)], [('x', 2.0), ('y', 1.0)])
    """
    own = 1 + explanation["classes"].index(label)
    other = None if rival is None else 1 + explanation["classes"].index(rival)
    found = [
        (str(row[0]), row[own] - (0.0 if other is None else row[other]))
        for row in explanation["features"]
    ]
    return sorted(found, key=lambda one: -one[1])


def contribution_table(record: StoredRecord, view: StatusSnapshot) -> Table:
    """Build the table of SHAP values for the predicted class and the class compared with it."""
    why = record.get("why")
    if not why:
        return Table("Why this prediction", [], [], _missing_explanation_text(record))
    classes = list(why["classes"])
    first = str(record.get("label")) if str(record.get("label")) in classes else classes[0]
    rival = contrast_class(why, first, record.get("truth"))
    sides = [first] if rival is None else [first, rival]
    places = [1 + classes.index(name) for name in sides]
    given, then = record.get("features") or {}, record.get("usual")
    usual = _recent_means_and_deviations(view) if then is None else then
    most = max((abs(row[p]) for row in why["features"] for p in places), default=0.0) or 1.0
    columns = [
        Column("Feature", "words"),
        Column("Value"),
        Column("Mean ± SD now" if then is None else "Mean ± SD on arrival"),
        *(Column(f"For {name}") for name in sides),
    ]
    apart = contrast_contributions(why, first, rival)
    by_name = {str(row[0]): row for row in why["features"]}
    rows: list[list[str | Cell]] = [
        [
            _feature_name_cell(name, view),
            # A column that is derived from a text has no value among the fields.
            field_text(given[name])[:LONGEST] if name in given else NOTHING,
            _mean_and_deviation_text(usual.get(name)),
            *(_contribution_cell(by_name[name][p], most) for p in places),
        ]
        for name, _ in sorted(apart, key=lambda one: -abs(one[1]))
    ]
    for name, values in _summed_and_base_contributions(why):
        rows.append([name, "", "", *(_contribution_cell(values[p - 1], most) for p in places)])
    said = _main_contributions_text(apart, first, rival)
    told = _committee_prediction_text(why, first, view)
    told += _shifted_features_text(record, list(by_name), view)
    return Table("Why this prediction", columns, rows, f"{said}{told}")


def _summed_and_base_contributions(
    explanation: Mapping[str, Any],
) -> list[tuple[str, list[float]]]:
    """Return (name, contribution to each class) of the other features, summed, and of the base."""
    n = explanation["n_others"]
    summed = [(f"{count_text(n, 'other')}, summed", explanation["others"])] if n else []
    return [*summed, ("base score", explanation["base"])]


def _missing_explanation_text(record: StoredRecord) -> str:
    if record.get(HIDDEN):
        return UNTOLD
    if not record.get("asked"):
        return "Kept for requested records only."
    if not record.get("version"):
        return "It was predicted, but not by a trained version."
    if "why" in record:
        return "Not available: the committee is not a tree model."
    return (
        "No explanation: there were too many requests at that moment to compute all explanations "
        "in time."
    )


def _main_contributions_text(
    contrasts: list[tuple[str, float]], label: str, rival: str | None
) -> str:
    spoke = [f"{name} ({by:+.2f})" for name, by in contrasts[:3] if by > 0]
    against = [f"{name} ({by:+.2f})" for name, by in contrasts[:-3:-1] if by < 0]
    for_what = label if rival is None else f"{label} over {rival}"
    text = f"Main reasons for {for_what}: {', '.join(spoke) or 'none'}"
    return f"{text}. Against: {', '.join(against) or 'none'}."


def _committee_prediction_text(
    explanation: Mapping[str, Any], label: str, view: StatusSnapshot
) -> str:
    """Describe the prediction of the committee alone; empty if there are no other experts."""
    if not view.document("experts"):
        return ""
    parts = zip(*(row[1:] for row in explanation["features"]), strict=True)
    named = [sum(part) for part in parts] or [0.0] * len(explanation["classes"])
    scores = [
        sum(one) for one in zip(named, explanation["others"], explanation["base"], strict=True)
    ]
    own = explanation["classes"][scores.index(max(scores))]
    if own == label:
        return f" Committee alone: {own}."
    return f" Committee alone: {own}, outweighed by other experts."


def _contribution_cell(value: float, maximum: float) -> Cell:
    colour = "series-1" if value >= 0 else "bad"
    return Cell(f"{value:+.2f}", bar=abs(value) / maximum, colour=colour)


def _mean_and_deviation_text(statistics: Sequence[float | None] | None) -> str:
    if not statistics or statistics[0] is None:
        return NOTHING
    mean, deviation = (None if part is None else float(f"{part:.3g}") for part in statistics)
    return f"{number_text(mean)}\u00a0± {number_text(deviation)}"  # a phone may break it here


def _recent_means_and_deviations(view: StatusSnapshot) -> dict[str, Sequence[float | None]]:
    """Map each feature to its mean and standard deviation in the newest records."""
    found = view.document("features").get("features") or ()
    return {one["name"]: (one.get("mean"), one.get("deviation")) for one in found}


def _feature_name_cell(name: str, view: StatusSnapshot) -> str | Cell:
    """Return the table cell with a feature's name, as a link to its drift if it ever shifted."""
    if not find_shifted_feature(view, name):
        return name
    link = page_address("/features", view.document("pipeline").get("name"), feature=name)
    return Cell(name, link=link)


def _shifted_features_text(record: StoredRecord, names: Sequence[str], view: StatusSnapshot) -> str:
    """Say which of the features `names` shifted before, and which after, the record arrived."""
    came = record.get("arrived") or 0
    told: dict[str, list[str]] = {}
    for name in names:
        if one := find_shifted_feature(view, name):
            had = (one.get("started") or (0, one["began"]))[1] <= came
            told.setdefault(
                "before the record arrived" if had else "after the record arrived", []
            ).append(name)
    return "".join(f" {', '.join(those)} shifted {when}." for when, those in told.items())
