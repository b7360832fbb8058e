"""What one batch does: all that a pipeline knows, and the step that changes it.

Nothing here does input or output or reads a clock: given the same batches it does the same, whether
they arrive or are replayed.
"""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from streamboost.active.query import Requests
from streamboost.boosting.committee import Committee
from streamboost.connectors.decoding import Records
from streamboost.connectors.messages import DeadLetter
from streamboost.connectors.schema import Schema
from streamboost.pipelines.commands import Command
from streamboost.pipelines.effects import (
    Effects,
    Entry,
    Messages,
    chain,
    predictions,
    requests,
)
from streamboost.pipelines.inputs import Inputs
from streamboost.pipelines.join import Join, Joined
from streamboost.pipelines.span import Moment
from streamboost.pipelines.versions import Versions
from streamboost.storage import Arrays, part
from streamboost.stream.learner import StreamLearner
from streamboost.stream.schedule import Training
from streamboost.stream.scoring import Scored

__all__ = ["Stepper"]

_log = logging.getLogger(__name__)


class Stepper:
    """Predicts the records of a batch, asks for labels, and learns from those that came.

    Parameters
    ----------
    schema : Schema whose features are known
    learner, join : what is known of labels and records
    versions : where committees are kept to roll back to

    Attributes
    ----------
    sequence : number of the newest batch; the first is 1
    digest : chains what the batches changed
    tick : the clock's reading at the start of the newest batch
    dead_letters : how many there were
    lost_batches : how many were given up, not learned from, where the journal had a gap
    notes : what the next journal entry says besides: `environment`, `gap`
    """

    def __init__(
        self, schema: Schema, learner: StreamLearner, join: Join, versions: Versions
    ) -> None:
        self.schema = schema
        self.learner = learner
        self.join = join
        self.versions = versions
        self.sequence = 0
        self.digest = ""
        self.tick = 0
        self.dead_letters = 0
        self.lost_batches = 0
        self.notes: dict[str, Any] = {}

    def step(self, inputs: Inputs, swap: Committee | None) -> Effects:
        """Take one batch in, and the committee a thread has trained; return all that follows."""
        self.sequence += 1
        self.tick = inputs.tick
        ignored, served = self.join.ignored(), self.learner.committee
        started = [*self.learner.swap(swap), *self._obey(inputs.commands)]
        expired = self.join.advance(inputs.tick)
        self.learner.expire(expired)
        sound, damaged = self.schema.decode(inputs.records, source="records", time=inputs.tick)
        records, repeated = self._part_repeated(sound, inputs.tick)
        scored = self.learner.score(records.X)
        asked = self.learner.query(records.X, scored, records.ids)
        joined = self.join.add(
            records.ids, records.X, scored.labels.tolist(), asked.ids, asked.propensity
        )
        labels, unread = self.schema.decode_labels(inputs.labels, source="labels", time=inputs.tick)
        self.join.resolve(list(zip(labels.ids, labels.labels, strict=True)), joined)
        started += self._learn(joined, inputs.tick)
        dead = [*sorted([*damaged, *repeated], key=_place), *unread]
        messages = self._write(inputs.tick, records, scored, asked, dead)
        self.dead_letters += len(dead)
        self.digest = chain(self.digest, records, messages, joined, started)
        committee = self.learner.committee
        promoted = committee.version if committee and committee is not served else None
        versions = [c for c in (swap, self.learner.trainer.challenger, committee) if c is not None]
        self.versions.add(versions)
        return Effects(
            sequence=self.sequence,
            tick=inputs.tick,
            records=records,
            scored=scored,
            asked=asked,
            joined=joined,
            ignored={kind: n - ignored[kind] for kind, n in self.join.ignored().items()},
            trainings=started,
            committee=committee,
            promoted=promoted,
            messages=messages,
            digest=self.digest,
            journal=self._journal(inputs, swap, promoted, started).encode(),
        )

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all that the next step depends on: arrays, and a manifest."""
        arrays = {f"learner.{name}": a for name, a in self.learner.snapshot().items()}
        arrays |= {f"join.{name}": a for name, a in self.join.to_arrays().items()}
        manifest = {
            "sequence": self.sequence,
            "digest": self.digest,
            "tick": self.tick,
            "dead_letters": self.dead_letters,
            "lost_batches": self.lost_batches,
            "notes": self.notes,
            "committee": self._committee_in_numbers(),
            "ledger": asdict(self.learner.ledger),
            "join": self.join.in_numbers(),
        }
        return arrays, manifest

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Become the one that gave this snapshot."""
        self.learner = StreamLearner.restore(part(arrays, "learner."))
        self.join.restore(part(arrays, "join."))
        self.sequence = manifest["sequence"]
        self.digest = manifest["digest"]
        self.tick = manifest["tick"]
        self.dead_letters = manifest["dead_letters"]
        self.lost_batches = manifest["lost_batches"]
        self.notes = manifest["notes"]

    def _obey(self, commands: Sequence[Command]) -> list[Training]:
        """Obey `commands`; return the trainings they started."""
        started: list[Training] = []
        for command in commands:
            _log.info("batch %d obeys: %s", self.sequence, command)
            if command.version is not None:
                started += self.learner.swap(self.versions[command.version])
            elif command.command == "pause":
                self.learner.trainer.pause()
            elif command.command == "resume":
                started += self.learner.trainer.go_on()
            else:
                started += self.learner.trainer.retrain()
        return started

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
        learner, trainer = self.learner, self.learner.trainer
        numbers = {
            "labels": learner.n_labels,
            "version": 0,
            "rounds": 0,
            "trees": 0,
            "classes": 0,
            "running": trainer.running.version if trainer.running else 0,
            "challenger": trainer.challenger.version if trainer.challenger else 0,
            "paused": int(trainer.paused),
        }
        if (committee := learner.committee) is not None:
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

    def _journal(
        self,
        inputs: Inputs,
        swap: Committee | None,
        promoted: int | None,
        started: list[Training],
    ) -> Entry:
        return Entry(
            sequence=self.sequence,
            ranges=inputs.ranges,
            read={"records": len(inputs.records), "labels": len(inputs.labels)},
            tick=inputs.tick,
            commands=inputs.commands,
            swap=swap.version if swap else None,
            promoted=promoted,
            trainings=started,
            digest=self.digest,
            **self.notes,
        )


def _place(letter: DeadLetter) -> tuple[str, int]:
    return next(iter(letter.position.items()))
