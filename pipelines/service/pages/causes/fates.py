"""What became of records and labels: what is lost, what waits, and all there is to count."""

from collections.abc import Mapping

from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.wording import COUNTERS, RECORDS_APART, UNUSABLE, amount, plural

__all__ = ["fates"]

_NOTHING_CAME_OF = ("late", "expired", "conflicting", "unknown", "void")
"""Labels that were dropped; to come again with the same value is no loss."""


def fates(view: View) -> Table:
    """Show what became of records and labels, as `inspect` does; first what is lost or waits."""
    join: Mapping[str, int] = view.document("join")
    columns = [Column("What", "words"), Column("Number"), Column("What it counts", "words")]
    if not join:
        return Table("Records and labels", columns, [], "Shown once the pipeline runs.")
    counters = COUNTERS | ({"records": RECORDS_APART} if view.document("workers") else {})
    rows: Rows = [
        [key.replace("_", " "), amount(join[key]), what]
        for key, what in counters.items()
        if join.get(key)
    ]
    if n := join.get("dead_letters"):
        link = page_of("/letters", view.document("pipeline").get("name"))
        rows.append(["dead letters", Cell(amount(n), link=link), UNUSABLE])
    return Table("Records and labels", columns, rows, _said(join, view.document("ledger")))


def _said(join: Mapping[str, int], ledger: Mapping[str, int]) -> str:
    unusable, lost, unread, waiting = (
        join.get(key) or 0
        for key in ("dead_letters", "lost_batches", "deleted_unread", "waiting_labels")
    )
    dropped, expired = sum(join.get(key) or 0 for key in _NOTHING_CAME_OF), ledger.get("expired")
    batches = "1 batch of labels is" if lost == 1 else f"{lost:,} batches of labels are"
    waits = "waits for its" if waiting == 1 else "wait for their"
    parts = [
        f"{plural(unusable, 'message')} could not be used." * (unusable > 0),
        f"{batches} lost." * (lost > 0),
        f"{plural(unread, 'message')} were deleted before they were read." * (unread > 0),
        f"{plural(dropped, 'label')} came to nothing." * (dropped > 0),
        f"{plural(expired, 'request')} expired without an answer." if expired else "",
        f"{plural(waiting, 'label')} {waits} record." * (waiting > 0),
    ]
    return " ".join(filter(None, parts)) or "Nothing is lost, and no label waits for its record."
