"""One record: what was predicted of it and why, what is like it, and what people said."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.service.pages.causes.annotators import contradicted
from streamboost.pipelines.service.pages.causes.record.doubts import (
    UNNAMED,
    disagreement,
    looks_wrong,
)
from streamboost.pipelines.service.pages.causes.record.nearest import nearest
from streamboost.pipelines.service.pages.causes.record.reasons import (
    LONGEST,
    about_reasons,
    reasons,
)
from streamboost.pipelines.service.pages.causes.record.story import story
from streamboost.pipelines.service.pages.desk.questions import is_long
from streamboost.pipelines.service.pages.desk.record import UNTOLD, picture_of, show_field
from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Sentence, Tag, show_table, show_told
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, plural, shown

__all__ = ["chances", "neighbours", "reasons", "show_missing", "show_record"]

Found = Mapping[str, Any]


def show_record(
    found: Status, view: View, others: Sequence[Status], *, may_change: bool = False
) -> None:
    """Show a record that is kept; `others` are labelled ones.

    `may_change` says whether whoever looks may give it another label.
    """
    pipeline = view.document("pipeline").get("name")
    near = nearest(found.get("features") or {}, [o for o in others if o["id"] != found["id"]])
    with Tag("section", classes="panel", aria_labelledby="said-title"):
        Tag("h2", "What was said of it", id="said-title")
        for text, *names in story(found, contradicted(view)):
            Sentence("p").say(text, *names)
        _show_doubts(found, near, pipeline, may_change)
        show_table(_labels(found))
    with Tag("div", classes="panels halves"):
        _section("Chances", "On arrival, by all that have a voice.", chances(found))
        _section("Why", about_reasons(view), reasons(found, view))
        _fields(found)
        _section("Nearest labelled records", _ABOUT_NEAREST, neighbours(found, near, pipeline))


def _show_doubts(
    found: Found, near: Sequence[tuple[float, Status]], pipeline: str, may_change: bool
) -> None:
    """Show what speaks against the label, if anything, and the way to change it."""
    wrong, differ = looks_wrong(found, near), disagreement(found)
    for said in filter(None, (wrong, differ)):
        with Tag("div", classes="doubt"):
            Sentence("p").say(*said)
    if found.get("truth") is None:
        return
    if may_change:
        with Tag("p"), Tag("a", href=page_of("/label", pipeline, change=found["id"])):
            Tag("span", "Change the label")
    elif wrong:
        Tag("p", "Whoever gave it can change it, and so can an operator.", "about")


_ABOUT_NEAREST = (
    "The labelled records that are kept and most like it: by how many standard deviations their "
    "features differ, the root of the mean square. One that came later is none of the reasons for "
    "what was predicted."
)


def show_missing(said: tuple[str, ...], alike: Sequence[str], pipeline: str) -> None:
    """Show what is `said` of a record that is not kept, and which begin alike."""
    with Tag("section", classes="panel"):
        Sentence("p").say(*said)
        Tag(
            "p",
            "What was predicted of every record stands where the pipeline writes its predictions.",
            "about",
        )
        if alike:
            Tag("p", "These begin alike:")
            with Tag("ul", classes="alike"):
                for one in alike:
                    with Tag("li"), Tag("a", href=page_of("/record", pipeline, id=one)):
                        Tag("bdi", one)


def _labels(found: Found) -> Table:
    columns = [Column(text, "words") for text in ("When", "Label", "Who said so")]
    rows = [
        [
            clock(when),
            "taken back" if label is None else str(label),
            UNNAMED if source is None else source,
        ]
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


def neighbours(found: Found, near: Sequence[tuple[float, Status]], pipeline: str) -> Table:
    """Show the labelled records that are most like one, and which could not be a reason."""
    columns = [
        Column("Record", "words"),
        Column("It is", "words"),
        Column("Predicted", "words"),
        Column("By then", "words"),
        Column("Apart"),
    ]
    then = [_by_then(found, one) for _, one in near]
    rows: list[list[str | Cell]] = [
        [
            Cell(
                str(one["id"]),
                link=page_of("/record", pipeline, id=one["id"]),
                picture=picture_of(one),
            ),
            str(one.get("truth")),
            NOTHING if one.get("label") is None else str(one["label"]),
            when,
            amount(away),
        ]
        for (away, one), when in zip(near, then, strict=True)
    ]
    if not rows:
        return Table("Nearest", columns, [], "None: no other record with features was labelled.")
    of = [str(one.get("truth")) for _, one in near]
    first = max(of, key=of.count)
    late = len(then) - then.count(_LABELLED)
    told = f" When it was predicted, {late} of them had no label yet." if late else ""
    return Table("Nearest", columns, rows, f"{of.count(first)} of {len(of)} are {first}.{told}")


_LABELLED = "labelled"


def _by_then(found: Found, other: Found) -> str:
    """Return how far another record was when one was predicted."""
    when = found.get("arrived") or 0
    labels = other.get("labels") or ()
    if (other.get("arrived") or 0) > when:
        return "came later"
    return "labelled later" if labels and labels[0][0] > when else _LABELLED


def _fields(found: Found) -> None:
    given = found.get("features") or {}
    features = {name: value for name, value in given.items() if not is_long(value)}
    fields = {name: value for name, value in given.items() if is_long(value)}
    fields |= found.get("fields") or {}
    further = f", {plural(len(fields), 'long or further field')}" if fields else ""
    title = f"{plural(len(given), 'feature')}{further}"
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
        rows = [[str(name), shown(value)[:LONGEST]] for name, value in features.items()]
        show_table(Table("Features", columns, rows, ""))


def _section(title: str, about: str, table: Table) -> None:
    name = title.lower().replace(" ", "-")
    with Tag("section", classes="panel", id=name, aria_labelledby=f"{name}-title"):
        Tag("h2", title, id=f"{name}-title")
        Tag("p", about, "about")
        show_told(table)
