"""Base class of the trainers of committees, without scikit-learn.

Pipelines train with it: importing scikit-learn takes as long as all their other imports.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np

from streamboost.boosting.categorical import validated_categorical_mask
from streamboost.boosting.committee import Committee
from streamboost.boosting.constraints import (
    ARRAY_LIKE,
    BOOLEAN,
    DICTIONARY,
    NONE,
    RANDOM_STATE,
    Constraint,
    check_parameters,
    integer_in,
    number_in,
    one_of,
)
from streamboost.boosting.early_stopping import EarlyStopping
from streamboost.boosting.frames import FrameColumns
from streamboost.boosting.loop import Algorithm, BoostingParameters, boost
from streamboost.boosting.training_data import TrainingData, apply_class_weight, make_training_data
from streamboost.trees.bins import MAX_BINS


@dataclass(kw_only=True, eq=False, repr=False)
class CommitteeTrainer(EarlyStopping):
    """Parameters and training of a committee. A subclass adds an algorithm and its parameters.

    Not all subclasses have all parameters.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree each.
    learning_rate
        Learning rate: factor of each leaf value, in (0, 1].
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. None: max(15, 2K) leaves, any depth.
    max_bins
        Bins per feature, at most 255, without the bin of missing values.
    min_child_weight
        Least weight in a child, at a mean record weight of 1.
    l2_regularization
        Penalty λ on leaf values, in units of Hessian.
    max_features
        Share of the features that are available to a tree. None: all features if there are at most
        20, half of them if there are fewer than 300, else a fifth.
    subsample
        Share of the rows on which a tree is grown, drawn without replacement.
    weight_trimming
        Share of the total weight that may be trimmed, in [0, 1): the rows of the lowest weight are
        left out of the split search of a round (Friedman, Hastie and Tibshirani, 2000).
    pruning
        ``"quick"``: QuickBoost's pruning, which gives the same trees with fewer additions; see
        `GambleClassifier`. Not with categories.
    categorical_features
        Categorical columns: ``"from_dtype"``, the columns of a frame with a categorical type; a
        mask (D,), indices, or column names; or None for no column. See
        `streamboost.boosting.categorical`.
    class_weight
        Weights of the classes: a dictionary, with weight 1 for the other classes; ``"balanced"``
        for equal total weights of all classes; or None.
    random_state
        Seed or generator of all random choices; None: a different training each time.
    n_jobs
        Number of threads for scoring; training uses one thread. The results do not depend on
        `n_jobs`.
    """

    _columns = cast("FrameColumns | None", None)  # of the frame that `fit` received

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

    _constraints: ClassVar[Mapping[str, Sequence[Constraint]]] = {
        "early_stopping": [BOOLEAN],
        "validation_fraction": [number_in("(0, 1)")],
        "n_iter_no_change": [integer_in("[1, inf)")],
        "tol": [number_in("[0, inf)")],
        "n_estimators": [integer_in("[1, inf)")],
        "learning_rate": [number_in("(0, inf)")],
        "max_leaf_nodes": [integer_in("[2, 32768]")],
        "max_depth": [integer_in("[1, inf)"), NONE],
        "max_bins": [integer_in(f"[2, {MAX_BINS}]")],
        "min_child_weight": [number_in("[0, inf)")],
        "l2_regularization": [number_in("[0, inf)")],
        "max_features": [number_in("(0, 1]"), NONE],
        "subsample": [number_in("(0, 1]")],
        "categorical_features": [ARRAY_LIKE, one_of("from_dtype"), NONE],
        "class_weight": [DICTIONARY, one_of("balanced"), NONE],
        "weight_trimming": [number_in("[0, 1)")],
        "pruning": [one_of("quick"), NONE],
        "random_state": [RANDOM_STATE],
        "n_jobs": [integer_in("(-inf, inf)"), NONE],
    }
    """Valid values of parameters, also of those that some subclasses have."""

    def check_parameters(self) -> None:
        """Raise ConfigurationError with the valid values if a parameter is invalid.

        `fit` calls this method first. Call it earlier to validate parameters read from a file.

        >>> from streamboost import SketchLogitBoostClassifier
        >>> SketchLogitBoostClassifier(max_bins=1000).check_parameters()
        Traceback (most recent call last):
        ...
        streamboost.errors.ConfigurationError: max_bins of SketchLogitBoostClassifier must be an \
integer in [2, 255] or None, and is 1000
        """
        check_parameters(type(self), self.get_params(deep=False), type(self).__name__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; `deep` has no effect."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters and return the estimator; raise ValueError if a name is unknown."""
        known = [field.name for field in fields(self)]
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no {name!r}, but {known}")
            setattr(self, name, value)
        return self

    def __copy__(self) -> Self:
        # The default copy uses the pickle protocol, which takes as long as several trees.
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__}
        return other

    @abstractmethod
    def _create_algorithm(self) -> Algorithm:
        """Create the boosting algorithm with this estimator's parameters."""

    def _max_leaf_nodes_for_classes(self, n_classes: int) -> int:
        """Return the largest number of leaves of a tree, if there are `n_classes` classes."""
        # Trees with fewer leaves than classes can stall: after a split has separated groups of
        # classes perfectly, all weights are equal again and the same split is chosen again.
        return getattr(self, "max_leaf_nodes", None) or max(15, 2 * n_classes)

    def _check_training(self, n_rows: int, classes: np.ndarray) -> None:
        """Raise an error if the estimator does not support `n_rows` rows of `classes` (K,)."""

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
        `seed` determines all random choices. If `committee` is given, it is extended.
        `n_estimators` is the number of new rounds; None: the estimator's parameter.
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
        """Train a committee as in `train`; set the attributes `n_adds_` and `validation_score_`."""
        known = None if committee is None else committee.classes
        if committee is not None and committee.n_features == X.shape[1]:
            self._columns = self._columns or committee.columns
        weight = apply_class_weight(self.class_weight, y, sample_weight)
        data = make_training_data(X, y, weight, known, self._categorical_mask(X))
        self._check_training(len(X), data.classes)
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
        return validated_categorical_mask(X, self.categorical_features, by_dtype, names, refusal)

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
        params = self._make_boosting_parameters(data)
        trained, self.n_adds_ = boost(algorithm, data, rounds, params, rng, committee, held)
        self._set_validation_score(held)
        return trained

    def _make_boosting_parameters(self, data: TrainingData) -> BoostingParameters:
        names = [f.name for f in fields(BoostingParameters) if hasattr(self, f.name)]
        mine = {name: getattr(self, name) for name in names}
        return BoostingParameters(
            **mine | {"max_leaf_nodes": self._max_leaf_nodes_for_classes(len(data.classes))}
        )
