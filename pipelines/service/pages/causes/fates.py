"""What became of records and labels: what is lost, what waits, and all there is to count."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.status.formatting import (
    COUNTERS,
    RECORDS_APART,
    UNUSABLE,
    amount,
    plural,
)

__all__ = ["fates"]

_NAMES = {"answered": "first_labels"}
"""What is called otherwise here, where requests that were answered are counted, too."""

_NOTHING_CAME_OF = ("late", "expired", "conflicting", "unknown", "void")
"""Labels that were dropped; to come again with the same value is no loss."""


def fates(view: View) -> Table:
    """Show what became of records and labels, as `inspect` does; first what is lost or waits."""
    join: Mapping[str, int] = view.document("join")
    columns = [Column("What", "words"), Column("Number"), Column("What it counts", "words")]
    if not join:
        return Table("Records and labels", columns, [], "Shown once the pipeline runs.")
    counters = {**COUNTERS, "answered": "labels asked for, of records that had none"}
    counters |= {"records": RECORDS_APART} if view.document("workers") else {}
    rows: Rows = [
        [_NAMES.get(key, key).replace("_", " "), amount(join[key]), what]
        for key, what in counters.items()
        if join.get(key) and key != "open_requests"
    ]
    asked = Asked.of(view)
    if asked.requests or asked.waiting:
        rows += [[name, amount(n), what] for name, n, what in asked.rows if n]
    if n := join.get("dead_letters"):
        link = page_of("/letters", view.document("pipeline").get("name"))
        rows.append(["dead letters", Cell(amount(n), link=link), UNUSABLE])
    return Table("Records and labels", columns, rows, _said(join, asked))


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of the labels asked for: `requests` is the sum of the others, but for `again`."""

    requests: int
    answered: int
    expired: int
    waiting: int
    again: int = 0

    @classmethod
    def of(cls, view: View) -> "Asked":
        """Count a pipeline's requests."""
        ledger = view.document("ledger")
        requests, answered, expired, again = (
            int(ledger.get(key) or 0) for key in ("requests", "answered", "expired", "again")
        )
        return cls(requests, answered, expired, view.open_requests, again)

    @property
    def dropped(self) -> int:
        """Requests that an answer closed of which nothing could be learned any more."""
        return max(self.requests - self.answered - self.expired - self.waiting, 0)

    @property
    def rows(self) -> list[tuple[str, int, str]]:
        """What there is to count of requests, and what that is."""
        again = f", {self.again:,} of them about labels that looked wrong" * (self.again > 0)
        return [
            ("requests", self.requests, f"labels asked for, the sum of what follows{again}"),
            ("requests answered", self.answered, "by a label that was learned or checked another"),
            ("requests expired", self.expired, "given up: nobody answered in time"),
            ("requests dropped", self.dropped, "answered, but the record was not kept any more"),
            ("open requests", self.waiting, COUNTERS["open_requests"]),
        ]

    def __str__(self) -> str:
        """Say what became of them, so that it adds up."""
        parts = [f"{self.answered:,} answered", f"{self.expired:,} expired without an answer"]
        parts += [f"{self.dropped:,} answered to no use"] * (self.dropped > 0)
        asked = plural(self.requests, "label")
        return f"{asked} asked for: {', '.join(parts)}, {self.waiting:,} open."


def _said(join: Mapping[str, int], asked: Asked) -> str:
    unusable, lost, unread, waiting = (
        join.get(key) or 0
        for key in ("dead_letters", "lost_batches", "deleted_unread", "waiting_labels")
    )
    dropped = sum(join.get(key) or 0 for key in _NOTHING_CAME_OF)
    batches = "1 batch of labels is" if lost == 1 else f"{lost:,} batches of labels are"
    waits = "waits for its" if waiting == 1 else "wait for their"
    parts = [
        f"{plural(unusable, 'message')} could not be used." * (unusable > 0),
        f"{batches} lost." * (lost > 0),
        f"{plural(unread, 'message')} were deleted before they were read." * (unread > 0),
        f"{plural(dropped, 'label')} came to nothing." * (dropped > 0),
        f"{plural(waiting, 'label')} {waits} record." * (waiting > 0),
    ]
    told = " ".join(filter(None, parts)) or "Nothing is lost, and no label waits for its record."
    return f"{told} {asked}" if asked.requests else told
