"""Base class of the boosted estimators, with the methods of a scikit-learn classifier."""

from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, fields, replace
from inspect import get_annotations
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, Literal, Self, cast, get_args, get_origin

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from streamboost.boosting.categorical import checked_categorical_mask
from streamboost.boosting.committee import Committee, Model
from streamboost.boosting.descriptions import with_inherited_descriptions
from streamboost.boosting.early_stopping import EarlyStopping
from streamboost.boosting.frames import FrameColumns, training_columns
from streamboost.boosting.loop import Algorithm, BoostingParameters, TrainingWork, boost
from streamboost.boosting.training_data import (
    TrainingData,
    apply_class_weight,
    check_class_weight,
    training_data,
    training_rows,
    validate_features,
    warn_of_missing_classes,
)
from streamboost.trees.bins import MAX_BINS
from streamboost.trees.forest import Forest

__all__ = ["BoostingClassifier", "Pruning"]

Pruning = Literal["quick"]


def _require_probabilities(estimator: "BoostingClassifier") -> bool:
    if estimator._no_probabilities_reason:
        raise AttributeError(f"{type(estimator).__name__} {estimator._no_probabilities_reason}")
    return True


def _make_parameter_constraints(cls: Any) -> dict[str, list[Any]]:
    """Return the valid values of an estimator's parameters, as scikit-learn's constraints.

    The constraints of the base class are extended by the type hints of `cls`. A `Literal` hint
    allows its strings, and a hint with None also allows None.
    """
    constraints: dict[str, list[Any]] = {**super(cls, cls)._parameter_constraints}
    own: dict[str, list[Any]] = cls.__dict__.get("_parameter_constraints", {})
    for name, hint in get_annotations(cls).items():
        origin: Any = get_origin(hint)
        if origin is Literal:
            constraints[name] = [StrOptions(set(get_args(hint)))]
        elif NoneType in get_args(hint) and None not in constraints.get(name, [None]):
            constraints[name] = [*constraints[name], None]
    return constraints | own


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingClassifier(EarlyStopping, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of the boosted estimators. A subclass adds an algorithm and its parameters.

    The parameters are the fields of data classes. This class has the fields common to all families.
    A subclass declares its own fields and the fields with another default. scikit-learn reads the
    parameters from the signature that `dataclass` generates. A subclass inherits constraints; a
    type hint of literals or with None adds its own. If the docstring of a subclass lists a
    parameter or an attribute without a description, the description is that of the nearest base
    class.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree each.
    max_bins
        Bins per feature, at most 255, missing values aside.
    max_features
        Share of the features that are available to a tree. None: all features if there are at most
        20, half of them if there are fewer than 300, else a fifth.
    subsample
        Share of the rows a tree is grown on, drawn without replacement.
    categorical_features
        Categorical columns: ``"from_dtype"``, the columns of a frame with a categorical type; a
        mask (D,), indices, or column names; or None for no column. See
        `streamboost.boosting.categorical`.
    class_weight
        Weights of the classes: a dictionary, with weight 1 for the other classes; ``"balanced"``
        for equal total weights of all classes; or None.
    early_stopping, validation_fraction, n_iter_no_change, tol
        Early stopping by the loss of a validation set; see
        `streamboost.boosting.early_stopping`.
    random_state
        Seed or generator of all random choices; None: a different training each time.
    n_jobs
        Number of threads for scoring; training uses one thread. The results do not depend on
        `n_jobs`.

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
        Additions to histograms, one per row and feature counted, in the last `fit` or `extend`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EarlyStopping._parameter_constraints,
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_leaf_nodes": [Interval(Integral, 2, 2**15, closed="both")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "max_bins": [Interval(Integral, 2, MAX_BINS, closed="both")],
        "min_child_weight": [Interval(Real, 0, None, closed="left")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "max_features": [Interval(Real, 0, 1, closed="right"), None],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "weight_trimming": [Interval(Real, 0, 1, closed="left")],
        "pruning": [StrOptions({"quick"}), None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    _no_probabilities_reason: ClassVar[str] = ""
    """Reason for missing probabilities, as the end of an error message; empty if supported."""

    _columns = cast("FrameColumns | None", None)  # of the frame it was fitted to

    _no_categories_reason: ClassVar[str] = ""
    """Reason for missing support of categories, as the end of an error message."""

    n_estimators: int = 100
    learning_rate: float = 1.0
    max_depth: int | None = None
    max_bins: int = 64
    max_features: float | None = None
    subsample: float = 1.0
    categorical_features: Any = "from_dtype"
    class_weight: dict[Any, float] | Literal["balanced"] | None = None
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = with_inherited_descriptions(cls)
        cls._parameter_constraints = _make_parameter_constraints(cls)

    @abstractmethod
    def _create_algorithm(self) -> Algorithm:
        """Create the boosting algorithm with this estimator's parameters."""

    def _max_leaf_nodes_for_classes(self, n_classes: int) -> int:
        """Return the largest number of leaves of a tree, if there are `n_classes` classes."""
        # Trees with fewer leaves than classes can stall: after a split has separated groups of
        # classes perfectly, all weights are equal again and the same split is chosen again.
        return getattr(self, "max_leaf_nodes", None) or max(15, 2 * n_classes)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on `X` (n, D), an array or a frame, NaN where missing, and labels `y` (n,).

        `sample_weight` (n,), not negative, is the number of times each row counts. A row of weight
        zero has no effect.
        """
        self.check_parameters()
        self._columns = training_columns(X, self.categorical_features, None)
        X, y, weight = training_rows(self, self._columns, X, y, sample_weight, reset=True)
        check_class_weight(self.class_weight, y)
        self._fit_validated_rows(X, y, weight)
        self._warn_without_validation(len(y), len(self.classes_))
        return self

    def check_parameters(self) -> None:
        """Raise ValueError with the valid values if a parameter is invalid.

        `fit` calls this method first. Call it earlier to validate parameters read from a file.

        >>> from streamboost import SketchLogitBoostClassifier
        >>> SketchLogitBoostClassifier(max_bins=1000).check_parameters()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        sklearn...InvalidParameterError: The 'max_bins' parameter ... Got 1000 instead.
        """
        self._validate_params()

    def __copy__(self) -> Self:
        # The default copy uses the pickle protocol, which takes as long as several trees.
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__}
        return other

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
        a UserWarning names the class. To avoid this, include some earlier rows of the class. The
        handling of new classes depends on the family. An integer `random_state` and the number of
        earlier rounds seed an extension. Raises ValueError if a parameter is invalid.
        """
        check_is_fitted(self, "classes_")
        rounds = self.n_estimators if n_estimators is None else n_estimators
        parameters, caller = self.get_params(deep=False), f"{type(self).__name__}.extend"
        parameters["n_estimators"] = rounds
        validate_parameter_constraints(self._parameter_constraints, parameters, caller)
        self._columns = training_columns(X, self.categorical_features, self._columns)
        X, y, weight = training_rows(self, self._columns, X, y, sample_weight, reset=False)
        known = self.committee_
        seed = self._training_seed(n_earlier_rounds=known.n_rounds)
        self.committee_ = self._train(X, y, weight, seed=seed, committee=known, n_estimators=rounds)
        self.classes_ = self.committee_.classes
        self._warn_without_validation(len(y), len(self.classes_))
        warn_of_missing_classes(known.classes, y[weight > 0])
        return self

    def train(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        *,
        seed: int,
        committee: Committee | None = None,
        n_estimators: int | None = None,
    ) -> Committee:
        """Train a committee and return it, without changing the estimator.

        This is `fit` and `extend` without validation: `X` is float32 (n, D) in C-order, `y` (n,).
        """
        trainer = copy(self)
        trainer._columns = None  # the columns of an earlier `fit` do not apply
        return trainer._train(
            X, y, sample_weight, seed=seed, committee=committee, n_estimators=n_estimators
        )

    def _train(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        *,
        seed: int,
        committee: Committee | None = None,
        n_estimators: int | None = None,
    ) -> Committee:
        """Train a committee and return it; set attributes of the training, such as `n_adds_`."""
        known = None if committee is None else committee.classes
        if committee is not None and committee.n_features == X.shape[1]:
            self._columns = self._columns or committee.columns
        weight = apply_class_weight(self.class_weight, y, sample_weight)
        data = training_data(X, y, weight, known, self._categorical_mask(X))
        rng = np.random.default_rng(seed)
        rounds = self.n_estimators if n_estimators is None else n_estimators
        return replace(self._boost_committee(data, rounds, rng, committee), columns=self._columns)

    def _categorical_mask(self, X: np.ndarray) -> np.ndarray:
        """Return a mask of the categorical columns, bool (D,), after checking their values."""
        names = getattr(self, "feature_names_in_", None)
        by_dtype = [] if self._columns is None else list(self._columns.categories)
        refusal = (
            self._no_categories_reason and f"{type(self).__name__} {self._no_categories_reason}"
        )
        return checked_categorical_mask(X, self.categorical_features, by_dtype, names, refusal)

    def _boost_committee(
        self,
        data: TrainingData,
        rounds: int,
        rng: np.random.Generator,
        committee: Committee | None,
    ) -> Committee:
        algorithm = self._create_algorithm()
        data, held = self._split_off_validation_set(data, self.random_state)
        unknown = committee is not None and len(data.classes) > len(committee.classes)
        if committee is not None and unknown and not algorithm.takes_new_classes:
            rounds, committee = committee.n_rounds + rounds, None
        params, work = self._make_boosting_parameters(data), TrainingWork()
        trained = boost(algorithm, data, rounds, params, rng, committee, work, held)
        self.n_adds_ = work.n_adds
        self._set_validation_score(held)
        return trained

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

    def _make_boosting_parameters(self, data: TrainingData) -> BoostingParameters:
        names = [f.name for f in fields(BoostingParameters) if hasattr(self, f.name)]
        mine = {name: getattr(self, name) for name in names}
        return BoostingParameters(
            **mine | {"max_leaf_nodes": self._max_leaf_nodes_for_classes(len(data.classes))}
        )

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
