"""One partition that a scorer has: what it asked, and among what the next record is ranked.

All that is known of a partition follows from its newest entry of progress, its records and the
edition they are predicted by: whoever takes it over goes on as the one before would have.
"""

import base64
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy, Requests
from streamboost.connectors.base import Following, Message
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.written import DeadLetter
from streamboost.errors import ConnectorError
from streamboost.pipelines.apart.committees import Edition
from streamboost.pipelines.apart.progress import Asked, Progress, Step
from streamboost.pipelines.engine.batch import Inputs, Messages, chain, letters, predictions
from streamboost.pipelines.engine.field_counts import FieldCounts
from streamboost.pipelines.engine.held_records import HeldRecord
from streamboost.pipelines.engine.join import Joined
from streamboost.pipelines.engine.requests import request_of, shown
from streamboost.pipelines.engine.values import held_values
from streamboost.pipelines.span import Moment, Span
from streamboost.stream.evaluation.tally import Rest
from streamboost.stream.scoring import Scored, surest

__all__ = ["Settings", "Task"]

_OF_QUERIER = ("budget", "draws", "places", "lots", "rule", "doubt")


@dataclass(frozen=True, slots=True)
class Settings:
    """What all partitions of a pipeline have in common.

    Attributes
    ----------
    strategy : which records to ask for; its burst is that of all partitions together
    seed : the pipeline's
    expires_after : how long an answer is waited for
    worker : who scores
    """

    strategy: QueryStrategy
    seed: int
    expires_after: Span
    worker: str

    def of(self, partitions: int) -> QueryStrategy:
        """Return the strategy of one of so many partitions."""
        strategy = self.strategy
        by_chance = 4 if strategy.relabel else 3
        least = by_chance if strategy.rule == "chance" else 1 + (strategy.audit_share > 0)
        return replace(strategy, burst=max(least, strategy.burst // partitions))


class Task:
    """Predicts the records of one partition, and decides which of them to ask for.

    A step that is not committed spoils it: make it again from what is.

    Parameters
    ----------
    partition : its number
    settings : Settings
    partitions : how many the topic has
    newest : the newest entry of its progress; None at its beginning
    topic : what tells the topic of the records from another of its name; None: nobody can tell

    Raises ConnectorError where the entry is of another topic.
    """

    def __init__(
        self,
        partition: int,
        settings: Settings,
        partitions: int,
        newest: Progress | None,
        topic: str | None = None,
    ) -> None:
        if newest is not None and None not in (topic, newest.topic) and topic != newest.topic:
            raise ConnectorError(
                "the topic of the records was deleted and made again since: what it holds is not "
                "what was there. Put the old one back from a copy, or, to read this one from its "
                "beginning, give the pipeline another name and an empty state"
            )
        self._topic = topic
        self.partition = partition
        self.next = newest.end if newest else None
        self.gap: list[int] | None = None
        self._settings = settings
        self._newest = newest
        strategy = settings.of(partitions)
        seeds = np.random.SeedSequence([settings.seed, partition])
        self._querier = Querier(strategy, seeds)
        self._window: deque[tuple[int, str]] = deque(maxlen=strategy.window)
        self._n_features = 0
        self._sequence = newest.sequence if newest else 0
        self._digest = newest.digest if newest else ""

    @property
    def reread(self) -> tuple[int, int] | None:
        """The offsets whose records `resume` needs; None where there is nothing to resume."""
        return None if self._newest is None else (self._newest.window, self._newest.end)

    @property
    def edition(self) -> int:
        """The edition that the newest batch was predicted by: no older one may be used."""
        return self._newest.edition if self._newest else 0

    def resume(self, messages: Sequence[Message], edition: Edition) -> None:
        """Go on from the newest entry, given the `messages` that `reread` names.

        Where some of them are gone, fewer records are ranked against.
        """
        if self._newest is None:
            return
        records, _ = self._decode(messages, edition, 0)
        records = records.take(
            range(max(len(records) - (self._window.maxlen or 0), 0), len(records))
        )
        X = self._rows(records, edition)
        self._note(records)
        state = self._newest.querier | {"window_version": -1, "pool": []}
        self._querier.resume(state, {"X": X, "utility": np.zeros(len(X))})
        self._n_features = X.shape[1]

    def step(
        self,
        messages: Sequence[Message],
        edition: Edition,
        tick: int,
        lag: int,
        end: int | None = None,
    ) -> Step:
        """Predict the records of `messages`, and decide which to ask for.

        The partition goes on at `end`, None: after the last of them.
        """
        end = messages[-1].offset + 1 if end is None else end
        learner, schema = edition.learner, edition.schema
        self._sequence += 1
        records, dead = self._decode(messages, edition, tick)
        X = self._rows(records, edition)
        scored = learner.score(X)
        asked = self._decide(records, X, scored, edition)
        predicted = predictions(records, scored, asked, self._sequence, schema, self.partition)
        row_of = {id: row for row, id in enumerate(records.ids)}
        rows = [row_of[id] for id in asked.ids]
        held = self._held(records, X, scored, rows, tick)
        requests = self._requests(asked, held, scored, rows, edition, tick)
        about = Following(requests, [records.messages[row] for row in rows])
        written = Messages(predicted, about, letters(dead, Inputs(tick, {}, [*messages], [])))
        self._digest = chain(self._digest, replace(records, X=X), written, Joined(), [])
        self._note(records)
        block = self._querier.budget.block
        entry = self._entry(
            start=messages[0].offset,
            end=end,
            records=len(records),
            dead=len(dead),
            edition=edition.number,
            version=scored.version,
            temperature=scored.temperature,
            classes=scored.classes.tolist(),
            tick=tick,
            lag=lag,
            window=self._window[0][0] if self._window else end,
            sums=base64.b64encode(Rest.of(scored, rows, block, asked.chances).pack()).decode(),
            asked=self._asked(asked, held, scored, rows, records, edition),
            unknown=dict(FieldCounts(records.unknown).unknown),
        )
        self._newest = entry
        self.next = end
        return Step(written, entry.encode(), end, len(records))

    def _decode(
        self, messages: Sequence[Message], edition: Edition, tick: int
    ) -> tuple[Records, list[DeadLetter]]:
        """Return the records of a batch, and in their order the dead letters of the others."""
        sound, dead = edition.schema.decode(messages, source="records", time=tick)
        known, fresh = {id for _, id in self._window}, []
        for row, id in enumerate(sound.ids):
            if id not in known:
                fresh.append(row)
                known.add(id)
            else:
                text = (
                    f"a record with the id {id!r} is among the newest {self._window.maxlen} of its "
                    "partition already"
                )
                message = sound.messages[row]
                letter = DeadLetter.of(message, "duplicate_id", text, source="records", time=tick)
                dead = [*dead, letter]
        if len(fresh) == len(sound):
            return sound, dead
        return sound.take(fresh), sorted(dead, key=lambda one: next(iter(one.position.values())))

    def _rows(self, records: Records, edition: Edition) -> np.ndarray:
        """Return the rows of records, float32 (n, D), for an edition's committee."""
        learner = edition.learner
        X = records.X if records.values is None else learner.rows(records.values)
        if X.shape[1] > self._n_features:
            self._n_features = X.shape[1]
            self._querier.widen(self._n_features)
        return X

    def _note(self, records: Records) -> None:
        places = [message.offset for message in records.messages]
        self._window.extend(zip(places, records.ids, strict=True))

    def _decide(
        self, records: Records, X: np.ndarray, scored: Scored, edition: Edition
    ) -> Requests:
        learner = edition.learner
        self._querier.follow(edition.version, learner.utility)
        cold = learner.committee is None or learner.lacking > 0
        utility = learner.utility(X, scored)
        return self._querier.decide(records.ids, X, utility, surest(scored), cold=cold)

    def _held(
        self, records: Records, X: np.ndarray, scored: Scored, rows: Sequence[int], tick: int
    ) -> list[HeldRecord]:
        """Return what there is of the records at `rows`, which are asked about."""
        some = records.take(rows)
        labels = scored.labels[list(rows)].tolist()
        given = zip(X[list(rows)], labels, some.times, held_values(some), strict=True)
        now = Moment(0, tick)
        return [HeldRecord(x, now, label, time, values) for x, label, time, values in given]

    def _requests(
        self,
        asked: Requests,
        held: Sequence[HeldRecord],
        scored: Scored,
        rows: Sequence[int],
        edition: Edition,
        tick: int,
    ) -> list[bytes]:
        expires = self._settings.expires_after.end(Moment(0, tick))
        return [
            request_of(
                id,
                held[i],
                scored,
                rows[i],
                schema=edition.schema,
                utility=float(asked.utility[i]),
                propensity=float(asked.propensity[i]),
                expires=expires,
                sequence=self._sequence,
                partition=self.partition,
            ).encode()
            for i, id in enumerate(asked.ids)
        ]

    def _asked(
        self,
        asked: Requests,
        held: Sequence[HeldRecord],
        scored: Scored,
        rows: Sequence[int],
        records: Records,
        edition: Edition,
    ) -> list[Asked]:
        """Return what the learner is told of the records that are asked about."""
        return [
            Asked(
                id=id,
                time=held[i].time,
                offset=records.messages[row].offset,
                values=list(shown(edition.schema.features, held[i]).values()),
                label=held[i].predicted,
                probabilities=scored.probabilities[row].tolist(),
                margin=float(scored.margins[row]),
                utility=float(asked.utility[i]),
                propensity=float(asked.propensity[i]),
                audit=bool(asked.audit[i]),
                rule=bool(asked.rule[i]),
            )
            for i, (id, row) in enumerate(zip(asked.ids, rows, strict=True))
        ]

    def _entry(self, **done: Any) -> Progress:
        state, _ = self._querier.state()
        gap, self.gap = self.gap, None
        return Progress(
            sequence=self._sequence,
            worker=self._settings.worker,
            querier={name: state[name] for name in _OF_QUERIER},
            digest=self._digest,
            topic=self._topic,
            gap=gap,
            **done,
        )
