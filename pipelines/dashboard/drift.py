"""Feature drift page: a table of all features, the details of one, and summaries of shifts."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from streamboost.pipelines.dashboard.charts import Curves, EventGroup, Series
from streamboost.pipelines.dashboard.drift_effect import TOLERATED, ShiftEffect, has_low_importance
from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import (
    Chart,
    Tag,
    add_heading,
    show_summary_and_table,
)
from streamboost.pipelines.status.feature_drift import FOLLOWED, RECORDS, SHIFTED
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    number_text,
    percent_text,
    time_text,
)

JUDGED = 20
"""Maximum number of features whose effect is in the table: each needs a pass over the labels."""

NAMED = 5
"""Maximum number of features named in a sentence."""

LINKED = 8
"""Maximum number of features with a link above the details of one, without the current one."""


def shifted_features(view: StatusSnapshot) -> list[str]:
    """Return the names of shifted features, the largest PSI times importance first.

    Until a run has `RECORDS` records, the result is that of the previous run, as the PSI of fewer
    records is mostly noise.
    """
    is_told = has_enough_records(view)

    def is_shifted(feature: Mapping[str, Any]) -> bool:
        known = is_told and (feature.get("psi") or 0.0) >= SHIFTED
        return bool(feature.get("shifted", known))

    return [str(one["name"]) for one in sort_features_by_shift(view, "psi") if is_shifted(one)]


def has_enough_records(view: StatusSnapshot) -> bool:
    """Return whether this run has enough records for a PSI (population stability index)."""
    return bool(view.document("features").get("records", RECORDS) >= RECORDS)


def drift_tile_texts(view: StatusSnapshot) -> tuple[str, str]:
    """Return the number of shifted features, and the feature with the largest PSI, as texts."""
    names, known = shifted_features(view), view.document("features").get("features") or ()
    known = [one for one in known if one.get("psi") is not None]
    if names and not known:
        return number_text(len(names)), "shifted in the previous run"
    if not known or not (names or has_enough_records(view)):
        return NOTHING, "too few records"
    if names and (feature := find_shifted_feature(view, names[0])):
        effect = ShiftEffect.from_view(view, feature)
        return number_text(len(names)), f"shifted; {effect.notice(names[0])}"
    most = max(known, key=lambda one: float(one["psi"]))
    return number_text(len(names)), f"shifted; largest PSI: {psi_text(most['psi'])}, {most['name']}"


def shift_summary(view: StatusSnapshot) -> str:
    """Describe the shifted features and their importance. Needs at least one shifted feature."""
    names = shifted_features(view)
    little = [name for name in names if has_low_importance(view, name)]
    telling = [name for name in names if name not in little]
    if not telling:
        if len(little) == 1:
            return f"{little[0]} has shifted; its importance in the committee is low"
        return f"{len(little)} features have shifted; their importance in the committee is low"
    others = count_text(len(telling) - 1, "other feature")
    said = f"{telling[0]} and {others} have shifted" if telling[1:] else f"{telling[0]} has shifted"
    if len(little) == 1:
        said += f"; {little[0]} has shifted too, with a low importance in the committee"
    elif little:
        said += f"; {len(little)} others have shifted too, with a low importance in the committee"
    return said


def shift_notice(view: StatusSnapshot) -> str:
    """Say whether the shift of the first feature matters. Needs at least one shifted feature."""
    first, *others = shifted_features(view)
    feature = find_shifted_feature(view, first)
    if feature is None or has_low_importance(view, first):
        return shift_summary(view)
    more = f" and {count_text(len(others), 'other feature')}" if others else ""
    have = "have" if others else "has"
    return f"{first}{more} {have} shifted; {ShiftEffect.from_view(view, feature).notice(first)}"


def sort_features_by_shift(view: StatusSnapshot, key: str) -> list[Mapping[str, Any]]:
    """Return the statistics of all features, sorted by PSI times importance, the largest first.

    `key` selects the PSI: "psi" is the current one, "peak" the largest since the start. Shifted
    features with a low importance follow the other shifted ones. Features with a PSI below half of
    `SHIFTED` are sorted by name, as their order is noise.
    """
    shares: Mapping[str, float] = view.document("importances")

    def sort_key(feature: Mapping[str, Any]) -> tuple[bool, float, float, str]:
        index, name = feature.get(key) or 0.0, str(feature["name"])
        moved = index if index >= SHIFTED / 2 else 0.0
        matters = index >= SHIFTED and not has_low_importance(view, name)
        return not matters, -moved * (shares.get(name, 0.0) if shares else 1.0), -moved, name

    return sorted(view.document("features").get("features") or (), key=sort_key)


def psi_text(psi: float) -> str:
    """Format a PSI with two decimals, or with more if rounding would cross a drift limit.

    >>> psi_text(0.2), psi_text(0.1996), psi_text(0.0999)
    ('0.20', '0.1996', '0.0999')
    """
    for digits in range(2, 6):
        text = f"{psi:.{digits}f}"
        if all((float(text) >= limit) == (psi >= limit) for limit in (SHIFTED, SHIFTED / 2)):
            break
    return text


def largest_shift_text(view: StatusSnapshot) -> str:
    """Describe the most important shift since the start: its feature, start and largest PSI."""
    known = [one for one in sort_features_by_shift(view, "peak") if one.get("peak") is not None]
    if not known:
        return "Shown once enough records have arrived to compare them."
    ever = [one for one in known if one.get("began")]
    if not ever:
        most = max(known, key=lambda one: float(one["peak"]))
        peak = f"{psi_text(most['peak'])} at {time_text(most['peaked'])}"
        return (
            f"No feature has ever counted as shifted ({SHIFTED} or more). The largest PSI since "
            f"the start: {most['name']}, {peak}."
        )
    first = ever[0]
    return (
        f"{first['name']} shifted {shift_start_text(view, first)}; its largest PSI was "
        f"{psi_text(first['peak'])}, at {time_text(first['peaked'])}."
    )


def find_shifted_feature(view: StatusSnapshot, feature: str) -> Mapping[str, Any] | None:
    """Return the drift statistics of a feature; None if it never counted as shifted."""
    found = view.document("features").get("features") or ()
    return next((entry for entry in found if entry["name"] == feature and entry.get("began")), None)


def shift_start_text(view: StatusSnapshot, feature: Mapping[str, Any]) -> str:
    """Say when a feature's shift started; if that is unknown, when it was detected."""
    if not feature.get("started"):
        return f"before {time_text(feature['began'])}"
    records, time = feature["started"]
    if view.document("workers"):  # the learner sees only the requested records
        return f"at about {time_text(time)}"
    return f"after about {records:,} records, at {time_text(time)}"


