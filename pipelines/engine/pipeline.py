"""What one batch does: all that a pipeline knows, and the step that changes it.

Nothing here does input or output or reads a clock: given the same batches it does the same, whether
they arrive or are replayed.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamboost.active.query import Requests
from streamboost.boosting.committee import Committee
from streamboost.connectors.base import Carried, Following
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.inline_labels import sort
from streamboost.connectors.messages.labels import Labels
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import DeadLetter
from streamboost.errors import ConfigurationError, StateError
from streamboost.features.fields import Field, as_field
from streamboost.pipelines.engine.batch import (
    Effects,
    Inputs,
    Messages,
    chain,
    letters,
    predictions,
)
from streamboost.pipelines.engine.bootstrap import known_beforehand, training_once
from streamboost.pipelines.engine.classes import Classes
from streamboost.pipelines.engine.field_counts import FieldCounts
from streamboost.pipelines.engine.join import Join, Joined
from streamboost.pipelines.engine.models.models import Models
from streamboost.pipelines.engine.requests import requests_of
from streamboost.pipelines.engine.values import held_values
from streamboost.pipelines.span import Moment
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.journal import JournalExtras
from streamboost.pipelines.state.versions import Versions
from streamboost.storage import Arrays, part
from streamboost.stream.doubts import Relabels
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.learner import StreamLearner
from streamboost.stream.scoring import Scored
from streamboost.stream.training.schedule import Training

__all__ = ["Pipeline", "decisions_of"]

_log = logging.getLogger(__name__)


class Pipeline:
    """Predicts the records of a batch, asks for labels, and learns from those that came.

    Parameters
    ----------
    schema : Schema whose features are known; later ones have what the file adds, and what the first
        label says that labels are
    learner, join : what is known of labels and records
    versions : where committees are kept to roll back to
    models : those of others, which serve or are rivals; None: there are none

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
    classes : which of them were merged or dropped
    decision : what the file said last of decisions; commands may have changed it since
    journal_extras : what the next journal entry says in addition to its batch
    """

    decides = True
    """Whether predictions are made here, which decisions stand in."""

    def __init__(
        self,
        schema: Schema,
        learner: StreamLearner,
        join: Join,
        versions: Versions,
        models: Models | None = None,
    ) -> None:
        self.schema = schema
        self.learner = learner
        self.join = join
        self.versions = versions
        self.models = models
        self._let_score()
        self.sequence = 0
        self.digest = ""
        self.tick = 0
        self.dead_letters = 0
        self.bootstrapped = 0
        self.lost_batches = 0
        self.deleted_unread = 0
        self.fields = FieldCounts()
        self.classes = Classes()
        self.decision: dict[str, Any] = {}
        self.journal_extras = JournalExtras()
        self.lap: Callable[[str], None] = _nothing

    def step(self, inputs: Inputs, swap: Committee | None) -> Effects:
        """Take one batch in, and the committee a thread has trained; return all that follows."""
        before = self._begin(inputs)
        started = [*self.learner.swap(swap), *self._obey(inputs.commands)]
        expired = self.join.advance(inputs.tick, inputs.caught_up, resumed=inputs.resumed)
        self.learner.expire(expired)
        if self.models is not None:
            self.models.expire(expired)
        came = self._told_apart(inputs)
        records, damaged = self._decode(came)
        self.lap("decode")
        records, X = self._arrive(records)
        scored, asked = self._decide(records, X)
        self.lap("query")
        joined = self._hold(records, X, scored, asked)
        unusable = self._take_known(inputs, joined)
        again = self._ask_again()
        requested = self._requests(asked, again, records, scored)
        unread = self._take_labels(came, joined)
        self.lap("join")
        with training_once(self.learner.trainer, started) if inputs.bootstrap else nullcontext():
            started += joined.teach(self.learner, self.tick)
            if self.models is not None:
                self.models.learn(joined, self.schema.labels_are)
        self.lap("learn")
        dead = [*unusable, *damaged, *unread]
        self.dead_letters += len(dead)
        predicted = self._predictions(records, scored, asked)
        messages = Messages(predicted, requested, letters(dead, inputs))
        self.digest = chain(self.digest, records, messages, joined, started)
        promoted = self._keep(swap, before.committee)
        effects = Effects(
            sequence=self.sequence,
            tick=self.tick,
            records=records,
            scored=scored,
            asked=asked,
            again=again,
            joined=joined,
            bootstrapped=self.bootstrapped - before.bootstrapped,
            ignored={kind: n - before.ignored[kind] for kind, n in self.join.ignored().items()},
            commands=inputs.commands,
            gap=self.journal_extras.gap,
            trainings=started,
            committee=self.learner.committee,
            promoted=promoted,
            messages=messages,
            dead=dead,
            read=inputs.count(),
            digest=self.digest,
            journal=self._journal(inputs, swap, promoted, started),
        )
        self.lap("messages")
        return effects

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all that the next step depends on: arrays, and a manifest."""
        arrays = {f"learner.{name}": a for name, a in self.learner.snapshot().items()}
        arrays |= {f"join.{name}": a for name, a in self.join.to_arrays().items()}
        about: dict[str, Any] = {}
        if self.models is not None:
            state, tables = self.models.state()
            about = {"models": state}
            arrays |= {f"models.{name}": a for name, a in tables.items()}
        manifest = self.numbers() | {
            "digest": self.digest,
            "tick": self.tick,
            "journal_extras": msgspec.to_builtins(self.journal_extras),
            "schema": self.schema.to_json(),
            "classes": self.classes.to_json(),
            "decision": self.decision,
            "evaluation": self.learner.evaluation.in_numbers(),
        }
        return arrays, manifest | about

    def numbers(self) -> dict[str, Any]:
        """Return the counters, and those of committee, ledger and join."""
        learner = self.learner
        return {
            "sequence": self.sequence,
            "dead_letters": self.dead_letters,
            "bootstrapped": self.bootstrapped,
            "lost_batches": self.lost_batches,
            "deleted_unread": self.deleted_unread,
            "fields": self.fields.in_numbers(learner.features),
            "committee": _of_committee(learner, self.models),
            "experts": learner.voices,
            "annotators": learner.annotators.in_numbers(),
            "ledger": asdict(learner.ledger),
            "join": self.join.in_numbers(),
        } | self._numbers_of_models()

    def _numbers_of_models(self) -> dict[str, Any]:
        if self.models is None:
            return {}
        serving = self.models.serving
        failures = {} if serving is None else {"model": {"failures": serving.failures}}
        if self.models.transformer is not None:
            failures["transformer"] = {"failures": self.models.transformer.failures}
        return failures | {"rivals": self.models.in_numbers()}

    def restore(self, arrays: Arrays, manifest: dict[str, Any]) -> None:
        """Restore what `snapshot` returned."""
        self.learner = StreamLearner.restore(part(arrays, "learner."))
        if self.models is not None:
            self.models.resume(manifest["models"], part(arrays, "models."))
        self.join.restore(part(arrays, "join."))
        self.sequence = manifest["sequence"]
        self.digest = manifest["digest"]
        self.tick = manifest["tick"]
        self.dead_letters = manifest["dead_letters"]
        self.bootstrapped = manifest["bootstrapped"]
        self.lost_batches = manifest["lost_batches"]
        self.deleted_unread = manifest["deleted_unread"]
        self.fields = FieldCounts(manifest["fields"]["unknown"])
        self.schema = Schema.from_json(manifest["schema"])
        self.classes = Classes.restore(manifest["classes"])
        self.decision = manifest["decision"]
        self.journal_extras = msgspec.convert(manifest["journal_extras"], JournalExtras)
        self._let_score()

    def _let_score(self) -> None:
        if self.models is not None and self.models.serving is not None:
            self.learner.let_score()

    def _begin(self, inputs: Inputs) -> "_Before":
        """Begin a batch; return what it is compared with at its end."""
        self.sequence += 1
        self.tick = inputs.tick
        self.deleted_unread += inputs.count_deleted()
        self._take_over()
        return _Before(self.join.ignored(), self.learner.committee, self.bootstrapped)

    def _obey(self, commands: Sequence[Command]) -> list[Training]:
        """Have a pipeline obey `commands`; return the trainings they started."""
        started: list[Training] = []
        for command in commands:
            _log.info("batch %d obeys: %s", self.sequence, command)
            if command.label is None:
                started += _obeyed(command, self.learner, self.versions)
            else:
                started += self._mend(command)
        return started

    def _mend(self, command: Command) -> tuple[Training, ...]:
        """Merge or drop a class, or undo a merge; return the trainings that were started."""
        classes, join, learner = self.classes, self.join, self.learner
        try:
            label, into = classes.check(command, self.schema.labels_are)
        except StateError:  # another command of the batch, obeyed before it, has made it void
            return ()
        if command.command == "unmerge":
            restored = classes.undo(label)
            started = learner.restore_classes(restored, classes.now)
            join.restore_classes(restored, learner)
            n = sum(map(len, restored.values()))
            _log.info("batch %d: %d labels are of the class %r again", self.sequence, n, label)
            return started
        if into is not None:
            votes = learner.votes_for(label)
            classes.note_all(label, [*votes, *join.labels_of(label, learner)])
        classes.obey(command, self.schema.labels_are)
        join.rename(classes.now)
        return learner.rename(label, into)

    def _take_over(self) -> None:
        """Apply rules, decision and fields that the file changed, as the journal entry will say."""
        extras, learner = self.journal_extras, self.learner
        if extras.rules is not None:
            self.schema = replace(self.schema, **extras.rules)
        if extras.decision is not None:
            self.decision = extras.decision
            learner.decisions = decisions_of(self.decision)
        if extras.fields is not None:
            fields = _gain(extras.fields, learner)
            self.schema = self.schema.extended(fields)
            self.fields.learn(fields)
            if self.models is not None:
                self.models.follow(self.schema.features)
            names = ", ".join(fields)
            _log.info("batch %d: fields are learned from now on: %s", self.sequence, names)

    def _told_apart(self, inputs: Inputs) -> Inputs:
        """Return a batch whose labels are labels, where they come among the records."""
        if not self.schema.labels_within:
            return inputs
        records, labels = sort(self.schema, inputs.records)
        return replace(inputs, records=records, labels=labels)

    def _decode(self, inputs: Inputs) -> tuple[Records, list[DeadLetter]]:
        """Return the records of a batch, and in their order the dead letters of the others."""
        sound, damaged = self.schema.decode(inputs.records, source="records", time=self.tick)
        if self.models is None or self.models.transformer is None:
            self.fields.add(sound.unknown)
        # What is a label, too, says what became of a record that is held.
        labels = inputs.labels if self.schema.labels_within else ()
        records, repeated = self.join.drop_duplicates(sound, labels, self.tick)
        return records, sorted([*damaged, *repeated], key=_place) if len(records) < len(
            sound
        ) else damaged

    def _decide(self, records: Records, X: np.ndarray) -> tuple[Scored, Requests]:
        """Return what is predicted of the records, and which of them are asked about."""
        models = self.models
        is_ours = models is None or models.serving is None
        scored = self.learner.score(X) if is_ours or models is None else models.score(records)
        self.lap("score")
        asked = self.learner.query(X, scored, records.ids)
        if models is not None:
            models.arrive(records, asked)
        return scored, asked

    def _predictions(self, records: Records, scored: Scored, asked: Requests) -> Following:
        decided = None if self.learner.decisions is None else self.learner.decide(scored)
        return predictions(records, scored, asked, self.sequence, self.schema, decided=decided)

    def _requests(
        self, asked: Requests, again: Relabels, records: Records, scored: Scored
    ) -> Following:
        known = self.join, self.learner, self.schema, self.sequence
        return requests_of(asked, again, records, scored, *known)

    def _hold(self, records: Records, X: np.ndarray, scored: Scored, asked: Requests) -> Joined:
        """Hold the records of a batch for their labels; return those that waited for them."""
        predicted, values = scored.labels.tolist(), held_values(records)
        requests = asked.ids, asked.propensity
        self.classes.forget(records.ids, self.join.waits)
        joined = self.join.add(
            records.ids, X, predicted, *requests, records.times, values, self.learner
        )
        if self.learner.strategy.asks_later:
            pairs = zip(records.ids, records.messages, strict=True)
            self.join.carry({id: Carried(m.key, m.headers, m.time) for id, m in pairs})
        return joined

    def _ask_again(self) -> Relabels:
        """Ask again about labels that look wrong, of records that are still at hand."""
        again = self.learner.query_again(self.join.holds)
        self.join.ask_again(again.ids, again.not_by)
        return again

    def _take_labels(self, inputs: Inputs, joined: Joined) -> list[DeadLetter]:
        """Add the labels of a batch to those that are learned."""
        source = "records" if self.schema.labels_within else "labels"
        labels, unread = self.schema.decode_labels(
            inputs.labels, source=source, time=self.tick, nulls=True
        )
        self.schema = self.schema.settled(labels.kind)
        labels, dropped = self.classes.sort(labels, source, self.tick)
        self._hold_brought(labels, joined)
        given = list(zip(labels.ids, labels.labels, strict=True))
        self.join.resolve(given, joined, labels.sources, self.learner)
        self.classes.forget_unknown(self._is_known)
        return sorted([*unread, *dropped], key=_place) if dropped else unread

    def _is_known(self, id: str) -> bool:
        return self.join.knows(id) or self.learner.label_of(id) is not None

    def _hold_brought(self, labels: Labels, joined: Joined) -> None:
        """Hold the records that labels bring with them: those that come by themselves are held."""

    def _take_known(self, inputs: Inputs, joined: Joined) -> list[DeadLetter]:
        """Add the records whose labels are known beforehand to those that are learned."""
        if not inputs.bootstrap:
            return []
        known, unusable = known_beforehand(
            self.schema, inputs.bootstrap, inputs.tick, self.classes, self._made_of
        )
        self.schema = self.schema.settled(known.kind)
        known.give(joined, self.learner, Moment(self.join.counts.records, inputs.tick))
        self.bootstrapped += len(known.ids)
        return unusable

    def _arrive(self, records: Records) -> tuple[Records, np.ndarray]:
        """Return records with their columns made, and their rows (n, D) behind the labels' lags."""
        features = self.learner.features
        records = self._made_of(records)
        if features is not None and records.values is not None:
            records = replace(records, X=features.arrive(records.values))
        return records, self.learner.with_lags(records.X)

    def _made_of(self, records: Records) -> Records:
        """Return records that have arrived, their values made by a transformer, if there is one."""
        return records if self.models is None else self.models.made_of(records, self.schema)

    def _keep(self, swap: Committee | None, served: Committee | None) -> int | None:
        """Keep the committees of this batch; return the version that came to serve in it.

        One that the pipeline began with came to serve in the first.
        """
        committee = self.learner.committee
        served = served if self.sequence > 1 else None
        self.versions.add([swap, self.learner.trainer.challenger, committee])
        return committee.version if committee and committee is not served else None

    def _journal(
        self, inputs: Inputs, swap: Committee | None, promoted: int | None, started: list[Training]
    ) -> bytes:
        return inputs.entry(
            sequence=self.sequence,
            swap=swap.version if swap else None,
            promoted=promoted,
            trainings=started,
            digest=self.digest,
            **msgspec.structs.asdict(self.journal_extras),
        ).encode()


