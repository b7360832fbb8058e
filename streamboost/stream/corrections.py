"""Labels that come again: which of them holds, and what a learner does about it."""

from typing import TYPE_CHECKING

import numpy as np

from streamboost.features.layout import Values
from streamboost.stream.blend.blend import Blend
from streamboost.stream.checks import Label, as_wide
from streamboost.stream.estimators import class_weight_of
from streamboost.stream.labelled_rows.named import verdict
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.stream.learner import StreamLearner

__all__ = ["correct", "rename"]

_NEWEST = 5_000
"""Labelled records that experts learn again; few of them remember more."""


def correct(
    learner: "StreamLearner",
    id: str,
    label: Label | None,
    source: str | None,
    tick: int,
    values: Values | None = None,
) -> tuple[Training, ...]:
    """Let `learner` take in what `source` says of a record it has learned; None: it says nothing.

    The row keeps its columns, and its place in the order of labels. Whatever counts labels or
    takes sums of them counts the other one instead; what was trained step by step learns it as one
    more example, which a label taken back is none of. `values` are those of its record, where they
    are still known. Returns the trainings that were started.
    """
    rows = learner._rows
    learner._asking.close(id)
    found = rows.find(id)
    if found is None:
        return ()
    named, row, before = found
    after = label
    if label is not None:
        is_new = source is None or all(source != who for who, _ in named.votes)
        named.say(source, label)
        if is_new:
            learner.annotators.note(named)
        after = verdict(learner.on_conflict or "first", named.votes, before)
    if after == before:
        return ()
    values = named.values if values is None else values
    rows.correct(id, after, tick)
    learner.judge.correct(id, before, after)
    if after is not None:
        row = np.asarray(as_wide(row[None], learner.n_features or 0)[0])
        weight = class_weight_of(learner.estimator, after, rows.counts)
        weight *= learner.trust(named, after)
        learner._blend.correct(row, after, weight, learner.committee)
    if learner.features is not None and values is not None:
        learner.features.correct(values, before, after)
        learner.follow_features()
    return learner.trainer.proceed()


def rename(learner: "StreamLearner", label: Label, into: Label | None) -> tuple[Training, ...]:
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


def _learn_again(learner: "StreamLearner") -> None:
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
