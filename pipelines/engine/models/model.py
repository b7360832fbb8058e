"""One model of somebody else's: what it says of records, and what it has learned.

It is known by a protocol, River's of classifiers, and by the pickle of its state.
"""

import logging
import pickle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from streamboost.pipelines.engine.values import packed, unpacked
from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.stream.checks import Label
from streamboost.stream.scoring import Scored

__all__ = ["Classifier", "Model"]

_log = logging.getLogger(__name__)

_KEPT = 2_000
"""The newest labelled records, from which a model of another release begins."""

_LEAST = 1e-12
"""Probability below which a margin sees no difference."""


class Classifier(Protocol):
    """What is asked of a model, as River's classifiers do it."""

    def predict_proba_one(self, x: dict[str, Any]) -> Mapping[Any, float]:
        """Return the probabilities of the labels it knows; those left out have none."""

    def learn_one(self, x: dict[str, Any], y: Any) -> Any:
        """Learn that the record `x` has the label `y`."""


class Model:
    """A classifier, and the labels it has met.

    Parameters
    ----------
    classifier : what it is to begin with
    names : what the fields of a record are called, in the order of its values

    Attributes
    ----------
    failures : records that it could not predict or learn, which ends nothing but their part in it
    """

    def __init__(self, classifier: Classifier, names: Sequence[str]) -> None:
        self.names = list(names)
        self.failures = 0
        self._classifier = classifier
        self._labels: dict[Label, int] = {}
        self._kept: deque[tuple[bytes, Label]] = deque(maxlen=_KEPT)

    def score(self, records: Sequence[Sequence[Any]]) -> Scored:
        """Return what it says of records, given their values.

        The label is the likeliest, the first that it names where several are; None where it fails.
        A margin is the difference of the logarithms of the two largest probabilities.
        """
        P = np.zeros((len(records), len(self._labels)))
        said = np.full(len(records), None, dtype=object)
        for row, values in enumerate(records):
            chances = self._tried("predict", self._classifier.predict_proba_one, values) or {}
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
        return Scored(said, classes, P, _margins(P), version=int(bool(self._labels)))

    def learn(self, values: Sequence[Any], label: Label) -> None:
        """Learn a record's label."""
        self._labels.setdefault(label, len(self._labels))
        self._kept.append((packed(tuple(values)), label))
        self._tried("learn", self._classifier.learn_one, values, label)

    def _tried(self, what: str, method: Callable[..., Any], values: Sequence[Any], *y: Any) -> Any:
        """Call a method of the classifier with a record; None, and a failure more, if it raises."""
        try:
            return method(self._record(values), *y)
        except Exception as error:  # whatever stands in it
            if not self.failures:
                name = type(self._classifier).__name__
                _log.warning("%s cannot %s a record (further ones are counted)", name, what)
                _log.warning("%s: %s", type(error).__name__, error)
            self.failures += 1
            return None

    def newest(self, most: int) -> list[dict[str, Any]]:
        """Return at most so many of the newest labelled records."""
        return [self._record(unpacked(values)) for values, _ in list(self._kept)[-most:]]

    def _record(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return a record as River has it: what is missing is not there."""
        pairs = zip(self.names, values, strict=False)
        return {name: value for name, value in pairs if value is not None}

    def state(self) -> Arrays:
        """Return all there is: the classifier pickled, the labels, the newest labelled records."""
        about = {
            "labels": list(self._labels),
            "kept": [[values.decode(), label] for values, label in self._kept],
            "names": self.names,
            "failures": self.failures,
        }
        blob = np.frombuffer(pickle.dumps(self._classifier), dtype=np.uint8)
        return {"pickle": blob, "about": pack_json(about)}

    def resume(self, arrays: Arrays, *, anew: bool) -> None:
        """Go on from what `state` returned; `anew`: from its labelled records, with no pickle."""
        about = unpack_json(arrays["about"])
        self.names, self.failures = about["names"], about["failures"]
        if anew:
            for values, label in about["kept"]:
                self.learn(unpacked(values.encode()), label)
            return
        self._labels = {label: k for k, label in enumerate(about["labels"])}
        self._kept.extend((values.encode(), label) for values, label in about["kept"])
        self._classifier = pickle.loads(arrays["pickle"].tobytes())


def _margins(P: np.ndarray) -> np.ndarray:
    if P.shape[1] < 2:
        return np.zeros(len(P))
    best = np.sort(np.maximum(P, _LEAST), axis=1)
    return np.asarray(np.log(best[:, -1]) - np.log(best[:, -2]))
