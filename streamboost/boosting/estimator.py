"""Base class of the boosted estimators, with the methods of a scikit-learn classifier."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from streamboost.boosting.committee import Model
from streamboost.boosting.committee_trainer import CommitteeTrainer
from streamboost.boosting.constraints import check_parameters
from streamboost.boosting.descriptions import docstring_with_inherited_entries
from streamboost.boosting.frames import training_columns
from streamboost.boosting.training_data import check_class_weight, warn_of_missing_classes
from streamboost.boosting.validation import validate_features, validate_training_rows
from streamboost.trees.forest import Forest

Pruning = Literal["quick"]


def _require_probabilities(estimator: "BoostingClassifier") -> bool:
    """Raise AttributeError if the estimator has no `predict_proba`; else return True."""
    if estimator._no_probabilities_reason:
        raise AttributeError(f"{type(estimator).__name__} {estimator._no_probabilities_reason}")
    return True


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingClassifier(ClassifierMixin, BaseEstimator, CommitteeTrainer):  # type: ignore[misc]
    """Base class of the boosted estimators: a trainer with scikit-learn's methods.

    The parameters are the fields of data classes. `CommitteeTrainer` has the fields common to all
    families. A subclass declares its own fields and the fields with another default. scikit-learn
    reads the parameters from the signature that `dataclass` generates. The docstring of a subclass
    describes only the parameters and attributes that its base classes do not describe.

    Attributes
    ----------
    classes_
        Class labels (K,).
    n_features_in_
        D, the number of columns in `fit`.
    committee_
        The trained `Committee`.
    validation_score_
        Negative validation loss before the first round and after each round; empty without early
        stopping.
    feature_importances_
        Share of the total split gain of each feature, float64 (D,).
    n_adds_
        Number of additions to histograms in the last `fit` or `extend`. A row that is counted in
        the histogram of a feature is one addition.
    """

    _no_probabilities_reason: ClassVar[str] = ""
    """Reason for missing probabilities, as the end of an error message; empty if supported."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = docstring_with_inherited_entries(cls)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on `X` (n, D), an array or a frame, NaN where missing, and labels `y` (n,).

        `sample_weight` (n,), not negative, is the number of times each row counts. A row of weight
        zero has no effect.
        """
        self.check_parameters()
        self._columns = training_columns(X, self.categorical_features, None)
        X, y, weight = validate_training_rows(self, self._columns, X, y, sample_weight, reset=True)
        check_class_weight(self.class_weight, y)
        self._fit_validated_rows(X, y, weight)
        self._warn_without_validation(len(y), len(self.classes_))
        return self

    def _fit_validated_rows(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        """Train on rows that `fit` has validated, and set `committee_` and `classes_`."""
        self.committee_ = self._train(X, y, weight, seed=self._training_seed())
        self.classes_ = self.committee_.classes

    def extend(
        self, X: Any, y: Any, *, n_estimators: int | None = None, sample_weight: Any = None
    ) -> Self:
        """Continue training (warm start): add `n_estimators` rounds trained on these rows.

        If `n_estimators` is None, the rounds are as many as in `fit`. The rows may differ from the
        earlier ones. A class without rows stays in the model, but is predicted less and less often:
        a UserWarning names the class. To avoid this, include some earlier rows of the class.

        If the rows have a new class, estimators of the log loss begin with scores near the log odds
        of its share. In other losses, a class that was absent has no finite initial score. These
        estimators train a new committee on the given rows alone, with the old and the new number of
        rounds together.

        If `random_state` is an integer, the seed of an extension depends on it and on the number of
        earlier rounds. Raises ConfigurationError if a parameter is invalid.
        """
        check_is_fitted(self, "classes_")
        rounds = self.n_estimators if n_estimators is None else n_estimators
        parameters, caller = self.get_params(deep=False), f"{type(self).__name__}.extend"
        parameters["n_estimators"] = rounds
        check_parameters(type(self), parameters, caller)
        self._columns = training_columns(X, self.categorical_features, self._columns)
        X, y, weight = validate_training_rows(self, self._columns, X, y, sample_weight, reset=False)
        known = self.committee_
        seed = self._training_seed(n_earlier_rounds=known.n_rounds)
        self.committee_ = self._train(X, y, weight, seed=seed, committee=known, n_estimators=rounds)
        self.classes_ = self.committee_.classes
        self._warn_without_validation(len(y), len(self.classes_))
        warn_of_missing_classes(known.classes, y[weight > 0])
        return self

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of the total split gain of each feature, float64 (D,)."""
        check_is_fitted(self, "classes_")
        if not isinstance(self.committee_.learners, Forest):
            raise AttributeError(f"{type(self).__name__} has no trees here, and so no splits")
        return self.committee_.feature_importances()

    @property
    def _fitted_model(self) -> Model:
        return self.committee_

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of `X`, float64 (n, K); for two classes, those of the second, (n,)."""
        return self._scores_in_sklearn_shape(self._compute_scores(X))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the result of `decision_function` after each boosting round."""
        yield from map(self._scores_in_sklearn_shape, self._compute_staged_scores(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of each row, (n,): by default, the class of the largest score.

        Ties go to the first class. For costs, see the estimator of the family.
        """
        scores = self._compute_scores(X)
        return np.asarray(self.classes_[self._fitted_model.predicted_indices(scores)])

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted class of each row, (n,), after each boosting round."""
        for scores in self._compute_staged_scores(X):
            yield self.classes_[self._fitted_model.predicted_indices(scores)]

    @available_if(_require_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the class probabilities, float64 (n, K)."""
        scores = self._compute_scores(X)
        return self._fitted_model.probabilities(scores)

    @available_if(_require_probabilities)  # type: ignore[untyped-decorator]
    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the class probabilities, float64 (n, K), after each boosting round."""
        for scores in self._compute_staged_scores(X):
            yield self._fitted_model.probabilities(scores)

    def _validate_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "classes_")
        return np.asarray(validate_features(self, self._columns, X, reset=False))

    def _compute_scores(self, X: Any) -> np.ndarray:
        X = self._validate_rows(X)
        threads = min(effective_n_jobs(self.n_jobs), len(X))
        if threads == 1:
            return self._fitted_model.class_scores(X)
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(
                list(pool.map(self._fitted_model.class_scores, np.array_split(X, threads)))
            )

    def _compute_staged_scores(self, X: Any) -> Iterator[np.ndarray]:
        rows = self._validate_rows(X)
        return self._fitted_model.staged_scores(rows)

    def _scores_in_sklearn_shape(self, scores: np.ndarray) -> np.ndarray:
        # scikit-learn's form for two classes; the scores sum to zero up to b.
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _training_seed(self, n_earlier_rounds: int = 0) -> int:
        """Return a seed, drawn from `random_state` and the number of earlier rounds."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return (
            int(np.random.SeedSequence([seed, n_earlier_rounds]).generate_state(1)[0])
            if n_earlier_rounds
            else seed
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
