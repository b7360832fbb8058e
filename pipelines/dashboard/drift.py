"""Shows feature drift: all features, one in full, and the shifts that matter most."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from streamboost.pipelines.dashboard.charts import Curves, Group, Series
from streamboost.pipelines.dashboard.recall_by_version import RecallChange, right
from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import View, page_of
from streamboost.pipelines.dashboard.widgets import Chart, Tag, show_told
from streamboost.pipelines.status.feature_drift import FOLLOWED, RECORDS, SHIFTED
from streamboost.pipelines.status.formatting import NOTHING, amount, clock, percent, plural
from streamboost.pipelines.status.reader import LabelEvidence

__all__ = [
    "accuracy_since",
    "distribution",
    "ever_shifted",
    "farthest",
    "feature_drift",
    "moved",
    "overview",
    "shifted",
    "shifted_in_words",
    "show_features",
    "tells",
    "unfollowed",
]

NAMED = 5
"""Maximum number of features named in a sentence."""

LITTLE = 0.05
"""Importance below which a feature matters little, or half of an equal share where that is less."""


def shifted(view: View) -> list[str]:
    """Return the shifted features, by PSI times importance, the largest first.

    Until a run has `RECORDS` records, the result of the run before is kept: with fewer records the
    PSI is mostly noise.
    """
    is_told = tells(view)

    def is_shifted(one: Mapping[str, Any]) -> bool:
        known = is_told and (one.get("psi") or 0.0) >= SHIFTED
        return bool(one.get("shifted", known))

    return [str(one["name"]) for one in in_order(view, "psi") if is_shifted(one)]


def tells(view: View) -> bool:
    """Return whether this run has enough records for a PSI (population stability index)."""
    return bool(view.document("features").get("records", RECORDS) >= RECORDS)


def shifted_in_words(view: View) -> str:
    """Describe the `shifted` features, at least one, and which of them have a low importance."""
    names = shifted(view)
    little = [name for name in names if _matters_little(view, name)]
    telling = [name for name in names if name not in little]
    if not telling:
        if len(little) == 1:
            return f"{little[0]} has shifted, which matters little to the committee"
        return f"{len(little)} features have shifted, which matter little to the committee"
    others = plural(len(telling) - 1, "other feature")
    said = f"{telling[0]} and {others} have shifted" if telling[1:] else f"{telling[0]} has shifted"
    if len(little) == 1:
        said += f"; so has {little[0]}, which matters little to the committee"
    elif little:
        said += f"; so have {len(little)} others, which matter little to the committee"
    return said


def _matters_little(view: View, name: str) -> bool:
    shares: Mapping[str, float] = view.document("importances")
    n = len(view.document("features").get("features") or ())
    return bool(shares) and shares.get(name, 0.0) < min(LITTLE, 0.5 / max(n, 1))


def in_order(view: View, key: str) -> list[Mapping[str, Any]]:
    """Sort the features by an index times their importance, the largest first.

    Features with an index below half of `SHIFTED` are sorted by name, as their order is noise.
    """
    shares: Mapping[str, float] = view.document("importances")

    def place(one: Mapping[str, Any]) -> tuple[float, float, str]:
        index, name = one.get(key) or 0.0, str(one["name"])
        moved = index if index >= SHIFTED / 2 else 0.0
        return -moved * (shares.get(name, 0.0) if shares else 1.0), -moved, name

    return sorted(view.document("features").get("features") or (), key=place)


def index_text(index: float) -> str:
    """Format an index with two digits, or with more if rounding would cross a limit.

    >>> index_text(0.2), index_text(0.1996), index_text(0.0999)
    ('0.20', '0.1996', '0.0999')
    """
    for digits in range(2, 6):
        text = f"{index:.{digits}f}"
        if all((float(text) >= limit) == (index >= limit) for limit in (SHIFTED, SHIFTED / 2)):
            break
    return text


def farthest(view: View) -> str:
    """Describe the features that ever shifted: the most important one in full, then the rest."""
    known = [one for one in in_order(view, "peak") if one.get("peak") is not None]
    if not known:
        return "Shown once enough records have arrived to compare them."
    ever = [one for one in known if one.get("began")]
    if not ever:
        most = max(known, key=lambda one: float(one["peak"]))
        peak = f"{index_text(most['peak'])} at {clock(most['peaked'])}"
        return (
            f"No feature has ever counted as shifted ({SHIFTED} or more). The largest PSI since "
            f"the start: {most['name']}, {peak}."
        )
    first, *others = ever
    matters = "had the largest PSI"
    if view.document("importances"):
        matters = "ranks first by largest PSI times importance"
    which = "is the one feature that ever shifted" if not others else matters
    of = f"Of the {len(others) + 1} features that ever shifted, " * bool(others)
    now = "" if first.get("psi") is None else f", and is {index_text(first['psi'])} now"
    said = (
        f"{of}{first['name']} {which}{_weight(view, first)}: its shift began "
        f"{start_of(view, first)}. Its largest PSI was {index_text(first['peak'])}, at "
        f"{clock(first['peaked'])}{now}."
    )
    rest = [f"{one['name']} {start_of(view, one)}{_weight(view, one)}" for one in others[:NAMED]]
    if len(others) > NAMED:
        rest.append(f"{len(others) - NAMED} more")
    return f"{said} The others' began: {'; '.join(rest)}." if rest else said


def ever_shifted(view: View, name: str) -> Mapping[str, Any] | None:
    """Return the data of a feature if it ever counted as shifted, else None."""
    found = view.document("features").get("features") or ()
    return next((one for one in found if one["name"] == name and one.get("began")), None)


def start_of(view: View, one: Mapping[str, Any]) -> str:
    """Describe the estimated start of a feature's shift, or the time of its detection."""
    if not one.get("started"):
        return f"by {clock(one['began'])}"
    records, time = one["started"]
    if view.document("workers"):  # the learner sees only the requested records
        return f"at about {clock(time)}"
    return f"after about {records:,} records, at {clock(time)}"