ABOUT_SHIFTS = (
    "Population stability index (PSI) of the newest records against reference records. A feature "
    f"counts as shifted at a PSI of {SHIFTED} or more. Detection lags, because the window of "
    f"{RECORDS:,} records still holds old records. The start is estimated as the best change "
    f"point, or as the last time the PSI was below {SHIFTED / 2}, if that is earlier."
)


ABOUT_EFFECT = (
    "The shift matters if the accuracy fell significantly since it began, and the importance is "
    "not low. Compared are the labelled records since then with as many before, by inverse "
    "inclusion probability, without disputed labels and annotators that are left out, with 95 % "
    f"intervals. Unclear: the accuracy may have fallen by more than {100 * TOLERATED:.0f} points."
)


def show_features(view: StatusSnapshot, chosen_feature: str | None) -> None:
    """Show the details of `chosen_feature`, such as the effect of its shift on the accuracy.

    If it is None or not known, the feature with the largest PSI times importance is shown.
    """
    names = [str(one["name"]) for one in sort_features_by_shift(view, "peak")]
    if not names:
        Tag("p", "Shown once records have arrived.", "summary empty")
        return
    name = chosen_feature if chosen_feature in names else names[0]
    _add_feature_links(view, names, name)
    with Tag("section", classes="panel whole", aria_labelledby="one-title", id="one"):
        add_heading(name, "one-title", ABOUT_EFFECT)
        curves = psi_curves(view, name)
        Tag("p", curves.summary, "summary" if curves.times else "summary empty")
        if one := find_shifted_feature(view, name):
            _show_effect(view, one)
        if curves.times:
            Tag("h3", "PSI over time")
            Chart().show_curves(f"PSI of {name}", curves)
        show_summary_and_table(distribution_table(view, name))


def _show_effect(view: StatusSnapshot, feature: Mapping[str, Any]) -> None:
    """Show as labels and values whether a shift matters. `feature` are the feature's statistics."""
    effect = ShiftEffect.from_view(view, feature)
    change = effect.change
    shown = {
        "Does the shift matter?": effect.text,
        "Shift began": shift_start_text(view, feature),
        "Importance": effect.importance_text,
        "Accuracy before": NOTHING if change.before is None else change.before.text,
        "Accuracy since": NOTHING if change.after is None else change.after.text,
    }
    with Tag("dl", classes="fields"):
        for label, value in shown.items():
            with Tag("div"):
                Tag("dt", label)
                Tag("dd", value)


