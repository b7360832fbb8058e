"""Adapter for one third-party classifier with River's interface, and its pickled state."""

import logging
import pickle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from streamboost.checks import Label
from streamboost.connectors.messages.values import decode_values, encode_values
from streamboost.predictions import Scored
from streamboost.storage import Arrays, pack_json, unpack_json

_log = logging.getLogger(__name__)

_KEPT = 2_000
"""Number of the newest labelled records, from which a model is rebuilt after a River upgrade."""

_LEAST = 1e-12
"""Lower bound of probabilities in margins, so that their logarithms are finite."""


class Classifier(Protocol):
    """Protocol of an external classifier: the methods of River's classifiers."""

    def predict_proba_one(self, x: dict[str, Any]) -> Mapping[Any, float]:
        """Return the probabilities of the known labels; missing labels have probability 0."""

    def learn_one(self, x: dict[str, Any], y: Any) -> Any:
        """Learn the label `y` of the record `x`."""


class ExternalModel:
    """Wrapper of a River classifier, with its known labels and the newest labelled records.

    Parameters
    ----------
    classifier : the initial classifier
    names : names of the fields of a record, in the order of its values

    Attributes
    ----------
    failures : number of records that the classifier failed to predict or learn; these are skipped
    """

    def __init__(self, classifier: Classifier, names: Sequence[str]) -> None:
        self.names = list(names)
        self.failures = 0
        self._classifier = classifier
        self._labels: dict[Label, int] = {}
        self._kept: deque[tuple[bytes, Label]] = deque(maxlen=_KEPT)

    def score(self, records: Sequence[Sequence[Any]]) -> Scored:
        """Return predicted labels, probabilities and margins of records.

        A record is a sequence of values in the order of `names`. The predicted label is the class
        with the highest probability, or None if the classifier fails. Of equal classes, it is the
        first in the classifier's order. A margin is the difference of the logarithms of the two
        largest probabilities.
        """
        P = np.zeros((len(records), len(self._labels)))
        said = np.full(len(records), None, dtype=object)
        for row, values in enumerate(records):
            chances = (
                self._call_or_count_failure("predict", self._classifier.predict_proba_one, values)
                or {}
            )
            known = {label: float(p) for label, p in chances.items() if label in self._labels}
            for label, p in known.items():
                P[row, self._labels[label]] = p
            if known:
                said[row] = max(known, key=known.__getitem__)
        P = np.where(np.isfinite(P), np.clip(P, 0.0, None), 0.0)
        total = P.sum(axis=1, keepdims=True)
        even = np.full_like(P, 1.0 / max(P.shape[1], 1))
        P = np.divide(P, total, out=even, where=total > 0)
        classes = np.empty(len(self._labels), dtype=object)
        classes[:] = list(self._labels)
        return Scored(said, classes, P, _compute_margins(P), version=int(bool(self._labels)))

    def learn(self, values: Sequence[Any], label: Label) -> None:
        """Train the classifier with the values and the label of a record."""
        self._labels.setdefault(label, len(self._labels))
        self._kept.append((encode_values(tuple(values)), label))
        self._call_or_count_failure("learn", self._classifier.learn_one, values, label)

    def _call_or_count_failure(
        self, action: str, method: Callable[..., Any], values: Sequence[Any], *label: Any
    ) -> Any:
        """Call `method` of the classifier with a record, and a label if given; return its result.

        If the method raises an error, the failure is counted, and None is returned. `action` is the
        verb in the log, such as "learn".
        """
        try:
            return method(self._to_river_record(values), *label)
        except Exception as error:  # third-party code may raise any error
            if not self.failures:
                name = type(self._classifier).__name__
                _log.warning(
                    "%s cannot %s a record (further ones are counted)",
                    name,
                    action,
                    extra={"event": "model_failed"},
                )
                _log.warning("%s: %s", type(error).__name__, error, extra={"event": "model_failed"})
            self.failures += 1
            return None

    def recent_records(self, n: int) -> list[dict[str, Any]]:
        """Return at most `n` of the newest labelled records, as dicts for River."""
        return [self._to_river_record(decode_values(values)) for values, _ in list(self._kept)[-n:]]

    def _to_river_record(self, values: Sequence[Any]) -> dict[str, Any]:
        pairs = zip(self.names, values, strict=False)
        return {name: value for name, value in pairs if value is not None}

    def to_arrays(self) -> Arrays:
        """Return the state as arrays: the pickled classifier, and JSON with the other state."""
        about = {
            "labels": list(self._labels),
            "kept": [[values.decode(), label] for values, label in self._kept],
            "names": self.names,
            "failures": self.failures,
        }
        blob = np.frombuffer(pickle.dumps(self._classifier), dtype=np.uint8)
        return {"pickle": blob, "about": pack_json(about)}

    def restore(self, arrays: Arrays, *, relearn: bool) -> None:
        """Restore the state from `arrays`, the result of `to_arrays`.

        With `relearn`, the pickle is ignored, and the stored labelled records are learned again.
        """
        about = unpack_json(arrays["about"])
        self.names, self.failures = about["names"], about["failures"]
        if relearn:
            for values, label in about["kept"]:
                self.learn(decode_values(values.encode()), label)
            return
        self._labels = {label: k for k, label in enumerate(about["labels"])}
        self._kept.extend((values.encode(), label) for values, label in about["kept"])
        self._classifier = pickle.loads(arrays["pickle"].tobytes())


def _compute_margins(P: np.ndarray) -> np.ndarray:
    """Return the log-ratio of the two largest probabilities in each row of P (n, K)."""
    if P.shape[1] < 2:
        return np.zeros(len(P))
    best = np.sort(np.maximum(P, _LEAST), axis=1)
    return np.asarray(np.log(best[:, -1]) - np.log(best[:, -2]))
