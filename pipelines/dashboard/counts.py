"""Tables of counters: records, labels and requests, such as lost labels and open requests."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.status.formatting import (
    COUNTERS,
    RECORDS_APART,
    UNUSABLE,
    count_text,
    number_text,
)

_NAMES = {"answered": "first_labels", "held_records": "records kept for late labels"}
"""Other names of counters here, to distinguish labels from answered requests, and no backlog."""

_LEARNED = "labels that committees learn, also unsolicited ones and those of the initial data"
_USED = "requested labels that the metrics use: without annotators that are left out"

_DROPPED = ("late", "expired", "conflicting", "unknown", "empty_label")
"""Counters of dropped labels; a duplicate with the same value is not counted as a loss."""


def counters_table(view: StatusSnapshot) -> Table:
    """Build the table of counters, as `streamboost inspect` prints, with a summary of losses."""
    join: Mapping[str, int] = view.document("join")
    columns = [Column("Counter", "words"), Column("Number"), Column("Meaning", "words")]
    if not join:
        return Table("Counters", columns, [], "Shown once the pipeline runs.")
    counters = {**COUNTERS, "answered": "first labels of requested records"}
    counters |= {"records": RECORDS_APART} if view.document("workers") else {}
    rows: Rows = [
        [_NAMES.get(key, key).replace("_", " "), number_text(join[key]), what]
        for key, what in counters.items()
        if join.get(key) and key != "open_requests"
    ]
    asked = RequestCounts.from_view(view)
    if asked.requests or asked.open:
        rows += [[name, number_text(n), what] for name, n, what in asked.table_rows if n]
    learned = int(view.document("learner").get("labels") or 0)
    used = int((view.document("evaluation").get("since_start") or {}).get("answered") or 0)
    uses = {"labels learned": (learned, _LEARNED), "labels of the metrics": (used, _USED)}
    rows += [[name, number_text(n), what] for name, (n, what) in uses.items() if n]
    if n := join.get("dead_letters"):
        link = page_address("/dead-letters", view.document("pipeline").get("name"))
        rows.append(["dead letters", Cell(number_text(n), link=link), UNUSABLE])
    return Table("Counters", columns, rows, _counters_summary(join, asked))


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Counts of label requests by outcome.

    `requests` is the sum of answered, expired, dropped and waiting requests. `relabel` counts the
    relabel requests among them.
    """

    requests: int
    answered: int
    expired: int
    open: int
    relabel: int = 0

    @classmethod
    def from_view(cls, view: StatusSnapshot) -> "RequestCounts":
        """Return the counts in the status `view`."""
        ledger = view.document("ledger")
        requests, answered, expired, again = (
            int(ledger.get(key) or 0) for key in ("requests", "answered", "expired", "again")
        )
        return cls(requests, answered, expired, view.n_open_requests, again)

    @property
    def dropped(self) -> int:
        """Number of requests that were answered after their record had been evicted."""
        return max(self.requests - self.answered - self.expired - self.open, 0)

    @property
    def table_rows(self) -> list[tuple[str, int, str]]:
        """Rows of the counters table for requests: name, count and explanation."""
        again = f", {self.relabel:,} of them relabel requests" * (self.relabel > 0)
        return [
            ("requests", self.requests, f"labels requested: the sum of the rows below{again}"),
            (
                "requests answered",
                self.answered,
                "requests with a label, or with a second label (relabel request)",
            ),
            ("requests expired", self.expired, "closed, as no label came in time"),
            ("requests dropped", self.dropped, "answered after the record was evicted"),
            ("open requests", self.open, COUNTERS["open_requests"]),
        ]

    def __str__(self) -> str:
        """Summarize the outcomes in a sentence whose numbers add up."""
        parts = [f"{self.answered:,} answered", f"{self.expired:,} expired without an answer"]
        parts += [f"{self.dropped:,} answered after eviction"] * (self.dropped > 0)
        asked = count_text(self.requests, "label")
        return f"{asked} requested: {', '.join(parts)}, {self.open:,} open."


def _counters_summary(join_counters: Mapping[str, int], request_counts: RequestCounts) -> str:
    unusable, lost, unread, waiting = (
        join_counters.get(key) or 0
        for key in ("dead_letters", "lost_batches", "deleted_unread", "waiting_labels")
    )
    dropped = sum(join_counters.get(key) or 0 for key in _DROPPED)
    batches = "1 batch of labels is" if lost == 1 else f"{lost:,} batches of labels are"
    waits = "waits for its" if waiting == 1 else "wait for their"
    parts = [
        f"{count_text(unusable, 'message')} could not be used." * (unusable > 0),
        f"{batches} lost." * (lost > 0),
        f"{count_text(unread, 'message')} were deleted before they were read." * (unread > 0),
        f"{count_text(dropped, 'label')} had no effect." * (dropped > 0),
        f"{count_text(waiting, 'label')} {waits} record." * (waiting > 0),
    ]
    told = " ".join(filter(None, parts)) or "Nothing is lost, and no label waits for its record."
    return f"{told} {request_counts}" if request_counts.requests else told
