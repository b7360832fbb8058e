"""What a forest read from a file must be like."""

from typing import TYPE_CHECKING

import numpy as np

from streamboost.errors import ModelFileError

if TYPE_CHECKING:
    from streamboost.trees.forest import Forest

__all__ = ["check_forest"]


def check_forest(forest: "Forest", n_features: int) -> None:
    """Raise ModelFileError unless every index stays inside and every tree ends."""
    if forest.values.ndim != 2:
        raise ModelFileError("leaf values are not one vector per leaf: the file is damaged")
    places = np.arange(len(forest.nodes), dtype=np.int64)
    _require_range("feature", forest.nodes["feature"], 0, n_features)
    _require_range("root", forest.roots, -len(forest.values), len(forest.nodes))
    for side in ("left", "right"):
        child = forest.nodes[side]
        _require_range(f"{side} child", child, -len(forest.values), len(forest.nodes))
        # Children stand behind their parents: a walk always moves on and so ends.
        _require_range(f"{side} child", child[child >= 0] - places[child >= 0], 1, None)
    _require_range("round", np.diff(forest.rounds), 0, None)
    if len(forest.rounds) == 0 or forest.rounds[0] != 0 or forest.rounds[-1] != len(forest.roots):
        raise ModelFileError("the rounds do not cover the trees: the file is damaged")
    forest.categories.check(n_features)
    if len(forest.set_of) != len(forest.nodes):
        raise ModelFileError("sets of categories and nodes differ in number: damaged file")
    chosen = forest.set_of >= 0
    _require_range("set", forest.set_of, -1, len(forest.sets))
    if not np.isin(forest.nodes["feature"][chosen], forest.categories.features).all():
        raise ModelFileError("a set of categories splits a column of numbers: damaged file")
    if forest.gain.shape != forest.nodes.shape or forest.cover.shape != forest.values.shape[:1]:
        raise ModelFileError("gains, covers and trees differ in number: the file is damaged")
    if (forest.gain < 0).any() or (forest.cover < 0).any():
        raise ModelFileError("a gain or a cover is negative: the file is damaged")
    _require_range("code", forest.categories.codes, 1, 8 * forest.sets.shape[1])


def _require_range(what: str, values: np.ndarray, low: int, high: int | None) -> None:
    wrong = (values < low) if high is None else (values < low) | (values >= high)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ModelFileError(
            f"node index out of range: {what} {int(values[at])} at place {at}: the file is damaged"
        )