def _add_feature_links(view: StatusSnapshot, names: Sequence[str], current_name: str) -> None:
    """Add links to the first of the features `names`, the current one, and the table of all."""
    pipeline = view.document("pipeline").get("name")
    with Tag("ul", classes="filters", aria_label="Features"):
        for name in dict.fromkeys((*names[:LINKED], current_name)):
            current = {"aria_current": "page"} if name == current_name else {}
            with (
                Tag("li"),
                Tag("a", href=page_address("/features", pipeline, feature=name), **current),
            ):
                Tag("bdi", name)
        with Tag("li"):
            Tag(
                "a",
                f"All {count_text(len(names), 'feature')}",
                href=page_address("/drift", pipeline),
            )


def _compared_samples_text(view: StatusSnapshot) -> str:
    found = view.document("features")
    if not found.get("reference_taken"):
        return ""
    taken = time_text(found["reference_taken"])
    then = f"{count_text(found['reference_records'], 'record')} up to {taken}"
    return f" The newest {count_text(found['records'], 'record')} are compared with {then}."


def unmeasured_fields_text(view: StatusSnapshot) -> str:
    """Name the fields without a drift measurement, in a sentence; empty if there are none."""
    known = [str(one["name"]) for one in view.document("features").get("features") or ()]

    def is_measured(field: str) -> bool:
        # A time or a vector has several columns, named after the field.
        begins = (f"{field}: ", f"{field}[")
        return any(name == field or name.startswith(begins) for name in known)

    found = [one for one in view.document("pipeline").get("features") or () if not is_measured(one)]
    if not known or not found:
        return ""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    named = ", ".join(found[:NAMED])
    return f" Drift is not measured for categories and texts: {named}{more}."


def feature_drift_table(view: StatusSnapshot) -> Table:
    """Build the table of all features: effect and start of the shift, PSI, importance.

    The order is that of `sort_features_by_shift`.
    """
    found = sort_features_by_shift(view, "psi")
    shares: Mapping[str, float] = view.document("importances")
    columns = [
        Column("Feature", "words"),
        Column("Does the shift matter?", "words"),
        Column("PSI"),
        Column("Largest PSI"),
        Column("Shift began"),
        Column("Detected at"),
        Column("Importance"),
        Column("Mean (reference)"),
        Column("Missing (reference)"),
    ]
    if not any(one.get(key) is not None for one in found for key in ("psi", "peak")):
        return Table("Feature drift", columns, [], "Shown once enough records have arrived.")
    most = max(shares.values(), default=0.0) or 1.0
    largest = max(2 * SHIFTED, *(one.get("psi") or 0.0 for one in found))
    rows: Rows = [
        [
            _feature_link_cell(view, one),
            _effect_text(view, one) if i < JUDGED else NOTHING,
            _psi_cell(one.get("psi"), largest),
            NOTHING if one.get("peak") is None else psi_text(one["peak"]),
            *_first_shift_texts(one),
            Cell(
                percent_text(shares.get(one["name"], 0.0) if shares else None),
                bar=shares.get(one["name"], 0.0) / most,
                colour="series-1",
            ),
            *(
                f"{text(one.get(key))} ({text(one.get(f'{key}_reference'))})"
                for key, text in (("mean", number_text), ("missing", percent_text))
            ),
        ]
        for i, one in enumerate(found)
    ]
    few = f"Fewer than {RECORDS:,} records have arrived in this run" * (
        not has_enough_records(view)
    )
    if shifted_features(view):
        summary = f"{shift_summary(view)}{' in the previous run. ' * bool(few)}{few}."
    elif few:
        summary = f"{few}: differences may be random."
    else:
        summary = f"No feature has shifted: the PSI of all features is below {SHIFTED}."
    if any(one.get("began") for one in found):
        summary += f" {largest_shift_text(view)}"
    summary += f"{_compared_samples_text(view)}{unmeasured_fields_text(view)}"
    return Table("Feature drift", columns, rows, summary)


def _effect_text(view: StatusSnapshot, feature: Mapping[str, Any]) -> str:
    """Return a text on whether a feature's shift matters; a dash if it never shifted."""
    return ShiftEffect.from_view(view, feature).text if feature.get("began") else NOTHING


def _first_shift_texts(feature: Mapping[str, Any]) -> tuple[str, str]:
    """Return the texts of start and detection time of a feature's first shift."""
    if feature.get("peak") is None:
        return NOTHING, NOTHING
    if not feature.get("began"):
        return "never", "never"
    counted = time_text(feature["began"])
    if not feature.get("started"):
        return f"before {counted}", counted
    return time_text(feature["started"][1]), counted


