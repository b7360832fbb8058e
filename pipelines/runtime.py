"""The running pipeline: one process, one loop, one step per batch.

The step does no input or output and reads no clock: given the same batches it does the same,
whether they arrive or are replayed.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from streamboost.active.query import Requests
from streamboost.connectors.base import Transaction
from streamboost.connectors.decoding import Records
from streamboost.connectors.messages import DeadLetter
from streamboost.connectors.schema import Schema
from streamboost.errors import ConnectorError
from streamboost.pipelines.effects import (
    Effects,
    Messages,
    Outputs,
    chain,
    journal_entry,
    predictions,
    requests,
)
from streamboost.pipelines.inputs import Inputs, Intake
from streamboost.pipelines.join import Join, Joined
from streamboost.pipelines.span import Moment
from streamboost.storage import Arrays, part
from streamboost.stream.learner import StreamLearner
from streamboost.stream.schedule import Training
from streamboost.stream.scoring import Scored

__all__ = ["Pipeline", "Stop"]

_log = logging.getLogger(__name__)

Observer = Callable[[Effects], None]


class Stop:
    """Asks a pipeline to stop after its batch; also from a signal handler or another thread."""

    def __init__(self) -> None:
        self.requested = False
        # A SimpleQueue may be put to within a signal handler, which an Event's lock forbids.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def request(self) -> None:
        """Stop as soon as the batch at hand is committed."""
        self.requested = True
        self._wake.put(None)

    def rest(self, seconds: float) -> None:
        """Wait, but not longer than until somebody asks to stop."""
        try:
            self._wake.get(timeout=seconds)
        except Empty:
            return


class Pipeline:
    """Predicts every record, asks for labels, learns from those that come.

    Parameters
    ----------
    schema : Schema whose features are known
    learner, join : what the pipeline knows
    intake, outputs, transaction : where its messages come from, go to, and what binds them
    stop : asks it to stop
    poll_interval : seconds to rest when nothing came
    observer : called with the effects of every batch, once they are committed
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
        stop: Stop | None = None,
        poll_interval: float = 0.1,
        observer: Observer | None = None,
    ) -> None:
        self.schema = schema
        self.learner = learner
        self.join = join
        self.intake = intake
        self.outputs = outputs
        self.transaction = transaction
        self.stop = stop or Stop()
        self.sequence = 0
        self.digest = ""
        self.dead_letters = 0
        self.is_settled = True
        self._is_waiting = False
        self._poll_interval = poll_interval
        self._observer = observer

    def run(self, *, until_idle: bool = False) -> None:
        """Work until asked to stop or, with `until_idle`, until the sources have nothing more.

        A source or a commit that fails in a way that may pass is tried again until it succeeds.
        Another error leaves what is committed as it is, and ends this object's use. `is_settled`
        then tells whether what was learned is what was committed, so that a snapshot may be kept.
        """
        while not self.stop.requested:
            inputs = self._poll()
            if inputs is not None:
                self.commit(self.step(inputs))
            elif until_idle:
                return
            else:
                self.stop.rest(self._poll_interval)

    def step(self, inputs: Inputs) -> Effects:
        """Take one batch in, and return all that follows from it."""
        self.is_settled = False
        self.sequence += 1
        ignored = self.join.ignored()
        expired = self.join.advance(inputs.tick)
        self.learner.expire(expired)
        sound, damaged = self.schema.decode(inputs.records, source="records", time=inputs.tick)
        records, repeated = self._part_repeated(sound, inputs.tick)
        X = self.learner.with_lags(records.X)
        scored = self.learner.score(X)
        asked = self.learner.query(X, scored, records.ids)
        joined = self.join.add(records.ids, X, scored.labels.tolist(), asked.ids, asked.propensity)
        labels, unread = self.schema.decode_labels(inputs.labels, source="labels", time=inputs.tick)
        self.join.resolve(list(zip(labels.ids, labels.labels, strict=True)), joined)
        trainings = self._learn(joined, inputs.tick)
        dead = [*sorted([*damaged, *repeated], key=_place), *unread]
        messages = self._write(inputs.tick, records, scored, asked, dead)
        self.dead_letters += len(dead)
        self.digest = chain(self.digest, records, messages, joined, trainings)
        return Effects(
            sequence=self.sequence,
            tick=inputs.tick,
            records=records,
            scored=scored,
            asked=asked,
            joined=joined,
            ignored={kind: n - ignored[kind] for kind, n in self.join.ignored().items()},
            trainings=trainings,
            committee=self.learner.committee,
            messages=messages,
            digest=self.digest,
            journal=journal_entry(inputs, self.sequence, trainings, self.digest),
        )

    def commit(self, effects: Effects) -> None:
        """Make a step's effects durable, with the place where the sources go on.

        Once asked to stop, it gives up after one more attempt: what the batch taught is lost then.
        """
        writes, positions = effects.messages.writes(self.outputs), self.intake.positions()
        while not self.is_settled:
            is_last = self.stop.requested
            try:
                self.transaction.commit(effects.sequence, writes, positions, effects.journal)
                self.is_settled = True
            except ConnectorError as error:
                if is_last or not error.retriable:
                    raise
                self._rest_after(error)
        self._is_waiting = False
        if self._observer is not None:
            self._observer(effects)

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all that the next step depends on: arrays, and a manifest."""
        arrays = {f"learner.{name}": a for name, a in self.learner.snapshot().items()}
        arrays |= {f"join.{name}": a for name, a in self.join.to_arrays().items()}
        manifest = {
            "sequence": self.sequence,
            "digest": self.digest,
            "tick": self.intake.last_tick,
            "dead_letters": self.dead_letters,
            "committee": self._committee_in_numbers(),
            "ledger": asdict(self.learner.ledger),
            "join": self.join.in_numbers(),
        }
        return arrays, manifest

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Become the pipeline that gave this snapshot."""
        self.learner = StreamLearner.restore(part(arrays, "learner."))
        self.join.restore(part(arrays, "join."))
        self.sequence = manifest["sequence"]
        self.digest = manifest["digest"]
        self.dead_letters = manifest.get("dead_letters", 0)
        self.intake.last_tick = manifest["tick"]

    def _poll(self) -> Inputs | None:
        """Return the next batch, or None when nothing is there or it is time to stop."""
        while not self.stop.requested:
            try:
                inputs = self.intake.poll()
            except ConnectorError as error:
                if not error.retriable:
                    raise
                self._rest_after(error)
            else:
                self._is_waiting = False
                return inputs
        return None

    def _rest_after(self, error: ConnectorError) -> None:
        """Rest before trying again, telling of the first failure in a row."""
        if not self._is_waiting:
            _log.warning("%s. It is tried again until it succeeds", error)
        self._is_waiting = True
        self.stop.rest(self._poll_interval)

    def _part_repeated(self, records: Records, tick: int) -> tuple[Records, list[DeadLetter]]:
        """Part the records whose id is still held from the others."""
        fresh = self.join.fresh(records.ids)
        if all(fresh):
            return records, []
        window = self.join.window
        repeated = [
            DeadLetter.of(
                message,
                "duplicate_id",
                f"a record with the id {id!r} is held already: ids must not come again within "
                f"join_window ({window})",
                source="records",
                time=tick,
            )
            for id, message, first in zip(records.ids, records.messages, fresh, strict=True)
            if not first
        ]
        return records.take([row for row, first in enumerate(fresh) if first]), repeated

    def _learn(self, joined: Joined, tick: int) -> Sequence[Training]:
        if not joined.ids:
            return ()
        return self.learner.learn(
            joined.ids,
            np.stack(joined.rows),
            joined.labels,
            tick=tick,
            propensity=np.array(joined.propensity),
        )

    def _committee_in_numbers(self) -> dict[str, int]:
        numbers = {"labels": self.learner.n_labels, "version": 0, "rounds": 0, "trees": 0}
        if (committee := self.learner.committee) is not None:
            numbers |= {
                "version": committee.version,
                "rounds": committee.n_rounds,
                "trees": committee.n_trees,
                "classes": len(committee.classes),
            }
        return numbers

    def _write(
        self,
        tick: int,
        records: Records,
        scored: Scored,
        asked: Requests,
        dead: Sequence[DeadLetter],
    ) -> Messages:
        """Put what a batch says into messages."""
        expires = self.join.expires_after.end(Moment(self.join.counts.records, tick))
        sequence = self.sequence
        return Messages(
            predictions(records, scored, asked, sequence),
            requests(records, scored, asked, self.schema.features, expires, sequence),
            [letter.encode() for letter in dead],
        )


def _place(letter: DeadLetter) -> tuple[str, int]:
    return next(iter(letter.position.items()))
