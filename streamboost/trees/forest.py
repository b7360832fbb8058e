"""Forest: all trees of a committee, stored in a few arrays for scoring."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.kernels.growing.packing import pack_trees
from streamboost.kernels.traverse import (
    FOREST_NODE,
    add_scores,
    add_scores_with_categories,
    write_leaf_indices,
    write_scores_and_leaves,
)
from streamboost.storage import Arrays
from streamboost.trees.bins import Bins
from streamboost.trees.categories import CategoryCodes
from streamboost.trees.sets import bin_sets_to_code_sets, extend_category_sets
from streamboost.trees.tree import Tree

_NODE_FIELDS = tuple(FOREST_NODE.fields or ())
_CATEGORY_FIELDS = tuple(field.name for field in fields(CategoryCodes))


@dataclass(frozen=True, slots=True)
class Forest:
    """Immutable forest of boosted trees; each leaf holds a score for each of K classes.

    Parameters
    ----------
    nodes
        Inner nodes of all trees, FOREST_NODE. A negative child index i is leaf ~i.
    roots
        Root node of each tree, int32 (trees,); negative for a tree of one leaf.
    values
        Scores that each leaf adds to the classes, float32 (leaves, K).
    rounds
        int32 (rounds + 1,): round m grew the trees `rounds[m]` to `rounds[m + 1] - 1`.
    sets
        Sets of category codes, uint8 (sets, bytes): bit c is set if a node sends code c left. Codes
        that are newer than a tree go to the side of the node's missing values.
    set_of
        Index of each node's set in `sets`, int32 (nodes,); -1 if the node splits numbers.
    category_codes
        The integer code of each category of each categorical feature.
    gain
        Gain of each node's split per training record, float32 (nodes,); see
        `HistogramInput.gain_scale`.
    cover
        Share of the training weight in each leaf of a tree, float32 (leaves,).
    """

    kind: ClassVar[str] = "trees"

    nodes: np.ndarray
    roots: np.ndarray
    values: np.ndarray
    rounds: np.ndarray
    sets: np.ndarray = field(default_factory=lambda: np.zeros((0, 1), dtype=np.uint8))
    set_of: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    category_codes: CategoryCodes = field(default_factory=CategoryCodes)
    gain: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    cover: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))

    @property
    def n_classes(self) -> int:
        """Number of classes K, the length of a leaf value."""
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
        """Create a forest without trees for `n_classes` classes."""
        return cls(
            np.zeros(0, dtype=FOREST_NODE),
            np.zeros(0, dtype=np.int32),
            np.zeros((0, n_classes), dtype=np.float32),
            np.zeros(1, dtype=np.int32),
        )

    def add_scores(
        self, X: np.ndarray, scores: np.ndarray, rounds: tuple[int, int] | None = None
    ) -> None:
        """Add the leaf values of the rows `X` (n, D) to `scores` float64 (n, K), in place.

        Adds all rounds, or those of the half-open range `rounds`.
        """
        first, end = rounds or (0, self.n_rounds)
        self._add_trees(self._encode_categories(X), scores, self.rounds[first], self.rounds[end])

    def staged_scores(self, X: np.ndarray, scores: np.ndarray) -> Iterator[np.ndarray]:
        """Add the rounds one by one to `scores` float64 (n, K); yield `scores` after each round.

        The yielded array is always the same, and is changed in place.
        """
        coded = self._encode_categories(X)
        for start, stop in pairwise(self.rounds):
            self._add_trees(coded, scores, start, stop)
            yield scores

    def _encode_categories(self, X: np.ndarray) -> np.ndarray:
        return self.category_codes.transform(X) if self.sets.size else X

    def _add_trees(
        self, X: np.ndarray, scores: np.ndarray, first_tree: np.int32, end_tree: np.int32
    ) -> None:
        args = (
            self.roots,
            self.values,
            X,
            scores,
            int(first_tree),
            int(end_tree),
        )  # one compiled type
        if first_tree == end_tree:
            return
        if self.sets.size == 0:
            add_scores(self.nodes, *args)
        else:
            add_scores_with_categories(self.nodes, self.set_of, self.sets, *args)

    def split_counts(self, n_features: int) -> np.ndarray:
        """Return the number of splits on each feature in all trees, int64 (D,)."""
        return np.bincount(self.nodes["feature"], minlength=n_features)

    def leaf_indices(self, X: np.ndarray, n_trees: int) -> np.ndarray:
        """Return the leaf index of each row of `X` (n, D) in the first T trees, uint8 (n, T).

        T is `n_trees`, or the number of all trees if there are fewer. Indices are modulo 256, so
        that they are unique within a tree of at most 256 leaves.
        """
        roots = self.roots[:n_trees]
        places = np.empty((len(X), len(roots)), dtype=np.uint8)
        write_leaf_indices(
            self.nodes, self.set_of, self.sets, roots, self._encode_categories(X), places
        )
        return places

    def scores_and_leaves(
        self, base: np.ndarray, X: np.ndarray, n_trees: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of all trees plus `base` (K,), float64 (n, K), and the `leaf_indices`.

        `X` float32 (n, D), in C-order, may have more columns than the trees use.
        """
        n, X = len(X), self._encode_categories(X)
        scores = np.empty((n, base.size))
        places = np.empty((n, min(n_trees, self.roots.size)), dtype=np.uint8)
        write_scores_and_leaves(
            self.nodes, self.set_of, self.sets, self.roots, self.values, base, X, scores, places
        )
        return scores, places

    def with_new_classes(self, n_classes: int) -> "Forest":
        """Return a copy for `n_classes` classes, with leaf values of 0 for new classes."""
        extra = n_classes - self.values.shape[1]
        if extra == 0:
            return self
        return replace(self, values=np.pad(self.values, ((0, 0), (0, extra))))

    def builder(self, bins: Bins, weight: np.ndarray | None = None) -> "ForestBuilder":
        """Return a builder that appends new trees, grown on rows with the bins `bins`.

        `weight` (n,) are the row weights, for the attribute `cover`; None: weight 1 for each row.
        """
        return ForestBuilder(self, bins, weight)

    def to_arrays(self) -> Arrays:
        """Return the forest as a dictionary of arrays for storage."""
        return {
            "roots": self.roots,
            "values": self.values,
            "rounds": self.rounds,
            "sets": self.sets,
            "set_of": self.set_of,
            "gain": self.gain,
            "cover": self.cover,
            **{
                f"categories.{name}": getattr(self.category_codes, name)
                for name in _CATEGORY_FIELDS
            },
            **{f"nodes.{name}": self.nodes[name].copy() for name in _NODE_FIELDS},
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Forest":
        """Create a forest from the arrays of `to_arrays`, without validation."""
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
            CategoryCodes(**{name: arrays[f"categories.{name}"] for name in _CATEGORY_FIELDS}),
            arrays["gain"],
            arrays["cover"],
        )

    def validate(self, n_features: int) -> None:
        """Raise ModelFileError if a shape or an index is invalid or a tree has a cycle."""
        if self.values.ndim != 2:
            raise ModelFileError("leaf values are not one vector per leaf: the file is damaged")
        places = np.arange(len(self.nodes), dtype=np.int64)
        _require_range("feature", self.nodes["feature"], 0, n_features)
        _require_range("root", self.roots, -len(self.values), len(self.nodes))
        for side in ("left", "right"):
            child = self.nodes[side]
            _require_range(f"{side} child", child, -len(self.values), len(self.nodes))
            # Children have higher indices than their parents, so that each traversal ends.
            _require_range(f"{side} child", child[child >= 0] - places[child >= 0], 1, None)
        _require_range("round", np.diff(self.rounds), 0, None)
        if len(self.rounds) == 0 or self.rounds[0] != 0 or self.rounds[-1] != len(self.roots):
            raise ModelFileError("the rounds do not cover the trees: the file is damaged")
        self.category_codes.validate(n_features)
        if len(self.set_of) != len(self.nodes):
            raise ModelFileError("sets of categories and nodes differ in number: damaged file")
        chosen = self.set_of >= 0
        _require_range("set", self.set_of, -1, len(self.sets))
        if not np.isin(self.nodes["feature"][chosen], self.category_codes.features).all():
            raise ModelFileError("a set of categories splits a column of numbers: damaged file")
        if self.gain.shape != self.nodes.shape or self.cover.shape != self.values.shape[:1]:
            raise ModelFileError("gains, covers and trees differ in number: the file is damaged")
        if (self.gain < 0).any() or (self.cover < 0).any():
            raise ModelFileError("a gain or a cover is negative: the file is damaged")
        _require_range("code", self.category_codes.codes, 1, 8 * self.sets.shape[1])


