"""The records behind a figure: of a cell of the confusion matrix, a class, or an annotator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamboost.pipelines.service.pages.causes.reasons import rival_of, told_apart
from streamboost.pipelines.service.pages.causes.record import is_disputed, voices
from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Sentence, Tag, show_table
from streamboost.pipelines.status.choice import Choice
from streamboost.pipelines.status.formatting import NOTHING, clock, percent, plural
from streamboost.pipelines.status.reader import Status

__all__ = ["MOST", "Found", "listed", "show_records"]

MOST = 100
"""Records listed at once."""

REASONS = 3
"""Features named, of each."""

NAMED = 10
"""Classes counted above the list."""

Sums = Sequence[tuple[str, str | None, int]]
"""What records are, what they were predicted as (None: nothing), and how many, most first."""


@dataclass(frozen=True, slots=True)
class Found:
    """Some of the `total` records of a choice that are kept, and whether there are `more` behind.

    `sums` counts all of them by what they are and were predicted as; empty: that is not to be
    told. So many others would be of the choice, but for a `disputed` label. None: their number is
    not to be told, as the choice goes by predictions that are hidden.
    """

    records: Sequence[Status]
    total: int | None
    more: bool = False
    sums: Sums = ()
    disputed: int | None = 0


def show_records(found: Found, view: View, choice: Choice, offset: int = 0) -> None:
    """List the records found of a choice, of which so many come before them."""
    pipeline = view.document("pipeline").get("name")
    with Tag("section", classes="panel whole", aria_label="Records", id="listed"):
        _filters(view, choice, pipeline)
        Sentence("p", "summary").say(*_what(found.total, choice))
        _left_out(found.disputed, choice, pipeline)
        _show_sums(found.sums, choice, pipeline)
        Tag(
            "p",
            "Of the records that are kept, the newest label first; a record's id leads to all that "
            "is known of it. What was mistaken is tinted; disputed is where its label has no more "
            "people behind it than another, so that it is open what is right. Features spoke for "
            "what was predicted rather than for what it is, or for the next likeliest class.",
            "about",
        )
        _pages(found, choice, pipeline, offset)
        show_table(listed(found.records, pipeline))


def _filters(view: View, choice: Choice, pipeline: str) -> None:
    classes = [str(one) for one in view.document("classes").get("labels") or ()]
    sources = list(view.document("annotators"))
    with Tag("form", classes="choose", action="/records"):
        Tag("input", type="hidden", name="pipeline", value=pipeline)
        for bound, number in (("since", choice.since), ("until", choice.until)):
            if number is not None:
                Tag("input", type="hidden", name=bound, value=str(number))
        for name, title, names, chosen in (
            ("true", "Class", classes, choice.truth),
            ("predicted", "Predicted as", classes, choice.said),
            ("by", "Labelled by", sources, choice.by),
        ):
            Tag("label", title, for_=f"records-{name}")
            with Tag("select", id=f"records-{name}", name=name):
                Tag("option", "any", value="")
                for one in names if chosen is None or chosen in names else [*names, chosen]:
                    Tag("option", one, value=one, **_if("selected", one == chosen))
        for name, title, is_chosen in (
            ("wrong", "Mistakes only", choice.wrong),
            ("contested", "Where people disagree", choice.contested),
            ("disputed", "Disputed labels only", choice.disputed is True),
        ):
            with Tag("label"):
                is_checked = _if("checked", is_chosen)
                Tag("input", type="checkbox", name=name, value="true", **is_checked)
                Tag("span", title)
        Tag("button", "Show")
        if choice != Choice():
            Tag("a", "All labelled records", href=page_of("/records", pipeline))


def _if(name: str, is_so: bool) -> dict[str, Any]:
    return {name: True} if is_so else {}


def _address(choice: Choice, pipeline: str, **more: Any) -> str:
    """Return where the records of a choice are listed."""
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


def _left_out(disputed: int | None, choice: Choice, pipeline: str) -> None:
    """Say how many records are not listed as their label is disputed, and lead to them."""
    if disputed == 0:
        return
    which = "Disputed ones"
    if disputed is not None:
        which = "1 disputed one" if disputed == 1 else f"{disputed:,} disputed ones"
    with Tag("p", classes="summary", id="left-out"):
        Tag("a", which, href=_address(replace(choice, disputed=True), pipeline))
        Tag("span", f" {'is' if disputed == 1 else 'are'} left out: it is open what is right.")


def _show_sums(sums: Sums, choice: Choice, pipeline: str) -> None:
    """Say what all the records of a choice were predicted as, or what they are, most first."""
    begins, parts = summed(sums, choice)
    if not parts:
        return
    with Tag("p", classes="summary", id="sums"):
        Tag("span", begins)
        for i, ((truth, said, n), (text, *names)) in enumerate(zip(sums, parts, strict=False)):
            link = _address(replace(choice, truth=truth, said=said), pipeline)
            # What was not predicted cannot be asked for.
            with Tag("span") if said is None else Tag("a", href=link):
                Sentence("span").say(text, *names)
            Tag("span", f" {n:,}{', ' if i + 1 < len(sums) else '.'}")
        if rest := sum(n for *_, n in sums[NAMED:]):
            Tag("span", f"and {rest:,} more.")


def summed(sums: Sums, choice: Choice) -> tuple[str, list[tuple[str, ...]]]:
    """Return how the sentence begins, and in each of its parts a text with the names in it.

    There are none where all is known of each, or nothing was asked for.

    >>> summed([("a", "b", 3), ("a", None, 1)], Choice(truth="a"))
    ('Predicted as ', [('{}', 'b'), ('nothing yet',)])
    """
    some = sums[:NAMED]
    if choice.truth is None and choice.said is not None:
        return "They are ", [("{}", truth) for truth, *_ in some]
    if choice.truth is not None and choice.said is None:
        return "Predicted as ", [("nothing yet",) if s is None else ("{}", s) for _, s, _ in some]
    if choice.truth is None and choice.wrong:
        return "Mistaken most: ", [("{} for {}", t, s) for t, s, _ in some if s is not None]
    return "", []


def _pages(found: Found, choice: Choice, pipeline: str, offset: int) -> None:
    """Say which of the records are listed, and lead to those before and after."""
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


def _what(n: int | None, choice: Choice) -> tuple[str, ...]:
    """Say what is listed, in a sentence with the names that go into it."""
    parts: list[str] = []
    names: list[str] = []
    if choice.truth is not None and choice.said is not None:
        parts, names = ["{} that was predicted as {}"], [choice.truth, choice.said]
    elif choice.truth is not None:
        is_mistaken = choice.wrong or _by_version(choice)
        parts, names = ["{}" if is_mistaken else "{}, whatever was predicted"], [choice.truth]
    elif choice.said is not None:
        parts, names = ["predicted as {}, whatever it is"], [choice.said]
    if version := _by_version(choice):
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
        return f"Labelled records{told}. Of those that you did not label none is listed.", *names
    return f"{plural(n, 'labelled record')}{told}.", *names


def _by_version(choice: Choice) -> str:
    """Say by which versions the records were predicted; empty: by any."""
    if choice.since is None:
        return "" if choice.until is None else f"{choice.until} or earlier"
    return f"{choice.since} " + ("or later" if choice.until is None else f"to {choice.until}")


def listed(found: Sequence[Status], pipeline: str) -> Table:
    """Return the records as a table, each with what made its prediction."""
    columns = [
        *(Column(text, "words") for text in ("Record", "Labelled", "It is", "Predicted")),
        Column("Sure"),
        Column("Version"),
        Column("Spoke for it most", "words"),
        Column("Who said so", "words"),
    ]
    return Table("Records", columns, [_row(one, pipeline) for one in found], "")


def _row(one: Status, pipeline: str) -> list[str | Cell]:
    label = one.get("label")
    share = (one.get("probabilities") or {}).get(str(label))
    when = one["labels"][-1][0] if one.get("labels") else None
    return [
        Cell(str(one["id"]), link=page_of("/record", pipeline, id=one["id"])),
        clock(when),
        str(one["truth"]) + " (disputed)" * is_disputed(one),
        _prediction(one),
        percent(share),
        str(one.get("version") or NOTHING),
        _reasons(one.get("why"), str(label), one["truth"]),
        _sources(one),
    ]


def _prediction(one: Status) -> str | Cell:
    label = one.get("label")
    if label is None:
        return NOTHING
    if str(label) == one["truth"] or is_disputed(one):
        return str(label)
    return Cell(str(label), shade=0.6, colour="bad", note="wrong: ")


def _sources(one: Status) -> str:
    """Return who labelled a record, and what each said where they differ."""
    said = dict.fromkeys(voices(one))
    if len({label for _, label in said}) > 1:
        return ", ".join(f"{source} ({label})" for source, label in said)
    return ", ".join(source for source, _ in said) or NOTHING


def _reasons(why: Mapping[str, Any] | None, label: str, truth: str) -> str:
    """Name the features that told what was predicted from what it is, or might have been."""
    if not why or label not in why["classes"]:
        return NOTHING
    apart = told_apart(why, label, rival_of(why, label, truth))[:REASONS]
    return ", ".join(f"{name} {by:+.2f}" for name, by in apart if by > 0) or NOTHING
