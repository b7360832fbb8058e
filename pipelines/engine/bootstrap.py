"""Records whose labels are known beforehand."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoded import Records
from streamboost.connectors.messages.labels import LabelKind
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import DeadLetter
from streamboost.pipelines.engine.changes import Classes
from streamboost.pipelines.engine.join.held_records import HeldRecord
from streamboost.pipelines.engine.join.joined import Joined
from streamboost.pipelines.engine.join.values import held_values
from streamboost.pipelines.span import Moment
from streamboost.stream.checks import Label
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Training
from streamboost.stream.training.trainer import Trainer

__all__ = ["Known", "known_beforehand", "training_once"]


@dataclass(frozen=True, slots=True)
class Known:
    """Labelled records: ids, features float32 (n, D), what fields hold besides, labels."""

    ids: list[str]
    X: npt.NDArray[np.float32]
    values: list[bytes | None]
    labels: list[Label]
    kind: LabelKind | None

    def give(self, joined: Joined, learner: StreamLearner, arrived: Moment) -> None:
        """Add them to the labels that `learner` is to learn."""
        mixed = learner.features is not None  # their rows are made one after another
        X = self.X if mixed else learner.with_lags(self.X)
        for id, x, values, label in zip(self.ids, X, self.values, self.labels, strict=True):
            joined.take(id, HeldRecord(x, arrived, None, None, values), label, float("nan"))


@contextmanager
def training_once(trainer: Trainer, started: list[Training]) -> Iterator[None]:
    """Train at the end, if at all, adding to `started`, where labels known beforehand come in.

    No record is predicted between them, so that trainings on a part of them would be lost.
    """
    if trainer.paused:
        yield
        return
    trainer.pause()
    yield
    started += trainer.go_on()


def known_beforehand(
    schema: Schema,
    messages: Sequence[Message],
    tick: int,
    classes: Classes | None = None,
    made_of: Callable[[Records], Records] = lambda records: records,
) -> tuple[Known, list[DeadLetter]]:
    """Decode messages that are a record and its label in one, in their order.

    Labels are of the classes that `classes` make of them, and values those that `made_of` makes.
    Each that cannot be used is one dead letter, even if both its halves are wrong.

    >>> lines = [b'{"id": 1, "a": 2, "label": "x"}', b'{"id": 2, "a": "wide"}']
    >>> messages = [Message(line, "0", i, len(line)) for i, line in enumerate(lines)]
    >>> known, dead = known_beforehand(Schema(numeric=["a"]), messages, tick=0)
    >>> known.ids, known.X.tolist(), known.labels
    (['1'], [[2.0]], ['x'])
    >>> [letter.reason for letter in dead]
    ['wrong_type']
    """
    records, damaged = schema.decode(messages, source="bootstrap", time=tick)
    labels, unread = schema.decode_labels(messages, source="bootstrap", time=tick)
    labels, dropped = (classes or Classes()).sort(labels, "bootstrap", tick)
    # A message is the same object in both; equal ones at two places are not.
    label_of = {id(m): label for m, label in zip(labels.messages, labels.labels, strict=True)}
    rows = [row for row, message in enumerate(records.messages) if id(message) in label_of]
    usable = made_of(records.take(rows))
    named = [label_of[id(message)] for message in usable.messages]
    known = Known(usable.ids, usable.X, held_values(usable), named, labels.kind)
    dead = {tuple(letter.position.items()): letter for letter in (*unread, *dropped, *damaged)}
    return known, [dead[place] for place in sorted(dead)]
