"""Labels that come again, and classes that are others now: what a learner does about them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from streamboost.active.query import QueryStrategy
from streamboost.errors import DataError
from streamboost.features.layout import Values
from streamboost.stream.blend.blend import Blend
from streamboost.stream.checks import Label, as_ids, as_labels, as_sources, as_tick, as_wide
from streamboost.stream.doubts import Doubts, Relabels
from streamboost.stream.estimators import class_weight_of
from streamboost.stream.labelled_rows.annotators import guess_of
from streamboost.stream.labelled_rows.named import NamedRow, Vote, verdict
from streamboost.stream.predictor import Predictor
from streamboost.stream.training.schedule import Schedule, Training

__all__ = ["Corrector"]

_NEWEST = 5_000
"""Labelled records that experts learn again; few of them remember more."""


class Corrector(Predictor):
    """The part of a learner that changes its mind about what it was told.

    Attributes
    ----------
    on_conflict
        Which of several labels of a record holds; None: every label is another record's.
    strategy
        Which records to ask for, and whether to ask again.
    """

    on_conflict: str | None
    strategy: QueryStrategy
    schedule: Schedule
    experts: tuple[str, ...]
    _doubts: Doubts

    def query_again(self, may: Callable[[str], bool] = lambda id: True) -> Relabels:
        """Ask again about labels that look wrong, as far as the budget's `relabel` share goes.

        Each costs a token. The answers are told to `learn` or `correct`, as other labels that come
        again. Only records of which `may` approves, given their ids, are asked about.
        """
        n = self._asking.due_again
        if not n:
            return Relabels([], np.zeros(0), [])
        again = self._doubts.worst(n, lambda id: self._asking.is_free(id) and may(id))
        self._asking.ask_again(again.ids)
        return again

    def correct(
        self,
        ids: Sequence[str],
        y: Sequence[Label | None],
        *,
        tick: int = 0,
        sources: Sequence[str | None] | None = None,
        records: Sequence[Values | None] | None = None,
    ) -> tuple[Training, ...]:
        """Take in labels `y` (n,) of records learned before; None takes a record's label back.

        They are found by their ids in the working set, and others are passed over. The honest
        figures count the other label, running rates of categories subtract what they counted, and
        models trained label by label learn it as one more example. A row without a label leaves;
        the newest such rows, as many as the working set may have, return when a label comes again,
        which the honest figures do not count. Returns the trainings that were started: each change
        counts as a label learned.

        Parameters
        ----------
        ids, y, tick, sources
            As for `learn`.
        records
            The values (n) that the rows were made of, where there are features; None where they
            are not known any more: texts do not learn then.

        Raises
        ------
        DataError
            When anything given cannot be used; nothing has been learned then.
        """
        labels: list[Label | None] = list(y)
        ids, who, tick = as_ids(ids, len(labels)), as_sources(sources, len(labels)), as_tick(tick)
        given = [label for label in labels if label is not None]
        as_labels(given, len(given), self._kind)
        values = [None] * len(ids) if records is None else list(records)
        started: list[Training] = []
        for one in zip(ids, labels, who, values, strict=True):
            started += self._correct(*one[:3], tick, one[3])
        return tuple(started)

    def rename(self, label: Label, into: Label | None) -> tuple[Training, ...]:
        """Let one class be another, or none: the records labelled so are no longer labelled then.

        The committee is trained anew; until its successor serves, its predictions are understood in
        the classes there are now. Experts learn the working set's newest records again. What the
        honest figures have summed stays as it was judged. Returns the trainings that were started.

        Raises
        ------
        DataError
            When they are not of the kind of the labels, or the same.
        """
        as_labels([label] if into is None else [label, into], 1 + (into is not None), self._kind)
        if label == into:
            raise DataError(f"the class {label!r} is itself: name another that it is to be")
        return _rename(self, label, into)

    def votes_for(self, label: Label) -> list[tuple[str, str | None]]:
        """Return ids and sources of what was said to be of a class, of the rows with an id."""
        named = self._rows.named()
        return [(id, who) for id, row, _ in named for who, said in row.votes if said == label]

    def restore_classes(
        self,
        restored: Mapping[str, Sequence[tuple[str | None, Label, Label]]],
        now: Callable[[Label], Label | None],
    ) -> tuple[Training, ...]:
        """Give labels back the classes they had before `rename`, as far as their rows are kept.

        The committee is trained anew, as after `rename`. Returns the trainings that were started.

        Parameters
        ----------
        restored
            By the ids of records: who gave a label, its class until now, and the one it has again.
        now
            Maps a class to the one that it is now; None: it was dropped.
        """
        return _restore_classes(self, restored, now)

    def _correct(
        self,
        id: str,
        label: Label | None,
        source: str | None,
        tick: int,
        values: Values | None = None,
    ) -> tuple[Training, ...]:
        """Take in what `source` says of a record it has learned; None: it says nothing.

        The row keeps its columns, and its place in the order of labels. Whatever counts labels or
        takes sums of them counts the other one instead; what was trained step by step learns it as
        one more example, which a label taken back is none of. `values` are those of its record,
        where they are still known. Returns the trainings that were started.
        """
        rows = self._rows
        self._asking.close(id)
        found = rows.find(id)
        if found is None:
            return ()
        named, row, before = found
        after = label
        if label is not None:
            is_new = source is None or all(source != who for who, _ in named.votes)
            named.say(source, label)
            if is_new:
                self.annotators.note(named)
            if before is not None:
                after = verdict(self.on_conflict or "first", named.votes, before)
        if after == before:
            return ()
        values = named.values if values is None else values
        rows.correct(id, after, tick, self._asking.records)
        if before is not None:
            self.judge.correct(id, before, after)
        elif after is not None:
            self.judge.label([id], [after])
        if after is not None:
            row = np.asarray(as_wide(row[None], self.n_features or 0)[0])
            weight = class_weight_of(self.estimator, after, rows.counts)
            weight *= self.trust(named, after)
            self._blend.correct(row, after, weight, self.committee)
        if self.features is not None and values is not None:
            self.features.correct(values, before, after)
            self.follow_features()
        return self.trainer.proceed()

    def _again(self, ids: Sequence[str], taught: Sequence[int]) -> set[int]:
        """Return which of the labels `taught` are of records that have, or will have, a row."""
        if self.on_conflict is None:
            return set()
        again, seen = set(), set()
        for i in taught:
            if ids[i] and (ids[i] in seen or self._rows.find(ids[i]) is not None):
                again.add(i)
            seen.add(ids[i])
        return again

    def _named(
        self,
        label: Label,
        source: str | None,
        said: tuple[list[Label], np.ndarray] | None,
        values: Values,
    ) -> NamedRow:
        """Return what is noted of a record that is labelled now, and of which that was said."""
        row = NamedRow(0, [(source, label)])
        if said is not None:
            row.guess = guess_of(*said)
            if self.strategy.relabel:
                row.said = said[0], said[1].astype(np.float32)
        if self.features is not None and self.on_conflict is not None:
            row.values = self.features.kept(values)
        return row

    def trust(self, row: NamedRow, label: Label) -> float:
        """Return as how much of a record a row counts; 1 where nobody is asked again."""
        return self._doubts.trust(row, label) if self.strategy.relabel else 1.0


def _rename(learner: "Corrector", label: Label, into: Label | None) -> tuple[Training, ...]:
    """Let one class of `learner` be another, or none; return the trainings that were started."""
    renamed = {a: into if b == label else b for a, b in learner._renamed.items()}
    learner._renamed = {a: b for a, b in renamed.items() if a != into} | {label: into}
    trainer = learner.trainer
    trainer.rename(label, into)
    learner.judge.rename(label, into)
    if not learner._rows.rename(label, into):
        return trainer.proceed()
    if learner.features is not None:
        learner.features.rename(label, into)
        learner.follow_features()
    _learn_again(learner)
    return trainer.retrain() if trainer.champion is not None else trainer.proceed()


def _restore_classes(
    learner: "Corrector",
    restored: Mapping[str, Sequence[tuple[str | None, Label, Label]]],
    now: Callable[[Label], Label | None],
) -> tuple[Training, ...]:
    renamed = {label: now(label) for label in learner._renamed}
    learner._renamed = {label: into for label, into in renamed.items() if into != label}
    changed = False
    for id, changes in restored.items():
        found = learner._rows.find(id)
        if found is None:
            continue
        named, _, before = found
        if before is None:  # its label was taken back
            continue
        for source, was, again in changes:
            if (source, was) in named.votes:
                named.votes[named.votes.index((source, was))] = source, again
        after = _standing(learner.on_conflict or "first", named.votes)
        if after == before:
            continue
        changed = True
        learner._rows.correct(id, after, learner._rows.tick, learner._asking.records)
        learner.judge.correct(id, before, after)
        if learner.features is not None and named.values is not None:
            learner.features.correct(named.values, before, after)
    trainer = learner.trainer
    if not changed:
        return trainer.proceed()
    if learner.features is not None:
        learner.follow_features()
    _learn_again(learner)
    return trainer.retrain() if trainer.champion is not None else trainer.proceed()


def _standing(rule: str, votes: Sequence[Vote]) -> Label:
    """Return the label that holds by a rule of `ON_CONFLICT` after these votes, one by one."""
    label = votes[0][1]
    for n in range(2, len(votes) + 1):
        label = verdict(rule, votes[:n], label)
    return label


def _learn_again(learner: "Corrector") -> None:
    """Make the experts anew of the newest rows, with the weights that they have."""
    before, sample = learner._blend, learner._rows.sample()
    blend = Blend(learner.experts, learner.schedule, learner.features, learner._lags.n)
    blend.weights, blend._squares = before.weights, before._squares
    blend.widen(learner.n_features or 0)
    newest = slice(max(len(sample.y) - _NEWEST, 0), None)
    for row, label in zip(sample.X[newest], sample.y[newest].tolist(), strict=True):
        weight = class_weight_of(learner.estimator, label, learner._rows.counts)
        blend.learn("", row, label, weight)
    learner._blend = learner._asking.blend = blend
