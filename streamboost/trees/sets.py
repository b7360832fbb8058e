"""Sets of categories that nodes send left, and their update for new categories."""

from collections.abc import Mapping

import numpy as np

from streamboost.trees.categories import Reading

__all__ = ["reread", "sets_of"]


def reread(
    sets: np.ndarray,
    set_of: np.ndarray,
    features: np.ndarray,
    readings: Mapping[int, Reading],
    n_codes: int,
) -> np.ndarray:
    """Return `sets` extended to `n_codes` codes: a new code goes to the side of its origin.

    `set_of` (nodes,) is the set of each node, and `features` (nodes,) the feature that it splits.
    Features without new codes keep their sets.
    """
    split_by = np.full(len(sets), -1)
    split_by[set_of[set_of >= 0]] = features[set_of >= 0]
    width = max(sets.shape[1], -(-n_codes // 8))
    wide = np.zeros((len(sets), width), dtype=np.uint8)
    wide[:, : sets.shape[1]] = sets
    for feature, reading in readings.items():
        if (reading.origin == np.arange(len(reading.origin))).all():
            continue
        rows = split_by == feature
        bits = np.unpackbits(wide[rows], axis=1, bitorder="little")
        bits[:, : len(reading.origin)] = bits[:, reading.origin]
        wide[rows] = np.packbits(bits, axis=1, bitorder="little")
    return wide


def sets_of(
    members: np.ndarray, nodes: np.ndarray, readings: Mapping[int, Reading], width: int
) -> np.ndarray:
    """Convert `members`, the sets of bins of nodes, to sets of codes, uint8 (nodes, width)."""
    sets = np.zeros((len(nodes), width), dtype=np.uint8)
    for feature, reading in readings.items():
        rows = np.flatnonzero(nodes["feature"] == feature)
        bins = np.unpackbits(members[rows], axis=1, bitorder="little")
        codes = np.zeros((len(rows), 8 * width), dtype=np.uint8)
        codes[:, : len(reading.bins)] = bins[:, reading.bins]
        # Codes absent from the training are in the bin of missing values.
        missing = reading.bins == reading.bins[0]
        codes[:, : len(reading.bins)][:, missing] = nodes["missing_left"][rows, None]
        sets[rows] = np.packbits(codes, axis=1, bitorder="little")
    return sets
