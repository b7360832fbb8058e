"""Monitor of consumer lag, stalled partitions and retention.

A separate thread with its own connections queries the sources, so that a slow broker does not delay
the loop. The retention check warns before a replay from the oldest checkpoint becomes impossible.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from streamboost.connectors.base import Position, Source
from streamboost.errors import ConnectorError, StreamBoostError
from streamboost.pipelines.runner.batch_reader import BatchReader

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between the answer to one lag query and the next query."""

_CLOSING = 1.0
"""Timeout in seconds of `close` for a query in progress."""

PATIENCE = 30.0
"""Seconds for which a partition with unread messages may return none before its source is
reopened."""

_IN_TURN = 10
"""Number of partitions that a consumer polls within `PATIENCE`; more partitions have more time."""

_NEAR = 0.8
"""Warning threshold of the retention check. The numerator is the offsets between the oldest
checkpoint and the current position. The denominator is all retained offsets before that position.
Above the threshold, retention is about to delete messages that a replay needs."""

OpenSources = Callable[[], Mapping[str, Source]]


class BacklogMonitor:
    """Monitor that queries the sources' lag periodically, and warns of stalls and retention.

    Parameters
    ----------
    intake : batch reader whose sources the runner polls
    open_sources : returns further connections to the sources, keyed by name, for queries; None: no
        queries are made
    clock : returns seconds that never decrease
    self_deleting : names of sources from which the pipeline itself deletes messages that it no
        longer needs; no warnings of short retention are given for these

    Attributes
    ----------
    lag : maps a source name to the number of unread messages (for a file of lines, unread bytes);
        sources that cannot report a lag are missing
    stalled : sources whose lag grew while polls returned nothing
    margin : maps a source name to the number of retained offsets before the position of the oldest
        checkpoint; below 0, retention has deleted messages that a replay needs
    """

    def __init__(
        self,
        intake: BatchReader,
        open_sources: OpenSources | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        self_deleting: Collection[str] = (),
    ) -> None:
        self._self_deleting = self_deleting
        self.lag: dict[str, int] = {}
        self.stalled: set[str] = set()
        self.margin: dict[str, int] = {}
        self._intake = intake
        self._open_sources = open_sources
        self._clock = clock
        self._query_thread: _LagQueryThread | None = None
        self._is_asking = False
        self._answered = -math.inf
        self._stalled_since: dict[str, bool] = {}
        self._near_retention: dict[str, bool] = {}
        self._delivered: dict[str, tuple[int, float]] = {}  # lag and time of the last delivery
        self._warned: set[str] = set()
        # Partitions that return none of their unread messages: offset, and time of its last change.
        self._stuck_partitions: dict[tuple[str, str], tuple[int, float]] = {}

    def update(self, checkpoint_positions: Mapping[str, Position] | None) -> None:
        """Process a finished lag query, or start one if it is due; call this after each poll.

        The call does not wait for a query. `checkpoint_positions` are the positions of the sources
        at the oldest checkpoint; None: no checkpoint.
        """
        for name, n in self._intake.n_polled.items():
            # Labels may be buffered until their records are read: their source is not silent then.
            is_silent = not n and name in self._intake.short
            self._stalled_since[name] = self._stalled_since.get(name, True) and is_silent
            self._near_retention[name] = (
                self._near_retention.get(name, True) and name in self._intake.short
            )
        if self._is_asking:
            self._process_lag_result(checkpoint_positions or {})
        elif self._clock() - self._answered >= EVERY and self._open_sources is not None:
            self._query_thread = self._query_thread or _LagQueryThread(self._open_sources)
            self._query_thread.requests.put((self._intake.positions(), self._intake.bookmarks()))
            self._is_asking = True

    def close(self) -> None:
        """Query the lag a last time, and stop the query thread; wait at most one second."""
        if self._query_thread is not None:
            self._query_thread.requests.put((self._intake.positions(), self._intake.bookmarks()))
            self._query_thread.close(_CLOSING)
            while not self._query_thread.results.empty():
                self._process_lag_result({})
        self._query_thread, self._is_asking = None, False

    def _process_lag_result(self, checkpoint_positions: Mapping[str, Position]) -> None:
        assert self._query_thread is not None
        try:
            answer = self._query_thread.results.get_nowait()
        except Empty:
            return
        for name, found in answer.items():
            if found.lag is not None:
                self._update_stalled_sources(name, found.lag)
            if found.ends is not None:
                self._intake.sources[name].update_end_offsets(found.ends)
                self._reopen_source_of_stuck_partition(name, found.ends)
            if name in checkpoint_positions and found.beginning is not None:
                self._warn_of_short_retention(name, found.beginning, checkpoint_positions[name])
        lags = {name: found.lag for name, found in answer.items() if found.lag is not None}
        self.lag = lags  # as a whole: another thread may be reading it
        self._is_asking, self._answered = False, self._clock()
        self._stalled_since, self._near_retention = {}, {}

    def _update_stalled_sources(self, source_name: str, lag: int) -> None:
        silent, now = self._stalled_since.get(source_name), self._clock()
        if not silent:
            self._delivered[source_name] = (lag, now)
            if silent is False and source_name in self.stalled:
                self.stalled.discard(source_name)
                _log.info(
                    "%s: messages arrive again", source_name, extra={"event": "source_resumed"}
                )
            return
        before, then = self._delivered.setdefault(source_name, (lag, now))
        # New messages may not have been polled yet: require that the lag was positive before, too.
        if lag > before and self.lag.get(source_name) and source_name not in self.stalled:
            self.stalled.add(source_name)
            _log.warning(
                "%s: lag grew by %d to %d messages in %.0f s, but polls return nothing. Check for "
                "producers with open transactions, and whether the source can be reached.",
                source_name,
                lag - before,
                lag,
                now - then,
                extra={"event": "source_stalled"},
            )

    def _reopen_source_of_stuck_partition(self, source_name: str, end_offsets: Position) -> None:
        """Close a source if polls return none of the unread messages of a partition.

        The next poll reopens the source. The timeout is `PATIENCE` seconds, or more with many
        partitions. Polls that reached their message limit do not count, as messages of other
        partitions may have filled them.
        """
        source, now = self._intake.sources[source_name], self._clock()
        if not self._near_retention.get(
            source_name
        ):  # polls reached their limit, or the source was not polled
            self._stuck_partitions = {
                key: at for key, at in self._stuck_partitions.items() if key[0] != source_name
            }
            return
        places = source.position()
        patience = PATIENCE * max(len(places) / _IN_TURN, 1.0)
        for partition, place in places.items():
            key = (source_name, partition)
            before, since = self._stuck_partitions.get(key, (-1, now))
            if place >= end_offsets.get(partition, 0):
                self._stuck_partitions.pop(key, None)
            elif place != before:
                self._stuck_partitions[key] = (place, now)
            elif now - since >= patience:
                _log.warning(
                    "%s: partition %s has messages from offset %d to %d, but polls returned none "
                    "for %.0f s: the source is reopened",
                    source_name,
                    partition,
                    place,
                    end_offsets[partition],
                    now - since,
                    extra={"event": "source_reopened"},
                )
                source.close()
                self._stuck_partitions = {}
                return

    def _warn_of_short_retention(
        self, source_name: str, beginning_offsets: Position, checkpoint_position: Position
    ) -> None:
        place = self._intake.positions()[source_name]
        common = beginning_offsets.keys() & checkpoint_position.keys() & place.keys()
        margins = {p: checkpoint_position[p] - beginning_offsets[p] for p in common}
        if not margins:
            return
        self.margin = self.margin | {source_name: min(margins.values())}
        if source_name in self._self_deleting:
            return
        near = [
            p
            for p in sorted(common)
            if beginning_offsets[p] > 0
            and place[p] - checkpoint_position[p] > _NEAR * (place[p] - beginning_offsets[p])
        ]
        if not near:
            self._warned.discard(source_name)
        elif source_name not in self._warned:
            self._warned.add(source_name)
            first = min(near, key=margins.__getitem__)
            _log.warning(
                "%s: retention is too short for a restart: partition %s begins at offset %d, and "
                "the oldest checkpoint needs offset %d. Keep messages for longer, or take "
                "checkpoints more often ([pipeline] checkpoint_every)",
                source_name,
                first,
                beginning_offsets[first],
                checkpoint_position[first],
                extra={"event": "retention_short"},
            )


