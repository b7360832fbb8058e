"""The records behind a figure: those of a cell of the confusion matrix, or of a class."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import page_of
from streamboost.pipelines.service.pages.widgets import Sentence, Tag, show_table
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import NOTHING, clock, percent, plural

__all__ = ["MOST", "listed", "show_records", "wrong_since"]

MOST = 100
"""Records listed: the newest."""

REASONS = 3
"""Features named, of each."""


def show_records(
    found: Sequence[Status],
    pipeline: str,
    truth: str | None,
    said: str | None,
    since: int | None = None,
) -> None:
    """List records that are `truth` or were predicted as `said`; None: whatever.

    With `since` they are those predicted wrongly by that version or a later one.
    """
    with Tag("section", classes="panel whole", aria_label="Records"):
        Sentence("p", "summary").say(*_what(len(found), truth, said, since))
        Tag(
            "p",
            "Of the records that are kept, the newest first; a record's id leads to all that is "
            "known of it.",
            "about",
        )
        if truth is not None or said is not None or since is not None:
            Tag("a", "All labelled records", href=page_of("/records", pipeline))
        show_table(listed(found, pipeline))


def wrong_since(found: Sequence[Status], since: int) -> list[Status]:
    """Return those that version `since` or a later one predicted wrongly, no more than listed."""
    wrong = [one for one in found if one.get("label") is not None and _is_wrong(one)]
    return [one for one in wrong if (one.get("version") or 0) >= since][:MOST]


def _is_wrong(one: Status) -> bool:
    return bool(str(one["label"]) != one["truth"])


def _what(n: int, truth: str | None, said: str | None, since: int | None) -> tuple[str, ...]:
    most = "the newest " if n == MOST else ""
    found = f"{most}{plural(n, 'labelled record')}"
    found = found[:1].upper() + found[1:]
    if since is not None:
        wrong = f"predicted wrongly by version {since} or later"
        return (f"{found}: {wrong}.",) if truth is None else (f"{found}: {{}}, {wrong}.", truth)
    if truth is not None and said is not None:
        return f"{found}: {{}} that was predicted as {{}}.", truth, said
    if truth is not None:
        return f"{found}: {{}}, whatever was predicted.", truth
    if said is not None:
        return f"{found}: predicted as {{}}, whatever it is.", said
    return (f"{found}.",)


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
    said = one["labels"][-1] if one.get("labels") else (None, None, None)
    return [
        Cell(str(one["id"]), link=page_of("/record", pipeline, id=one["id"])),
        clock(said[0]),
        str(one["truth"]),
        NOTHING if label is None else str(label),
        percent(share),
        str(one.get("version") or NOTHING),
        _reasons(one.get("why"), str(label)),
        str(said[2] or "nobody named"),
    ]


def _reasons(why: Mapping[str, Any] | None, label: str) -> str:
    """Name the features that spoke most for the class that was predicted."""
    if not why or label not in why["classes"]:
        return NOTHING
    place = 1 + why["classes"].index(label)
    ordered = sorted(why["features"], key=lambda row: -row[place])[:REASONS]
    return ", ".join(f"{row[0]} {row[place]:+.2f}" for row in ordered if row[place] > 0) or NOTHING
