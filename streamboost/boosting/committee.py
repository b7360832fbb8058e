"""A trained model: immutable, scored, saved and loaded."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from streamboost.boosting.frames import FrameColumns, frame_of
from streamboost.boosting.learners import WeakLearners
from streamboost.boosting.links import NO_COSTS, Link, check_link, class_probabilities
from streamboost.boosting.similarities import Similarities
from streamboost.errors import DataError, ModelFileError
from streamboost.storage import Arrays, pack_json, read_arrays, unpack_json, write_arrays
from streamboost.trees.explained import contributions, importances
from streamboost.trees.forest import Forest

__all__ = ["Committee", "Model"]

_LEARNERS: dict[str, type[WeakLearners]] = {c.kind: c for c in (Forest, Similarities)}
_SAVED_KINDS = "iufbU"  # integers, floats, booleans, text


class Model(Protocol):
    """What `fit` leaves behind to score with: a `Committee`, or what stands in for one."""

    def decision(self, X: np.ndarray) -> np.ndarray:
        """Return the scores (n, K) of `X` (n, D)."""

    def staged_decision(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield `decision` after each round."""

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the place of the predicted class (n,) for `scores` (n, K)."""

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""


@dataclass(frozen=True, slots=True, eq=False)
class Committee:
    """A boosted model F(x) = b + sum of weak learners, never changed once made.

    Parameters
    ----------
    classes
        The class labels (K,).
    base
        b, float64 (K,).
    learners
        The weak learners: trees with K-vector leaf values, or `Similarities`.
    n_features
        D, the number of columns it scores.
    family
        Which algorithms may extend it.
    temperature
        Scores are divided by it before the link makes probabilities of them.
    link
        What turns scores into probabilities: ``"softmax"``; ``"sigmoid"``, the sigmoids of the
        scores divided by their sum; ``"costs"``, the probabilities that belong to scores trained
        with REBEL's subcosts of `costs`, by which the class of least expected cost is predicted.
    costs
        For that link, what it costs to answer class k where j is true, float64 (K, K); else
        empty.
    version
        A number its owner gives it; 0 until then.
    columns
        What the frame it was trained on called its columns and categories; None: it was an array.
    """

    classes: np.ndarray
    base: np.ndarray
    learners: WeakLearners
    n_features: int
    family: str
    temperature: float = 1.0
    link: Link = "softmax"
    costs: np.ndarray = field(default_factory=NO_COSTS.copy)
    version: int = 0
    columns: FrameColumns | None = None

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return self.learners.n_rounds

    @property
    def n_trees(self) -> int:
        """Number of trees, or other weak learners."""
        return self.learners.n_learners

    def decision(self, X: Any) -> np.ndarray:
        """Return the scores F, float64 (n, K), of `X` (n, D), NaN where missing.

        `X` is an array, where categories are their codes, or a frame, read by the names of its
        columns. In categorical columns what no training met is missing too.
        A row's scores do not depend on the rows it is scored with.
        """
        X = self.as_rows(X)
        scores = np.tile(self.base, (len(X), 1))
        self.learners.add_scores(X, scores)
        return scores

    def staged_decision(self, X: Any) -> Iterator[np.ndarray]:
        """Yield `decision` after each round."""
        X = self.as_rows(X)
        scores = np.tile(self.base, (len(X), 1))
        for stage in self.learners.staged_scores(X, scores):
            yield stage.copy()

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""
        return class_probabilities(self.link, scores / self.temperature, self.costs)

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the place of the predicted class (n,) for `scores` (n, K).

        That of the largest score, or with costs, of the least expected cost; ties go to the first.
        """
        if self.costs.size == 0:
            return np.asarray(scores.argmax(axis=1))
        return np.asarray((self.probabilities(scores) @ self.costs).argmin(axis=1))

    def contributions(self, X: Any) -> np.ndarray:
        """Return what each feature does to each score, float64 (n, K, D + 1), for `X` (n, D).

        Exact SHAP values of the trees: Shapley values of the game in which a split on an unknown
        feature is followed to both sides, by the weight of the training's rows on each (path
        dependent; Lundberg, Erion and Lee, 2018, and Lundberg et al., 2020). The last column is
        the score expected while nothing is known, and the D + 1 sum to `decision`'s score before
        link and temperature. Each training's trees are weighed by its own rows.

        `X` is as in `decision`. A row takes O(leaves (d^2 + d K)) time, d being the number of
        features between root and leaf: 1 to 5 ms at 400 trees of 20 features.

        Raises
        ------
        DataError
            When the committee is not made of trees, or `X` does not have its columns.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from streamboost import SketchLogitBoostClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> committee = SketchLogitBoostClassifier(n_estimators=20).fit(X, y).committee_
        >>> owed = committee.contributions(X)
        >>> owed.shape
        (150, 3, 5)
        >>> bool(np.allclose(owed.sum(axis=2), committee.decision(X)))
        True
        """
        owed = contributions(self._forest(), self.as_rows(X))
        owed[:, :, -1] += self.base
        return owed

    def feature_importances(self) -> np.ndarray:
        """Return what the splits on each feature gained, as shares of all gain, float64 (D,).

        A split's gain is that of its tree's criterion, for a record of the training, the mean
        record weighing 1: of the log loss in Newton trees, of the Gini index and the like in
        others. All are 0 where no tree has split. Raises DataError as `contributions` does.
        """
        return importances(self._forest(), self.n_features)

    def _forest(self) -> Forest:
        if not isinstance(self.learners, Forest):
            raise DataError(
                f"the committee is made of {self.learners.kind}, and only trees tell their "
                "features apart: train one of trees"
            )
        return self.learners

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
            "learners": self.learners.kind,
            "version": self.version,
            "columns": None if self.columns is None else self.columns.describe(),
        }
        return {
            "about": pack_json(about),
            "base": self.base,
            "costs": self.costs,
            **self.learners.to_arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Committee":
        """Return the committee `to_arrays` took apart; raise ModelFileError if it cannot be one."""
        try:
            about: dict[str, Any] = unpack_json(arrays["about"])
            columns = about["columns"]
            committee = cls(
                classes=np.array(about["classes"], dtype=about["dtype"]),
                base=arrays["base"],
                learners=_learners(about["learners"]).from_arrays(arrays),
                n_features=about["n_features"],
                family=about["family"],
                temperature=about["temperature"],
                link=about["link"],
                costs=arrays["costs"],
                version=about["version"],
                columns=FrameColumns.rebuild(columns) if columns else None,
            )
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"these arrays are not a committee's: {error!r}") from error
        committee._check()
        return committee

    def _check(self) -> None:
        self.learners.check(self.n_features)
        if self.columns is not None:
            self.columns.check(self.n_features, self.learners.categories.features.tolist())
        if not self.base.shape == self.classes.shape == (self.learners.n_classes,):
            raise ModelFileError("leaf values and classes differ in number: the file is damaged")
        check_link(self.link, self.costs, len(self.classes))

    def as_rows(self, X: Any) -> np.ndarray:
        """Return `X`, an array or a frame, as scoring reads it: float32 (n, D), C-order.

        Raises
        ------
        DataError
            When `X` does not have the columns the committee scores.
        """
        if not isinstance(X, np.ndarray) and (frame := frame_of(X)) is not None:
            X = (self.columns or FrameColumns()).read(frame)
        rows = np.ascontiguousarray(X, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(
                f"X has shape {rows.shape}, and this committee scores {self.n_features} features: "
                f"give an array (records, {self.n_features})"
            )
        return rows


def _learners(kind: str) -> type[WeakLearners]:
    if kind not in _LEARNERS:
        raise ModelFileError(
            f"weak learners of kind {kind!r}, and this release knows {', '.join(_LEARNERS)}: read "
            "it with the release that wrote it"
        )
    return _LEARNERS[kind]