def _feature_link_cell(view: StatusSnapshot, feature: Mapping[str, Any]) -> Cell:
    name = view.document("pipeline").get("name")
    return Cell(str(feature["name"]), link=page_address("/features", name, feature=feature["name"]))


def _psi_cell(psi: float | None, largest: float) -> Cell:
    """Return a cell with a PSI, coloured by its size; the bar of a PSI of `largest` is full."""
    if psi is None:
        return Cell(NOTHING)
    size = "bad" if psi >= SHIFTED else "warn" if psi >= SHIFTED / 2 else "good"
    note = {"bad": "shifted: ", "warn": "slightly shifted: ", "good": None}[size]
    return Cell(psi_text(psi), bar=psi / largest, colour=size, note=note)


def distribution_table(view: StatusSnapshot, feature: str) -> Table:
    """Build the table of a feature's histogram in the reference sample and in recent records."""
    found = view.document("distributions").get(feature)
    columns = [Column("Values", "words"), Column("Reference"), Column("Now")]
    title = f"Distribution of {feature}"
    if not found or not sum(found["now"]) or not sum(found["then"]):
        return Table(title, columns, [], "Shown once enough records have arrived.")
    then, now = ([n / sum(found[key]) for n in found[key]] for key in ("then", "now"))
    rows: Rows = [
        [
            text,
            Cell(percent_text(before), bar=before, colour="grey"),
            Cell(percent_text(after), bar=after, colour="series-1"),
        ]
        for text, before, after in zip(_bin_labels(found["edges"]), then, now, strict=True)
        if before or after or text != "missing"
    ]
    gained = max(range(len(now)), key=lambda i: now[i] - then[i])
    text = list(_bin_labels(found["edges"]))[gained]
    change = f"from {percent_text(then[gained])} to {percent_text(now[gained])} of the values"
    summary = f"Largest increase: {text}, {change}."
    return Table(title, columns, rows, summary)


def _bin_labels(edges: Sequence[float]) -> list[str]:
    """Return a label for each histogram bin; a value equal to an edge is in the bin above."""
    if not edges:
        return ["any", "missing"]
    inner = [f"{number_text(a)} to {number_text(b)}" for a, b in pairwise(edges)]
    return [
        f"below {number_text(edges[0])}",
        *inner,
        f"{number_text(edges[-1])} and more",
        "missing",
    ]


def psi_curves(view: StatusSnapshot, feature: str) -> Curves:
    """Build the curve of a feature's PSI over time, with the drift detections."""
    points = [point for point in view.points if point.get("psi")]
    values = [point["psi"].get(feature) for point in points]
    if not any(value is not None for value in values):
        return Curves(f"PSI over time is shown for the {FOLLOWED} features with the largest PSI.")
    last = next(value for value in reversed(values) if value is not None)
    times = [int(point["time"]) for point in points]
    drifts = [int(mark["time"]) for mark in view.marks if mark["kind"] == "drift"]
    groups = [EventGroup("drift", drifts, "bad")] if drifts else []
    one = find_shifted_feature(view, feature)
    began = None if one is None else int(one["began"])
    summary = f"PSI {psi_text(last)} now: {_shift_state_text(times, values, began)}."
    if None in values:
        summary += f" In gaps of the curve, {FOLLOWED} other features had a larger PSI."
    if one is not None:
        summary += f" Its first shift began {shift_start_text(view, one)}."
    series = (
        Series("PSI", values, "series-1"),
        Series(f"shifted from {SHIFTED}", [SHIFTED] * len(times), "grey", dash="dashed"),
    )
    return Curves(summary, "count", times, series, groups)


def _shift_state_text(
    times: Sequence[int], values: Sequence[float | None], first_detected: int | None
) -> str:
    """Describe whether a feature is shifted now and since when, from its PSI `values`.

    `times` belong to `values`. `first_detected` is the time at which the feature first counted as
    shifted, which can be between two of the `times`; None if it never did.
    """
    known = [(time, value) for time, value in zip(times, values, strict=True) if value is not None]
    since = None
    for time, value in known:
        since = (since or time) if value >= SHIFTED else None
    if since is not None:
        if first_detected is not None:
            calm = [time for time, value in known if value < SHIFTED and time > first_detected]
            if calm:
                return f"counts as shifted ({SHIFTED} or more) again since {time_text(since)}"
            since = first_detected
        return f"counts as shifted ({SHIFTED} or more) since {time_text(since)}"
    time, most = max(known, key=lambda one: one[1])
    standing = (
        "no longer shifted" if most >= SHIFTED or first_detected is not None else "not shifted"
    )
    far = f"largest PSI {psi_text(most)} at {time_text(time)}"
    return f"{standing} ({SHIFTED} or more); {far}"
