"""Labels that come again: which of them holds, and what a learner does about it."""

from typing import TYPE_CHECKING

import numpy as np

from streamboost.features.layout import Values
from streamboost.stream.checks import Label, as_wide
from streamboost.stream.estimators import class_weight_of
from streamboost.stream.labelled_rows.named import verdict
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.stream.learner import StreamLearner

__all__ = ["correct"]


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
    found = rows.find(id)
    if found is None:
        return ()
    named, row, before = found
    after = label
    if label is not None:
        named.say(source, label)
        after = verdict(learner.on_conflict or "first", named.votes, before)
    if after == before:
        return ()
    values = named.values if values is None else values
    rows.correct(id, after, tick)
    learner.judge.correct(id, before, after)
    if after is not None:
        row = np.asarray(as_wide(row[None], learner.n_features or 0)[0])
        weight = class_weight_of(learner.estimator, after, rows.counts)
        learner._blend.correct(row, after, weight, learner.committee)
    if learner.features is not None and values is not None:
        learner.features.correct(values, before, after)
        learner.follow_features()
    return learner.trainer.proceed()
