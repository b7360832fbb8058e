"""Trees of a forest one by one, in the form that LightGBM and ONNX share."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streamboost.trees.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class ExportedTree:
    """One tree of n nodes and n + 1 leaves; its root is node 0, if there are nodes.

    Parameters
    ----------
    feature
        Column that each node splits, int32 (n,).
    threshold
        Values up to the threshold go left, float32 (n,). Unused where the node has `members`.
    missing_left
        Whether missing values go left, bool (n,). False where the node has `members`.
    left, right
        Children of each node, int64 (n,). A negative child i is leaf ~i.
    members
        Mapping from each node that splits categories to the categories that go left, float32,
        ascending. All other values and missing values go right. If the forest sends missing values
        left, the children are swapped.
    gain
        Gain of each node's split per record, float32 (n,).
    values
        Scores of the leaves, float32 (n + 1, K).
    """

    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    members: dict[int, np.ndarray]
    gain: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.feature)


def iterate_exported_trees(forest: Forest) -> Iterator[ExportedTree]:
    """Yield the trees of `forest` in their order, each with its own node and leaf indices."""
    left, right = forest.nodes["left"].tolist(), forest.nodes["right"].tolist()
    for root in forest.roots.tolist():
        inner: list[int] = []  # indices in the forest, in the order of the tree
        leaves: list[int] = []
        new_indices: dict[int, int] = {}
        waiting = [root]
        while waiting:
            at = waiting.pop()
            if at < 0:
                new_indices[at] = ~len(leaves)
                leaves.append(~at)
                continue
            new_indices[at] = len(inner)
            inner.append(at)
            waiting += (right[at], left[at])
        yield _build_tree(forest, np.array(inner, dtype=np.int64), leaves, new_indices)


def _build_tree(
    forest: Forest, inner: np.ndarray, leaves: list[int], new_indices: dict[int, int]
) -> ExportedTree:
    """Build one exported tree from the inner nodes `inner` and the `leaves` of the forest.

    Both are indices in the forest. `new_indices` maps the index of each child in the forest to that
    in the tree. The index of leaf i is ~i, that is -i - 1, in both.
    """
    nodes = forest.nodes[inner]
    left, right = (
        np.array([new_indices[child] for child in nodes[side].tolist()], dtype=np.int64)
        for side in ("left", "right")
    )
    missing_left = nodes["missing_left"].copy()
    members: dict[int, np.ndarray] = {}
    chosen = forest.set_of[inner] >= 0 if forest.sets.size else np.zeros(0, dtype=bool)
    for place in np.flatnonzero(chosen).tolist():
        categories, goes_left = _categories_of_node(forest, int(inner[place]))
        if forest.sets[forest.set_of[inner[place]], 0] & 1:  # code 0, a missing value, goes left
            goes_left = ~goes_left
            left[place], right[place] = right[place], left[place]
        members[place] = categories[goes_left]
        missing_left[place] = False
    return ExportedTree(
        feature=nodes["feature"],
        threshold=nodes["threshold"],
        missing_left=missing_left,
        left=left,
        right=right,
        members=members,
        gain=forest.gain[inner],
        values=forest.values[leaves],
    )


def _categories_of_node(forest: Forest, node: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the categories of the feature of `node`, and a mask of those that go left."""
    table = forest.category_codes
    at = int(np.searchsorted(table.features, forest.nodes["feature"][node]))
    own = slice(int(table.start[at]), int(table.start[at + 1]))
    codes = table.codes[own]
    bits = forest.sets[forest.set_of[node]]
    return table.values[own], (bits[codes >> 3] >> (codes & 7)) & 1 == 1
