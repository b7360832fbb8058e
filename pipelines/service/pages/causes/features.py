"""The features: how each falls now and fell then, how far that moved, and what hangs on it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from streamboost.pipelines.service.pages.charts import Curves, Group, Series
from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Chart, Tag, show_told
from streamboost.pipelines.status.feature_drift import FOLLOWED, SHIFTED
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, plural

__all__ = ["distribution", "feature_drift", "moved", "overview", "show_features", "unfollowed"]

NAMED = 5
"""Features named in a sentence."""


def show_features(view: View, chosen: str | None) -> None:
    """Show all features, and one of them in full: the one that moved most if none is chosen."""
    table = overview(view)
    names = [one["name"] for one in _ordered(view)]
    chosen = chosen if chosen in names else names[0] if names else None
    if table.rows:
        with Tag("section", classes="panel whole", aria_label="Since the start", id="farthest"):
            Tag("p", farthest(view), "summary")
    if chosen is not None and table.rows:
        with Tag("section", classes="panel whole", aria_labelledby="one-title", id="one"):
            Tag("h2", chosen, id="one-title")
            if chosen == names[0]:
                Tag("p", "Of all features it has moved most since the start.", "about")
            show_told(distribution(view, chosen))
            curves = moved(view, chosen)
            Tag("p", curves.summary, "summary" if curves.times else "summary empty")
            if curves.times:
                Chart().show_curves(f"PSI of {chosen}", curves)
    with Tag("section", classes="panel whole", aria_labelledby="every-title", id="every"):
        Tag("h2", "All features", id="every-title")
        Tag("p", f"{_since(view)}{unfollowed(view)}", "about")
        show_told(table)


def _since(view: View) -> str:
    found = view.document("features")
    if not found.get("reference_taken"):
        return "Those that moved most come first."
    then = f"{plural(found['reference_records'], 'record')} up to {clock(found['reference_taken'])}"
    newest = f"The newest {plural(found['records'], 'record')} beside {then}"
    return f"{newest}; what moved most since the start is first."


def _ordered(view: View) -> list[Mapping[str, Any]]:
    features = view.document("features").get("features") or []
    return sorted(features, key=lambda one: (-(one.get("peak") or 0.0), -(one.get("psi") or 0.0)))


def farthest(view: View) -> str:
    """Say which feature moved most since the start, and when features began to count as shifted."""
    known = [one for one in _ordered(view) if one.get("peak") is not None]
    if not known:
        return "How far features moved is told once enough records have come to compare them."
    most = known[0]
    said = (
        f"Since the start {most['name']} has moved most: PSI {most['peak']:.2f} at "
        f"{clock(most['peaked'])}"
    )
    began = sorted((one for one in known if one.get("began")), key=lambda one: float(one["began"]))
    if not began:
        return f"{said}. No feature has ever counted as shifted ({SHIFTED} or more)."
    if most.get("began"):
        said += f"; it first counted as shifted ({SHIFTED} or more) at {clock(most['began'])}"
    first = began[0]
    if first is not most:
        said += f". The first to shift was {first['name']}, at {clock(first['began'])}"
    return f"{said}; {plural(len(began), 'feature')} ever did.{_weighed(view, began)}"


def _weighed(view: View, shifted: Sequence[Mapping[str, Any]]) -> str:
    """Say by which of the features that shifted the committee goes most, and how much."""
    shares: Mapping[str, float] = view.document("importances")
    if not shares:
        return ""
    first, *rest = sorted((one["name"] for one in shifted), key=lambda name: -shares.get(name, 0.0))
    others = ", ".join(f"{name} {percent(shares.get(name, 0.0))}" for name in rest[:NAMED])
    most = f"{percent(shares.get(first, 0.0))} of what its splits gain"
    if not others:
        return f" The committee goes by it with {most}."
    return f" Of these the committee goes by {first} most, with {most} ({others})."


def unfollowed(view: View) -> str:
    """Name the fields of whose drift nothing is told, nothing where there are none."""
    known = [str(one["name"]) for one in view.document("features").get("features") or ()]

    def is_followed(field: str) -> bool:
        # A time or a vector has several columns, called after it.
        begins = (f"{field}: ", f"{field}[")
        return any(name == field or name.startswith(begins) for name in known)

    found = [one for one in view.document("pipeline").get("features") or () if not is_followed(one)]
    if not known or not found:
        return ""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    named = ", ".join(found[:NAMED])
    return f" Drift is not followed in categories and texts: {named}{more}."


def overview(view: View) -> Table:
    """Show how far each feature moved, and how much the committee goes by it."""
    shares: Mapping[str, float] = view.document("importances")
    columns = [
        Column("Feature", "words"),
        Column("PSI now"),
        Column("Largest"),
        Column("When"),
        Column("Shift began"),
        Column("Importance"),
        Column("Mean now"),
        Column("Mean then"),
        Column("Missing now"),
        Column("Missing then"),
    ]
    most = max(shares.values(), default=0.0) or 1.0
    rows: Rows = [
        [
            _link(view, one),
            _shift(one.get("psi")),
            _shift(one.get("peak")),
            clock(one.get("peaked")),
            _began(one),
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
        for one in _ordered(view)
    ]
    summary = "" if rows else "Shown once records have come."
    return Table("Features", columns, rows, summary)


def _began(one: Mapping[str, Any]) -> str:
    if one.get("peak") is None:
        return NOTHING
    return clock(one["began"]) if one.get("began") else "never"


def feature_drift(view: View) -> Table:
    """Show how far each feature has moved from what the committee was taught, farthest first.

    Those that hardly moved stand by their names, as who is before whom of them is chance.
    """
    features = view.document("features").get("features") or []
    found = sorted(features, key=_by_shift)
    columns = [Column("Feature", "words"), Column("PSI"), Column("Missing"), Column("Missing then")]
    if not any(one.get("psi") is not None for one in found):
        return Table("Feature drift", columns, [], "Shown once enough records have come.")
    rows: Rows = [
        [
            _link(view, one),
            _shift(one.get("psi")),
            percent(one.get("missing")),
            percent(one.get("missing_reference")),
        ]
        for one in found
    ]
    moved = [str(one["name"]) for one in found if (one.get("psi") or 0.0) >= SHIFTED]
    if not moved:
        summary = f"No feature has shifted: all indexes are below {SHIFTED}."
    else:
        summary = f"{plural(len(moved), 'feature')} shifted, most of all {moved[0]}."
    return Table("Feature drift", columns, rows, summary)


def _by_shift(one: Mapping[str, Any]) -> tuple[float, str]:
    index = one.get("psi") or 0.0
    return -index if index >= SHIFTED / 2 else 0.0, str(one["name"])


def _link(view: View, one: Mapping[str, Any]) -> Cell:
    name = view.document("pipeline").get("name")
    return Cell(str(one["name"]), link=page_of("/features", name, feature=one["name"]))


def _shift(index: float | None) -> Cell:
    """Show a stability index, by how much it says."""
    if index is None:
        return Cell(NOTHING)
    size = "bad" if index >= SHIFTED else "warn" if index >= SHIFTED / 2 else "good"
    note = {"bad": "shifted: ", "warn": "slightly shifted: ", "good": None}[size]
    return Cell(f"{index:.2f}", bar=index / (2 * SHIFTED), colour=size, note=note)


def distribution(view: View, name: str) -> Table:
    """Show how a feature's values fall into the bins of the reference, then and now."""
    found = view.document("distributions").get(name)
    columns = [Column("Values", "words"), Column("Then"), Column("Now")]
    title = f"Distribution of {name}"
    if not found or not sum(found["now"]) or not sum(found["then"]):
        return Table(title, columns, [], "Its distribution is shown once enough records have come.")
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
        f"The greatest gain: {text}, from {percent(then[gained])} to {percent(now[gained])} of "
        "the values."
    )
    return Table(title, columns, rows, summary)


