"""Committee: an immutable boosted model that scores rows and is saved to a file."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from streamboost.boosting.frames import FrameColumns, to_narwhals_frame
from streamboost.boosting.links import NO_COSTS, Link, check_link, class_probabilities
from streamboost.boosting.similarities import SimilarityEnsemble
from streamboost.errors import DataError, ModelFileError
from streamboost.export.model import TreeModel
from streamboost.storage import Arrays, pack_json, read_arrays, unpack_json, write_arrays
from streamboost.trees.explained import feature_importances, shap_values
from streamboost.trees.forest import Forest

COLUMNS = "streamboost.columns"
"""Metadata key of an exported file; the value is `FrameColumns.to_json` of the training frame."""

WeakLearners = Forest | SimilarityEnsemble
"""Weak learners of all rounds, packed and immutable; each adds K scores to a row."""

_LEARNERS: dict[str, type[Forest] | type[SimilarityEnsemble]] = {
    learners.kind: learners for learners in (Forest, SimilarityEnsemble)
}
_SAVED_KINDS = "iufbU"  # integers, floats, booleans, text


class Model(Protocol):
    """Protocol of a fitted model that computes class scores of rows, such as `Committee`."""

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """Return the scores (n, K) of `X` (n, D)."""

    def staged_scores(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the scores (n, K) of `X` (n, D) after each boosting round."""

    def predicted_indices(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the predicted class of each row, (n,), from its `scores` (n, K)."""

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""


@dataclass(frozen=True, slots=True, eq=False)
class Committee:
    """Immutable boosted model, whose scores are F(x) = b + sum of weak learners.

    Parameters
    ----------
    classes
        The class labels (K,).
    base
        Scores b before the first weak learner, float64 (K,).
    learners
        The weak learners: trees with K-vector leaf values, or `SimilarityEnsemble`.
    n_features
        D, the number of columns of the rows to score.
    family
        Name of the algorithm family. Only algorithms of this family may extend the committee.
    temperature
        Divisor of the scores before the link converts them to probabilities.
    link
        Conversion of scores to probabilities: ``"softmax"``; ``"sigmoid"``, the sigmoids of the
        scores divided by their sum; or ``"costs"``, the probabilities that follow from scores of
        REBEL (Appel, 2017), trained with the cost matrix `costs`. Under ``"costs"``, the class of
        least expected cost is predicted.
    costs
        For the link ``"costs"``, the cost of predicting class k if j is true, float64 (K, K); else
        empty.
    version
        Model version, assigned by the caller; 0 by default.
    columns
        Names of the columns and categories of the training frame; None if it was an array.
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
        """Number of trees or other weak learners."""
        return self.learners.n_learners

    def class_scores(self, X: Any) -> np.ndarray:
        """Return the scores, float64 (n, K), of the rows `X` (n, D); NaN in `X` is a missing value.

        `X` is an array, in which categories are codes, or a frame, whose columns are matched by
        name. Categories absent from all training data are missing values. The scores of a row do
        not depend on the other rows of `X`.
        """
        X = self.as_rows(X)
        scores = np.tile(self.base, (len(X), 1))
        self.learners.add_scores(X, scores)
        return scores

    def staged_scores(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the scores of `X` (n, D), float64 (n, K), after each boosting round."""
        X = self.as_rows(X)
        scores = np.tile(self.base, (len(X), 1))
        for stage in self.learners.staged_scores(X, scores):
            yield stage.copy()

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the class probabilities (n, K) that belong to `scores` (n, K)."""
        return class_probabilities(self.link, scores / self.temperature, self.costs)

    def predicted_indices(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the predicted class of each row, (n,), from its `scores` (n, K).

        The predicted class has the largest score, or with costs, the least expected cost. Ties go
        to the first class.
        """
        if self.costs.size == 0:
            return np.asarray(scores.argmax(axis=1))
        return np.asarray((self.probabilities(scores) @ self.costs).argmin(axis=1))

    def contributions(self, X: Any) -> np.ndarray:
        """Return the SHAP values of each feature and class for the rows `X`, float64 (n, K, D + 1).

        These are exact path-dependent SHAP values of trees (Lundberg, Erion and Lee, 2018, and
        Lundberg et al., 2020). A split on an unknown feature is followed to both sides, weighted by
        the training rows on each side. The last column is the expected score without any known
        feature. The D + 1 columns sum to the score that `class_scores` returns.

        `X` (n, D) is as in `class_scores`. A row takes O(leaves (d^2 + d K)) time, d being the
        number of features between root and leaf: 1 to 5 ms at 400 trees of 20 features.

        Raises
        ------
        DataError
            If the committee is not made of trees, or `X` does not have its columns.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from streamboost import SketchLogitBoostClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> committee = SketchLogitBoostClassifier(n_estimators=20).fit(X, y).committee_
        >>> shap = committee.contributions(X)
        >>> shap.shape
        (150, 3, 5)
        >>> bool(np.allclose(shap.sum(axis=2), committee.class_scores(X)))
        True
        """
        owed = shap_values(self._require_forest(), self.as_rows(X))
        owed[:, :, -1] += self.base
        return owed

    def feature_importances(self) -> np.ndarray:
        """Return the share of the total split gain of each feature, float64 (D,).

        The gain of a split is the improvement of its tree's split criterion, divided by the total
        weight of the training records. The criterion is the log loss in Newton trees, and the Gini
        index or a similar impurity in other trees. All shares are 0 if no tree has a split. Raises
        DataError if the committee is not made of trees.
        """
        return feature_importances(self._require_forest(), self.n_features)

    def leaf_similarity(self, X: Any) -> np.ndarray:
        """Return the share of trees in which each row of `X` is in the leaf of the first row, (n,).

        This is the proximity of random forests (Breiman, 2001). Raises DataError if the committee
        is not made of trees.
        """
        forest = self._require_forest()
        leaves = forest.leaf_indices(self.as_rows(X), len(forest.roots))
        return np.asarray((leaves == leaves[0]).mean(axis=1))

    def _require_forest(self) -> Forest:
        if not isinstance(self.learners, Forest):
            raise DataError(
                f"the committee is made of {self.learners.kind}, and feature contributions need "
                "trees: train a committee of trees"
            )
        return self.learners

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the committee to `path` as a safetensors file with a digest of its content."""
        write_arrays(path, self.to_arrays(), kind="committee")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Committee":
        """Read a committee from a file that `save` wrote.

        Raises
        ------
        ModelFileError
            If the file is truncated, modified, a pickle, of another version, or has a node index
            out of range.
        """
        arrays, _ = read_arrays(path, kind="committee")
        try:
            return cls.from_arrays(arrays)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error

    def to_onnx(
        self,
        metadata: Mapping[str, str] | None = None,
        *,
        calibration: float = 1.0,
        decision: Mapping[str, np.ndarray] | None = None,
    ) -> bytes:
        """Return the committee as a serialized ONNX model: `pip install streamboost[export]`.

        The input `X` is float32 (n, D), as in `class_scores`: NaN where missing, categories as
        codes. The outputs are `label` (n,), `probabilities` and `scores`, float64 (n, K). Scores
        are equal up to about 2e-12 of the largest score, so that a label can differ only in a tie
        within this error.

        Parameters
        ----------
        metadata
            Text by name, for the properties of the file.
        calibration
            Temperature of the probabilities, applied after the link: the divisor of their
            logarithms (`TemperatureScaling`).
        decision
            Adds the output `decision`, int64 (n,): the index of the decided class, or -1 for none.
            The mapping has one key: "costs", the cost matrix float64 (K, K) with one row per true
            class; or "threshold", float64 (K,), the least probability to decide on each class.

        Raises
        ------
        ConfigurationError
            If the package onnx is not installed.
        DataError
            If ONNX cannot express the committee: the weak learners are no trees, the link is
            "costs", or a split separates more than 1,000 categories.
        """
        from streamboost.export.onnx_model import to_onnx

        return to_onnx(
            self._to_tree_model(calibration), self._add_columns_to_metadata(metadata), decision
        )

    def to_lightgbm(
        self, metadata: Mapping[str, str] | None = None, *, calibration: float = 1.0
    ) -> str:
        """Return the committee as a model in LightGBM's text format.

        Raw scores of a `lightgbm.Booster` have the same bits as `class_scores`. `Booster.predict`
        returns the probabilities if the link is softmax and the product of `temperature` and
        `calibration` is 1. If the link is sigmoid and `calibration` is 1, `predict` returns the
        sigmoids, not divided by their sum. Otherwise it returns the raw scores.

        Each tree is written K times, once for each class. LightGBM reads values of at most 1e-35
        as 0, and cuts off the fraction of a category.

        `metadata` is text by name, for the header of the file. `calibration` is as in `to_onnx`.

        Raises
        ------
        DataError
            If LightGBM cannot express the committee: the weak learners are no trees, or the link is
            "costs".

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from streamboost import SketchLogitBoostClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> committee = SketchLogitBoostClassifier(n_estimators=20).fit(X, y).committee_
        >>> committee.to_lightgbm().splitlines()[:3]
        ['tree', 'version=v4', 'num_class=3']
        """
        from streamboost.export.lightgbm_text import to_lightgbm

        return to_lightgbm(
            self._to_tree_model(calibration), self._add_columns_to_metadata(metadata)
        )

    def _to_tree_model(self, calibration: float) -> TreeModel:
        if not isinstance(self.learners, Forest):
            raise DataError(
                f"the committee is made of {self.learners.kind}, and neither ONNX nor LightGBM has "
                "these: save the committee as safetensors, or train a committee of trees"
            )
        return TreeModel(
            self.classes,
            self.base,
            self.learners,
            self.n_features,
            self.link,
            self.temperature,
            self.columns.names if self.columns else (),
            calibration,
        )

    def _add_columns_to_metadata(self, metadata: Mapping[str, str] | None) -> dict[str, str]:
        """Return `metadata` and the column names and categories of the training frame, if any."""
        own = {} if self.columns is None else {COLUMNS: json.dumps(self.columns.to_json())}
        return own | dict(metadata or {})

    def to_arrays(self) -> Arrays:
        """Return the committee as arrays for storage; the array "about" holds JSON."""
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
            "columns": None if self.columns is None else self.columns.to_json(),
        }
        return {
            "about": pack_json(about),
            "base": self.base,
            "costs": self.costs,
            **self.learners.to_arrays(),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Committee":
        """Create a committee from the result of `to_arrays`; raise ModelFileError if invalid."""
        try:
            about: dict[str, Any] = unpack_json(arrays["about"])
            columns = about["columns"]
            committee = cls(
                classes=np.array(about["classes"], dtype=about["dtype"]),
                base=arrays["base"],
                learners=_class_of_weak_learners(about["learners"]).from_arrays(arrays),
                n_features=about["n_features"],
                family=about["family"],
                temperature=about["temperature"],
                link=about["link"],
                costs=arrays["costs"],
                version=about["version"],
                columns=FrameColumns.from_json(columns) if columns else None,
            )
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"these arrays are not a committee's: {error!r}") from error
        committee._require_consistent_arrays()
        return committee

    def _require_consistent_arrays(self) -> None:
        self.learners.validate(self.n_features)
        if self.columns is not None:
            self.columns.validate(self.n_features, self.learners.category_codes.features.tolist())
        if not self.base.shape == self.classes.shape == (self.learners.n_classes,):
            raise ModelFileError("leaf values and classes differ in number: the file is damaged")
        check_link(self.link, self.costs, len(self.classes))

    def as_rows(self, X: Any) -> np.ndarray:
        """Convert an array or a data frame to rows for scoring: float32 (n, D), C-order.

        Raises
        ------
        DataError
            If `X` does not have the committee's columns.
        """
        if not isinstance(X, np.ndarray) and (frame := to_narwhals_frame(X)) is not None:
            X = (self.columns or FrameColumns()).to_numbers(frame)
        rows = np.ascontiguousarray(X, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(
                f"X has shape {rows.shape}, and this committee scores {self.n_features} features: "
                f"give an array (records, {self.n_features})"
            )
        return rows


def _class_of_weak_learners(kind: str) -> type[Forest] | type[SimilarityEnsemble]:
    if kind not in _LEARNERS:
        raise ModelFileError(
            f"weak learners of kind {kind!r}, and this release knows {', '.join(_LEARNERS)}: read "
            "it with the release that wrote it"
        )
    return _LEARNERS[kind]
