"""A trained model: immutable, scored, saved and loaded."""

import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from streamboost.errors import DataError, ModelFileError
from streamboost.kernels.traverse import FOREST_NODE
from streamboost.storage import Arrays, pack_json, read_arrays, unpack_json, write_arrays
from streamboost.trees.categories import Categories
from streamboost.trees.forest import Forest

__all__ = ["Committee"]

_NODE_FIELDS = tuple(FOREST_NODE.fields or ())
_CATEGORY_FIELDS = tuple(field.name for field in fields(Categories))
_SAVED_KINDS = "iufbU"  # integers, floats, booleans, text


@dataclass(frozen=True, slots=True, eq=False)
class Committee:
    """A boosted model F(x) = b + sum over trees of v[leaf(x)], never changed once made.

    Parameters
    ----------
    classes
        The class labels (K,).
    base
        b, float64 (K,).
    forest
        The trees, with K-vector leaf values.
    n_features
        D, the number of columns it scores.
    family
        Which algorithms may extend it.
    temperature
        Probabilities are softmax(F / temperature).
    version
        A number its owner gives it; 0 until then.
    """

    classes: np.ndarray
    base: np.ndarray
    forest: Forest
    n_features: int
    family: str
    temperature: float = 1.0
    version: int = 0

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return len(self.forest.rounds) - 1

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.forest.roots)

    def decision(self, X: np.ndarray) -> np.ndarray:
        """Return the scores F, float64 (n, K), of `X` (n, D), NaN where missing.

        In categorical columns a number that no training met is missing too.
        A row's scores do not depend on the rows it is scored with.
        """
        X = self._rows(X)
        scores = np.tile(self.base, (len(X), 1))
        self.forest.add_scores(X, scores)
        return scores

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""
        shifted = (scores - scores.max(axis=1, keepdims=True)) / self.temperature
        p = np.exp(shifted)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the committee to `path`: safetensors, with a digest of every byte."""
        write_arrays(path, self.to_arrays(), kind="committee")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Committee":
        """Read a committee that `save` wrote.

        Raises
        ------
        ModelFileError
            When the file is cut short, changed, a pickle, of another version, or holds a node
            index that points outside.
        """
        arrays, _ = read_arrays(path, kind="committee")
        try:
            return cls.from_arrays(arrays)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error

    def to_arrays(self) -> Arrays:
        """Return the committee as plain arrays, the words among them as JSON."""
        kind = self.classes.dtype.kind
        if kind not in _SAVED_KINDS and not all(isinstance(c, str) for c in self.classes.tolist()):
            raise DataError(
                f"classes of dtype {self.classes.dtype} cannot be saved: use strings or integers"
            )
        about = {
            "classes": self.classes.tolist(),
            "dtype": self.classes.dtype.str,
            "n_features": self.n_features,
            "family": self.family,
            "temperature": self.temperature,
            "version": self.version,
        }
        nodes = self.forest.nodes
        return {
            "about": pack_json(about),
            "base": self.base,
            "roots": self.forest.roots,
            "values": self.forest.values,
            "rounds": self.forest.rounds,
            "sets": self.forest.sets,
            "set_of": self.forest.set_of,
            **{f"categories.{n}": getattr(self.forest.categories, n) for n in _CATEGORY_FIELDS},
            **{f"nodes.{name}": nodes[name].copy() for name in _NODE_FIELDS},
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Committee":
        """Return the committee `to_arrays` took apart; raise ModelFileError if it cannot be one."""
        about: dict[str, Any] = unpack_json(arrays["about"])
        nodes = np.zeros(len(arrays["nodes.feature"]), dtype=FOREST_NODE)
        for name in _NODE_FIELDS:
            nodes[name] = arrays[f"nodes.{name}"]
        categories = Categories(**{n: arrays[f"categories.{n}"] for n in _CATEGORY_FIELDS})
        forest = Forest(
            nodes,
            arrays["roots"],
            arrays["values"],
            arrays["rounds"],
            arrays["sets"],
            arrays["set_of"],
            categories,
        )
        forest.check(about["n_features"])
        classes = np.array(about["classes"], dtype=about["dtype"])
        if arrays["values"].shape[1:] != classes.shape or arrays["base"].shape != classes.shape:
            raise ModelFileError("leaf values and classes differ in number: the file is damaged")
        return cls(
            classes=classes,
            base=arrays["base"],
            forest=forest,
            n_features=about["n_features"],
            family=about["family"],
            temperature=about["temperature"],
            version=about["version"],
        )

    def _rows(self, X: np.ndarray) -> np.ndarray:
        X = np.ascontiguousarray(X, dtype=np.float32)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise DataError(
                f"X has shape {X.shape}, and this committee scores {self.n_features} features: "
                f"give an array (records, {self.n_features})"
            )
        return X