def _shares(counts: Sequence[int]) -> list[float]:
    return [n / sum(counts) for n in counts]


def _bins(edges: Sequence[float]) -> list[str]:
    """Return the bins in words; a value that is an edge lies above it."""
    if not edges:
        return ["any", "missing"]
    inner = [f"{amount(a)} to {amount(b)}" for a, b in pairwise(edges)]
    return [f"below {amount(edges[0])}", *inner, f"{amount(edges[-1])} and more", "missing"]


def moved(view: View, name: str) -> Curves:
    """Show a feature's index over time, and where it counts as shifted."""
    points = [point for point in view.points if point.get("psi")]
    values = [point["psi"].get(name) for point in points]
    if not any(value is not None for value in values):
        return Curves(f"Its index over time is told of the {FOLLOWED} features that moved most.")
    last = next(value for value in reversed(values) if value is not None)
    times = [int(point["time"]) for point in points]
    drifts = [int(mark["time"]) for mark in view.marks if mark["kind"] == "drift"]
    groups = [Group("drift", drifts, "bad")] if drifts else []
    summary = f"PSI {last:.2f} now: {_when(times, values)}."
    if None in values:
        summary += f" Where the curve has gaps, {FOLLOWED} others had moved more."
    return Curves(summary, "count", times, (Series("PSI", values, "series-1"),), groups)


def _when(times: Sequence[int], values: Sequence[float | None]) -> str:
    """Say since when a feature is shifted, or that it is not."""
    known = [(time, value) for time, value in zip(times, values, strict=True) if value is not None]
    since = None
    for time, value in known:
        since = (since or time) if value >= SHIFTED else None
    if since is not None:
        return f"shifted ({SHIFTED} or more) since {clock(since)}"
    time, most = max(known, key=lambda one: one[1])
    standing = "no longer shifted" if most >= SHIFTED else "not shifted"
    return f"{standing} ({SHIFTED} or more); it was farthest off at {clock(time)}, with {most:.2f}"
