"""A pipeline's status as the pages show it: read once for however many look."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from streamboost.pipelines.service.pages.charts import Point, thinned
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["EVERY", "Feed", "Status", "View"]

EVERY = 1.0
"""Seconds between two looks at a status."""

LETTERS = 20
"""Dead letters that are shown."""

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """A status as it was at one moment; `number` differs from that of every other moment."""

    number: int = 0
    documents: Mapping[str, Any] = field(default_factory=dict)
    points: Sequence[Point] = ()
    marks: Sequence[Status] = ()
    dead_letters: Sequence[Status] = ()

    @property
    def open_requests(self) -> int:
        """How many requests wait for an answer."""
        return int(self.document("join").get("open_requests", 0))

    def document(self, name: str) -> Any:
        """Return the document `name`, empty where there is none."""
        return self.documents.get(name) or {}


class Feed:
    """Looks at a status at most once in `EVERY` seconds, and only while somebody asks.

    Parameters
    ----------
    reader : reads the status
    threads : reads in one thread, since a reader's stamps compare within a thread
    clock : gives seconds that never go back
    """

    def __init__(
        self,
        reader: StatusReader,
        threads: ThreadPoolExecutor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._threads = threads
        self._clock = clock
        self._lock = asyncio.Lock()
        self._looked = float("-inf")
        self._stamp: int | None = None
        self._view = View()

    async def look(self) -> View:
        """Return the newest view."""
        async with self._lock:
            if self._clock() - self._looked >= 0.9 * EVERY:
                loop = asyncio.get_running_loop()
                self._view = await loop.run_in_executor(self._threads, self._read)
                self._looked = self._clock()
        return self._view

    def _read(self) -> View:
        stamp, reader = self._reader.stamp(), self._reader
        if stamp == self._stamp:
            return self._view
        self._stamp = stamp
        return View(
            number=self._view.number + 1,
            documents=reader.documents(),
            points=thinned(reader.points()),
            marks=reader.marks(),
            dead_letters=reader.dead_letters(LETTERS),
        )
