"""One record: what was predicted of it and why, what is like it, and what people said."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.service.pages.causes.nearest import nearest
from streamboost.pipelines.service.pages.desk.questions import is_long
from streamboost.pipelines.service.pages.desk.record import UNTOLD, show_field
from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Sentence, Tag, show_table, show_told
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, plural, shown

__all__ = ["chances", "reasons", "show_missing", "show_record"]

Found = Mapping[str, Any]

_LONGEST = 40
"""Characters of a value that stand in a table."""


def show_record(found: Status, view: View, others: Sequence[Status]) -> None:
    """Show a record that is kept; `others` are labelled ones."""
    pipeline = view.document("pipeline").get("name")
    with Tag("section", classes="panel", aria_labelledby="said-title"):
        Tag("h2", "What was said of it", id="said-title")
        for text, *names in _story(found):
            Sentence("p").say(text, *names)
        show_table(_labels(found))
    with Tag("div", classes="panels halves"):
        _section("Chances", "On arrival, by all that have a voice.", chances(found))
        _section("Why", _ABOUT_WHY, reasons(found, view))
        _fields(found)
        rest = [one for one in others if one["id"] != found["id"]]
        near = nearest(found.get("features") or {}, rest)
        _section("Nearest labelled records", _ABOUT_NEAREST, _near(near, pipeline))


_ABOUT_WHY = (
    "What each feature did to a class's score in the committee (exact SHAP values): with + it "
    "spoke for the class, with - against it. The voices of other experts are not in it."
)

_ABOUT_NEAREST = (
    "The labelled records that are kept and most like it: by how many standard deviations their "
    "features differ, the root of the mean square."
)


def show_missing(id: str, alike: Sequence[str], pipeline: str) -> None:
    """Say that a record is not kept, and which begin alike."""
    with Tag("section", classes="panel"):
        Sentence("p").say("Record {} is no longer kept, or never was.", id)
        Tag(
            "p",
            "Kept are the newest records that were asked about or labelled; what was predicted of "
            "every record stands where the pipeline writes its predictions.",
            "about",
        )
        if alike:
            Tag("p", "These begin alike:")
            with Tag("ul", classes="alike"):
                for one in alike:
                    with Tag("li"), Tag("a", href=page_of("/record", pipeline, id=one)):
                        Tag("bdi", one)


def _story(found: Found) -> list[tuple[str, ...]]:
    """Return what happened to a record, in sentences, each with the names in it."""
    when, label = clock(found.get("arrived")), found.get("label")
    told: list[tuple[str, ...]] = []
    if found.get(HIDDEN):
        told.append((f"It came at {when}. {UNTOLD}",))
    elif not found.get("asked"):
        if label is None:
            told.append((f"It was labelled at {when}, without a prediction and unasked.",))
        else:
            told.append((f"It was predicted as {{}}, and labelled at {when}, unasked.", str(label)))
    elif label is None:
        told.append((f"It was asked about at {when}, before there was any prediction.",))
    else:
        share = (found.get("probabilities") or {}).get(str(label))
        sure = "" if share is None else f", {percent(share)} sure"
        version, margin = found.get("version"), found.get("margin")
        by = f"by version {version}" if version else "by the labels so far"
        gap = "" if margin is None or not version else f", margin {amount(margin)}"
        told.append((f"Predicted as {{}} {by}{sure}{gap}, at {when}.", str(label)))
        expires = "" if found.get("truth") or found.get("expires") is None else _until(found)
        told.append((f"{_asked(found)}{expires}",))
    truth = found.get("truth")
    if truth is None:
        told.append(("Nobody has said yet what it is.",))
    elif label is not None:
        told.append(
            ("That was right.",) if str(label) == truth else ("That was wrong: it is {}.", truth)
        )
    else:
        told.append(("It is {}.", truth))
    return told


def _asked(found: Found) -> str:
    utility, chance = amount(found.get("utility")), percent(found.get("propensity"))
    return (
        f"Its label was asked for in batch {amount(found.get('sequence'))}: its utility was "
        f"{utility}, and its chance of being asked for {chance}."
    )


def _until(found: Found) -> str:
    expires = found["expires"]
    return f" An answer counts until {clock(expires)}." if isinstance(expires, int) else ""


def _labels(found: Found) -> Table:
    columns = [Column(text, "words") for text in ("When", "Label", "Who said so")]
    rows = [
        [clock(when), "taken back" if label is None else str(label), str(source or "nobody named")]
        for when, label, source in reversed(found.get("labels") or [])
    ]
    return Table("Labels, the newest first", columns, rows, "")


def chances(found: Found) -> Table:
    """Show the chances that a record's classes were given."""
    if found.get(HIDDEN):
        return Table("Chances", [], [], UNTOLD)
    columns = [Column("Class", "words"), Column("Chance")]
    given = found.get("probabilities") or {}
    ordered = sorted(given.items(), key=lambda one: -(one[1] or 0.0))
    rows = [[name, Cell(percent(p), bar=p or 0.0, colour="series-1")] for name, p in ordered]
    return Table("Chances", columns, rows, "" if rows else "They are kept of records asked about.")