class _Before(NamedTuple):
    """How it stood before a batch."""

    ignored: dict[str, int]
    committee: Committee | None
    bootstrapped: int


def _nothing(part: str) -> None:
    pass


def _place(letter: DeadLetter) -> tuple[str, int]:
    return next(iter(letter.position.items()))


def _obeyed(command: Command, learner: StreamLearner, versions: Versions) -> tuple[Training, ...]:
    trainer = learner.trainer
    if command.version is not None:
        return learner.swap(versions[command.version])
    if command.decision is not None:
        learner.decisions = decisions_of(command.decision)
        return ()
    if command.command == "promote":
        return trainer.promote()
    if command.command == "pause":
        trainer.pause()
        return ()
    return trainer.go_on() if command.command == "resume" else trainer.retrain()


def decisions_of(given: Mapping[str, Any]) -> Decisions | None:
    """Return the decisions that `given` asks for; None where it asks for none.

    ConfigurationError where they cannot be made.
    """
    if unknown := sorted(given.keys() - {"costs", "threshold"}):
        raise ConfigurationError(f"decisions go by costs or threshold, and {unknown[0]} is neither")
    return Decisions(**given) if given else None


def _gain(given: dict[str, Any], learner: StreamLearner) -> dict[str, Field]:
    """Let the learner take on fields that were added to the file; records before miss them."""
    assert learner.features is not None
    fields = {name: as_field(name, field) for name, field in given.items()}
    for name, field in fields.items():
        learner.features.add(name, field)
    learner.follow_features()
    return fields


def _of_committee(learner: StreamLearner, models: Models | None) -> dict[str, int]:
    """Return how the committee stands, and what is being trained."""
    trainer = learner.trainer
    numbers = {
        "labels": learner.n_labelled,
        "version": 0,
        "rounds": 0,
        "trees": 0,
        "classes": 0,
        "running": trainer.running.version if trainer.running else 0,
        "challenger": trainer.challenger.version if trainer.challenger else 0,
        # Where a model serves, nothing is trained, and nobody has asked for that.
        "paused": int(trainer.paused and (models is None or models.serving is None)),
    }
    if (committee := learner.committee) is not None:
        numbers |= {
            "version": committee.version,
            "rounds": committee.n_rounds,
            "trees": committee.n_trees,
            "classes": len(committee.classes),
        }
    return numbers
