"""Scorer: consumer group member that predicts its assigned partitions and commits the results.

A scorer has no local state. The state of a partition is read from the newest entry of the scoring
log when the partition is assigned. The state is dropped when the partition is revoked, or when the
result of a commit is unknown.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from streamboost.connectors.base import Message, MessageMetadata
from streamboost.connectors.kafka.compacted_topic import CompactedTopicReader
from streamboost.connectors.kafka.group.assignment import PolledBatch, TopicMessage
from streamboost.connectors.kafka.group.committed_reader import CommittedReader
from streamboost.connectors.kafka.group.member import KafkaMember, PartitionsRevokedError
from streamboost.errors import ConnectorError, DeletedError
from streamboost.pipelines.distributed.model_log import ModelLogReader, ModelSnapshot
from streamboost.pipelines.distributed.partition_task import PartitionTask, TaskSettings
from streamboost.pipelines.distributed.scoring_log import KEY, ScoringLogEntry, ScoringStepResult
from streamboost.pipelines.runner.batch_reader import current_time_ms
from streamboost.pipelines.shutdown import RECOVERED, WAITING, StopToken

_log = logging.getLogger(__name__)


class ScorerTopics(NamedTuple):
    """Names of the topics that a scorer reads and writes."""

    records: str
    predictions: str
    requests: str
    dead_letters: str
    scoring_log: str


class Scorer:
    """Scorer process of one consumer group member.

    Parameters
    ----------
    member : group member with its consumer and producer
    committed_reader : reader of committed messages (``read_committed``)
    topics : names of the topics that the scorer reads and writes
    models_reader : reader of the compacted topic with the model snapshots
    model_log : decoder of this topic's messages
    settings : TaskSettings
    max_records : maximum number of messages of a poll
    stop : token that requests a stop
    poll_interval : seconds to wait before a retry
    on_data_loss : "fail", or "continue": skip records that were deleted before they were read

    Attributes
    ----------
    tasks : tasks of the assigned partitions
    records : number of predicted records
    is_waiting : whether the scorer waits for a retry, a model snapshot or a partition
    """

    def __init__(
        self,
        member: KafkaMember,
        committed_reader: CommittedReader,
        topics: ScorerTopics,
        models_reader: CompactedTopicReader,
        model_log: ModelLogReader,
        settings: TaskSettings,
        *,
        max_records: int = 100,
        stop: StopToken | None = None,
        poll_interval: float = 0.1,
        on_data_loss: str = "fail",
    ) -> None:
        self.tasks: dict[int, PartitionTask] = {}
        self.records = 0
        self._member = member
        self._committed_reader = committed_reader
        self._topics = topics
        self._models_reader = models_reader
        self._model_log = model_log
        self._settings = settings
        self._max_records = max_records
        self._stop = stop or StopToken()
        self._poll_interval = poll_interval
        self._on_data_loss = on_data_loss
        self.is_waiting = False
        self._has_read = False

    def run(self) -> None:
        """Score until a stop is requested; retriable errors are retried until success."""
        while not self._stop.requested:
            try:
                with self._stop.interruptible():
                    self.run_once()
            except PartitionsRevokedError as error:
                _log.info(
                    "%s; the committed state is read again",
                    error,
                    extra={"event": "partitions_revoked"},
                )
            except ConnectorError as error:
                if not error.retriable:
                    raise
                if not self.is_waiting:
                    _log.warning(WAITING, error, extra={"event": "retry_started"})
                self.is_waiting = True
                self._stop.wait(self._poll_interval)

    def run_once(self) -> int:
        """Poll, predict and commit once; return the number of predicted records."""
        self._member.initialize_producer()
        polled = self._member.poll(self._max_records)
        try:
            return self._score_polled_batch(polled)
        except BaseException:
            # The messages are not polled again without a seek, and the result of the commit is
            # unknown: drop the tasks, so that they are restored from the committed state.
            for partition in polled.messages:
                self.tasks.pop(partition, None)
            raise

    def _score_polled_batch(self, polled: PolledBatch) -> int:
        """Predict the polled messages; return their number. Missing tasks are created instead."""
        ours = polled.ownership.partitions
        for partition in polled.ownership.changed | (self.tasks.keys() - ours):
            self.tasks.pop(partition, None)
        edition = self._poll_newest_snapshot()
        if edition is None:
            self._log_reason_and_wait(
                "there is no model snapshot yet: `streamboost learn` publishes the first"
            )
            return 0
        found = self._messages_by_partition(polled)
        if missing := ours - self.tasks.keys():
            self._create_tasks(sorted(missing))
        return self._predict_and_commit(found, edition, polled) if found else 0

    def _poll_newest_snapshot(self) -> ModelSnapshot | None:
        if self._has_read:
            self._model_log.read(self._models_reader.poll(), is_complete=False)
        else:
            self._model_log.read(self._models_reader.read_to_end())
        self._has_read = True
        return self._model_log.newest

    def _log_reason_and_wait(self, reason: str) -> None:
        """Wait for one poll interval; log the reason at the first of consecutive waits."""
        if not self.is_waiting:
            _log.info("%s: waiting", reason, extra={"event": "scorer_waiting"})
        self.is_waiting = True
        self._stop.wait(self._poll_interval)

    def _messages_by_partition(self, polled: PolledBatch) -> dict[int, list[Message]]:
        """Return the polled messages of partitions with a task.

        If messages precede the next offset of a task, the messages are left out, and the task is
        removed. Messages that are left out are read again after their task is created from the
        committed state.
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

    def _create_tasks(self, partitions: list[int]) -> None:
        member, topics = self._member, self._topics
        written = min(
            member.output_partition_count(name) for name in (topics.predictions, topics.scoring_log)
        )
        n = member.partition_count()
        for partition in partitions:
            if partition >= written:
                self._log_reason_and_wait(
                    f"partition {partition} is missing in {topics.predictions!r} or "
                    f"{topics.scoring_log!r}, until `streamboost learn` adds it"
                )
                continue
            newest = self._committed_reader.newest_message(topics.scoring_log, partition)
            where = f"partition {partition} of topic {topics.scoring_log!r}"
            entry = ScoringLogEntry.decode(newest.payload, where) if newest else None
            task = PartitionTask(partition, self._settings, n, entry, member.input_id)
            edition = self._read_snapshot(task.snapshot_number)
            if edition is None:
                self._log_reason_and_wait(
                    f"partition {partition} needs model snapshot {task.snapshot_number}, which has "
                    "not been read yet"
                )
                continue
            if task.replay_range is not None:
                task.restore(self._read_retained_messages(partition, *task.replay_range), edition)
            task.next, task.gap = self._seek_partition(partition, task.next)
            self.tasks[partition] = task
            _log.info(
                "partition %d is assigned: reading from offset %d",
                partition,
                task.next,
                extra={"event": "partition_assigned"},
            )

    def _read_retained_messages(self, partition: int, start: int, end: int) -> list[Message]:
        member = self._member
        return self._committed_reader.messages_between(
            member.topic, partition, start, end, member.max_bytes
        )

    def _read_snapshot(self, snapshot_number: int) -> ModelSnapshot | None:
        newest = self._model_log.newest
        if newest is None or newest.number < snapshot_number:
            self._model_log.read(self._models_reader.read_to_end())
            newest = self._model_log.newest
        return newest if newest is not None and newest.number >= snapshot_number else None

    def _seek_partition(self, partition: int, offset: int | None) -> tuple[int, list[int] | None]:
        """Seek a partition to `offset`; skip deleted offsets if `on_data_loss` is "continue".

        Returns the offset, and the skipped range [start, end), or None.
        """
        try:
            return self._member.seek(partition, offset), None
        except DeletedError as error:
            start = self._member.beginning_offset(partition)
            if self._on_data_loss != "continue" or offset is None or start <= offset:
                raise
            _log.error("%s. These offsets are skipped", error, extra={"event": "offsets_deleted"})
            return self._member.seek(partition, start), [offset, start]

    def _predict_and_commit(
        self,
        messages_by_partition: Mapping[int, list[Message]],
        snapshot: ModelSnapshot,
        polled: PolledBatch,
    ) -> int:
        batch_time_ms, steps = current_time_ms(), {}
        for partition, messages in messages_by_partition.items():
            lag = self._member.lag(partition)
            end = polled.ends[partition]
            steps[partition] = self.tasks[partition].step(
                messages, snapshot, batch_time_ms, lag, end
            )
        places = {partition: step.end for partition, step in steps.items()}
        self._member.commit(self._output_messages(steps), places, polled)
        if self.is_waiting:
            _log.info(RECOVERED, extra={"event": "retry_succeeded"})
        self.is_waiting = False
        n = sum(step.records for step in steps.values())
        self.records += n
        return n

    def _output_messages(self, steps: Mapping[int, ScoringStepResult]) -> list[TopicMessage]:
        """Return the output messages of `steps`; predictions keep the partition of their record."""
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
                writes += [TopicMessage(topic, place, one, about) for one, about in pairs]
            writes.append(
                TopicMessage(topics.scoring_log, partition, step.entry, MessageMetadata(KEY))
            )
        return writes

    def close(self) -> None:
        """Leave the group, which starts a rebalance at once, and close the readers."""
        self._member.close()
        self._committed_reader.close()
        self._models_reader.close()