_Places = tuple[Mapping[str, Position], Mapping[str, str]]


class _LagQueryResult(NamedTuple):
    """Lag of one source, and its beginning and end offsets by partition.

    A value is None if the source cannot report it, or if the query failed.
    """

    lag: int | None
    beginning: Position | None
    ends: Position | None


class _LagQueryThread:
    """Thread that opens its own connections to the sources, queries their lag, and closes them.

    Attributes
    ----------
    requests : queue of queries, each two mappings from source names: to positions, and to
        bookmarks; None ends the thread
    results : queue of results, one for each query
    """

    def __init__(self, open_sources: OpenSources) -> None:
        self.requests: SimpleQueue[_Places | None] = SimpleQueue()
        self.results: SimpleQueue[dict[str, _LagQueryResult]] = SimpleQueue()
        self._open_sources = open_sources
        self._has_failed = False
        self._thread = Thread(target=self._answer_lag_queries, name="streamboost-lag", daemon=True)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Stop the thread after the query in progress; wait at most `seconds`."""
        self.requests.put(None)
        self._thread.join(seconds)

    def _answer_lag_queries(self) -> None:
        sources: Mapping[str, Source] = {}
        while (asked := self.requests.get()) is not None:
            places, bookmarks = asked
            seen: dict[str, _LagQueryResult] = {}
            try:
                sources = sources or self._open_sources()
                for name in places.keys() & sources.keys():
                    seen[name] = _query_lag_and_offsets(
                        sources[name], places[name], bookmarks.get(name)
                    )
            except Exception:  # an error in monitoring must not stop the pipeline
                if not self._has_failed:
                    _log.exception(
                        "the lag of the sources cannot be read; the pipeline continues",
                        extra={"event": "lag_query_failed"},
                    )
                self._has_failed = True
            self.results.put(seen)
        for source in sources.values():
            with suppress(StreamBoostError):
                source.close()


def _query_lag_and_offsets(
    source: Source, position: Position, bookmark: str | None
) -> _LagQueryResult:
    """Return the lag of a source at `position`, with its beginning and end offsets.

    If the source fails, or its content is not that of `bookmark`, all values are None.
    """
    try:
        if bookmark is not None:
            source.set_expected_content(bookmark)
        source.seek(position)
        return _LagQueryResult(source_lag(source), source.beginning_offsets(), source.end_offsets())
    except StreamBoostError:
        return _LagQueryResult(None, None, None)  # the loop's next poll reports the error


def source_lag(source: Source) -> int | None:
    """Return the number of unread messages of a source, or None if the source cannot report it."""
    try:
        return source.lag()
    except ConnectorError:
        return None