def _weight(view: View, one: Mapping[str, Any]) -> str:
    """Describe a feature's largest PSI and its importance in the committee."""
    shares: Mapping[str, float] = view.document("importances")
    if not shares:
        return ""
    little = ", which is low" * _matters_little(view, one["name"])
    share = percent(shares.get(one["name"], 0.0))
    return f" (largest PSI {index_text(one['peak'])}, importance {share}{little})"


_ABOUT_SHIFTS = (
    f" A feature counts as shifted at a PSI of {SHIFTED} or more. Detection lags, because the "
    f"window of {RECORDS:,} records still holds old records. The start is estimated as the best "
    f"change point, or as the last time the PSI was below {SHIFTED / 2}, if that is earlier."
)


def show_features(view: View, chosen: str | None, told: Sequence[LabelEvidence] = ()) -> None:
    """Show all features, and one in full: the chosen one or that with the most important shift.

    `told` has the labels as evidence about the versions, in arrival order of the records.
    """
    table = overview(view)
    names = [one["name"] for one in in_order(view, "peak")]
    chosen = chosen if chosen in names else names[0] if names else None
    if table.rows:
        with Tag("section", classes="panel whole", aria_label="Since the start", id="farthest"):
            Tag("p", farthest(view), "summary")
    if chosen is not None and table.rows:
        with Tag("section", classes="panel whole", aria_labelledby="one-title", id="one"):
            Tag("h2", chosen, id="one-title")
            show_told(distribution(view, chosen))
            curves = moved(view, chosen)
            Tag("p", curves.summary, "summary" if curves.times else "summary empty")
            if (one := ever_shifted(view, chosen)) and (said := accuracy_since(one, told)):
                Tag("p", said, "summary")
            if curves.times:
                Chart().show_curves(f"PSI of {chosen}", curves)
    with Tag("section", classes="panel whole", aria_labelledby="every-title", id="every"):
        Tag("h2", "All features", id="every-title")
        Tag("p", f"{_since(view)}{_ABOUT_SHIFTS}{unfollowed(view)}", "about")
        show_told(table)


def _since(view: View) -> str:
    found = view.document("features")
    if not found.get("reference_taken"):
        return "Sorted by PSI times importance."
    then = f"{plural(found['reference_records'], 'record')} up to {clock(found['reference_taken'])}"
    newest = f"The newest {plural(found['records'], 'record')} compared with {then}"
    rule = "the largest PSI since the start times importance"
    return f"{newest}; sorted by {rule}."


