"""Linear and Markov experts, trained online: one label updates them at once.

- `LinearExpert`: a softmax regression on the numeric features.
- `LabelTransitionModel`: a Markov model of the labels.
- `TextExpert`: linear models of texts, which are trained by the text features.
"""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamboost.checks import Label
from streamboost.features import Features
from streamboost.features.text import log_softmax
from streamboost.stacking.experts import (
    MOST_CLASSES,
    Expert,
    ExpertRecords,
    RunningScaler,
    stacking_kernels,
)
from streamboost.storage import Arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_RATE = 0.5
_MAX_DEVIATIONS = 5.0  # standard deviations
_LEAST = 1e-6  # initial squared gradients


class LinearExpert(Expert):
    """Softmax regression on scaled numeric features, trained by AdaGrad (Duchi et al. 2011).

    Missing values are replaced by the mean; categorical columns are excluded.
    """

    output_names: ClassVar[tuple[str, ...]] = ("linear",)

    def __init__(self, scale: RunningScaler) -> None:
        self._scale = scale
        self._weights = np.zeros((0, 1))  # (K, D + 1), the intercept first
        self._squares = np.zeros((0, 1))  # sums of squared gradients

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features, which has grown, to `n_features`."""
        more = ((0, 0), (0, n_features + 1 - self._weights.shape[1]))
        self._weights = np.pad(self._weights, more)
        self._squares = np.pad(self._squares, more, constant_values=_LEAST)

    def _reciprocal_feature_scales(self, committee: "Committee") -> np.ndarray:
        categories = committee.learners.category_codes.features
        if not categories.size:
            return self._scale.rate
        rate = self._scale.rate.copy()
        rate[categories] = 0.0
        return rate

    def predict(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write class log probabilities into `outputs`, float64 (number of outputs, n, K)."""
        if len(self._weights):
            scale = (
                self._scale.mean,
                self._reciprocal_feature_scales(records.committee),
                _MAX_DEVIATIONS,
            )
            stacking_kernels().predict_softmax_regression(
                records.X, *scale, self._weights, outputs[0]
            )

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        class_index: int,
        weight: float,
        scored: ExpertRecords | None = None,
    ) -> None:
        """Learn the class `class_index` of a record with features `row` (D,) and its `weight`.

        Does nothing without a committee, or if `class_index` is 256 or more.
        """
        if committee is None or class_index >= MOST_CLASSES:
            return
        if class_index >= len(self._weights):
            more = ((0, class_index + 1 - len(self._weights)), (0, 0))
            self._weights = np.pad(self._weights, more)
            self._squares = np.pad(self._squares, more, constant_values=_LEAST)
        scale = self._scale.mean, self._reciprocal_feature_scales(committee), _MAX_DEVIATIONS
        stacking_kernels().update_softmax_regression(
            row[None], *scale, class_index, _RATE, weight, self._weights, self._squares
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        return {}, {"weights": self._weights.copy(), "squares": self._squares.copy()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._weights, self._squares = arrays["weights"].copy(), arrays["squares"].copy()


_FADE = 0.98
_SMOOTHING = 0.3  # pseudo-count, in labels


class LabelTransitionModel(Expert):
    """Markov model of the labels: predicts the next label from the newest known label.

    With delayed labels, the newest known label is not that of the previous record. So the model
    counts how often a record had a label, given the label that was the newest known when the record
    arrived. Older counts decay with each new count.
    """

    output_names: ClassVar[tuple[str, ...]] = ("transitions",)

    def __init__(self) -> None:
        self._counts = np.zeros((0, 0))
        self.newest = -1
        """Class index of the newest label; -1 before the first."""

    def predict(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write class log probabilities into `outputs`, float64 (number of outputs, n, K)."""
        if self.newest >= 0:
            stacking_kernels().predict_from_transitions(
                self._counts[self.newest], _SMOOTHING, outputs[0]
            )

    def learn_transition(self, newest_class: int, class_index: int, weight: float) -> None:
        """Count a record of class `class_index`.

        `newest_class` is the index of the newest known class on its arrival; -1 if none was known.
        """
        if class_index >= len(self._counts) and class_index < MOST_CLASSES:
            more = min(class_index + 1, MOST_CLASSES) - len(self._counts)
            self._counts = np.pad(self._counts, (0, more))
        if max(newest_class, class_index) < len(self._counts):
            if newest_class >= 0:
                stacking_kernels().update_transition_counts(
                    self._counts, newest_class, class_index, _FADE, weight
                )
            self.newest = class_index
        else:
            self.newest = -1

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        return {"newest": self.newest}, {"counts": self._counts.copy()}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self.newest, self._counts = state["newest"], arrays["counts"].copy()


class TextExpert(Expert):
    """Predicts from text features, whose columns are log probabilities by linear models."""

    output_names: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(self, features: Features, n_before: int) -> None:
        self._features = features
        self._n_before = n_before  # number of lagged labels, the first columns

    def predict(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write the text models' class log probabilities into `outputs` (see `Expert.predict`)."""
        if not self._features.text_columns:
            return
        for label, column in zip(self._features.classes, self._features.text_columns, strict=False):
            k = records.place.get(label)
            if k is not None:
                words = records.X[:, self._n_before + column]
                outputs[0, :, k] = np.where(np.isnan(words), outputs[0, :, k], words)
        outputs[0] = log_softmax(outputs[0])
