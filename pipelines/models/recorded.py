"""Classifier that returns the prediction which another system has written into each record."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.checks import Label
from streamboost.connectors.messages.labels import LabelKind, label_to_json

__all__ = ["RecordedPrediction"]


class RecordedPrediction:
    """Reads the prediction of a record from its field: a label, or a map of probabilities.

    Parameters
    ----------
    field : path of the field; the probability of class C in a map has the path `field.C`
    classes : labels that a prediction may have
    kind : kind of the labels
    """

    def __init__(self, field: str, classes: Sequence[Label], kind: LabelKind | None) -> None:
        self.field = field
        self._labels: dict[str, Label] = {}
        for label in classes:
            self._labels[str(label)] = label
            self._labels[str(label_to_json(label, kind)).lower()] = label

    def predict_proba_one(self, x: dict[str, Any]) -> Mapping[Label, float]:
        """Return the probabilities in the record `x`; a label has probability 1.

        Probabilities are divided by their sum later. Raises ValueError for a missing prediction, an
        unknown class, or probabilities that are negative, not finite or all 0.
        """
        start = f"{self.field}."
        if self.field in x:
            return {self._label(x[self.field]): 1.0}
        found = {self._label(k.removeprefix(start)): x[k] for k in x if k.startswith(start)}
        values = [float(p) for p in found.values()]
        if not all(math.isfinite(p) and p >= 0.0 for p in values) or not sum(values) > 0.0:
            raise ValueError(f"{self.field}: {found!r} is no prediction: write a label or a map")
        return found

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        """Learn nothing: another system trains the model."""

    def _label(self, value: Any) -> Label:
        is_whole = isinstance(value, float) and value.is_integer()
        text = str(int(value) if is_whole else value)
        label = self._labels.get(text, self._labels.get(text.lower()))
        if label is None:
            raise ValueError(
                f"{self.field}: {value!r} is no class: list it in [schema] classes of a new state"
            )
        return label
