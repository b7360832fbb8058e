"""What the committee says and what the words say, as one prediction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamboost.features import Features
from streamboost.storage import Arrays
from streamboost.stream.checks import Label, as_array
from streamboost.stream.scoring import Scored, gap_of

__all__ = ["Blend", "blended"]

_EXPERTS = 2
_START = 0.5
_STEP = 0.2
_LEAST = 1e-6
_MOST_WAITING = 20_000
"""Records whose experts' words are remembered until their labels come."""


class Blend:
    """Adds the log probabilities of two experts, with weights that every label corrects.

    The experts are the committee and the linear models of the texts, whose log probabilities
    are columns of the record. The weights start at a half each, the geometric mean, and follow
    the slope of the log loss that the sum had on arrival (stacking by a softmax regression of two
    weights, trained by AdaGrad, Duchi et al. 2011): an expert that is too sure of itself is
    tempered, one that is of no use is left out.
    """

    def __init__(self, features: Features, n_before: int) -> None:
        self._features = features
        self._n_before = n_before  # columns before those of the features
        self.weights = np.full(_EXPERTS, _START)
        self._squares = np.ones(_EXPERTS)
        self._waiting: dict[str, tuple[tuple[Label, ...], np.ndarray]] = {}

    def over(self, scored: Scored, X: np.ndarray) -> Scored:
        """Return the blend's predictions for records `X` (n, D), `scored` by the committee."""
        if not scored.version or not len(scored) or not self._features.expert:
            return scored
        experts = self._experts(scored, X)
        logs = _normalized(self.weights[0] * experts[0] + self.weights[1] * experts[1])
        return replace(
            scored,
            labels=scored.classes[logs.argmax(axis=1)].astype(object),
            probabilities=np.exp(logs),
            margins=gap_of(logs),
            experts=experts,
        )

    def _experts(self, scored: Scored, X: np.ndarray) -> np.ndarray:
        """Return the log probabilities (2, n, K) of committee and words, by `scored.classes`.

        Where the words say nothing of a class, they say what the committee says.
        """
        committee = np.log(np.maximum(scored.probabilities, _LEAST))
        words = committee.copy()
        place = {label: k for k, label in enumerate(self._features.classes)}
        columns = self._features.expert
        for k, label in enumerate(scored.classes.tolist()):
            if place.get(label, len(columns)) < len(columns):
                said = X[:, self._n_before + columns[place[label]]]
                words[:, k] = np.where(np.isnan(said), words[:, k], said)
        return np.stack([_normalized(committee), _normalized(words)])

    def note(self, ids: Sequence[str], scored: Scored) -> None:
        """Remember what the experts said of records on their arrival."""
        if scored.experts is None:
            return
        classes = tuple(scored.classes.tolist())
        said = scored.experts.astype(np.float32)
        for i, id in enumerate(ids):
            self._waiting[id] = (classes, said[:, i])
        while len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def knows(self, id: str) -> bool:
        """Whether it remembers what the experts said of the record `id`."""
        return id in self._waiting

    def learn(self, id: str, label: Label, scored: Scored | None) -> None:
        """Learn a record's label; `scored` is what is said now, where nothing is remembered."""
        if (waiting := self._waiting.pop(id, None)) is not None:
            classes, said = waiting
        elif scored is not None and scored.experts is not None:
            classes, said = tuple(scored.classes.tolist()), scored.experts[:, 0]
        else:
            return
        if label not in classes:
            return
        said = said.astype(np.float64)
        off = np.exp(_normalized(self.weights @ said))
        off[classes.index(label)] -= 1.0
        slope = said @ off
        self._squares += slope * slope
        self.weights = np.maximum(self.weights - _STEP * slope / np.sqrt(self._squares), 0.0)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        kinds = list(dict.fromkeys(classes for classes, _ in self._waiting.values()))
        number = {classes: i for i, classes in enumerate(kinds)}
        waiting = [(id, number[classes]) for id, (classes, _) in self._waiting.items()]
        said = [one.ravel() for _, one in self._waiting.values()]
        state = {
            "weights": self.weights.tolist(),
            "squares": self._squares.tolist(),
            "classes": kinds,
            "waiting": waiting,
        }
        return state, {"said": np.concatenate(said) if said else np.zeros(0, dtype=np.float32)}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for the same features."""
        self.weights = np.array(state["weights"])
        self._squares = np.array(state["squares"])
        kinds = [tuple(as_array(classes).tolist()) for classes in state["classes"]]
        self._waiting, start = {}, 0
        for id, i in state["waiting"]:
            end = start + _EXPERTS * len(kinds[i])
            self._waiting[id] = (kinds[i], arrays["said"][start:end].reshape(_EXPERTS, -1).copy())
            start = end


def blended(blend: Blend | None, scored: Scored, X: np.ndarray) -> Scored:
    """Return what `blend` makes of records `X` `scored` by the committee, if there is one."""
    return scored if blend is None else blend.over(scored, X)


def _normalized(scores: np.ndarray) -> np.ndarray:
    """Return scores (..., K) as log probabilities."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))
