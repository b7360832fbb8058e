import numpy as np
import pytest

from streamboost.kernels.growing.nodes import NODE
from streamboost.kernels.growing.packing import pack_trees
from streamboost.kernels.traverse import FOREST_NODE

CUTS = [np.array([0.5, 1.5], np.float32), np.array([], np.float32), np.array([7.0], np.float32)]


def random_tree(rng, n_splits):
    """Return nodes as trees grow: a leaf is split, and its children join behind the others."""
    nodes = np.zeros(1 + 2 * n_splits, dtype=NODE)
    nodes["left"] = -1
    leaves, end = [0], 1
    for _ in range(n_splits):
        at = leaves.pop(rng.integers(len(leaves)))
        feature = rng.integers(3)
        bin = rng.integers(len(CUTS[feature]) + 1)
        gain = np.float32(rng.random())
        told = {"feature": feature, "bin": bin, "left": end, "gain": gain, "missing_left": end % 3}
        for name, value in told.items():
            nodes[name][at] = value
        leaves += [end, end + 1]
        end += 2
    return nodes


def grown_paths(nodes, at, leaf_of, weights, total):
    """Give every path from a node down: the splits on it, and its leaf's share."""
    node = nodes[at]
    if node["left"] < 0:
        yield (), np.float32(weights[leaf_of[at]] / total)
        return
    f, bin = node["feature"], node["bin"]
    threshold = CUTS[f][bin] if bin < len(CUTS[f]) else np.inf
    split = f, threshold, node["missing_left"], np.float32(node["gain"] / total)
    for side, child in (("left", node["left"]), ("right", node["left"] + 1)):
        for way, leaf in grown_paths(nodes, child, leaf_of, weights, total):
            yield ((*split, side), *way), leaf


def packed_paths(packed, at):
    nodes, gain, cover, n_nodes, n_leaves = packed
    if at < 0:
        yield (), cover[~at - n_leaves]
        return
    node = nodes[at - n_nodes]
    split = node["feature"], node["threshold"], node["missing_left"], gain[at - n_nodes]
    for side in ("left", "right"):
        for way, leaf in packed_paths(packed, node[side]):
            yield ((*split, side), *way), leaf


@pytest.mark.parametrize("before", [(0, 0), (5, 9)])
def test_packed_trees_have_the_paths_of_the_grown_ones(before):
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, n) for n in (3, 0, 6, 1)]
    sizes = np.array([len(tree) for tree in trees])
    grown = np.concatenate(trees)
    weights = rng.random((grown["left"] < 0).sum()) + 0.5
    n_inner = (grown["left"] >= 0).sum()
    nodes, roots = np.zeros(n_inner, FOREST_NODE), np.empty(len(trees), np.int32)
    gain, cover = np.empty(n_inner, np.float32), np.empty(len(weights), np.float32)
    at = np.empty(n_inner, np.int64)
    first = np.cumsum([0, *map(len, CUTS)])
    told = nodes, roots, gain, cover, at
    pack_trees(grown, sizes, weights, np.concatenate(CUTS), first, *before, *told)
    assert at.tolist() == np.flatnonzero(grown["left"] >= 0).tolist()
    leaf = 0
    for tree, root in zip(trees, roots, strict=True):
        places = np.flatnonzero(tree["left"] < 0).tolist()
        own = weights[leaf : leaf + len(places)]
        leaf += len(places)
        numbers = {place: m for m, place in enumerate(places)}
        wanted = list(grown_paths(tree, 0, numbers, own, own.sum()))
        found = list(packed_paths((nodes, gain, cover, *before), root))
        assert [way for way, _ in found] == [way for way, _ in wanted]
        np.testing.assert_allclose([one for _, one in found], [one for _, one in wanted], rtol=1e-6)
