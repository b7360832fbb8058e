"""Predictions of another system, which are read from a field of the records."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import decode_json_object
from streamboost.connectors.messages.labels import convert_label, normalize_label
from streamboost.connectors.messages.schema import Schema
from streamboost.features.paths import path_getter
from streamboost.predictions import Scored, top_two_gap

_log = logging.getLogger(__name__)

_LEAST = 1e-12
"""Lower bound of probabilities in margins, so that their logarithms are finite."""

ClassShares = Mapping[Label, float | None]
"""Probability of each class in a prediction; None for a label alone. Empty: no valid prediction."""


@dataclass(slots=True)
class RecordedPredictions:
    """Reader of another system's predictions: labels, or maps or lists of class probabilities.

    Attributes
    ----------
    field : path of the prediction in a record
    n_valid, n_labels_alone : number of records with a valid prediction, and of those with a label
        alone
    n_missing, n_malformed : number of records without a prediction, and with one that is invalid
    """

    field: str
    n_valid: int = 0
    n_labels_alone: int = 0
    n_missing: int = 0
    n_malformed: int = 0

    def read(
        self,
        messages: Sequence[Message],
        schema: Schema,
        current_class: Callable[[Label], Label | None],
    ) -> Scored:
        """Return the predictions in the records `messages`, as `score_recorded`, and count them."""
        return score_recorded(self.parse(messages, schema), schema.classes, current_class)

    def parse(self, messages: Sequence[Message], schema: Schema) -> list[ClassShares]:
        """Return the probabilities by class in each of the records `messages`, and count them."""
        return [self._parse_and_count(message, schema) for message in messages]

    def _parse_and_count(self, message: Message, schema: Schema) -> ClassShares:
        """Return the probability of each class; None for a label alone, and {} if invalid."""
        try:
            value = _stored_prediction(decode_json_object(message.payload), self.field)
            if value is None:
                self.n_missing += 1
                self._warn_at_powers_of_ten(self.n_missing, "lack the prediction", "null or absent")
                return {}
            found = _parse_prediction(value, schema)
        except (ValueError, OverflowError, RecursionError) as error:
            self.n_malformed += 1
            self._warn_at_powers_of_ten(self.n_malformed, "have a malformed prediction", str(error))
            return {}
        self.n_valid += 1
        self.n_labels_alone += None in found.values()
        return found

    def _warn_at_powers_of_ten(self, n: int, what: str, reason: str) -> None:
        """Log a warning if `n`, the number of records that `what` describes, is 1, 10, 100, ...

        `reason` is the error of the newest of these records.
        """
        if 10 ** (len(str(n)) - 1) == n:
            _log.warning(
                "[model] prediction_field %r: %d records %s; the newest: %.200s",
                self.field,
                n,
                what,
                reason,
                extra={"event": "prediction_unusable"},
            )

    def to_json(self) -> dict[str, int]:
        """Return the four counts, keyed by attribute name."""
        counts = asdict(self)
        return {name.removeprefix("n_"): n for name, n in counts.items() if name != "field"}

    def restore(self, counts: Mapping[str, int]) -> None:
        """Set the counts to the result of `to_json`."""
        for name, n in counts.items():
            setattr(self, f"n_{name}", n)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add the counts of another process, in the form of `to_json`."""
        self.restore({name: n + counts.get(name, 0) for name, n in self.to_json().items()})


def score_recorded(
    found: Sequence[ClassShares],
    classes: Sequence[Label],
    current_class: Callable[[Label], Label | None],
) -> Scored:
    """Return the predictions that `RecordedPredictions.parse` found.

    `current_class` maps each of `classes` to its present class; None: it was dropped. Without a
    valid prediction, the label is None. Without probabilities, these are NaN.
    """
    renamed = {label: current_class(label) for label in classes}
    now = {label: new for label, new in renamed.items() if new is not None}
    classes = list(dict.fromkeys(now.values()))
    P = np.full((len(found), len(classes)), np.nan)
    labels = np.full(len(found), None, dtype=object)
    for row, one in enumerate(found):
        shares = np.zeros(len(classes))
        for label, p in one.items():
            if label in now:
                shares[classes.index(now[label])] += 1.0 if p is None else p
        if not shares.any():
            continue
        labels[row] = classes[int(shares.argmax())]
        if None not in one.values():
            P[row] = shares / shares.sum()
    margins = np.nan_to_num(top_two_gap(np.log(np.maximum(P, _LEAST))))
    return Scored(labels, labels_to_array(classes), P, margins, version=0)


def _stored_prediction(record: Mapping[str, Any], field: str) -> Any:
    """Return the value of `field`, or a dict of the columns `field`.CLASS; None if absent or empty.

    Columns of a table have dotted names.
    """
    value = path_getter(field)(record)
    if value is None:
        start = f"{field}."
        value = {k.removeprefix(start): p for k, p in record.items() if k.startswith(start)}
    return None if value in ("", {}, []) else value


def _parse_prediction(value: Any, schema: Schema) -> ClassShares:
    """Return the probability of each class, None for a label alone; ValueError if malformed."""
    if isinstance(value, list):
        if not 2 <= len(value) <= len(schema.classes):
            raise ValueError(f"{len(value)} probabilities for {len(schema.classes)} classes")
        value = dict(zip(schema.classes, value, strict=False))
    elif not isinstance(value, dict):
        return {_parse_class(value, schema): None}
    found: dict[Label, float] = {}
    for name, p in value.items():
        label = _parse_class(name, schema)
        found[label] = found.get(label, 0.0) + _parse_probability(p)
    if not 0.0 < sum(found.values()) < math.inf:
        raise ValueError("the probabilities have no positive sum")
    return found


def _parse_class(value: Any, schema: Schema) -> Label:
    label, _ = convert_label(value, schema.label_kind)
    label = normalize_label(label)[0] if isinstance(label, str) else label
    if label is None or label not in schema.classes:
        raise ValueError(f"{value!r} is no class of [schema] classes")
    return label


def _parse_probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no probability")
    p = float(value)
    if not 0.0 <= p < math.inf:
        raise ValueError(f"{value!r} is no probability")
    return p
