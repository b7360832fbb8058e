"""A scorer: predicts the partitions that its group gives it, and commits what it did of each.

It keeps nothing of its own. What a partition needs is read from its newest entry of progress when
the partition comes, and forgotten when it goes, or when nobody can tell what came of a commit.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from streamboost.connectors.base import Carried, Message
from streamboost.connectors.kafka.group.beside import Beside
from streamboost.connectors.kafka.group.member import KafkaMember, MovedError
from streamboost.connectors.kafka.group.ownership import Polled, Write
from streamboost.connectors.kafka.table import KafkaTable
from streamboost.errors import ConnectorError, DeletedError
from streamboost.pipelines.apart.committees import Edition, Editions
from streamboost.pipelines.apart.progress import KEY, Progress, Step
from streamboost.pipelines.apart.task import Settings, Task
from streamboost.pipelines.engine.intake import wall_clock
from streamboost.pipelines.stop import GOING_ON, WAITING, Stop

__all__ = ["Scorer", "Topics"]

_log = logging.getLogger(__name__)


class Topics(NamedTuple):
    """Where a scorer reads and writes."""

    records: str
    predictions: str
    requests: str
    dead_letters: str
    progress: str


class Scorer:
    """Scores until it is asked to stop.

    Parameters
    ----------
    member : the member of the group
    beside : reads what members have committed
    topics : Topics
    table, editions : what there is to predict by
    settings : Settings
    most : most messages of a poll
    stop : asks it to stop
    poll_interval : seconds to rest when something is to be tried again
    on_gap : "stop", or "continue": go on after records that were deleted before they were read
    clock : gives the tick, in milliseconds

    Attributes
    ----------
    tasks : of the partitions that it has
    records : predicted so far
    is_waiting : whether there is something that it waits for
    """

    def __init__(
        self,
        member: KafkaMember,
        beside: Beside,
        topics: Topics,
        table: KafkaTable,
        editions: Editions,
        settings: Settings,
        *,
        most: int = 100,
        stop: Stop | None = None,
        poll_interval: float = 0.1,
        on_gap: str = "stop",
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.tasks: dict[int, Task] = {}
        self.records = 0
        self._member = member
        self._beside = beside
        self._topics = topics
        self._table = table
        self._editions = editions
        self._settings = settings
        self._most = most
        self._stop = stop or Stop()
        self._poll_interval = poll_interval
        self._on_gap = on_gap
        self._clock = clock
        self.is_waiting = False
        self._has_read = False

    def run(self) -> None:
        """Score until asked to stop; what may pass by itself is tried again until it does."""
        while not self._stop.requested:
            try:
                with self._stop.interruptible():
                    self.turn()
            except MovedError as error:
                _log.info("%s; it is read anew from what is committed", error)
            except ConnectorError as error:
                if not error.retriable:
                    raise
                if not self.is_waiting:
                    _log.warning(WAITING, error)
                self.is_waiting = True
                self._stop.rest(self._poll_interval)

    def turn(self) -> int:
        """Take one poll's messages, predict and commit; return how many records there were."""
        self._member.ready()
        polled = self._member.poll(self._most)
        try:
            return self._use(polled)
        except BaseException:
            # They will not be polled again by themselves, and what a step made of them is not
            # committed, or nobody knows.
            for partition in polled.messages:
                self.tasks.pop(partition, None)
            raise

    def _use(self, polled: Polled) -> int:
        """Predict what was polled, of partitions that are known; take over the others."""
        ours = polled.ownership.partitions
        for partition in polled.ownership.changed | (self.tasks.keys() - ours):
            self.tasks.pop(partition, None)
        edition = self._newest()
        if edition is None:
            self._await("`streamboost learn` has not published anything to predict by yet")
            return 0
        found = self._in_order(polled)
        if missing := ours - self.tasks.keys():
            self._take_over(sorted(missing))
        return self._score(found, edition, polled) if found else 0

    def _newest(self) -> Edition | None:
        """Return the newest edition, None before the first."""
        if self._has_read:
            self._editions.take(self._table.poll(), are_all=False)
        else:
            self._editions.take(self._table.read())
        self._has_read = True
        return self._editions.newest

    def _await(self, what: str) -> None:
        """Say what is waited for, once, and rest."""
        if not self.is_waiting:
            _log.info("%s: waiting", what)
        self.is_waiting = True
        self._stop.rest(self._poll_interval)

    def _in_order(self, polled: Polled) -> dict[int, list[Message]]:
        """Return the messages of partitions that are known; others are read again, from there on.

        So is one whose messages do not follow what was taken of it.
        """
        found = {}
        for partition, messages in sorted(polled.messages.items()):
            task = self.tasks.get(partition)
            if task is None or not messages:
                continue
            if task.next is not None and messages[0].offset < task.next:
                del self.tasks[partition]
                continue
            found[partition] = messages
        return found

    def _take_over(self, partitions: list[int]) -> None:
        """Make what is known of partitions from what is committed of them."""
        member, topics = self._member, self._topics
        written = min(member.writable(name) for name in (topics.predictions, topics.progress))
        n = member.partitions()
        for partition in partitions:
            if partition >= written:
                self._await(f"partition {partition} has no place in {topics.predictions!r} yet")
                continue
            newest = self._beside.newest(topics.progress, partition)
            where = f"partition {partition} of topic {topics.progress!r}"
            entry = Progress.decode(newest.payload, where) if newest else None
            task = Task(partition, self._settings, n, entry, member.identity)
            edition = self._at_least(task.edition)
            if edition is None:
                self._await(f"edition {task.edition} of what partition {partition} is predicted by")
                continue
            if task.reread is not None:
                task.resume(self._reread(partition, *task.reread), edition)
            task.next, task.gap = self._place(partition, task.next)
            self.tasks[partition] = task
            _log.info("partition %d from offset %d on", partition, task.next)

    def _reread(self, partition: int, start: int, end: int) -> list[Message]:
        """Return what there still is of the records of [start, end)."""
        member = self._member
        return self._beside.between(member.topic, partition, start, end, member.max_bytes)

    def _at_least(self, number: int) -> Edition | None:
        """Return the newest edition, unless it is older than `number`."""
        newest = self._editions.newest
        if newest is None or newest.number < number:
            self._editions.take(self._table.read())
            newest = self._editions.newest
        return newest if newest is not None and newest.number >= number else None

    def _place(self, partition: int, offset: int | None) -> tuple[int, list[int] | None]:
        """Send the member to where a partition goes on, passing over a gap if it may."""
        try:
            return self._member.seek(partition, offset), None
        except DeletedError as error:
            start = self._member.beginning(partition)
            if self._on_gap != "continue" or offset is None or start <= offset:
                raise
            _log.error("%s. They are passed over", error)
            return self._member.seek(partition, start), [offset, start]

    def _score(self, found: Mapping[int, list[Message]], edition: Edition, polled: Polled) -> int:
        tick, steps = self._clock(), {}
        for partition, messages in found.items():
            lag = self._member.lag(partition)
            end = polled.ends[partition]
            steps[partition] = self.tasks[partition].step(messages, edition, tick, lag, end)
        places = {partition: step.end for partition, step in steps.items()}
        self._member.commit(self._writes(steps), places, polled)
        if self.is_waiting:
            _log.info(GOING_ON)
        self.is_waiting = False
        n = sum(step.records for step in steps.values())
        self.records += n
        return n

    def _writes(self, steps: Mapping[int, Step]) -> list[Write]:
        """Return all that the steps write, each prediction where its record stands."""
        topics, writes = self._topics, []
        for partition, step in steps.items():
            made = step.messages
            places = (
                (topics.predictions, partition, made.predictions),
                (topics.requests, None, made.requests),
                (topics.dead_letters, None, made.dead_letters),
            )
            for topic, place, ones in places:
                pairs = zip(ones, ones.about, strict=True)
                writes += [Write(topic, place, one, about) for one, about in pairs]
            writes.append(Write(topics.progress, partition, step.entry, Carried(KEY)))
        return writes

    def close(self) -> None:
        """Leave the group, so that others take over at once."""
        self._member.close()
        self._beside.close()
        self._table.close()
