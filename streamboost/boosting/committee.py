"""A trained model: immutable, scored, saved and loaded."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from streamboost.errors import DataError, ModelFileError
from streamboost.kernels.traverse import FOREST_NODE
from streamboost.storage import Arrays, pack_json, read_arrays, unpack_json, write_arrays
from streamboost.trees.categories import Categories
from streamboost.trees.forest import Forest

__all__ = ["Committee"]

Link = Literal["softmax", "sigmoid"]

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
        Scores are divided by it before the link makes probabilities of them.
    link
        What turns scores into probabilities: ``"softmax"``, or ``"sigmoid"``, the sigmoids of the
        scores divided by their sum.
    version
        A number its owner gives it; 0 until then.
    """

    classes: np.ndarray
    base: np.ndarray
    forest: Forest
    n_features: int
    family: str
    temperature: float = 1.0
    link: Link = "softmax"
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
        X = self.rows(X)
        scores = np.tile(self.base, (len(X), 1))
        self.forest.add_scores(X, scores)
        return scores

    def staged_decision(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield `decision` after each round."""
        X = self.rows(X)
        scores = np.tile(self.base, (len(X), 1))
        for stage in self.forest.staged_scores(X, scores):
            yield stage.copy()

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""
        z = scores / self.temperature
        if self.link == "sigmoid":
            z = -np.logaddexp(0.0, -z)  # log sigmoid, whose shares are those of the sigmoids
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the place of the largest score (n,) of `scores` (n, K); ties go to the first."""
        return np.asarray(scores.argmax(axis=1))

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
            "link": self.link,
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
        try:
            about: dict[str, Any] = unpack_json(arrays["about"])
            nodes = np.zeros(len(arrays["nodes.feature"]), dtype=FOREST_NODE)
            for name in _NODE_FIELDS:
                nodes[name] = arrays[f"nodes.{name}"]
            forest = Forest(
                nodes,
                arrays["roots"],
                arrays["values"],
                arrays["rounds"],
                arrays["sets"],
                arrays["set_of"],
                Categories(**{n: arrays[f"categories.{n}"] for n in _CATEGORY_FIELDS}),
            )
            committee = cls(
                classes=np.array(about["classes"], dtype=about["dtype"]),
                base=arrays["base"],
                forest=forest,
                n_features=about["n_features"],
                family=about["family"],
                temperature=about["temperature"],
                link=about["link"],
                version=about["version"],
            )
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"these arrays are not a committee's: {error!r}") from error
        committee._check()
        return committee

    def _check(self) -> None:
        self.forest.check(self.n_features)
        if not self.base.shape == self.classes.shape == self.forest.values.shape[1:]:
            raise ModelFileError("leaf values and classes differ in number: the file is damaged")
        if self.link not in get_args(Link):
            raise ModelFileError(
                f"scores with the link {self.link!r}, and this release knows "
                f"{', '.join(get_args(Link))}: read it with the release that wrote it"
            )

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Return `X` as scoring reads it: float32 (n, D), C-order.

        Raises
        ------
        DataError
            When `X` does not have the columns the committee scores.
        """
        X = np.ascontiguousarray(X, dtype=np.float32)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise DataError(
                f"X has shape {X.shape}, and this committee scores {self.n_features} features: "
                f"give an array (records, {self.n_features})"
            )
        return X