def reasons(found: Found, view: View) -> Table:
    """Show which features spoke for the class predicted, and for its rival."""
    why = found.get("why")
    if not why:
        return Table("Why", [], [], _unexplained(found))
    classes = list(why["classes"])
    first = str(found.get("label")) if str(found.get("label")) in classes else classes[0]
    truth = found.get("truth")
    rest = [name for name in classes if name != first]
    rival = truth if truth in rest else rest[0] if rest else None
    sides = [first] if rival is None else [first, rival]
    places = [1 + classes.index(name) for name in sides]
    usual, given = _usual(view), found.get("features") or {}
    most = max((abs(row[p]) for row in why["features"] for p in places), default=0.0) or 1.0
    columns = [
        Column("Feature", "words"),
        Column("Value"),
        Column("Usually"),
        *(Column(f"For {name}") for name in sides),
    ]
    rows: list[list[str | Cell]] = [
        [
            str(row[0]),
            shown(given.get(row[0]))[:_LONGEST],
            _usually(usual.get(row[0])),
            *(_pull(row[p], most) for p in places),
        ]
        for row in why["features"]
    ]
    for name, values in (("all others", why["others"]), ("before any is known", why["base"])):
        rows.append([name, "", "", *(_pull(values[p - 1], most) for p in places)])
    return Table("Why", columns, rows, _main_reasons(why, first, places[0]))


def _unexplained(found: Found) -> str:
    if found.get(HIDDEN):
        return UNTOLD
    if not found.get("asked"):
        return "It was not asked about: reasons are kept of records that were."
    if not found.get("version"):
        return "No committee had a part in it: it came before the first."
    return (
        "Nobody has worked it out: more was asked about just then than could be explained without "
        "slowing the pipeline down, or the committee is not made of trees."
    )


def _main_reasons(why: Mapping[str, Any], first: str, place: int) -> str:
    ordered = sorted(why["features"], key=lambda row: -row[place])
    spoke = [f"{row[0]} ({row[place]:+.2f})" for row in ordered[:3] if row[place] > 0]
    against = [f"{row[0]} ({row[place]:+.2f})" for row in ordered[:-3:-1] if row[place] < 0]
    text = f"For {first} spoke most of all {', '.join(spoke) or 'nothing'}"
    return f"{text}; against it {', '.join(against) or 'nothing'}."


def _pull(value: float, most: float) -> Cell:
    colour = "series-1" if value >= 0 else "bad"
    return Cell(f"{value:+.2f}", bar=abs(value) / most, colour=colour)


def _usually(one: Mapping[str, Any] | None) -> str:
    if not one or one.get("mean") is None:
        return NOTHING
    return f"{amount(one['mean'])}\u00a0±\u00a0{amount(one.get('deviation'))}"


def _usual(view: View) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in view.document("features").get("features") or ()}


def _near(near: Sequence[tuple[float, Status]], pipeline: str) -> Table:
    columns = [
        Column("Record", "words"),
        Column("It is", "words"),
        Column("Predicted", "words"),
        Column("Apart"),
    ]
    rows: list[list[str | Cell]] = [
        [
            Cell(str(one["id"]), link=page_of("/record", pipeline, id=one["id"])),
            str(one.get("truth")),
            NOTHING if one.get("label") is None else str(one["label"]),
            amount(away),
        ]
        for away, one in near
    ]
    if not rows:
        return Table("Nearest", columns, [], "None: no other record with features was labelled.")
    of = [str(one.get("truth")) for _, one in near]
    first = max(of, key=of.count)
    return Table("Nearest", columns, rows, f"{of.count(first)} of {len(of)} are {first}.")


def _fields(found: Found) -> None:
    given = found.get("features") or {}
    features = {name: value for name, value in given.items() if not is_long(value)}
    fields = {name: value for name, value in given.items() if is_long(value)}
    fields |= found.get("fields") or {}
    title = f"{plural(len(given), 'feature')}, {plural(len(fields), 'long or further field')}"
    with Tag("section", classes="panel", aria_labelledby="fields-title"):
        Tag("h2", "The record", id="fields-title")
        Tag("p", f"{title}, as they came.", "about")
        with Tag("dl", classes="fields"):
            for name, value in fields.items():
                with Tag("dt"):
                    Tag("bdi", str(name))
                with Tag("dd"):
                    show_field(value)
        columns = [Column("Feature", "words"), Column("Value")]
        rows = [[str(name), shown(value)[:_LONGEST]] for name, value in features.items()]
        show_table(Table("Features", columns, rows, ""))


def _section(title: str, about: str, table: Table) -> None:
    name = title.lower().replace(" ", "-")
    with Tag("section", classes="panel", id=name, aria_labelledby=f"{name}-title"):
        Tag("h2", title, id=f"{name}-title")
        Tag("p", about, "about")
        show_told(table)
