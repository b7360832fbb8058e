"""The running pipeline: one process, one loop, one step per batch."""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from streamboost.boosting.committee import Committee
from streamboost.connectors.base import Position, Transaction
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConnectorError, ModelFileError, StateError
from streamboost.pipelines.engine.backlog import OpenSources, Watch
from streamboost.pipelines.engine.batch import Effects, Outputs
from streamboost.pipelines.engine.intake import Inputs, Intake, refuse
from streamboost.pipelines.engine.join import Join
from streamboost.pipelines.engine.pipeline import Stepper
from streamboost.pipelines.engine.watchers import Stopwatch
from streamboost.pipelines.state.checkpoints import KEPT, Checkpoints
from streamboost.pipelines.state.commands import Command, CommandSource
from streamboost.pipelines.state.versions import Versions
from streamboost.pipelines.stop import Stop
from streamboost.storage import Arrays
from streamboost.stream.learner import StreamLearner

__all__ = ["Pipeline", "Stop"]

_log = logging.getLogger(__name__)

Observer = Callable[[Effects], None]


class Pipeline(Stepper):
    """Takes batch after batch, commits what each led to, and keeps the state in checkpoints.

    Parameters
    ----------
    schema : Schema whose features are known
    learner, join : what the pipeline knows
    intake, outputs, transaction : where its messages come from, go to, and what binds them
    versions : where committees are kept to roll back to; None: the newest ten in memory
    checkpoints : where its state is kept; None: nowhere
    checkpoint_every : batches from one checkpoint to the next
    stop : asks it to stop
    poll_interval : seconds to rest when nothing came
    observer : called with the effects of every batch, once they are committed
    on_trouble : told what goes wrong without ending the run
    watched : makes the sources once more, for a thread to ask how far they have come; None: lag
        and retention are not looked after

    Attributes
    ----------
    observers : called like `observer`, which is the first of them
    rehearsals : called with the effects of batches that are replayed
    stopwatch : how long the parts of the newest batches took
    on_trouble : called like the parameter, which is the first of them
    turns : called between two batches, and while nothing comes or something is tried again
    watch : looks after lag and retention
    about : what a checkpoint's manifest says besides
    identities : what tells the sources from others of their names
    is_settled : whether what was learned is what was committed, so that a checkpoint may be taken
    poll_interval : seconds to rest when nothing came
    is_running : whether it has recovered and began to work
    retrying : whether a source or a commit failed, and is tried again
    checkpointed : the batch after which the newest checkpoint was taken
    lacks_checkpoint : whether the newest one that was due could not be taken
    """

    def __init__(
        self,
        schema: Schema,
        learner: StreamLearner,
        join: Join,
        intake: Intake,
        outputs: Outputs,
        transaction: Transaction,
        *,
        versions: Versions | None = None,
        checkpoints: Checkpoints | None = None,
        checkpoint_every: int = 100,
        stop: Stop | None = None,
        poll_interval: float = 0.1,
        observer: Observer | None = None,
        on_trouble: Callable[[str], None] | None = None,
        watched: OpenSources | None = None,
    ) -> None:
        super().__init__(schema, learner, join, versions or Versions(None, 10))
        self.intake = intake
        self.outputs = outputs
        self.transaction = transaction
        self.checkpoints = checkpoints
        self.stop = stop or Stop()
        self.about: dict[str, Any] = {}
        self.identities: dict[str, str] = {}
        self.is_settled = True
        self.retrying = False
        self.checkpointed = 0
        self.lacks_checkpoint = False
        self._tried = 0
        self._checkpoint_every = checkpoint_every
        self.poll_interval = poll_interval
        self.observers = [] if observer is None else [observer]
        self.turns: list[Callable[[], None]] = []
        self.watch = Watch(intake, watched)
        self.rehearsals: list[Observer] = []
        self.on_trouble = [] if on_trouble is None else [on_trouble]
        commands = intake.sources.get("commands")
        if isinstance(commands, CommandSource):
            commands.on_trouble = self._tell
        self.stopwatch = Stopwatch()
        self._kept: deque[Mapping[str, Position]] = deque(maxlen=KEPT)
        self.is_running = False

    def run(self, *, until_idle: bool = False) -> None:
        """Work until asked to stop or, with `until_idle`, until the sources have nothing more.

        A training in a thread is waited for then. A source or a commit that fails in a way that
        may pass is tried again until it succeeds. Another error leaves what is committed as it is,
        and ends this object's use. `is_settled` then tells whether what was learned is what was
        committed, so that a checkpoint may be taken.
        """
        self.is_running = True
        self.lap = self.stopwatch.lap
        with closing(self.watch):
            self._loop(until_idle=until_idle)

    def _loop(self, *, until_idle: bool) -> None:
        while not self.stop.requested:
            self._turn()
            self.stopwatch.begin()
            inputs = self._poll()
            self.watch.turn(self._kept[0] if self._kept else None)
            if inputs is not None:
                self.lap("poll")
                self.commit(self.step(inputs, self.learner.trainer.finished()))
                self.checkpoint_if_due()
            elif until_idle and self._is_idle:
                return
            else:
                self.stop.rest(self.poll_interval)

    def step(self, inputs: Inputs, swap: Committee | None) -> Effects:
        """Take one batch in, and the committee a thread has trained; return all that follows."""
        self.is_settled = False
        return super().step(inputs, swap)

    def commit(self, effects: Effects) -> None:
        """Make a step's effects durable, with the place where the sources go on.

        Once asked to stop, it gives up after one more attempt: what the batch taught is lost then.
        """
        writes, positions = effects.messages.writes(self.outputs), self.intake.positions()
        while not self.is_settled:
            is_last = self.stop.requested
            try:
                with self.stop.interruptible():
                    self.transaction.commit(effects.sequence, writes, positions, effects.journal)
                self.is_settled = True
            except ConnectorError as error:
                if is_last or not error.retriable:
                    raise
                self._rest_after(error)
        self.notes = {}
        self.retrying = False
        self.lap("commit")
        for observer in self.observers:
            observer(effects)

    def checkpoint_if_due(self) -> None:
        """Take a checkpoint once enough batches have passed."""
        if self.sequence - self._tried >= self._checkpoint_every:
            self.try_checkpoint()

    def try_checkpoint(self) -> None:
        """Take a checkpoint; that one cannot be taken is said, and stops nobody."""
        self._tried = self.sequence
        try:
            self.checkpoint()
        except (OSError, ModelFileError) as error:
            text = (
                f"no checkpoint of batch {self.sequence}: {error}. The pipeline goes on; a restart "
                "would replay from the checkpoint before"
            )
            _log.error("%s", text)
            self.lacks_checkpoint = True
            self._tell(text)

    def checkpoint(self) -> None:
        """Write down the whole state, with the committees to roll back to."""
        if self.checkpoints is None:
            return
        self.versions.write()
        arrays, manifest = self.snapshot()
        manifest |= self.about | {"versions": self.versions.numbers}
        self.checkpoints.save(arrays, manifest)
        self.checkpointed, self.lacks_checkpoint = self.sequence, False
        self._kept.append(manifest["positions"])

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all that the next step depends on, and where the sources go on."""
        arrays, manifest = super().snapshot()
        kept = {"positions": self.intake.positions(), "identities": self.identities}
        return arrays, manifest | kept

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Become the pipeline that gave this snapshot."""
        super().restore(arrays, manifest)
        self.checkpointed = self._tried = self.sequence
        self._kept.append(manifest["positions"])
        self.intake.last_tick = self.tick
        self.intake.seek(manifest["positions"])

    def _poll(self) -> Inputs | None:
        """Return the next batch, or None when nothing is there or it is time to stop.

        A training that has come to its end is reason enough for a batch, if only of nothing.
        """
        while not self.stop.requested:
            try:
                with self.stop.interruptible():
                    inputs = self.intake.poll(room=self.join.has_room)
            except ConnectorError as error:
                if not error.retriable:
                    raise
                self._rest_after(error)
                continue
            self.retrying = False
            if inputs is None:
                return self.intake.empty() if self.learner.trainer.finished() else None
            return replace(inputs, commands=self._accepted(inputs.commands))
        return None

    @property
    def is_ready(self) -> bool:
        """Whether it has recovered, and neither retries anything nor is about to stop."""
        return self.is_running and not self.retrying and not self.stop.requested

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is on its way: neither a training nor what an open source may bring."""
        return self.learner.trainer.running is None and not self.intake.is_open

    def _rest_after(self, error: ConnectorError) -> None:
        """Rest before trying again, telling of the first failure in a row."""
        if not self.retrying:
            _log.warning("%s. It is tried again until it succeeds", error)
            self._tell(f"{error}. It was tried again until it succeeded, or is being")
        self.retrying = True
        self._turn()
        self.stop.rest(self.poll_interval)

    def _turn(self) -> None:
        for turn in self.turns:
            turn()

    def _tell(self, trouble: str) -> None:
        for told in self.on_trouble:
            told(trouble)

    def _accepted(self, commands: Sequence[Command]) -> list[Command]:
        """Return the commands that can be obeyed, with the versions they name at hand."""
        accepted = []
        for command in commands:
            try:
                if command.version is not None:
                    self.versions.fetch(command.version)
                if command.command == "promote" and self.learner.trainer.challenger is None:
                    raise StateError("no challenger is being judged")
                accepted.append(command)
            except (ModelFileError, StateError) as error:
                refuse(str(command), error)
                self._tell(f"the command {command} is not obeyed: {error}")
        return accepted
