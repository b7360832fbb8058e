"""A pipeline's status as the pages show it: read once for however many look."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

from streamboost.pipelines.service.pages.span import ALL, Span
from streamboost.pipelines.status.formatting import plural
from streamboost.pipelines.status.reader import Status, StatusReader, Told

__all__ = ["EVERY", "Evidence", "Feed", "View", "page_of"]

EVERY = 1.0
"""Seconds between two looks at a status."""

LETTERS = 20
"""Dead letters that are shown."""

SELDOM, SHARE = 10.0, 0.005
"""Seconds between two looks at what labels tell, and the share of time that these may take."""

_NEVER = float("-inf")

Found = TypeVar("Found")


class _Once(dict[Any, Any]):
    """What was worked out of something, for all who ask."""

    def once(self, key: Any, make: Callable[[], Found]) -> Found:
        """Return what `make` makes, made once for all who ask for `key`."""
        if key not in self:
            self[key] = make()
        found: Found = self[key]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What labels tell of versions, by when the records came, and what was worked out of that."""

    told: Sequence[Told] = ()
    found: _Once = field(default_factory=_Once, repr=False)


@dataclass(frozen=True, slots=True)
class View:
    """A status as it was at one moment; `number` differs from that of every other status.

    `runs` says whether there is a process of the pipeline, whatever it last said of itself, and
    `span` what stretch of time `points` are of. `evidence` may be a few seconds older. `found`
    keeps what was worked out of it, for all who look.
    """

    number: int = 0
    documents: Mapping[str, Any] = field(default_factory=dict)
    points: Sequence[Status] = ()
    marks: Sequence[Status] = ()
    dead_letters: Sequence[Status] = ()
    runs: bool = False
    evidence: Evidence = field(default_factory=Evidence, compare=False, repr=False)
    span: Span = ALL
    found: _Once = field(default_factory=_Once, compare=False, repr=False)

    @property
    def open_requests(self) -> int:
        """How many requests wait for an answer."""
        return int(self.document("join").get("open_requests", 0))

    @property
    def unscored(self) -> str | None:
        """What waits to be predicted where scoring is apart; None: it is not."""
        scored = self.document("workers").values()
        if not scored:
            return None
        n = sum(one["lag"] for one in scored)
        return f"{plural(n, 'record')} wait{'s' * (n == 1)} for scorers"

    @property
    def accuracy(self) -> Mapping[str, Any] | None:
        """The honest accuracy over the newest records, with its interval; None: nobody knows."""
        recent = self.document("evaluation").get("recent") or {}
        found: Mapping[str, Any] | None = (recent.get("committee") or {}).get("accuracy")
        return found

    @property
    def label_type(self) -> str | None:
        """What labels are by now; None: nobody knows yet."""
        found: str | None = self.document("pipeline").get("label_type")
        return found

    def within(self, span: Span) -> "View":
        """Return the same with the points to draw of a stretch of time."""

        def make() -> View:
            return replace(self, points=span.of(self.points), span=span, found=_Once())

        return self.once(span, make)

    def once(self, key: Any, make: Callable[[], Found]) -> Found:
        """Return what `make` makes, made once for all who ask for `key`."""
        return self.found.once(key, make)

    def document(self, name: str) -> Any:
        """Return the document `name`, empty where there is none."""
        return self.documents.get(name) or {}


class Feed:
    """Looks at a status while somebody asks, mostly once in `EVERY` seconds.

    Parameters
    ----------
    reader : reads the status
    threads : reads in one thread, since a reader's stamps compare within a thread
    runs : tells whether there is a process of the pipeline
    clock : gives seconds that never go back
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
        self._view = View()
        self._labels: Any = _NEVER  # by how many labels was told last; none count as none
        self._told: int | None = None  # at which stamp

    async def look(self, *, afresh: bool = False) -> View:
        """Return the newest view; `afresh`, with all that labels tell by now."""
        async with self._lock:
            if afresh or self._clock() - self._looked >= 0.9 * EVERY:
                loop = asyncio.get_running_loop()
                self._view = await loop.run_in_executor(self._threads, self._read, afresh)
                self._looked = self._clock()
        return self._view

    def _read(self, afresh: bool) -> View:
        stamp, reader, runs = self._reader.stamp(), self._reader, self._runs()
        if stamp == self._stamp:
            view = self._view if runs == self._view.runs else replace(self._view, runs=runs)
            if afresh and self._told != stamp:
                view = replace(view, evidence=self._weigh(view.documents, True), found=_Once())
            return view
        self._stamp = stamp
        self._points = reader.numbered_points(known=self._points)
        documents = reader.documents()
        return View(
            number=self._view.number + 1,
            documents=documents,
            points=list(self._points.values()),
            marks=reader.marks(),
            dead_letters=reader.dead_letters(LETTERS),
            runs=runs,
            evidence=self._weigh(documents, afresh),
        )

    def _weigh(self, documents: Mapping[str, Any], afresh: bool) -> Evidence:
        """Return what labels tell: read again where more came, and not too often."""
        labels, began = (documents.get("join") or {}).get("labels"), self._clock()
        if not afresh and (labels == self._labels or began < self._due):
            return self._view.evidence
        told = self._reader.told()
        # Where nothing could be read it is tried again.
        self._labels, self._told = labels if told else _NEVER, self._stamp
        self._due = began + max(SELDOM, (self._clock() - began) / SHARE)
        return Evidence(told)


def page_of(path: str, pipeline: str | None, **more: Any) -> str:
    """Return the address of a page about a pipeline; `more` says about what of it.

    >>> page_of("/label", "a & b"), page_of("/record", "a", id="7", of=None)
    ('/label?pipeline=a+%26+b', '/record?pipeline=a&id=7')
    """
    named = {"pipeline": pipeline, **more}
    asked = urlencode({name: value for name, value in named.items() if value is not None})
    return f"{path}?{asked}" if asked else path