def unfollowed(view: View) -> str:
    """Name the fields whose drift is not measured; empty if there are none."""
    known = [str(one["name"]) for one in view.document("features").get("features") or ()]

    def is_followed(field: str) -> bool:
        # A time or a vector has several columns, named after the field.
        begins = (f"{field}: ", f"{field}[")
        return any(name == field or name.startswith(begins) for name in known)

    found = [one for one in view.document("pipeline").get("features") or () if not is_followed(one)]
    if not known or not found:
        return ""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    named = ", ".join(found[:NAMED])
    return f" Drift is not measured for categories and texts: {named}{more}."


def overview(view: View) -> Table:
    """Build the table of all features: PSI now and at most, start of the shift, importance."""
    shares: Mapping[str, float] = view.document("importances")
    columns = [
        Column("Feature", "words"),
        Column("PSI now"),
        Column("Largest PSI"),
        Column("Shift began"),
        Column("Record number"),
        Column("Detected at"),
        Column("Importance"),
        Column("Mean now"),
        Column("Reference mean"),
        Column("Missing now"),
        Column("Missing in reference"),
    ]
    most = max(shares.values(), default=0.0) or 1.0
    rows: Rows = [
        [
            _link(view, one),
            _shift(one.get("psi")),
            _shift(one.get("peak")),
            *_began(view, one),
            Cell(
                percent(shares.get(one["name"], 0.0) if shares else None),
                bar=shares.get(one["name"], 0.0) / most,
                colour="series-1",
            ),
            amount(one.get("mean")),
            amount(one.get("mean_reference")),
            percent(one.get("missing")),
            percent(one.get("missing_reference")),
        ]
        for one in in_order(view, "peak")
    ]
    summary = "" if rows else "Shown once records have arrived."
    return Table("Features", columns, rows, summary)


