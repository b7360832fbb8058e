"""GAMBLE: Gentle Adaptive Multiclass Boosting Learning (Huang, 2009)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from streamboost.boosting.committee import Model
from streamboost.boosting.constraints import (
    NONE,
    Constraint,
    number_in,
    object_with_methods,
    one_of,
)
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import GambleAlgorithm
from streamboost.boosting.reweighting.gamble_step import LEAST_WEIGHT, Step
from streamboost.boosting.reweighting.parameters import ClassWeightClassifier
from streamboost.boosting.training_data import apply_class_weight, make_training_data
from streamboost.errors import ConfigurationError

_NO_COMMITTEE = (
    "this GambleClassifier boosts a scikit-learn regressor and so has no committee: it cannot be "
    "saved to a model file, extended, trained on a stream or asked for importances; with "
    "weak_learner=None it grows trees of its own, and can"
)


@dataclass(kw_only=True, eq=False, repr=False)
class GambleClassifier(ClassWeightClassifier):
    """Multi-class gentle boosting with one regression tree per round (Huang, 2009).

    Each round fits one tree to the coded labels (1 for the own class, -1/(K-1) for the others)
    under the weights of the exponential loss exp(-y.F/K). By the thesis's Theorem 2, the trees for
    y and for y^2 are equal, and the criterion is the weighted Gini index. Hence one histogram is
    sufficient for all classes (Algorithm 2). Class probabilities are softmax(F / (K-1)).

    With a scikit-learn regressor as `weak_learner` this is Algorithm 1. Each round fits clones of
    the regressor to y and to y^2, with one clone per column if it supports only one output. For a
    least-squares regression tree without pruning, one fit gives both (Theorem 2). Estimates are
    clipped to the ranges of y and y^2, [-1/(K-1), 1] and [1/(K-1)^2, 1], as the step divides by the
    second. Estimates of a tree are always in range. Such a model has no committee: it cannot be
    saved to a model file, extended or trained on a stream.

    If K > 2, the exponential loss of this family does not bound the training error, and trees with
    fewer than K leaves can stall. By default a tree has at least 2K leaves. Unlike in the thesis,
    the weight of a record is at least 3e-5 of the largest (`weight_floor`) if K > 2. Otherwise the
    weight can concentrate on a few records that no split can separate, and the error rises with
    further rounds. Algorithm 2 as printed is ``step="paper"`` with ``weight_floor=0``.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each leaf value, in (0, 1]; the thesis uses 1.
    step
        Step of a leaf: ``"paper"``, ``"scaled"``, ``"line"``, ``"exact"``, or None: ``"scaled"`` up
        to 12 classes, else ``"exact"``. See
        `streamboost.boosting.reweighting.gamble_step.leaf_step`. On seven data sets, no step was
        always best:

        - After 200 rounds, the scaled step has a lower error than the printed step on dna180,
          segment and letter (4.1 against 4.2 %, 4.0 against 4.6 %, 11.8 against 12.6 %). The errors
          are equal on usps. The scaled step is worse on satimage, glass and vowel (13.5 against
          12.5 %, 23.2 against 21.9 %, 45.5 against 43.5 %). After 20 rounds, the scaled step is
          better on all but usps.
        - The line search starts slowly. It has the highest error on small sets (vowel 55.0 %), but
          the lowest on letter after 200 rounds (8.8 %).
        - The exact step needs fewer rounds with many classes (letter, K = 26, after 100: 10.0
          against 12.2 %). Its error is higher on small sets (vowel, K = 11: 49.1 against 45.5 %).
    weight_floor
        Least weight of a record if K > 2, as a share of the largest weight, in [0, 1); 0, as in the
        thesis, is no bound. Measurements are documented in `gamble_step.LEAST_WEIGHT`.
    weak_learner
        A scikit-learn regressor that supports sample weights; None: streamboost's own trees. Of the
        parameters below, only `random_state`, which seeds its clones, and `n_jobs` apply to a
        regressor. As a regressor has no leaves, ``"line"`` (the default) scales the step of a whole
        round, and ``"exact"`` is an error. The printed step can raise the loss in each round until
        all predictions are wrong, as with Ridge on three clusters of points.
    max_bins
        Bins per feature of numbers, at most 255, missing values aside.
    pruning
        ``"quick"`` (QuickBoost; Appel, 2017, chapter 3) first builds the histogram of each feature
        on the rows with 90 % of a node's weight. Features that provably cannot have the best split
        are then dropped. The trees are identical. The notes describe when pruning is faster. Not
        with categories.
    categorical_features
        Categorical columns: ``"from_dtype"``, the columns of a frame with a categorical type; a
        mask (D,), indices, or column names; or None for no column. See
        `streamboost.boosting.categorical`. Not with a `weak_learner`.

    Attributes
    ----------
    committee_
        The trained `Committee`; not with a `weak_learner`.
    feature_importances_
        Share of the total split gain of each feature, float64 (D,); not with a `weak_learner`.
    regressors_
        The fitted clones of all rounds, with a `weak_learner`.

    Notes
    -----
    Pruning reduces the work for stumps on many features: on usps, they took a tenth of the
    additions and half of the CPU time. Trees of 8 leaves took half of the additions and as much
    time. From about 20 leaves, pruning does not help: an unpruned tree builds the histogram of the
    smaller child and subtracts, whereas a pruned tree must build both. SAMME's stumps, whose
    weights differ less, and stumps of least error save a third of the additions on satimage, and no
    time. Stumps of least entropy take up to four times the time, because of the logarithms. The
    thesis does not subtract histograms, and reports a tenfold saving for stumps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import GambleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GambleClassifier(n_estimators=20, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True

    >>> from sklearn.linear_model import Ridge
    >>> lines = GambleClassifier(n_estimators=20, weak_learner=Ridge()).fit(X[::2], y[::2])
    >>> lines.score(X[1::2], y[1::2]) > 0.8
    True
    """

    _constraints: ClassVar[Mapping[str, Sequence[Constraint]]] = {
        "step": [one_of("paper", "scaled", "line", "exact"), NONE],
        "weight_floor": [number_in("[0, 1)")],
        "weak_learner": [object_with_methods("fit", "predict"), NONE],
    }

    step: Step | None = None
    weight_floor: float = LEAST_WEIGHT
    weak_learner: Any = None

    def _create_algorithm(self) -> Algorithm:
        if self.weak_learner is not None:
            raise ConfigurationError(_NO_COMMITTEE)
        return GambleAlgorithm(self.learning_rate, self.step, weight_floor=self.weight_floor)

    def _fit_validated_rows(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        self.__dict__.pop("committee_", None)
        self.__dict__.pop("regressors_", None)
        if self.weak_learner is None:
            super()._fit_validated_rows(X, y, weight)
            return
        # Imported here, as loading scikit-learn's learners takes 0.1 s and few callers need them.
        from streamboost.boosting.reweighting.regressors import boost_regressor

        self._categorical_mask(X)
        data = make_training_data(X, y, apply_class_weight(self.class_weight, y, weight), None)
        data, held = self._split_off_validation_set(data, self.random_state)
        self.regressors_ = boost_regressor(
            self.weak_learner,
            data,
            self.n_estimators,
            learning_rate=self.learning_rate,
            step=self.step,
            weight_floor=self.weight_floor,
            rng=np.random.default_rng(self._training_seed()),
            held_out=held,
        )
        self.classes_ = data.classes
        self._set_validation_score(held)

    @property
    def _no_categories_reason(self) -> str:  # type: ignore[override]
        if self.weak_learner is None:
            return ""
        return (
            "hands its rows to a scikit-learn regressor, to which they are numbers: encode them in "
            "columns of 0 and 1, or leave weak_learner out"
        )

    @property
    def _fitted_model(self) -> Model:
        return self.committee_ if self.weak_learner is None else self.regressors_

    def __getattr__(self, name: str) -> Any:
        committees = name in ("committee_", "feature_importances_")
        if committees and self.__dict__.get("weak_learner") is not None:
            raise AttributeError(_NO_COMMITTEE)
        if name == "feature_importances_":  # called after the property raised AttributeError
            check_is_fitted(self, "classes_")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.weak_learner is not None:
            tags.input_tags.allow_nan = get_tags(self.weak_learner).input_tags.allow_nan
        return tags
