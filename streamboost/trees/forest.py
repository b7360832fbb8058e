"""The packed forest: all trees in a few arrays, ready for scoring."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.kernels.traverse import FOREST_NODE, add_scores
from streamboost.trees.bins import Bins
from streamboost.trees.grower import Tree

__all__ = ["Forest", "ForestBuilder"]


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

    nodes: np.ndarray
    roots: np.ndarray
    values: np.ndarray
    rounds: np.ndarray

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
        first, end = rounds or (0, len(self.rounds) - 1)
        add_scores(
            self.nodes, self.roots, self.values, X, scores, self.rounds[first], self.rounds[end]
        )

    def widened(self, n_classes: int) -> "Forest":
        """Return the forest with zero values for classes it does not know yet."""
        extra = n_classes - self.values.shape[1]
        return Forest(self.nodes, self.roots, np.pad(self.values, ((0, 0), (0, extra))), self.rounds)

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
    """Collects rounds of trees, and packs them once at the end."""

    def __init__(self, forest: Forest, bins: Bins) -> None:
        self._thresholds = bins.thresholds()
        self._nodes = [forest.nodes]
        self._roots = list(forest.roots)
        self._values = [forest.values]
        self._rounds = list(forest.rounds)
        self._n_nodes, self._n_leaves = len(forest.nodes), len(forest.values)

    def append_round(self, trees: Sequence[Tree]) -> None:
        """Add the trees of one round."""
        for tree in trees:
            inner = ~tree.leaves
            place = np.where(
                inner,
                np.cumsum(inner) - 1 + self._n_nodes,
                ~(np.cumsum(tree.leaves) - 1 + self._n_leaves),
            )
            grown = tree.nodes[inner]
            nodes = np.zeros(len(grown), dtype=FOREST_NODE)
            nodes["feature"] = tree.features[grown["feature"]]
            nodes["threshold"] = self._thresholds[nodes["feature"], grown["bin"]]
            nodes["left"], nodes["right"] = place[grown["left"]], place[grown["left"] + 1]
            nodes["missing_left"] = grown["missing_left"]
            self._nodes.append(nodes)
            self._values.append(tree.values)
            self._roots.append(place[0])
            self._n_nodes += len(nodes)
            self._n_leaves += tree.n_leaves
        self._rounds.append(len(self._roots))

    def freeze(self) -> Forest:
        """Return the packed forest."""
        return Forest(
            np.concatenate(self._nodes),
            np.array(self._roots, dtype=np.int32),
            np.concatenate(self._values),
            np.array(self._rounds, dtype=np.int32),
        )
