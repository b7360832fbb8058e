"""Snapshot of a pipeline's status for the pages, read once and shared by all open pages."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from streamboost.pipelines.dashboard.time_range import ALL, TimeRange
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.blind import BlindMode
from streamboost.pipelines.status.formatting import count_text
from streamboost.pipelines.status.reader import LabelledPrediction, Status, StatusReader

EVERY = 1.0
"""Seconds between two reads of a status."""

LETTERS = 20
"""Maximum number of dead letters shown on the dashboard."""

SELDOM, SHARE = 10.0, 0.005
"""Minimum seconds between two reads of the labelled records, and their maximum share of time."""

_NEVER = float("-inf")

Value = TypeVar("Value")


class _Cache(dict[Any, Any]):
    """Cache of values that are computed from a snapshot, by key."""

    def get_or_compute(self, key: Any, compute: Callable[[], Value]) -> Value:
        """Return the cached value of `key`, computed by `compute` on the first call."""
        if key not in self:
            self[key] = compute()
        found: Value = self[key]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationData:
    """Labelled records (`predictions`) to evaluate versions, and a cache of computed results.

    The records are in arrival order.
    """

    predictions: Sequence[LabelledPrediction] = ()
    cache: _Cache = field(default_factory=_Cache, repr=False)


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """A snapshot of a pipeline's status; `number` increases with each snapshot.

    `runs` is true if a process of the pipeline exists, even if its last reported state was
    "stopped". `span` is the time range of `points`. `evidence` may be older than the other fields.
    `cache` has computed values for all open pages.
    """

    number: int = 0
    documents: Mapping[str, Any] = field(default_factory=dict)
    points: Sequence[Status] = ()
    marks: Sequence[Status] = ()
    dead_letters: Sequence[Status] = ()
    runs: bool = False
    evidence: EvaluationData = field(default_factory=EvaluationData, compare=False, repr=False)
    span: TimeRange = ALL
    cache: _Cache = field(default_factory=_Cache, compare=False, repr=False)

    @property
    def n_open_requests(self) -> int:
        """Number of requests without an answer."""
        return int(self.document("join").get("open_requests", 0))

    @property
    def n_labels_left(self) -> int | None:
        """Number of labels that the budget allows now; None if it is unknown."""
        ledger = self.document("ledger")
        allowed, requests = ledger.get("allowed"), ledger.get("requests")
        if allowed is None or requests is None:
            return None
        return max(int(allowed) - int(requests), 0)

    @property
    def unscored_records_text(self) -> str | None:
        """Text with the number of records that wait for scorers; None with local scoring."""
        scored = self.document("workers").values()
        if not scored:
            return None
        n = sum(one["lag"] for one in scored)
        return f"{count_text(n, 'record')} wait{'s' * (n == 1)} for scorers"

    @property
    def accuracy(self) -> Mapping[str, Any] | None:
        """Unbiased accuracy over the sliding window, with its interval; None if unknown."""
        recent = self.document("evaluation").get("recent") or {}
        found: Mapping[str, Any] | None = (recent.get("committee") or {}).get("accuracy")
        return found

    @property
    def label_type(self) -> str | None:
        """Type of the labels; None if not known yet."""
        found: str | None = self.document("pipeline").get("label_type")
        return found

    def in_range(self, span: TimeRange) -> "StatusSnapshot":
        """Return a copy with only the points in the time range `span`, downsampled."""

        def select_points_in_range() -> StatusSnapshot:
            return replace(self, points=span.select_points(self.points), span=span, cache=_Cache())

        return self.get_or_compute(span, select_points_in_range)

    def get_or_compute(self, key: Any, compute: Callable[[], Value]) -> Value:
        """Return the cached value of `key`, computed by `compute` on the first call."""
        return self.cache.get_or_compute(key, compute)

    def document(self, name: str) -> Any:
        """Return the status document `name`; an empty dict if there is none."""
        return self.documents.get(name) or {}


_OF_THE_LINE = ("heartbeat", "trouble")
"""Documents of the status line that contain no predictions."""


def visible_snapshot(view: StatusSnapshot, blind_mode: BlindMode, person: User) -> StatusSnapshot:
    """Return a copy of `view` without the documents that `person` may not see.

    Annotators in blind mode see no accuracy, recall drops or disagreement of annotators.
    """
    if not blind_mode.is_blind(person):
        return view

    def remove_hidden_documents() -> StatusSnapshot:
        seen = blind_mode.visible_documents(person, view.documents)
        seen |= {name: view.document(name) for name in _OF_THE_LINE if name in view.documents}
        return StatusSnapshot(view.number, seen, view.points, runs=view.runs, span=view.span)

    return view.get_or_compute("restricted", remove_hidden_documents)


class StatusFeed:
    """Reads snapshots of a pipeline's status on demand, at most about once in `EVERY` seconds.

    Parameters
    ----------
    reader : reader of the status
    threads : executor with a single thread, as change counters of two threads cannot be compared
    runs : returns whether a process of the pipeline exists
    clock : monotonic clock, in seconds
    """

    def __init__(
        self,
        reader: StatusReader,
        threads: ThreadPoolExecutor,
        runs: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._threads = threads
        self._runs = runs
        self._clock = clock
        self._lock = asyncio.Lock()
        self._looked = self._due = _NEVER
        self._stamp: int | None = None
        self._points: dict[tuple[Any, ...], Status] = {}
        self._view = StatusSnapshot()
        self._labels: Any = _NEVER  # number of labels at the last read of `evidence`
        self._told: int | None = None  # change counter at the last read of `evidence`

    async def read(self, *, fresh_labels: bool = False) -> StatusSnapshot:
        """Return a snapshot that is at most about `EVERY` seconds old.

        If `fresh_labels` is true, the labelled records are read again even if they are recent.
        """
        async with self._lock:
            if fresh_labels or self._clock() - self._looked >= 0.9 * EVERY:
                loop = asyncio.get_running_loop()
                self._view = await loop.run_in_executor(
                    self._threads, self._read_snapshot, fresh_labels
                )
                self._looked = self._clock()
        return self._view

    def _read_snapshot(self, fresh_labels: bool) -> StatusSnapshot:
        stamp, reader, runs = self._reader.change_counter(), self._reader, self._runs()
        if stamp == self._stamp:
            view = self._view if runs == self._view.runs else replace(self._view, runs=runs)
            if fresh_labels and self._told != stamp:
                view = replace(
                    view,
                    evidence=self._read_evaluation_data(view.documents, True),
                    cache=_Cache(),
                )
            return view
        self._stamp = stamp
        self._points = reader.chart_points_by_row(known=self._points)
        documents = reader.documents()
        return StatusSnapshot(
            number=self._view.number + 1,
            documents=documents,
            points=list(self._points.values()),
            marks=reader.chart_marks(),
            dead_letters=reader.dead_letters(LETTERS),
            runs=runs,
            evidence=self._read_evaluation_data(documents, fresh_labels),
        )

    def _read_evaluation_data(
        self, documents: Mapping[str, Any], fresh_labels: bool
    ) -> EvaluationData:
        """Return the labelled records; read again if labels arrived and the last read is old.

        Labels of annotators that the estimates leave out are not among them.
        """
        labels, began = (documents.get("join") or {}).get("labels"), self._clock()
        if not fresh_labels and (labels == self._labels or began < self._due):
            return self._view.evidence
        told = self._reader.labelled_predictions()
        # An empty result is read again next time.
        self._labels, self._told = labels if told else _NEVER, self._stamp
        self._due = began + max(SELDOM, (self._clock() - began) / SHARE)
        recent = (documents.get("evaluation") or {}).get("recent") or {}
        left_out = recent.get("left_out") or ()
        return EvaluationData([one for one in told if one.source not in left_out])


def page_address(path: str, pipeline: str | None, **query: Any) -> str:
    """Return the address of a pipeline's page; `query` are further query parameters.

    >>> page_address("/label", "a & b"), page_address("/record", "a", id="7", of=None)
    ('/label?pipeline=a+%26+b', '/record?pipeline=a&id=7')
    """
    named = {"pipeline": pipeline, **query}
    asked = urlencode({name: value for name, value in named.items() if value is not None})
    return f"{path}?{asked}" if asked else path
