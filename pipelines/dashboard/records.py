"""Records page: labelled records filtered by class, prediction, version, annotator or dispute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamboost.pipelines.dashboard.explanations import contrast, contrast_class
from streamboost.pipelines.dashboard.record import is_disputed, record_votes
from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import View, page_of
from streamboost.pipelines.dashboard.widgets import Sentence, Tag, show_table
from streamboost.pipelines.status.formatting import NOTHING, percent_text, plural, time_text
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.status.record_filter import RecordFilter

__all__ = ["MOST", "Found", "record_table", "show_records"]

MOST = 100
"""Maximum number of records on a page."""

REASONS = 3
"""Number of features named for each record."""

NAMED = 10
"""Number of classes in the summary above the list."""

Sums = Sequence[tuple[str, str | None, int]]
"""True class, predicted class (None: no prediction) and number of records, most first."""


@dataclass(frozen=True, slots=True)
class Found:
    """One page of the stored records that match a filter.

    `total` is the number of matches, `more` whether further pages follow, and `sums` counts the
    matches by true and predicted class. `disputed` is the number of records left out because of a
    disputed label. In blind mode, `sums` is empty, and counts that would reveal hidden predictions
    are None.
    """

    records: Sequence[Status]
    total: int | None
    more: bool = False
    sums: Sums = ()
    disputed: int | None = 0


def show_records(found: Found, view: View, choice: RecordFilter, offset: int = 0) -> None:
    """Show the records of a filter; `offset` is the number of matches on earlier pages."""
    pipeline = view.document("pipeline").get("name")
    with Tag("section", classes="panel whole", aria_label="Records", id="listed"):
        _filters(view, choice, pipeline)
        Sentence("p", "summary").say(*_filter_text(found.total, choice))
        _show_disputed(found.disputed, choice, pipeline)
        _show_class_counts(found.sums, choice, pipeline)
        Tag(
            "p",
            "Kept labelled records, newest label first. Select an id for details. Tinted: the "
            "prediction differs from the label. Disputed: another class has at least as many "
            "votes. Main reasons: features that favour the prediction over the label, or over the "
            "second class.",
            "about",
        )
        _show_page_links(found, choice, pipeline, offset)
        show_table(record_table(found.records, pipeline))


def _filters(view: View, choice: RecordFilter, pipeline: str) -> None:
    classes = [str(one) for one in view.document("classes").get("labels") or ()]
    sources = list(view.document("annotators"))
    with Tag("form", classes="choose", action="/records"):
        Tag("input", type="hidden", name="pipeline", value=pipeline)
        for bound, number in (("since", choice.since), ("until", choice.until)):
            if number is not None:
                Tag("input", type="hidden", name=bound, value=str(number))
        for name, title, names, chosen in (
            ("true", "True class", classes, choice.truth),
            ("predicted", "Predicted as", classes, choice.said),
            ("by", "Labelled by", sources, choice.by),
        ):
            Tag("label", title, for_=f"records-{name}")
            with Tag("select", id=f"records-{name}", name=name):
                Tag("option", "any", value="")
                for one in names if chosen is None or chosen in names else [*names, chosen]:
                    Tag("option", one, value=one, **_flag("selected", one == chosen))
        for name, title, is_chosen in (
            ("wrong", "Mistakes only", choice.wrong),
            ("contested", "Where people disagree", choice.contested),
            ("disputed", "Disputed labels only", choice.disputed is True),
        ):
            with Tag("label"):
                is_checked = _flag("checked", is_chosen)
                Tag("input", type="checkbox", name=name, value="true", **is_checked)
                Tag("span", title)
        Tag("button", "Show")
        if choice != RecordFilter():
            Tag("a", "All labelled records", href=page_of("/records", pipeline))


def _flag(name: str, is_so: bool) -> dict[str, Any]:
    return {name: True} if is_so else {}


def _address(choice: RecordFilter, pipeline: str, **more: Any) -> str:
    """Return the address of the list of a filter's records."""
    named = {
        "true": choice.truth,
        "predicted": choice.said,
        "by": choice.by,
        "since": choice.since,
        "until": choice.until,
        "wrong": "true" if choice.wrong else None,
        "contested": "true" if choice.contested else None,
        "disputed": "true" if choice.disputed else None,
    }
    return page_of("/records", pipeline, **named, **more)


def _show_disputed(disputed: int | None, choice: RecordFilter, pipeline: str) -> None:
    """Show the number of records left out because of a disputed label, as a link to them."""
    if disputed == 0:
        return
    which = "Disputed records"
    if disputed is not None:
        which = "1 record" if disputed == 1 else f"{disputed:,} records"
    with Tag("p", classes="summary", id="left-out"):
        Tag("a", which, href=_address(replace(choice, disputed=True), pipeline))
        Tag(
            "span",
            " is excluded, as its label is disputed."
            if disputed == 1
            else " are excluded, as their label is disputed.",
        )


def _show_class_counts(sums: Sums, choice: RecordFilter, pipeline: str) -> None:
    """Show the counts of a filter's records by predicted or true class, the largest first."""
    begins, parts = class_counts(sums, choice)
    if not parts:
        return
    with Tag("p", classes="summary", id="sums"):
        Tag("span", begins)
        for i, ((truth, said, n), (text, *names)) in enumerate(zip(sums, parts, strict=False)):
            link = _address(replace(choice, truth=truth, said=said), pipeline)
            # There is no filter for records without a prediction.
            with Tag("span") if said is None else Tag("a", href=link):
                Sentence("span").say(text, *names)
            Tag("span", f" {n:,}{', ' if i + 1 < len(sums) else '.'}")
        if rest := sum(n for *_, n in sums[NAMED:]):
            Tag("span", f"and {rest:,} more.")


