"""Vector expert: a logistic regression on the vector fields, such as sentence embeddings."""

from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.features import Features
from streamboost.predictions import Scored, top_two_gap
from streamboost.stacking.experts import MOST_CLASSES, Expert, ExpertRecords
from streamboost.storage import Arrays

_MOST_ROWS = 4_000
"""Number of newest labelled records that the regression is trained on."""

_PROTOTYPE_SCALE = 12.0
"""Length of the weight vector of each class before the first gradient step."""

_STRENGTH = 3.0
"""Inverse of the regularization strength, as C in scikit-learn's LogisticRegression."""

_PRIOR_COUNT = 5.0
"""Number of labels added to the count of each class, which sets the intercept."""

_INTERCEPT = 0.3
"""Value of the constant feature; a small value makes the intercept change slowly."""

_ITERATIONS = 40
_TOLERANCE = 1e-3
"""Limit of the iterations, and of the gradient's elements per unit of strength."""

_TINY = 1e-9


class VectorExpert(Expert):
    """Multinomial logistic regression on the vector fields, regularized towards class means.

    Vectors are centered at the mean of the training rows and scaled to length 1, so that their
    product is the cosine. The weights of a class are regularized towards its normalized mean
    (prototype) instead of 0. So the expert is a nearest-centroid classifier while a class has few
    labels, and a logistic regression with many.

    The expert is trained from scratch on the newest 4,000 rows of the working set, whenever a
    training of the committee starts. It has at most 256 classes: later classes are not learned.

    Parameters
    ----------
    features
        Encodes the records' vectors as columns.
    n_before
        Number of columns before the features: the lagged labels.

    Attributes
    ----------
    n_trainings
        Number of trainings so far.
    """

    output_names: ClassVar[tuple[str, ...]] = ("vector",)

    def __init__(self, features: Features, n_before: int) -> None:
        self._features = features
        self._n_before = n_before
        self.n_trainings = 0
        self._sizes: list[int] = []  # of the vectors of each field
        self._columns = np.zeros(0, dtype=np.int64)  # of the vectors, in the records' rows
        self._mean = np.zeros(0, dtype=np.float32)
        self._weights = np.zeros((1, 0), dtype=np.float32)  # (columns + 1, classes)
        self._classes: list[Label] = []

    def columns(self) -> np.ndarray:
        """Return the indices of the vector fields' columns in the rows, int64."""
        columns = [column for field in self._features.vector_columns for column in field]
        return np.array(columns, dtype=np.int64) + self._n_before

    def train(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
        """Train on rows `X` (n, D) with labels `y` (n,) and weights `weight` (n,); None: all 1."""
        newest = slice(max(len(y) - _MOST_ROWS, 0), None)
        X, labels = X[newest], y[newest].tolist()
        self._sizes = [len(field) for field in self._features.vector_columns]
        self._columns = self.columns()
        vectors = X[:, self._columns]
        use = ~np.isnan(vectors).all(axis=1)
        share = np.ones(len(X)) if weight is None else weight[newest]
        use &= share > 0.0
        place: dict[Label, int] = {}
        for i in np.flatnonzero(use).tolist():
            if len(place) < MOST_CLASSES or labels[i] in place:
                place.setdefault(labels[i], len(place))
            else:
                use[i] = False
        codes = np.array([place[labels[i]] for i in np.flatnonzero(use)], dtype=np.int64)
        vectors, share = vectors[use], share[use].astype(np.float32)
        self.n_trainings += 1
        self._classes = list(place)
        if not place:
            return
        there = ~np.isnan(vectors)
        total = np.where(there, vectors, 0.0).sum(axis=0, dtype=np.float64)
        self._mean = (total / np.maximum(there.sum(axis=0), 1)).astype(np.float32)
        inputs = self._regression_inputs(vectors)
        prior = self._nearest_centroid_coefficients(inputs, codes, share)
        self._weights = prior.copy()
        _logistic_kernels().train_logistic(
            inputs, codes, share, prior, _STRENGTH, _ITERATIONS, _TOLERANCE, self._weights
        )

    def _regression_inputs(self, vectors: np.ndarray) -> np.ndarray:
        """Return the regression inputs, float32 (n, columns + 1), of `vectors` (n, columns).

        Vectors are centered, and scaled so that those of all fields have the same length. The last
        column is a constant. Missing numbers are replaced by the mean.
        """
        inputs = np.empty((len(vectors), vectors.shape[1] + 1), dtype=np.float32)
        inputs[:, :-1] = vectors - self._mean
        inputs[np.isnan(inputs)] = 0.0
        for start, end in pairwise(np.cumsum([0, *self._sizes]).tolist()):
            own = inputs[:, start:end]
            length = np.sqrt(np.square(own, dtype=np.float64).sum(axis=1, keepdims=True))
            own /= np.maximum(length * np.sqrt(len(self._sizes)), _TINY)
        inputs[:, -1] = _INTERCEPT
        return inputs

    def _nearest_centroid_coefficients(
        self, inputs: np.ndarray, codes: np.ndarray, sample_weights: np.ndarray
    ) -> np.ndarray:
        """Return the weights of a nearest-centroid classifier, float32 (columns + 1, classes).

        `inputs` (n, columns + 1) are labelled rows, with class indices `codes` (n,) and weights
        `sample_weights` (n,).
        """
        n = len(self._classes)
        sums = np.zeros((n, inputs.shape[1]))
        np.add.at(sums, codes, inputs * sample_weights[:, None])
        sums[:, -1] = 0.0
        length = np.sqrt(np.square(sums).sum(axis=1, keepdims=True))
        prior = _PROTOTYPE_SCALE * sums / np.maximum(length, _TINY)
        counts = np.bincount(codes, sample_weights, n) + _PRIOR_COUNT
        prior[:, -1] = np.log(counts / counts.sum()) / _INTERCEPT
        return np.ascontiguousarray(prior.T, dtype=np.float32)

    def predict(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write class log probabilities into `outputs`, float64 (number of outputs, n, K).

        Classes that the expert has not learned keep the committee's probabilities, and the other
        classes share the remaining probability. Records without a vector keep all probabilities of
        the committee.
        """
        if self._classes:
            vectors = records.X[:, self._columns]
            there = ~np.isnan(vectors).all(axis=1)
            at = np.array([records.place[label] for label in self._classes], dtype=np.int64)
            _logistic_kernels().predict_logistic(
                self._regression_inputs(vectors), there, self._weights, at, outputs[0]
            )

    def score(self, X: np.ndarray, version: int) -> Scored | None:
        """Return this expert's own predictions for `X` (n, D); None before the first training.

        `version` is the committee version to store in the result. The probabilities of records
        without a vector are the class shares.
        """
        if not self._classes:
            return None
        n = len(self._classes)
        logs, everywhere = np.full((len(X), n), -np.log(n)), np.ones(len(X), dtype=bool)
        inputs = self._regression_inputs(X[:, self._columns])
        _logistic_kernels().predict_logistic(inputs, everywhere, self._weights, np.arange(n), logs)
        classes = labels_to_array(self._classes)
        return Scored(
            labels=classes[logs.argmax(axis=1)].astype(object),
            classes=classes,
            probabilities=np.exp(logs),
            margins=top_two_gap(logs),
            version=version,
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        about = {
            "sizes": self._sizes,
            "classes": self._classes,
            "n_trainings": self.n_trainings,
        }
        arrays: Arrays = {"columns": self._columns, "mean": self._mean, "weights": self._weights}
        return about, {name: array.copy() for name, array in arrays.items()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._sizes, self._classes = list(state["sizes"]), list(state["classes"])
        self.n_trainings = state["n_trainings"]
        self._columns, self._mean = arrays["columns"].copy(), arrays["mean"].copy()
        self._weights = arrays["weights"].copy()


@cache
def _logistic_kernels() -> Any:
    """Return the kernels of the logistic regression, imported on first use."""
    from streamboost.kernels import logistic

    return logistic
