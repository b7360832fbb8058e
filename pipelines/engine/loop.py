"""The running pipeline: one process, one loop, one step per batch."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from streamboost.boosting.committee import Committee
from streamboost.connectors.base import Position, Transaction
from streamboost.errors import ConnectorError, ModelFileError
from streamboost.pipelines.engine.backlog import Backlog, OpenSources
from streamboost.pipelines.engine.batch import Effects, Inputs, Outputs
from streamboost.pipelines.engine.beside import Action, Beside
from streamboost.pipelines.engine.changes import accepted
from streamboost.pipelines.engine.intake import Intake
from streamboost.pipelines.engine.pipeline import Pipeline
from streamboost.pipelines.engine.watchers import Stopwatch, Watcher
from streamboost.pipelines.state.checkpoints import KEPT, Checkpoints
from streamboost.pipelines.state.commands import CommandSource
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.pipelines.stop import GOING_ON, WAITING, Stop
from streamboost.storage import Arrays
from streamboost.stream.training.trainer import Trainer

__all__ = ["Loop"]

_log = logging.getLogger(__name__)


class Loop:
    """Has a pipeline take batch after batch, commits what each led to, and keeps checkpoints.

    While a batch is committed it may work on the next one: what a commit waits for, brokers and
    disks, takes as long as a batch's work. Checkpoints, and watchers that are due, wait for it.

    Parameters
    ----------
    pipeline : what is known, and the step that changes it
    intake, outputs, transaction : where its messages come from, go to, and what binds them
    checkpoints : where its state is kept; None: nowhere
    checkpoint_every : batches from one checkpoint to the next
    stop : asks it to stop
    poll_interval : seconds to rest when nothing came
    watchers : those who look on; more may be added
    watched : makes the sources once more, for a thread to ask how far they have come; None: lag
        and retention are not looked after
    ahead : whether it works on while a batch is committed; not where labels answer what it asks,
        as they would come a batch later

    Attributes
    ----------
    backlog : looks after lag and retention
    stopwatch : how long the parts of the newest batches took
    about : what a checkpoint's manifest says besides
    identities : what tells the sources from others of their names
    is_settled : whether what was learned is what was committed, so that a checkpoint may be taken
    is_running : whether it has recovered and began to work
    retrying : whether a source or a commit failed, and is tried again
    checkpointed : the batch after which the newest checkpoint was taken
    lacks_checkpoint : whether the newest one that was due could not be taken
    """

    def __init__(
        self,
        pipeline: Pipeline,
        intake: Intake,
        outputs: Outputs,
        transaction: Transaction,
        *,
        checkpoints: Checkpoints | None = None,
        checkpoint_every: int = 100,
        stop: Stop | None = None,
        poll_interval: float = 0.1,
        watchers: Iterable[Watcher] = (),
        watched: OpenSources | None = None,
        ahead: bool = False,
    ) -> None:
        self.pipeline = pipeline
        self.intake, self.outputs, self.transaction = intake, outputs, transaction
        self.checkpoints = checkpoints
        self.stop = stop or Stop()
        self.poll_interval = poll_interval
        self.watchers = list(watchers)
        self.backlog = Backlog(intake, watched)
        self.stopwatch = Stopwatch()
        self.about: dict[str, Any] = {}
        self.identities: dict[str, str] = {}
        self.is_settled = True
        self.is_running = self.retrying = self.lacks_checkpoint = False
        self.checkpointed = 0
        self._ahead = ahead
        self._commits = Beside("commit", at_once=not ahead)
        self._begun: tuple[Effects, Action, Action, bool] | None = None
        self._tried, self._had_room = 0, True
        self._checkpoint_every = checkpoint_every
        self._kept: deque[Mapping[str, Position]] = deque(maxlen=KEPT)
        commands = intake.sources.get("commands")
        if isinstance(commands, CommandSource):
            commands.on_trouble = self.tell

    def run(self, *, until_idle: bool = False) -> None:
        """Work until asked to stop or, with `until_idle`, until the sources have nothing more.

        A training in a thread is waited for then. A source or a commit that fails in a way that
        may pass is tried again until it succeeds. Another error leaves what is committed as it is,
        and ends this object's use. `is_settled` then tells whether what was learned is what was
        committed, so that a checkpoint may be taken.
        """
        self.is_running = True
        self.pipeline.lap = self.stopwatch.lap
        with closing(self.backlog), closing(self._commits):
            while not self.stop.requested:
                self._between_batches()
                self.stopwatch.begin()
                inputs = self._poll()
                self.backlog.turn(self._kept[0] if self._kept else None)
                if inputs is not None:
                    self.stopwatch.lap("poll")
                    self.commit(self.step(inputs, self._trainer.finished()))
                    self.checkpoint_if_due()
                elif self._begun is not None:
                    self.settle()
                elif until_idle and self._is_idle:
                    return
                else:
                    self.stop.rest(self.poll_interval)
            self.settle()

    def step(self, inputs: Inputs, swap: Committee | None) -> Effects:
        """Take one batch in, and the committee a thread has trained; return all that follows."""
        self.is_settled = False
        return self.pipeline.step(inputs, swap)

    def restep(self, inputs: Inputs, swap: Committee | None) -> Effects:
        """Take one batch in that is committed already."""
        effects = self.pipeline.step(inputs, swap)
        self.pipeline.journal_extras = JournalExtras()
        for watcher in self.watchers:
            watcher.replayed(effects)
        return effects

    def commit(self, effects: Effects) -> None:
        """Make a step's effects durable, with the place where the sources go on.

        Where it works ahead, the commit only begins here, once the one before is done.
        """
        self.settle()
        what = effects.messages.writes(self.outputs), self.intake.positions(), effects.journal
        attempt = partial(self.transaction.commit, effects.sequence, *what)
        self.pipeline.journal_extras = JournalExtras()
        self._begun = (effects, attempt, self._commits.begin(attempt), self.stop.requested)
        if not self._ahead:
            self.settle()

    def settle(self) -> None:
        """See the commit through that has begun, if one has.

        Once asked to stop, it gives up after one more attempt: what the batch taught is lost then.
        """
        if self._begun is None:
            return
        effects, attempt, end, is_last = self._begun
        while self._begun is not None:
            try:
                with self.stop.interruptible():
                    end()
                self._begun = None
            except ConnectorError as error:
                if is_last or not error.retriable:
                    raise
                self._rest_after(error)
                end, is_last = attempt, self.stop.requested
        self.is_settled = effects.sequence == self.pipeline.sequence
        self._go_on()
        self.stopwatch.lap("commit")
        for watcher in self.watchers:
            watcher.committed(effects)

    def checkpoint_if_due(self) -> None:
        """Take a checkpoint once enough batches have passed."""
        if self.pipeline.sequence - self._tried >= self._checkpoint_every:
            self.settle()
            self.try_checkpoint()

    def try_checkpoint(self) -> None:
        """Take a checkpoint; that one cannot be taken is said, and stops nobody."""
        self._tried = self.pipeline.sequence
        try:
            self.checkpoint()
        except (OSError, ModelFileError) as error:
            text = (
                f"no checkpoint of batch {self.pipeline.sequence}: {error}. The pipeline goes on; "
                "a restart would replay from the checkpoint before"
            )
            _log.error("%s", text)
            self.lacks_checkpoint = True
            self.tell(text)

    def checkpoint(self) -> None:
        """Write down the whole state, with the committees to roll back to."""
        if self.checkpoints is None:
            return
        versions = self.pipeline.versions
        versions.write()
        arrays, manifest = self.snapshot()
        manifest |= self.about | {"versions": versions.numbers}
        self.checkpoints.save(arrays, manifest)
        self.checkpointed, self.lacks_checkpoint = self.pipeline.sequence, False
        self._kept.append(manifest["positions"])

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all that the next step depends on, and where the sources go on."""
        arrays, manifest = self.pipeline.snapshot()
        kept = {
            "positions": self.intake.positions(),
            "bookmarks": self.intake.bookmarks(),
            "identities": self.identities,
        }
        return arrays, manifest | kept

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Become the pipeline that gave this snapshot."""
        self.pipeline.restore(arrays, manifest)
        self.checkpointed = self._tried = self.pipeline.sequence
        self._kept.append(manifest["positions"])
        self.intake.last_tick = self.pipeline.tick
        self.intake.expect(manifest["bookmarks"])
        self.intake.seek(manifest["positions"])

    def _poll(self) -> Inputs | None:
        """Return the next batch, or None when nothing is there or it is time to stop.

        A training that has come to its end is reason enough for a batch, if only of nothing.
        """
        while not self.stop.requested:
            try:
                with self.stop.interruptible():
                    inputs = self.intake.poll(room=self._has_room())
            except ConnectorError as error:
                if not error.retriable:
                    raise
                self.settle()
                self._rest_after(error)
                continue
            self._go_on()
            if inputs is None:
                return self.intake.empty() if self._trainer.finished() else None
            commands = accepted(self.pipeline, inputs.commands, self.tell)
            return replace(inputs, commands=commands)
        return None

    def _has_room(self) -> bool:
        """Tell whether more labels may wait for their records, and say when it is over."""
        before, self._had_room = self._had_room, self.pipeline.join.has_room
        if before and not self._had_room:
            text = (
                "so many labels wait for their records that no more are read until records come: "
                "see that labels bear the ids of their records"
            )
            _log.warning("%s", text)
            self.tell(text)
        return self._had_room

    @property
    def is_ready(self) -> bool:
        """Whether it has recovered, and neither retries anything nor is about to stop."""
        return self.is_running and not self.retrying and not self.stop.requested

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is on its way: neither a training nor what an open source may bring."""
        return self._trainer.running is None and not self.intake.is_open

    def _rest_after(self, error: ConnectorError) -> None:
        """Rest before trying again, telling of the first failure in a row."""
        if not self.retrying:
            _log.warning(WAITING, error)
            self.tell(f"{error}. It was tried again until it succeeded, or is being")
        self.retrying = True
        self._tell_watchers()
        self.stop.rest(self.poll_interval)

    def _go_on(self) -> None:
        if self.retrying:
            _log.info(GOING_ON)
        self.retrying = False

    def tell(self, trouble: str) -> None:
        """Tell the watchers what goes wrong without ending the run."""
        for watcher in self.watchers:
            watcher.trouble(trouble)

    def _between_batches(self) -> None:
        if any(watcher.is_due for watcher in self.watchers):
            self.settle()
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        for watcher in self.watchers:
            watcher.between_batches()

    @property
    def _trainer(self) -> Trainer:
        return self.pipeline.learner.trainer
