"""Runner: the loop of a pipeline, which polls, steps, commits and takes checkpoints."""

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from streamboost.boosting.committee import Committee
from streamboost.connectors.base import Position, Transaction
from streamboost.errors import ConnectorError, ModelFileError
from streamboost.learner.trainer import Trainer
from streamboost.pipelines.runner.background_executor import Action, BackgroundExecutor
from streamboost.pipelines.runner.backlog import BacklogMonitor, OpenSources
from streamboost.pipelines.runner.batch import BatchInputs, OutputSinks, StepResult
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.commands import validate_commands
from streamboost.pipelines.runner.observers import Observer, StageTimer
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.shutdown import RECOVERED, WAITING, StopToken
from streamboost.pipelines.state.checkpoints import KEPT, Checkpoints
from streamboost.pipelines.state.commands import CommandSource
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.storage import Arrays

_log = logging.getLogger(__name__)


class Runner:
    """Loop that processes batch after batch, commits the results, and takes checkpoints.

    Commits may be pipelined: if more messages are unread, the next batch is processed while a
    commit waits for brokers and disks, which takes about as long as a step. If all are read, the
    next poll waits for the commit instead: messages that arrive meanwhile join one batch, and none
    waits for two commits. Checkpoints and due observers wait for the commit, too.

    Parameters
    ----------
    pipeline : state and step
    intake, outputs, transaction : batch reader, sinks, and the transaction that commits both
    checkpoints : store of checkpoints; None: no checkpoints
    checkpoint_every : number of batches between checkpoints
    stop : token that requests a stop
    poll_interval : seconds to wait after an empty poll
    observers : observers of the batches; more may be added
    open_sources : opens second connections to the sources, for the lag thread; None: lag and
        retention are not monitored
    pipelined_commits : whether commits are pipelined; False if labels answer requests at once, as
        these labels would arrive one batch late
    self_deleting : names of sources from which the pipeline itself deletes messages that it no
        longer needs

    Attributes
    ----------
    backlog : monitor of lag and retention
    stage_timer : durations of the stages of the newest batches
    about : additional manifest entries of checkpoints
    identities : stable ids of the sources (topic ids), keyed by source
    is_committed : whether the state is the committed state, so that a checkpoint may be taken
    is_running : whether recovery has ended and the loop has started
    retrying : whether a source or a commit failed and is being retried
    checkpointed : batch of the newest checkpoint
    lacks_checkpoint : whether the newest due checkpoint failed
    """

    def __init__(
        self,
        pipeline: Pipeline,
        intake: BatchReader,
        outputs: OutputSinks,
        transaction: Transaction,
        *,
        checkpoints: Checkpoints | None = None,
        checkpoint_every: int = 100,
        stop: StopToken | None = None,
        poll_interval: float = 0.1,
        observers: Iterable[Observer] = (),
        open_sources: OpenSources | None = None,
        pipelined_commits: bool = False,
        self_deleting: Collection[str] = (),
    ) -> None:
        self.pipeline = pipeline
        self.intake, self.outputs, self.transaction = intake, outputs, transaction
        self.checkpoints = checkpoints
        self.stop = stop or StopToken()
        self.poll_interval = poll_interval
        self.observers = list(observers)
        self.backlog = BacklogMonitor(intake, open_sources, self_deleting=self_deleting)
        self.stage_timer = StageTimer()
        self.about: dict[str, Any] = {}
        self.identities: dict[str, str] = {}
        self.is_committed = True
        self.is_running = self.retrying = self.lacks_checkpoint = False
        self.checkpointed = 0
        self._pipelined_commits = pipelined_commits
        self._commits = BackgroundExecutor("commit", inline=not pipelined_commits)
        self._pending_commit: tuple[StepResult, Action, Action, bool] | None = None
        self._encoding = BackgroundExecutor("encode")
        self._ahead: _BatchAhead | None = None
        self._attempted, self._had_room = 0, True
        self._checkpoint_every = checkpoint_every
        self._kept_positions: deque[Mapping[str, Position]] = deque(maxlen=KEPT)
        commands = intake.sources.get("commands")
        if isinstance(commands, CommandSource):
            commands.on_error = self.notify_error

    def run(self, *, until_idle: bool = False) -> None:
        """Run until a stop is requested or, with `until_idle`, until the sources are at their end.

        With `until_idle`, a training in the background is awaited. Retriable errors of sources and
        commits are retried until success. After another error, committed data is unchanged, and the
        runner must not be used again. If `is_committed` is True then, the state is the committed
        state, and a checkpoint may be taken.
        """
        self.is_running = True
        self.pipeline.on_stage_end = self.stage_timer.on_stage_end
        with closing(self.backlog), closing(self._commits), closing(self._encoding):
            while self._ahead is not None or not self.stop.requested:
                self._run_observers_between_batches()
                self.stage_timer.begin_batch()
                if self.intake.has_read_all:
                    self.await_commit()
                inputs = self._take_batch_ahead() or self._poll_until_success()
                self.backlog.update(self._kept_positions[0] if self._kept_positions else None)
                if inputs is not None:
                    self.stage_timer.on_stage_end("poll")
                    self._poll_ahead()
                    commands = validate_commands(self.pipeline, inputs.commands, self.notify_error)
                    inputs = replace(inputs, commands=commands)
                    self.commit(self.step(inputs, self._trainer.finished_committee()))
                    self.checkpoint_if_due()
                elif self._pending_commit is not None:
                    self.await_commit()
                elif until_idle and self._is_idle:
                    return
                else:
                    self.stop.wait(self.poll_interval)
            self.await_commit()

    def _poll_ahead(self) -> None:
        """Poll the batch after the polled one, and start to encode its texts on another thread.

        This happens only if sentence encoders cache their vectors and more records are unread, but
        not before a checkpoint is due. Errors are left to the next regular poll.
        """
        next_batch = self.pipeline.sequence + 1
        if (
            next_batch - self._attempted >= self._checkpoint_every
            or not self._pipelined_commits
            or not self.pipeline.can_encode_ahead
            or "records" in self.intake.short
            or self.stop.requested
        ):
            return
        before = self._source_state()
        try:
            with self.stop.interruptible():
                inputs = self.intake.poll(has_room=self._has_room_for_labels())
        except ConnectorError:
            return
        if inputs is not None:
            end = self._encoding.submit(partial(self.pipeline.encode_ahead, inputs))
            self._ahead = _BatchAhead(inputs, before, end)

    def _take_batch_ahead(self) -> BatchInputs | None:
        """Wait until the texts of the batch polled ahead are encoded; return the batch, or None."""
        if self._ahead is None:
            return None
        self._ahead.await_encoding()
        inputs = self._ahead.inputs
        self._ahead, self.is_committed = None, False
        return inputs

    def _source_state(self) -> dict[str, Any]:
        """Return the positions and bookmarks of the sources, without the batch polled ahead."""
        if self._ahead is not None:
            return self._ahead.before
        return {"positions": self.intake.positions(), "bookmarks": self.intake.bookmarks()}

    def step(self, inputs: BatchInputs, trained_committee: Committee | None) -> StepResult:
        """Process one batch; a `trained_committee` from a background training is deployed first."""
        self.is_committed = False
        return self.pipeline.step(inputs, trained_committee)

    def replay_step(self, inputs: BatchInputs, trained_committee: Committee | None) -> StepResult:
        """Process a committed batch again in a replay, and notify the observers."""
        effects = self.pipeline.step(inputs, trained_committee)
        self.pipeline.journal_extras = JournalExtras()
        for observer in self.observers:
            observer.on_replay(effects)
        return effects

    def commit(self, effects: StepResult) -> None:
        """Commit the result of a step, with the positions of the sources.

        If commits are pipelined, wait for the previous commit, and only start this one.
        """
        self.await_commit()
        what = (
            effects.messages.messages_by_sink(self.outputs),
            self._source_state()["positions"],
            effects.journal,
        )
        attempt = partial(self.transaction.commit, effects.sequence, *what)
        self.pipeline.journal_extras = JournalExtras()
        self._pending_commit = (
            effects,
            attempt,
            self._commits.submit(attempt),
            self.stop.requested,
        )
        if not self._pipelined_commits:
            self.await_commit()

    def await_commit(self) -> None:
        """Wait for the commit in progress, if any; retry after retriable errors.

        After a stop request, one more attempt is made; if it fails, the result of the batch is
        lost.
        """
        if self._pending_commit is None:
            return
        effects, attempt, end, is_last = self._pending_commit
        while self._pending_commit is not None:
            try:
                with self.stop.interruptible():
                    end()
                self._pending_commit = None
            except ConnectorError as error:
                if is_last or not error.retriable:
                    raise
                self._wait_before_retry(error)
                end, is_last = attempt, self.stop.requested
        self.is_committed = effects.sequence == self.pipeline.sequence
        self._end_retries()
        self.stage_timer.on_stage_end("commit")
        for observer in self.observers:
            observer.on_commit(effects)

    def checkpoint_if_due(self) -> None:
        """Take a checkpoint once enough batches have passed."""
        if self.pipeline.sequence - self._attempted >= self._checkpoint_every:
            self.await_commit()
            self.try_checkpoint()

    def try_checkpoint(self) -> None:
        """Take a checkpoint; log a failure and notify the observers, without raising."""
        self._attempted = self.pipeline.sequence
        try:
            self.save_checkpoint()
        except (OSError, ModelFileError) as error:
            text = (
                f"no checkpoint of batch {self.pipeline.sequence}: {error}. The pipeline "
                "continues; a restart would replay from the previous checkpoint"
            )
            _log.error("%s", text, extra={"event": "checkpoint_failed"})
            self.lacks_checkpoint = True
            self.notify_error(text)

    def save_checkpoint(self) -> None:
        """Save a checkpoint of the complete state, with the committees for rollback."""
        if self.checkpoints is None:
            return
        versions = self.pipeline.versions
        versions.write()
        arrays, manifest = self.snapshot()
        manifest |= self.about | {"versions": versions.version_numbers}
        self.checkpoints.save(arrays, manifest)
        self.checkpointed, self.lacks_checkpoint = self.pipeline.sequence, False
        self._kept_positions.append(manifest["positions"])
        for observer in self.observers:
            observer.on_checkpoint(self.pipeline.join.now, manifest)

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the pipeline state, with positions, bookmarks and identities of the sources."""
        arrays, manifest = self.pipeline.snapshot()
        return arrays, manifest | self._source_state() | {"identities": self.identities}

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Restore the state of a snapshot, and seek the sources to its positions."""
        self.pipeline.restore(arrays, manifest)
        self.checkpointed = self._attempted = self.pipeline.sequence
        self._kept_positions.append(manifest["positions"])
        self.intake.last_batch_time_ms = self.pipeline.batch_time_ms
        self.intake.set_expected_bookmarks(manifest["bookmarks"])
        self.intake.seek(manifest["positions"])

    def _poll_until_success(self) -> BatchInputs | None:
        """Poll until a poll succeeds; return the batch, or None without messages or after a stop.

        If a training has finished, an empty batch is returned instead of None.
        """
        while not self.stop.requested:
            try:
                with self.stop.interruptible():
                    inputs = self.intake.poll(has_room=self._has_room_for_labels())
            except ConnectorError as error:
                if not error.retriable:
                    raise
                self.await_commit()
                self._wait_before_retry(error)
                continue
            self._end_retries()
            if inputs is None:
                return (
                    self.intake.build_empty_batch() if self._trainer.finished_committee() else None
                )
            self.is_committed = False
            return inputs
        return None

    def _has_room_for_labels(self) -> bool:
        """Return whether the join accepts pending labels; warn when their limit is reached.

        This is the backpressure of labels without records: no more are polled until records arrive.
        """
        before, self._had_room = self._had_room, self.pipeline.join.has_room_for_labels
        if before and not self._had_room:
            text = (
                "too many labels wait for their records: no labels are read until records arrive. "
                "Check that labels have the ids of their records"
            )
            _log.warning("%s", text, extra={"event": "pending_labels_full"})
            self.notify_error(text)
        return self._had_room

    @property
    def is_ready(self) -> bool:
        """Whether recovery has ended, no retry is in progress, and no stop was requested."""
        return self.is_running and not self.retrying and not self.stop.requested

    @property
    def _is_idle(self) -> bool:
        """Whether no training is in progress, and no source can deliver further messages."""
        return self._trainer.running_training is None and not self.intake.is_open

    def _wait_before_retry(self, error: ConnectorError) -> None:
        """Wait before a retry; report the first of consecutive failures."""
        if not self.retrying:
            _log.warning(WAITING, error, extra={"event": "retry_started"})
            self.notify_error(f"{error}. The operation is retried until it succeeds")
        self.retrying = True
        self._run_periodic_observer_work()
        self.stop.wait(self.poll_interval)

    def _end_retries(self) -> None:
        if self.retrying:
            _log.info(RECOVERED, extra={"event": "retry_succeeded"})
        self.retrying = False

    def notify_error(self, error: str) -> None:
        """Notify the observers of an error that does not end the run."""
        for observer in self.observers:
            observer.on_error(error)

    def _run_observers_between_batches(self) -> None:
        if any(observer.is_work_due for observer in self.observers):
            self.await_commit()
        self._run_periodic_observer_work()

    def _run_periodic_observer_work(self) -> None:
        for observer in self.observers:
            observer.between_batches()

    @property
    def _trainer(self) -> Trainer:
        return self.pipeline.learner.trainer


class _BatchAhead(NamedTuple):
    """Batch that was polled before the step of the preceding batch, with its encoding."""

    inputs: BatchInputs
    before: dict[str, Any]
    """Positions and bookmarks of the sources before its poll."""
    await_encoding: Action