def _began(view: View, one: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return start, record number and detection time of a feature's first shift, as texts."""
    if one.get("peak") is None:
        return NOTHING, NOTHING, NOTHING
    if not one.get("began"):
        return "never", NOTHING, "never"
    counted = clock(one["began"])
    if not one.get("started"):
        return f"by {counted}", NOTHING, counted
    records, time = one["started"]
    # With distributed scoring, the learner sees only the requested records.
    return clock(time), NOTHING if view.document("workers") else amount(records), counted


def feature_drift(view: View) -> Table:
    """Build the table of each feature's PSI against the reference sample of the committee.

    The order is that of `in_order`.
    """
    found = in_order(view, "psi")
    columns = [
        Column("Feature", "words"),
        Column("PSI"),
        Column("Missing"),
        Column("Missing in reference"),
    ]
    if not any(one.get("psi") is not None for one in found):
        return Table("Feature drift", columns, [], "Shown once enough records have arrived.")
    rows: Rows = [
        [
            _link(view, one),
            _shift(one.get("psi")),
            percent(one.get("missing")),
            percent(one.get("missing_reference")),
        ]
        for one in found
    ]
    few = "" if tells(view) else f"Fewer than {RECORDS:,} records have arrived in this run"
    if shifted(view):
        summary = f"{shifted_in_words(view)}{' in the previous run. ' * bool(few)}{few}."
    elif few:
        summary = f"{few}: differences may be random."
    else:
        summary = f"No feature has shifted: the PSI of all features is below {SHIFTED}."
    return Table("Feature drift", columns, rows, summary)


def _link(view: View, one: Mapping[str, Any]) -> Cell:
    name = view.document("pipeline").get("name")
    return Cell(str(one["name"]), link=page_of("/features", name, feature=one["name"]))


def _shift(index: float | None) -> Cell:
    """Return a cell with a PSI, coloured by its size."""
    if index is None:
        return Cell(NOTHING)
    size = "bad" if index >= SHIFTED else "warn" if index >= SHIFTED / 2 else "good"
    note = {"bad": "shifted: ", "warn": "slightly shifted: ", "good": None}[size]
    return Cell(index_text(index), bar=index / (2 * SHIFTED), colour=size, note=note)


def distribution(view: View, name: str) -> Table:
    """Build the table of a feature's histogram, in the reference sample and now."""
    found = view.document("distributions").get(name)
    columns = [Column("Values", "words"), Column("Reference"), Column("Now")]
    title = f"Distribution of {name}"
    if not found or not sum(found["now"]) or not sum(found["then"]):
        return Table(title, columns, [], "Shown once enough records have arrived.")
    then, now = (_shares(found[key]) for key in ("then", "now"))
    longest = max(*then, *now) or 1.0
    rows: Rows = [
        [
            text,
            Cell(percent(before), bar=before / longest, colour="grey"),
            Cell(percent(after), bar=after / longest, colour="series-1"),
        ]
        for text, before, after in zip(_bins(found["edges"]), then, now, strict=True)
        if before or after or text != "missing"
    ]
    gained = max(range(len(now)), key=lambda i: now[i] - then[i])
    text = list(_bins(found["edges"]))[gained]
    summary = (
        f"Largest increase: {text}, from {percent(then[gained])} to {percent(now[gained])} of "
        "the values."
    )
    return Table(title, columns, rows, summary)


def _shares(counts: Sequence[int]) -> list[float]:
    return [n / sum(counts) for n in counts]


def _bins(edges: Sequence[float]) -> list[str]:
    """Describe the bins; a value equal to an edge is in the bin above."""
    if not edges:
        return ["any", "missing"]
    inner = [f"{amount(a)} to {amount(b)}" for a, b in pairwise(edges)]
    return [f"below {amount(edges[0])}", *inner, f"{amount(edges[-1])} and more", "missing"]


def moved(view: View, name: str) -> Curves:
    """Build the curve of a feature's PSI over time, with the drift detections."""
    points = [point for point in view.points if point.get("psi")]
    values = [point["psi"].get(name) for point in points]
    if not any(value is not None for value in values):
        return Curves(f"PSI over time is shown for the {FOLLOWED} features with the largest PSI.")
    last = next(value for value in reversed(values) if value is not None)
    times = [int(point["time"]) for point in points]
    drifts = [int(mark["time"]) for mark in view.marks if mark["kind"] == "drift"]
    groups = [Group("drift", drifts, "bad")] if drifts else []
    one = ever_shifted(view, name)
    began = None if one is None else int(one["began"])
    summary = f"PSI {index_text(last)} now: {_when(times, values, began)}."
    if None in values:
        summary += f" In gaps of the curve, {FOLLOWED} other features had a larger PSI."
    if one is not None:
        summary += f" Its first shift began {start_of(view, one)}."
    return Curves(summary, "count", times, (Series("PSI", values, "series-1"),), groups)


def _when(times: Sequence[int], values: Sequence[float | None], began: int | None) -> str:
    """Describe since when a feature is shifted, or that it is not.

    `began` is the time of the first detection; the curve has only some of the times.
    """
    known = [(time, value) for time, value in zip(times, values, strict=True) if value is not None]
    since = None
    for time, value in known:
        since = (since or time) if value >= SHIFTED else None
    if since is not None:
        if began is not None:
            calm = [time for time, value in known if value < SHIFTED and time > began]
            if calm:
                return f"counts as shifted ({SHIFTED} or more) again since {clock(since)}"
            since = began
        return f"counts as shifted ({SHIFTED} or more) since {clock(since)}"
    time, most = max(known, key=lambda one: one[1])
    standing = "no longer shifted" if most >= SHIFTED or began is not None else "not shifted"
    far = f"largest PSI {index_text(most)} at {clock(time)}"
    return f"{standing} ({SHIFTED} or more); {far}"


def accuracy_since(one: Mapping[str, Any], told: Sequence[LabelEvidence]) -> str:
    """Compare the accuracy since a feature's shift began with that before; empty: no labels.

    The labelled records since then are compared with as many before.
    """
    began = (one.get("started") or (0, one["began"]))[1]
    later = [found for found in told if found.arrived >= began]
    earlier = [found for found in told if found.arrived < began][-len(later) :] if later else []
    now, was = right(later), right(earlier)
    change = RecallChange("Accuracy", was, now)
    if now is None or was is None or change.ends is None:
        return ""
    figures = f"Accuracy since then: {now.text}; before: {was.text}; undisputed labels only"
    if change.is_open:
        return f"{figures}. {'Undecided: too few labels' if change.is_of_few else 'Undecided'}."
    low, high = change.ends
    if low <= 0 <= high:
        return f"{figures}: no significant change."
    if not change.fell:
        return f"{figures}: a significant increase."
    return f"{figures}: a significant decrease, by this shift or another cause."
