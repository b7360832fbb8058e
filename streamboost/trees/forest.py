"""The packed forest: all trees in a few arrays, ready for scoring."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.kernels.traverse import FOREST_NODE, add_mixed_scores, add_scores
from streamboost.storage import Arrays
from streamboost.trees.bins import Bins
from streamboost.trees.categories import Categories, Reading
from streamboost.trees.tree import Tree

__all__ = ["Forest", "ForestBuilder"]

_NODE_FIELDS = tuple(FOREST_NODE.fields or ())
_CATEGORY_FIELDS = tuple(field.name for field in fields(Categories))


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
    sets
        The codes that nodes of categorical features send left, a bit each: uint8 (sets, bytes).
        Codes a tree did not know when it was grown stand where its missing values go.
    set_of
        Each node's row in `sets`, int32 (nodes,); -1 where it compares numbers.
    categories
        What the codes mean.
    """

    kind: ClassVar[str] = "trees"

    nodes: np.ndarray
    roots: np.ndarray
    values: np.ndarray
    rounds: np.ndarray
    sets: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), dtype=np.uint8))
    set_of: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    categories: Categories = field(default_factory=Categories)

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
        start, stop = self.rounds[first], self.rounds[end]
        if self.sets.size == 0:
            add_scores(self.nodes, self.roots, self.values, X, scores, start, stop)
        else:
            self._add_mixed(self.categories.transform(X), scores, start, stop)

    def staged_scores(self, X: np.ndarray, scores: np.ndarray) -> Iterator[np.ndarray]:
        """Add one round after another to `scores` float64 (n, K), and yield it after each."""
        coded = self.categories.transform(X) if self.sets.size else X
        for start, stop in pairwise(self.rounds):
            if self.sets.size == 0:
                add_scores(self.nodes, self.roots, self.values, coded, scores, start, stop)
            else:
                self._add_mixed(coded, scores, start, stop)
            yield scores

    def _add_mixed(
        self, coded: np.ndarray, scores: np.ndarray, start: np.int32, stop: np.int32
    ) -> None:
        nodes = self.nodes, self.set_of, self.sets
        add_mixed_scores(*nodes, self.roots, self.values, coded, scores, start, stop)

    def widened(self, n_classes: int) -> "Forest":
        """Return the forest with zero values for classes it does not know yet."""
        extra = n_classes - self.values.shape[1]
        if extra == 0:
            return self
        return replace(self, values=np.pad(self.values, ((0, 0), (0, extra))))

    def without_oldest(self, n_rounds: int) -> "Forest":
        """Return the forest without its first `n_rounds` rounds."""
        trees = int(self.rounds[n_rounds])
        roots = self.roots[trees:]
        # Trees follow one another, and each has a leaf more than it has inner nodes.
        inner = int(roots[roots >= 0].min(initial=len(self.nodes)))
        leaves = inner + trees
        nodes, set_of = self.nodes[inner:].copy(), self.set_of[inner:]
        for side in ("left", "right"):
            nodes[side] = _moved(nodes[side], inner, leaves)
        sets = int(set_of[set_of >= 0].min(initial=len(self.sets)))
        return replace(
            self,
            nodes=nodes,
            roots=_moved(roots, inner, leaves),
            values=self.values[leaves:],
            rounds=self.rounds[n_rounds:] - np.int32(trees),
            sets=self.sets[sets:],
            set_of=np.where(set_of >= 0, set_of - sets, -1).astype(np.int32),
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
            "sets": self.sets,
            "set_of": self.set_of,
            **{f"categories.{name}": getattr(self.categories, name) for name in _CATEGORY_FIELDS},
            **{f"nodes.{name}": self.nodes[name].copy() for name in _NODE_FIELDS},
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Forest":
        """Return the forest `to_arrays` took apart, not checked yet."""
        nodes = np.zeros(len(arrays["nodes.feature"]), dtype=FOREST_NODE)
        for name in _NODE_FIELDS:
            nodes[name] = arrays[f"nodes.{name}"]
        return cls(
            nodes,
            arrays["roots"],
            arrays["values"],
            arrays["rounds"],
            arrays["sets"],
            arrays["set_of"],
            Categories(**{name: arrays[f"categories.{name}"] for name in _CATEGORY_FIELDS}),
        )

    def check(self, n_features: int) -> None:
        """Raise ModelFileError unless every index stays inside and every tree ends."""
        if self.values.ndim != 2:
            raise ModelFileError("leaf values are not one vector per leaf: the file is damaged")
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
        self.categories.check(n_features)
        if len(self.set_of) != len(self.nodes):
            raise ModelFileError("sets of categories and nodes differ in number: damaged file")
        chosen = self.set_of >= 0
        _require_range("set", self.set_of, -1, len(self.sets))
        if not np.isin(self.nodes["feature"][chosen], self.categories.features).all():
            raise ModelFileError("a set of categories splits a column of numbers: damaged file")
        _require_range("code", self.categories.codes, 1, 8 * self.sets.shape[1])


def _moved(places: np.ndarray, inner: int, leaves: int) -> np.ndarray:
    """Return places of nodes, or ~leaves, once so many inner nodes and leaves before are gone."""
    return np.where(places >= 0, places - inner, places + leaves).astype(np.int32)


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
        self._nodes: list[np.ndarray] = []
        self._sizes: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._rounds = forest.rounds.tolist()

    def append_round(self, trees: Sequence[Tree]) -> None:
        """Add the trees of one round."""
        for tree in trees:
            nodes, inner = tree.nodes.copy(), ~tree.leaves
            nodes["feature"][inner] = tree.features[nodes["feature"][inner]]
            self._add(nodes, np.array([len(nodes)]), tree.values)
        self._rounds.append(self._rounds[-1] + len(trees))

    def append_rounds(self, nodes: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> None:
        """Add rounds of one tree each: `nodes` of all, so many (rounds,) of each, and `values`.

        The nodes name features as the bins do, not by their places among those offered.
        """
        self._add(nodes, sizes, values)
        self._rounds += range(self._rounds[-1] + 1, self._rounds[-1] + 1 + len(sizes))

    def _add(self, nodes: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> None:
        self._nodes.append(nodes)
        self._sizes.append(sizes)
        self._values.append(values)

    def freeze(self) -> Forest:
        """Return the packed forest."""
        categories, readings = self._forest.categories.merged(self._bins.categories)
        old = _reread(self._forest, categories, readings)
        if not self._nodes:
            return old
        # As bytes: numpy's own concatenation compares the fields of every array with the next's.
        grown = np.frombuffer(b"".join(n.tobytes() for n in self._nodes), self._nodes[0].dtype)
        sizes = np.concatenate(self._sizes)
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
        nodes["feature"] = inner["feature"]
        nodes["threshold"] = self._bins.thresholds()[nodes["feature"], inner["bin"]]
        nodes["left"], nodes["right"] = place[left], place[left + 1]
        nodes["missing_left"] = inner["missing_left"]
        chosen = self._bins.categorical[nodes["feature"]]
        set_of = np.where(chosen, np.cumsum(chosen) - 1 + len(old.sets), -1)
        sets = _sets(inner["members"][chosen], nodes[chosen], readings, old.sets.shape[1])
        return replace(
            old,
            nodes=np.concatenate([old.nodes, nodes]),
            roots=np.concatenate([old.roots, place[first]]),
            values=np.concatenate([old.values, *self._values]),
            rounds=np.array(self._rounds, dtype=np.int32),
            sets=np.concatenate([old.sets, sets]),
            set_of=np.concatenate([old.set_of, set_of.astype(np.int32)]),
        )


def _reread(forest: Forest, categories: Categories, readings: Mapping[int, Reading]) -> Forest:
    """Return the forest under more categories: in its sets a new code stands where its origin does.

    Without new codes nothing is touched.
    """
    width = max(forest.sets.shape[1], -(-categories.n_codes // 8))
    sets = np.zeros((len(forest.sets), width), dtype=np.uint8)
    sets[:, : forest.sets.shape[1]] = forest.sets
    chosen = forest.set_of >= 0
    set_of, split_by = forest.set_of[chosen], forest.nodes["feature"][chosen]
    for feature, reading in readings.items():
        if (reading.origin == np.arange(len(reading.origin))).all():
            continue
        rows = set_of[split_by == feature]
        bits = np.unpackbits(sets[rows], axis=1, bitorder="little")
        bits[:, : len(reading.origin)] = bits[:, reading.origin]
        sets[rows] = np.packbits(bits, axis=1, bitorder="little")
    return replace(forest, sets=sets, categories=categories)


def _sets(
    members: np.ndarray, nodes: np.ndarray, readings: Mapping[int, Reading], width: int
) -> np.ndarray:
    """Return the sets of codes, uint8 (nodes, width), that stand for `members`, sets of bins."""
    sets = np.zeros((len(nodes), width), dtype=np.uint8)
    for feature, reading in readings.items():
        rows = np.flatnonzero(nodes["feature"] == feature)
        bins = np.unpackbits(members[rows], axis=1, bitorder="little")
        codes = np.zeros((len(rows), 8 * width), dtype=np.uint8)
        codes[:, : len(reading.bins)] = bins[:, reading.bins]
        # What the training did not meet has its missing bin, one behind the others.
        missing = reading.bins == reading.bins[0]
        codes[:, : len(reading.bins)][:, missing] = nodes["missing_left"][rows, None]
        sets[rows] = np.packbits(codes, axis=1, bitorder="little")
    return sets