def class_counts(sums: Sums, choice: RecordFilter) -> tuple[str, list[tuple[str, ...]]]:
    """Return the start of the summary sentence, and for each class a text and its names.

    The list is empty if the filter fixes both classes or neither.

    >>> class_counts([("a", "b", 3), ("a", None, 1)], RecordFilter(truth="a"))
    ('Predicted as ', [('{}', 'b'), ('nothing yet',)])
    """
    some = sums[:NAMED]
    if choice.truth is None and choice.said is not None:
        return "True classes: ", [("{}", truth) for truth, *_ in some]
    if choice.truth is not None and choice.said is None:
        return "Predicted as ", [("nothing yet",) if s is None else ("{}", s) for _, s, _ in some]
    if choice.truth is None and choice.wrong:
        return "Mistaken most: ", [("{} for {}", t, s) for t, s, _ in some if s is not None]
    return "", []


def _show_page_links(found: Found, choice: RecordFilter, pipeline: str, offset: int) -> None:
    """Show the range of listed records, with links to newer and older ones."""
    if not offset and not found.more:
        return

    def link(text: str, to: int) -> None:
        Tag("a", text, href=_address(choice, pipeline, after=to or None))

    with Tag("nav", classes="paging", aria_label="Further records"):
        if found.total is not None:
            end = offset + len(found.records)
            none = end == offset
            Tag("span", "No more" if none else f"{offset + 1:,} to {end:,} of {found.total:,} kept")
        if offset:
            link("Newer ones", max(offset - MOST, 0))
        if found.more:
            link("Older ones", offset + MOST)


def _filter_text(n: int | None, choice: RecordFilter) -> tuple[str, ...]:
    """Describe the filter in a sentence, as a text and its names."""
    parts: list[str] = []
    names: list[str] = []
    if choice.truth is not None and choice.said is not None:
        parts, names = ["{} that was predicted as {}"], [choice.truth, choice.said]
    elif choice.truth is not None:
        is_mistaken = choice.wrong or _version_range(choice)
        parts, names = ["{}" if is_mistaken else "{}, any prediction"], [choice.truth]
    elif choice.said is not None:
        parts, names = ["predicted as {}, any label"], [choice.said]
    if version := _version_range(choice):
        wrong = "wrongly " if choice.wrong else ""
        parts.append(f"predicted {wrong}by version {version}")
    elif choice.wrong:
        parts.append("predicted wrongly")
    if choice.by is not None:
        parts.append(f"labelled by {{}}{', and otherwise by others' * choice.contested}")
        names.append(choice.by)
    elif choice.contested:
        parts.append("about which people disagree")
    if choice.disputed:
        parts.append("with disputed labels")
    told = f": {', '.join(parts)}" if parts else ""
    if n is None:
        return f"Labelled records{told}. Only records that you labelled are listed.", *names
    return f"{plural(n, 'labelled record')}{told}.", *names


def _version_range(choice: RecordFilter) -> str:
    """Describe the filter's range of versions; empty without one."""
    if choice.since is None:
        return "" if choice.until is None else f"{choice.until} or earlier"
    return f"{choice.since} " + ("or later" if choice.until is None else f"to {choice.until}")


def record_table(found: Sequence[Status], pipeline: str) -> Table:
    """Build the table of records, each with its prediction and the main reasons."""
    columns = [
        *(Column(text, "words") for text in ("Record", "Labelled", "Label", "Predicted")),
        Column("Probability"),
        Column("Version"),
        Column("Main reasons", "words"),
        Column("Annotator", "words"),
    ]
    return Table("Records", columns, [_row(one, pipeline) for one in found], "")


def _row(one: Status, pipeline: str) -> list[str | Cell]:
    label = one.get("label")
    share = (one.get("probabilities") or {}).get(str(label))
    when = one["labels"][-1][0] if one.get("labels") else None
    return [
        Cell(str(one["id"]), link=page_of("/record", pipeline, id=one["id"])),
        time_text(when),
        str(one["truth"]) + " (disputed)" * is_disputed(one),
        _prediction(one),
        percent_text(share),
        str(one.get("version") or NOTHING),
        _main_features(one.get("why"), str(label), one["truth"]),
        _annotator_text(one),
    ]


def _prediction(one: Status) -> str | Cell:
    label = one.get("label")
    if label is None:
        return NOTHING
    if str(label) == one["truth"] or is_disputed(one):
        return str(label)
    return Cell(str(label), shade=0.6, colour="bad", note="wrong: ")


def _annotator_text(one: Status) -> str:
    """Return the annotators of a record, with their labels if these differ."""
    said = dict.fromkeys(record_votes(one))
    if len({label for _, label in said}) > 1:
        return ", ".join(f"{source} ({label})" for source, label in said)
    return ", ".join(source for source, _ in said) or NOTHING


def _main_features(why: Mapping[str, Any] | None, label: str, truth: str) -> str:
    """Name the features that contributed most to the prediction against its rival class."""
    if not why or label not in why["classes"]:
        return NOTHING
    apart = contrast(why, label, contrast_class(why, label, truth))[:REASONS]
    return ", ".join(f"{name} {by:+.2f}" for name, by in apart if by > 0) or NOTHING
