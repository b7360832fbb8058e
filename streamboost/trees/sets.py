"""Sets of categories that tree nodes send left, and their update for new categories."""

from collections.abc import Mapping

import numpy as np

from streamboost.trees.categories import CodeMap


def extend_category_sets(
    sets: np.ndarray,
    set_of: np.ndarray,
    features: np.ndarray,
    code_maps: Mapping[int, CodeMap],
    n_codes: int,
) -> np.ndarray:
    """Return the category sets of all nodes, extended to `n_codes` codes: uint8 (sets, bytes).

    Bit c of a set is 1 if the node sends code c left. A new code is in the same sets as its
    `CodeMap.origin`, an older code. `set_of` (nodes,) is the index of each node's set, or -1.
    `features` (nodes,) is the feature that each node splits.
    """
    split_by = np.full(len(sets), -1)
    split_by[set_of[set_of >= 0]] = features[set_of >= 0]
    width = max(sets.shape[1], -(-n_codes // 8))
    wide = np.zeros((len(sets), width), dtype=np.uint8)
    wide[:, : sets.shape[1]] = sets
    for feature, code_map in code_maps.items():
        if (code_map.origin == np.arange(len(code_map.origin))).all():
            continue
        rows = split_by == feature
        bits = np.unpackbits(wide[rows], axis=1, bitorder="little")
        bits[:, : len(code_map.origin)] = bits[:, code_map.origin]
        wide[rows] = np.packbits(bits, axis=1, bitorder="little")
    return wide


def bin_sets_to_code_sets(
    bin_sets: np.ndarray, nodes: np.ndarray, code_maps: Mapping[int, CodeMap], n_bytes: int
) -> np.ndarray:
    """Convert the set of bins that each node sends left to a set of codes, uint8 (nodes, n_bytes).

    Bit b of a row of `bin_sets` is 1 if the node sends bin b left. In the result, bit c is 1 if the
    node sends code c left. `code_maps` maps a feature index to the bins of its codes.
    """
    sets = np.zeros((len(nodes), n_bytes), dtype=np.uint8)
    for feature, code_map in code_maps.items():
        rows = np.flatnonzero(nodes["feature"] == feature)
        bins = np.unpackbits(bin_sets[rows], axis=1, bitorder="little")
        codes = np.zeros((len(rows), 8 * n_bytes), dtype=np.uint8)
        codes[:, : len(code_map.bins)] = bins[:, code_map.bins]
        # Codes absent from the training are in the bin of missing values.
        missing = code_map.bins == code_map.bins[0]
        codes[:, : len(code_map.bins)][:, missing] = nodes["missing_left"][rows, None]
        sets[rows] = np.packbits(codes, axis=1, bitorder="little")
    return sets