class ForestBuilder:
    """Builder of a forest: `build` returns the old forest with the new rounds appended."""

    def __init__(self, forest: Forest, bins: Bins, weight: np.ndarray | None = None) -> None:
        self._forest = forest
        self._bins = bins
        self._weight: np.ndarray | float = 1.0
        if weight is not None:
            even = len(weight) > 0 and (weight == weight[0]).all()
            self._weight = float(weight[0]) if even else weight
        self._grown: list[tuple[np.ndarray, ...]] = []
        self._rounds = forest.rounds.tolist()

    def append_round(self, trees: Sequence[Tree]) -> None:
        """Append the trees of one round."""
        for tree in trees:
            nodes, inner = tree.nodes.copy(), ~tree.leaves
            nodes["feature"][inner] = tree.features[nodes["feature"][inner]]
            nodes["gain"][inner] *= tree.gain_scale
            weights = tree.leaf_weights(self._weight)
            self._grown.append((nodes, np.array([len(nodes)]), tree.values, weights))
        self._rounds.append(self._rounds[-1] + len(trees))

    def append_rounds(
        self, nodes: np.ndarray, sizes: np.ndarray, values: np.ndarray, weights: np.ndarray
    ) -> None:
        """Append several rounds of one tree each. Each array holds all of these trees.

        `nodes` are NODE records, whose features are column indices. `sizes` (rounds,) is the number
        of nodes of each tree, `values` (leaves, K) the leaf values, and `weights` float64 (leaves,)
        the total weight of the rows of each leaf. Split gains are in the unit of `weights`.
        """
        self._grown.append((nodes, sizes, values, weights))
        self._rounds += range(self._rounds[-1] + 1, self._rounds[-1] + 1 + len(sizes))

    def build(self) -> Forest:
        """Return the forest with all appended rounds."""
        old, bins = self._forest, self._bins
        categories, code_maps = old.category_codes.merge_categories(bins.categories)
        if code_maps:
            args = old.sets, old.set_of, old.nodes["feature"], code_maps, categories.n_codes
            old = replace(old, sets=extend_category_sets(*args), category_codes=categories)
        if not self._grown:
            return old
        grown, sizes, values, weights = self._concatenate_rounds()
        n_leaves = len(values)
        inner = np.empty(len(grown) - n_leaves, dtype=np.int64)
        nodes, roots = np.zeros(len(inner), FOREST_NODE), np.empty(len(sizes), np.int32)
        gain, cover = np.empty(len(inner), np.float32), np.empty(n_leaves, np.float32)
        told = nodes, roots, gain, cover, inner
        before = len(old.nodes), len(old.values)
        pack_trees(grown, sizes, weights, *bins.concatenated_cuts(), *before, *told)
        set_of = np.full(len(inner), -1, dtype=np.int32)
        sets = old.sets[:0]
        if bins.categories:
            chosen = bins.categorical[nodes["feature"]]
            set_of[chosen] = np.arange(np.count_nonzero(chosen)) + len(old.sets)
            members = grown["members"][inner[chosen]]
            sets = bin_sets_to_code_sets(members, nodes[chosen], code_maps, old.sets.shape[1])
        return replace(
            old,
            nodes=_concatenate_unless_empty(old.nodes, nodes),
            roots=_concatenate_unless_empty(old.roots, roots),
            values=_concatenate_unless_empty(old.values, values),
            rounds=np.array(self._rounds, dtype=np.int32),
            sets=_concatenate_unless_empty(old.sets, sets),
            set_of=_concatenate_unless_empty(old.set_of, set_of),
            gain=_concatenate_unless_empty(old.gain, gain),
            cover=_concatenate_unless_empty(old.cover, cover),
        )

    def _concatenate_rounds(self) -> tuple[np.ndarray, ...]:
        """Return the nodes, tree sizes, leaf values and leaf weights of all appended rounds."""
        if len(self._grown) == 1:
            return self._grown[0]
        parts, *rest = zip(*self._grown, strict=True)
        # Concatenated as bytes, as numpy would compare the fields of all arrays.
        grown = np.frombuffer(bytearray().join(part.tobytes() for part in parts), parts[0].dtype)
        return grown, *map(np.concatenate, rest)


def _concatenate_unless_empty(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.concatenate([old, new]) if len(old) else new


def _require_range(name: str, values: np.ndarray, minimum: int, end: int | None) -> None:
    wrong = (values < minimum) if end is None else (values < minimum) | (values >= end)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ModelFileError(
            f"node index out of range: {name} {int(values[at])} at place {at}: the file is damaged"
        )
