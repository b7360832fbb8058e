"""The packed forest: all trees in a few arrays, ready for scoring."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.kernels.traverse import FOREST_NODE, add_scores
from streamboost.storage import Arrays
from streamboost.trees.bins import Bins
from streamboost.trees.grower import Tree

__all__ = ["Forest", "ForestBuilder"]

_NODE_FIELDS = tuple(FOREST_NODE.fields or ())


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees with K-vector leaf values.

    Parameters
    ----------
    nodes
        Inner nodes of all trees, FOREST_NODE; a negative child ~m is leaf m.
    roots
        Where each tree starts, int32 (trees,); negative for a tree that is one leaf.
    values
        float32 (leaves, K).
    rounds
        int32 (rounds + 1,): round m grew the trees `rounds[m]` to `rounds[m + 1]`.
    """

    kind: ClassVar[str] = "trees"

    nodes: np.ndarray
    roots: np.ndarray
    values: np.ndarray
    rounds: np.ndarray

    @property
    def n_classes(self) -> int:
        """K, the length of a leaf value."""
        return int(self.values.shape[1])

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return len(self.rounds) - 1

    @property
    def n_learners(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @classmethod
    def empty(cls, n_classes: int) -> "Forest":
        """Return a forest without trees."""
        return cls(
            np.zeros(0, dtype=FOREST_NODE),
            np.zeros(0, dtype=np.int32),
            np.zeros((0, n_classes), dtype=np.float32),
            np.zeros(1, dtype=np.int32),
        )

    def add_scores(
        self, X: np.ndarray, scores: np.ndarray, rounds: tuple[int, int] | None = None
    ) -> None:
        """Add the values of all rounds, or of `rounds` (first, end), to `scores` float64 (n, K)."""
        first, end = rounds or (0, self.n_rounds)
        add_scores(
            self.nodes, self.roots, self.values, X, scores, self.rounds[first], self.rounds[end]
        )

    def widened(self, n_classes: int) -> "Forest":
        """Return the forest with zero values for classes it does not know yet."""
        extra = n_classes - self.values.shape[1]
        return Forest(
            self.nodes, self.roots, np.pad(self.values, ((0, 0), (0, extra))), self.rounds
        )

    def builder(self, bins: Bins) -> "ForestBuilder":
        """Return what adds trees grown on these bins."""
        return ForestBuilder(self, bins)

    def to_arrays(self) -> Arrays:
        """Return the forest as plain arrays."""
        return {
            "roots": self.roots,
            "values": self.values,
            "rounds": self.rounds,
            **{f"nodes.{name}": self.nodes[name].copy() for name in _NODE_FIELDS},
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Forest":
        """Return the forest `to_arrays` took apart, not checked yet."""
        nodes = np.zeros(len(arrays["nodes.feature"]), dtype=FOREST_NODE)
        for name in _NODE_FIELDS:
            nodes[name] = arrays[f"nodes.{name}"]
        return cls(nodes, arrays["roots"], arrays["values"], arrays["rounds"])

    def check(self, n_features: int) -> None:
        """Raise ModelFileError unless every index stays inside and every tree ends."""
        places = np.arange(len(self.nodes), dtype=np.int64)
        _require_range("feature", self.nodes["feature"], 0, n_features)
        _require_range("root", self.roots, -len(self.values), len(self.nodes))
        for side in ("left", "right"):
            child = self.nodes[side]
            _require_range(f"{side} child", child, -len(self.values), len(self.nodes))
            # Children stand behind their parents: a walk always moves on and so ends.
            _require_range(f"{side} child", child[child >= 0] - places[child >= 0], 1, None)
        _require_range("round", np.diff(self.rounds), 0, None)
        if len(self.rounds) == 0 or self.rounds[0] != 0 or self.rounds[-1] != len(self.roots):
            raise ModelFileError("the rounds do not cover the trees: the file is damaged")


def _require_range(what: str, values: np.ndarray, low: int, high: int | None) -> None:
    wrong = (values < low) if high is None else (values < low) | (values >= high)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ModelFileError(
            f"node index out of range: {what} {int(values[at])} at place {at}: the file is damaged"
        )


class ForestBuilder:
    """Collects rounds of trees on top of a forest, and packs them once at the end."""

    def __init__(self, forest: Forest, bins: Bins) -> None:
        self._forest = forest
        self._bins = bins
        self._trees: list[Tree] = []
        self._rounds = list(forest.rounds)

    def append_round(self, trees: Sequence[Tree]) -> None:
        """Add the trees of one round."""
        self._trees.extend(trees)
        self._rounds.append(len(self._forest.roots) + len(self._trees))

    def freeze(self) -> Forest:
        """Return the packed forest."""
        if not self._trees:
            return self._forest
        old, trees = self._forest, self._trees
        grown = np.concatenate([tree.nodes for tree in trees])
        sizes = np.array([len(tree.nodes) for tree in trees])
        first = np.cumsum(sizes) - sizes
        leaf = grown["left"] < 0
        # Where each grown node goes: inner nodes behind the old ones, leaves into the values.
        place = np.where(
            leaf,
            ~(np.cumsum(leaf) - 1 + len(old.values)),
            np.cumsum(~leaf) - 1 + len(old.nodes),
        ).astype(np.int32)
        inner = grown[~leaf]
        left = inner["left"] + np.repeat(first, sizes)[~leaf]
        nodes = np.zeros(len(inner), dtype=FOREST_NODE)
        nodes["feature"] = self._features(inner["feature"], sizes // 2)
        nodes["threshold"] = self._bins.thresholds()[nodes["feature"], inner["bin"]]
        nodes["left"], nodes["right"] = place[left], place[left + 1]
        nodes["missing_left"] = inner["missing_left"]
        return Forest(
            np.concatenate([old.nodes, nodes]),
            np.concatenate([old.roots, place[first]]),
            np.concatenate([old.values, *(tree.values for tree in trees)]),
            np.array(self._rounds, dtype=np.int32),
        )

    def _features(self, offered: np.ndarray, n_inner: np.ndarray) -> np.ndarray:
        """Return the features behind places among those offered to each tree."""
        counts = np.array([len(tree.features) for tree in self._trees])
        first = np.cumsum(counts) - counts
        features = np.concatenate([tree.features for tree in self._trees])
        return np.asarray(features[offered + np.repeat(first, n_inner)])
