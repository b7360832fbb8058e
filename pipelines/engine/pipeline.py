"""What one batch does: all that a pipeline knows, and the step that changes it.

Nothing here does input or output or reads a clock: given the same batches it does the same, whether
they arrive or are replayed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from streamboost.active.query import Requests
from streamboost.boosting.committee import Committee
from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoded import Records
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import DeadLetter
from streamboost.features.fields import as_field
from streamboost.pipelines.engine.batch import (
    Effects,
    Messages,
    chain,
    predictions,
    request_of,
)
from streamboost.pipelines.engine.bootstrap import known_beforehand
from streamboost.pipelines.engine.field_counts import FieldCounts
from streamboost.pipelines.engine.intake import Inputs
from streamboost.pipelines.engine.join import Join
from streamboost.pipelines.engine.join.held_records import HeldRecord, held_values, unpacked
from streamboost.pipelines.engine.join.joined import Joined
from streamboost.pipelines.span import Moment
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.journal import JournalEntry
from streamboost.pipelines.state.versions import Versions
from streamboost.storage import Arrays, part
from streamboost.stream.checks import as_wide
from streamboost.stream.learner import StreamLearner
from streamboost.stream.scoring import Scored
from streamboost.stream.training.schedule import Training

__all__ = ["Pipeline"]

_log = logging.getLogger(__name__)


class Pipeline:
    """Predicts the records of a batch, asks for labels, and learns from those that came.

    Parameters
    ----------
    schema : Schema whose features are known; later ones have what the file adds, and what the first
        label says that labels are
    learner, join : what is known of labels and records
    versions : where committees are kept to roll back to

    Attributes
    ----------
    sequence : number of the newest batch; the first is 1
    digest : chains what the batches changed
    tick : the clock's reading at the start of the newest batch
    dead_letters : how many there were
    bootstrapped : labels learned that were known beforehand
    lost_batches : how many were given up, not learned from, where the journal had a gap
    deleted_unread : messages that retention took away before they were read
    lap : told the name of each part of a step at its end; nothing here depends on it
    fields : those that came later, counted
    notes : what the next journal entry says besides: `environment`, `origin`, `gap`, and `fields`,
        which the schema gains with it
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
        self.bootstrapped = 0
        self.lost_batches = 0
        self.deleted_unread = 0
        self.fields = FieldCounts()
        self.notes: dict[str, Any] = {}
        self.lap: Callable[[str], None] = _nothing

    def step(self, inputs: Inputs, swap: Committee | None) -> Effects:
        """Take one batch in, and the committee a thread has trained; return all that follows."""
        before = self._begin(inputs)
        started = [*self.learner.swap(swap), *self._obey(inputs.commands)]
        expired = self.join.advance(inputs.tick, inputs.caught_up, resumed=inputs.resumed)
        self.learner.expire(expired)
        records, damaged = self._decode(inputs)
        self.lap("decode")
        records, X = self._arrive(records)
        scored = self.learner.score(X)
        self.lap("score")
        asked = self.learner.query(X, scored, records.ids)
        self.lap("query")
        joined = self._hold(records, X, scored, asked)
        unusable = self._take_known(inputs, joined)
        requested = self._requests(asked)
        unread = self._take_labels(inputs, joined)
        self.lap("join")
        with self._training_once(started, wanted=bool(inputs.bootstrap)):
            started += self._learn(joined)
        self.lap("learn")
        dead = [*unusable, *damaged, *unread]
        self.dead_letters += len(dead)
        kind = self.schema.labels_are
        predicted = predictions(records, scored, asked, self.sequence, kind)
        messages = Messages(predicted, requested, [letter.encode() for letter in dead])
        self.digest = chain(self.digest, records, messages, joined, started)
        promoted = self._keep(swap, before.committee)
        effects = Effects(
            sequence=self.sequence,
            tick=self.tick,
            records=records,
            scored=scored,
            asked=asked,
            joined=joined,
            bootstrapped=self.bootstrapped - before.bootstrapped,
            ignored={kind: n - before.ignored[kind] for kind, n in self.join.ignored().items()},
            commands=inputs.commands,
            gap=self.notes.get("gap"),
            trainings=started,
            committee=self.learner.committee,
            promoted=promoted,
            messages=messages,
            dead=dead,
            read=inputs.count(),
            digest=self.digest,
            journal=self._journal(inputs, swap, promoted, started).encode(),
        )
        self.lap("messages")
        return effects

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all that the next step depends on: arrays, and a manifest."""
        arrays = {f"learner.{name}": a for name, a in self.learner.snapshot().items()}
        arrays |= {f"join.{name}": a for name, a in self.join.to_arrays().items()}
        manifest = self.numbers() | {
            "digest": self.digest,
            "tick": self.tick,
            "notes": self.notes,
            "schema": self.schema.to_json(),
            "evaluation": self.learner.evaluation.in_numbers(),
        }
        return arrays, manifest

    @property
    def steady(self) -> dict[str, int]:
        """The columns of `Records.X` that mean the same whatever is learned, by their names."""
        features = self.learner.features
        if features is None:
            return {name: column for column, name in enumerate(self.schema.features)}
        return {features.names[column]: column for column in features.steady}

    def numbers(self) -> dict[str, Any]:
        """Return how it stands: its counters, and those of committee, ledger and join."""
        return {
            "sequence": self.sequence,
            "dead_letters": self.dead_letters,
            "bootstrapped": self.bootstrapped,
            "lost_batches": self.lost_batches,
            "deleted_unread": self.deleted_unread,
            "fields": self._fields_in_numbers(),
            "committee": self._committee_in_numbers(),
            "ledger": asdict(self.learner.ledger),
            "join": self.join.in_numbers(),
        }

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Become the one that gave this snapshot."""
        self.learner = StreamLearner.restore(part(arrays, "learner."))
        self.join.restore(part(arrays, "join."))
        self.sequence = manifest["sequence"]
        self.digest = manifest["digest"]
        self.tick = manifest["tick"]
        self.dead_letters = manifest["dead_letters"]
        self.bootstrapped = manifest["bootstrapped"]
        self.lost_batches = manifest["lost_batches"]
        self.deleted_unread = manifest.get("deleted_unread", 0)  # release 0.1 knew none
        self.fields = FieldCounts(manifest.get("fields", {}).get("unknown"))
        if "schema" in manifest:
            self.schema = Schema.from_json(manifest["schema"])
        self.notes = dict(manifest["notes"])

    def _fields_in_numbers(self) -> dict[str, dict[str, int]]:
        """Return the fields that came later, and how many values of each could not be read."""
        features = self.learner.features
        unreadable = {} if features is None else features.unreadable
        return {
            "unknown": dict(self.fields.unknown),
            "unreadable": {str(name): n for name, n in unreadable.items()},
        }

    def _committee_in_numbers(self) -> dict[str, int]:
        """Return how the committee stands, and what is being trained."""
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

    def _begin(self, inputs: Inputs) -> "_Before":
        """Begin a batch; return what it is compared with at its end."""
        self.sequence += 1
        self.tick = inputs.tick
        self.deleted_unread += inputs.count_deleted()
        if "fields" in self.notes:
            self._gain(self.notes["fields"])
        return _Before(self.join.ignored(), self.learner.committee, self.bootstrapped)

    def _gain(self, given: dict[str, Any]) -> None:
        """Take on fields that were added to the file; records before miss them."""
        features = self.learner.features
        assert features is not None
        fields = {name: as_field(name, field) for name, field in given.items()}
        for name, field in fields.items():
            features.add(name, field)
        self.learner.follow_features()
        self.schema = self.schema.extended(fields)
        self.fields.learn(fields)
        _log.info("batch %d: fields are learned from now on: %s", self.sequence, ", ".join(fields))

    def _obey(self, commands: Sequence[Command]) -> list[Training]:
        """Obey `commands`; return the trainings they started."""
        started: list[Training] = []
        for command in commands:
            _log.info("batch %d obeys: %s", self.sequence, command)
            if command.version is not None:
                started += self.learner.swap(self.versions[command.version])
            elif command.command == "promote":
                started += self.learner.trainer.promote()
            elif command.command == "pause":
                self.learner.trainer.pause()
            elif command.command == "resume":
                started += self.learner.trainer.go_on()
            else:
                started += self.learner.trainer.retrain()
        return started

    def _decode(self, inputs: Inputs) -> tuple[Records, list[DeadLetter]]:
        """Return the records of a batch, and in their order the dead letters of the others."""
        sound, damaged = self.schema.decode(inputs.records, source="records", time=self.tick)
        self.fields.add(sound.unknown)
        fresh = self.join.fresh(sound.ids)
        if all(fresh):
            return sound, damaged
        repeated = [
            self._repeated(id, message)
            for id, message, is_first in zip(sound.ids, sound.messages, fresh, strict=True)
            if not is_first
        ]
        records = sound.take([row for row, is_first in enumerate(fresh) if is_first])
        return records, sorted([*damaged, *repeated], key=_place)

    def _repeated(self, id: str, message: Message) -> DeadLetter:
        detail = (
            f"a record with the id {id!r} is held already: ids must not come again within "
            f"join_window ({self.join.window})"
        )
        return DeadLetter.of(message, "duplicate_id", detail, source="records", time=self.tick)

    def _hold(self, records: Records, X: np.ndarray, scored: Scored, asked: Requests) -> Joined:
        """Hold the records of a batch for their labels; return those that waited for them."""
        predicted = scored.labels.tolist()
        return self.join.add(
            records.ids,
            X,
            predicted,
            asked.ids,
            asked.propensity,
            records.times,
            held_values(records),
        )

    def _take_labels(self, inputs: Inputs, joined: Joined) -> list[DeadLetter]:
        """Add the labels of a batch to those that are learned."""
        labels, unread = self.schema.decode_labels(inputs.labels, source="labels", time=self.tick)
        self.schema = self.schema.settled(labels.kind)
        self.join.resolve(list(zip(labels.ids, labels.labels, strict=True)), joined)
        return unread

    def _take_known(self, inputs: Inputs, joined: Joined) -> list[DeadLetter]:
        """Add the records whose labels are known beforehand to those that are learned."""
        known, unusable = known_beforehand(self.schema, inputs.bootstrap, inputs.tick)
        self.schema = self.schema.settled(known.kind)
        arrived = Moment(self.join.counts.records, inputs.tick)
        mixed = self.learner.features is not None  # their rows are made one after another
        X = known.X if mixed else self.learner.with_lags(known.X)
        for id, x, values, label in zip(known.ids, X, known.values, known.labels, strict=True):
            held = HeldRecord(x, arrived, None, None, values)
            joined.take(id, held, label, float("nan"))
        self.bootstrapped += len(known.ids)
        return unusable

    @contextmanager
    def _training_once(self, started: list[Training], *, wanted: bool) -> Iterator[None]:
        """Train at the end, if at all, where labels known beforehand come in.

        No record is predicted between them, so that trainings on a part of them would be lost.
        """
        trainer = self.learner.trainer
        if not wanted or trainer.paused:
            yield
            return
        trainer.pause()
        yield
        started += trainer.go_on()

    def _learn(self, joined: Joined) -> Sequence[Training]:
        if not joined.ids:
            return ()
        mixed = self.learner.features is not None
        return self.learner.learn(
            joined.ids,
            joined.rows if mixed else np.stack(joined.rows),
            joined.labels,
            tick=self.tick,
            propensity=np.array(joined.propensity),
            predicted=joined.predicted,
            records=[unpacked(held or b"[]") for held in joined.values] if mixed else None,
        )

    def _arrive(self, records: Records) -> tuple[Records, np.ndarray]:
        """Return records with their columns made, and their rows (n, D) behind the labels' lags."""
        features = self.learner.features
        if features is not None and records.values is not None:
            records = replace(records, X=features.arrive(records.values))
        return records, self.learner.with_lags(records.X)

    def _keep(self, swap: Committee | None, served: Committee | None) -> int | None:
        """Keep the committees of this batch; return the version that came to serve in it."""
        committee = self.learner.committee
        self.versions.add([swap, self.learner.trainer.challenger, committee])
        return committee.version if committee and committee is not served else None

    def _requests(self, asked: Requests) -> list[bytes]:
        """Put what is asked for into messages, as the committee that asks sees it."""
        held = [self.join.held(id) for id in asked.ids]
        X = as_wide([record.x for record in held], self.learner.n_features or 0)
        scored = self.learner.score(X)
        expires = self.join.expires_after.end(Moment(self.join.counts.records, self.tick))
        return [
            request_of(
                id,
                held[row],
                scored,
                row,
                schema=self.schema,
                utility=float(asked.utility[row]),
                propensity=float(asked.propensity[row]),
                expires=expires,
                sequence=self.sequence,
            ).encode()
            for row, id in enumerate(asked.ids)
        ]

    def _journal(
        self,
        inputs: Inputs,
        swap: Committee | None,
        promoted: int | None,
        started: list[Training],
    ) -> JournalEntry:
        return JournalEntry(
            sequence=self.sequence,
            ranges=inputs.ranges,
            read=inputs.count(),
            tick=inputs.tick,
            commands=inputs.commands,
            swap=swap.version if swap else None,
            promoted=promoted,
            trainings=started,
            digest=self.digest,
            caught_up=inputs.caught_up,
            resumed=inputs.resumed,
            deleted=inputs.deleted,
            **self.notes,
        )


class _Before(NamedTuple):
    """How it stood before a batch."""

    ignored: dict[str, int]
    committee: Committee | None
    bootstrapped: int


def _nothing(part: str) -> None:
    pass


def _place(letter: DeadLetter) -> tuple[str, int]:
    return next(iter(letter.position.items()))
