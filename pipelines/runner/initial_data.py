"""Initial data set of labelled records, and initial committee (warm start)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamboost.checks import Label
from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import LabelKind
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import encode_values_of_records
from streamboost.errors import ConfigurationError
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Training
from streamboost.learner.trainer import Trainer
from streamboost.pipelines.config.durations import RecordCountAndBatchTime
from streamboost.pipelines.runner.label_join import LabelledBatch
from streamboost.pipelines.runner.label_mapping import LabelMapping
from streamboost.pipelines.runner.record_window import HeldRecord

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_MENDS = "train a committee on the same columns in this order, or rename the fields"


@dataclass(frozen=True, slots=True)
class InitialData:
    """Labelled records of the initial data set.

    Attributes
    ----------
    ids, labels : record ids, and the label of each record
    X : features, float32 (n, D)
    values : encoded field values of each record; None: only the features are stored
    kind : type of the labels; None: unknown
    """

    ids: list[str]
    X: npt.NDArray[np.float32]
    values: list[bytes | None]
    labels: list[Label]
    kind: LabelKind | None

    def append_to(
        self,
        labelled_batch: LabelledBatch,
        learner: StreamLearner,
        arrival_time: RecordCountAndBatchTime,
    ) -> None:
        """Append the records to `labelled_batch`, from which `learner` learns in this step."""
        mixed = learner.features is not None  # the learner encodes their rows later
        X = self.X if mixed else learner.add_label_lags(self.X)
        for id, x, values, label in zip(self.ids, X, self.values, self.labels, strict=True):
            labelled_batch.add(
                id, HeldRecord(x, arrival_time, None, None, values), label, float("nan")
            )


def _partition_and_offset(message: Message) -> tuple[str, int]:
    return message.partition, message.offset


@contextmanager
def defer_training(trainer: Trainer, started_trainings: list[Training]) -> Iterator[None]:
    """Context manager whose body learns labels without training; training starts at its end.

    The trainings that are started then are appended to `started_trainings`.
    No record is predicted while initial data is learned, so trainings on a part of the data would
    be wasted. If training is paused, it stays paused.
    """
    if trainer.paused:
        yield
        return
    trainer.pause_training()
    yield
    started_trainings += trainer.resume_training()


def decode_initial_data(
    schema: Schema,
    messages: Sequence[Message],
    batch_time_ms: int,
    classes: LabelMapping | None = None,
    transform: Callable[[Records], Records] = lambda records: records,
) -> tuple[InitialData, list[DeadLetter]]:
    """Decode messages, each a record with its label; return the valid ones, and dead letters.

    `classes` maps the labels to their current classes; `transform` transforms the records. A
    rejected message gives one dead letter, even if both its record and its label are invalid.

    >>> lines = [b'{"id": 1, "a": 2, "label": "x"}', b'{"id": 2, "a": "wide"}']
    >>> messages = [Message(line, "0", i, len(line)) for i, line in enumerate(lines)]
    >>> known, dead = decode_initial_data(Schema(numeric=["a"]), messages, batch_time_ms=0)
    >>> known.ids, known.X.tolist(), known.labels
    (['1'], [[2.0]], ['x'])
    >>> [letter.reason for letter in dead]
    ['wrong_type']
    """
    records, damaged = schema.decode(messages, source="initial_data", time=batch_time_ms)
    labels, unread = schema.decode_labels(messages, source="initial_data", time=batch_time_ms)
    labels, dropped = (classes or LabelMapping()).map_labels(labels, "initial_data", batch_time_ms)
    # Messages are identified by partition and offset, as decoding may change the payload.
    label_of = {
        _partition_and_offset(m): label
        for m, label in zip(labels.messages, labels.labels, strict=True)
    }
    rows = [
        row
        for row, message in enumerate(records.messages)
        if _partition_and_offset(message) in label_of
    ]
    usable = transform(records.take(rows))
    named = [label_of[_partition_and_offset(message)] for message in usable.messages]
    known = InitialData(usable.ids, usable.X, encode_values_of_records(usable), named, labels.kind)
    dead = {tuple(letter.position.items()): letter for letter in (*unread, *dropped, *damaged)}
    return known, [dead[place] for place in sorted(dead)]


def deploy_initial_committee(
    committee: "Committee", schema: Schema, learner: StreamLearner
) -> Schema:
    """Deploy an initial `committee` in an untrained learner; return `schema` with its label type.

    Raises
    ------
    ConfigurationError
        If the columns of the committee differ from those of records, or if its classes are not
        valid labels.
    """
    _check_committee_columns(committee, schema, learner)
    schema = schema.with_label_type(_committee_label_type(committee, schema))
    learner.deploy(committee)
    return schema


def _check_committee_columns(
    committee: "Committee", schema: Schema, learner: StreamLearner
) -> None:
    """Raise ConfigurationError if `committee` was trained on other columns than the schema's."""
    if learner.n_label_lags:
        raise _initial_committee_error("cannot use lagged labels: remove [committee] label_lags")
    fields = {} if learner.features is None else learner.features.fields
    made = [str(name) for name, field in fields.items() if field.kind not in ("number", "vector")]
    if made:
        raise _initial_committee_error(
            f"cannot use {', '.join(made)}: only number and vector fields have the same columns in "
            "each pipeline. Remove other fields from [schema.fields], or give the labelled records "
            "themselves as [initial_data] path"
        )
    names = learner.columns(schema.features)
    known = committee.columns
    if known is not None and known.categories:
        tables = ", ".join(str(known.column_name(f)) for f in known.categories)
        raise _initial_committee_error(
            f"has categorical columns ({tables}): train a committee on numbers only"
        )
    if committee.n_features != len(names):
        raise _initial_committee_error(
            f"has {committee.n_features} columns, but records have {len(names)} "
            f"({_comma_separated(names)}): {_MENDS}"
        )
    theirs = list(known.names) if known is not None else []
    if theirs and theirs != names:
        f = next(f for f, pair in enumerate(zip(theirs, names, strict=True)) if len({*pair}) > 1)
        raise _initial_committee_error(
            f"has the column {f + 1} {theirs[f]!r}, but records have {names[f]!r} (columns "
            f"{_comma_separated(theirs)}, and {_comma_separated(names)}): {_MENDS}"
        )


def _committee_label_type(committee: "Committee", schema: Schema) -> LabelKind:
    """Return the type of the committee's labels.

    Raises ConfigurationError if the schema does not allow these labels.
    """
    classes = committee.classes.tolist()
    kinds: list[LabelKind] = []
    if all(isinstance(label, str) for label in classes):
        kinds = ["boolean", "string"] if {*classes} <= {"true", "false"} else ["string"]
    elif all(type(label) is int for label in classes):
        kinds = ["integer"]
    if not kinds:
        raise _initial_committee_error(
            f"has classes such as {classes[0]!r}: train a committee on text or whole numbers"
        )
    if schema.label_kind not in (None, *kinds):
        raise _initial_committee_error(
            f'has classes such as {classes[0]!r}, and [schema] label is "{schema.label_kind}": '
            f'set label = "{kinds[0]}", or train a committee on labels of that type'
        )
    if schema.classes and (other := [one for one in classes if one not in schema.classes]):
        raise _initial_committee_error(
            f"has the classes {_comma_separated(other)}: add them to [schema] classes"
        )
    return schema.label_kind or kinds[0]


def _comma_separated(names: Sequence[object], max_names: int = 8) -> str:
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(map(str, names[:max_names])) + more


def _initial_committee_error(problem: str) -> ConfigurationError:
    return ConfigurationError(f"the committee at [initial_data] committee {problem}")
