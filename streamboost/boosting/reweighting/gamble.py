"""GAMBLE: Gentle Adaptive Multiclass Boosting Learning (Huang, 2009)."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from streamboost.boosting.committee import Model
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import Gamble
from streamboost.boosting.reweighting.gamble_step import LEAST_WEIGHT, Step
from streamboost.boosting.reweighting.parameters import ClassWeightClassifier
from streamboost.boosting.training_data import training_data, weighed_by_class
from streamboost.errors import ConfigurationError

__all__ = ["GambleClassifier"]

_NO_COMMITTEE = (
    "this GambleClassifier boosts a scikit-learn regressor and so has no committee: it cannot be "
    "saved to a model file, extended, trained on a stream or asked for importances; with "
    "weak_learner=None it grows trees of its own, and can"
)


@dataclass(kw_only=True, eq=False, repr=False)
class GambleClassifier(ClassWeightClassifier):
    """Multi-class gentle boosting with one regression tree a round (Huang, 2009).

    Each round fits one tree to the coded labels (1 for the own class, -1/(K-1) for the others)
    under the weights of the exponential loss exp(-y.F/K). By the thesis's Theorem 2 the trees for
    y and for y^2 are the same, and the criterion is the weighted Gini index, so one histogram
    serves all classes (Algorithm 2). Class probabilities are softmax(F / (K-1)).

    With a scikit-learn regressor as `weak_learner` this is Algorithm 1: each round fits it to y
    and to y^2, clone by clone for each column if it takes one only. Where it is a regression tree
    of least squares, grown without pruning, one fit gives both, as Theorem 2 has it. Estimates are
    clipped to the range of what they estimate, [-1/(K-1), 1] and [1/(K-1)^2, 1], which a tree's
    never leave: a regressor's might, and the step divides by the second. Such a model has no
    committee: it cannot be saved to a model file, extended or trained on a stream.

    The exponential loss of this family does not bound the training error when K > 2, and trees
    with fewer than K leaves can stall; by default a tree has at least twice as many. Against the
    text, no record then weighs less than 3e-5 of the heaviest (`weight_floor`): else the weight can
    gather on a few records that no split can part, and the error rises again as rounds are added.
    Algorithm 2 as printed is ``step="paper"`` with ``weight_floor=0``.

    Parameters
    ----------
    n_estimators
    learning_rate
        Scales every leaf value, in (0, 1]; the thesis uses 1.
    step
        The leaf's step: ``"paper"``, ``"scaled"``, ``"line"``, ``"exact"``, or None for a choice
        by the number of classes; see `streamboost.boosting.reweighting.gamble_step.leaf_step`.
        Measured on seven sets, none wins throughout. After 200 rounds the scaled step errs less
        than the printed one on dna180, segment and letter (4.1 against 4.2 %, 4.0 against 4.6 %,
        11.8 against 12.6 %), as much on usps, and more on satimage, glass and vowel (13.5 against
        12.5 %, 23.2 against 21.9 %, 45.5 against 43.5 %); after 20 rounds less on all but usps. The
        line search starts slowly and errs most on small sets (vowel 55.0 %), yet least on letter
        after 200 rounds (8.8 %). The exact step needs fewer rounds where classes are many (letter,
        K = 26, after 100: 10.0 against 12.2 %) and errs more on small sets (vowel, K = 11: 49.1
        against 45.5 %): None is scaled up to 12 classes and exact beyond.
    weight_floor
        Least weight of a record where K > 2, as a share of the heaviest's, in [0, 1); 0, as in the
        text, is none. For what was measured see `gamble_step.LEAST_WEIGHT`, beside `leaf_step`.
    weak_learner
        A scikit-learn regressor that takes sample weights; None: trees of streamboost's own. The
        parameters below do not concern it, but for `random_state`, which seeds its clones, and
        `n_jobs`. It has no leaves: ``"line"``, which None stands for here, stretches a round's step
        as a whole, and ``"exact"`` is refused. The printed step can raise the loss round after
        round until nothing is right: so it does with Ridge on three clouds of points.
    max_leaf_nodes, max_depth
    max_bins
        Bins per feature of numbers, at most 255, missing values aside.
    min_child_weight
    max_features
    subsample
    weight_trimming
    pruning
        ``"quick"`` (QuickBoost; Appel, 2017, chapter 3) counts each feature first on the rows that
        hold 90 % of a node's weight, and does not finish those that provably cannot win it. The
        trees are the same to the last bit. See the notes on when it pays. Not with categories.
    categorical_features
        Which columns hold categories: ``"from_dtype"``, those of a frame whose type says so; a
        mask (D,), indices, or column names; None: none does. See
        `streamboost.boosting.categorical`. Not with a `weak_learner`.
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
        The trained `Committee`; not with a `weak_learner`.
    validation_score_
    feature_importances_
        What the splits on each feature gained, as shares of all gain, float64 (D,); not with a
        `weak_learner`.
    regressors_
        The rounds' fitted clones, with a `weak_learner`.
    n_adds_

    Notes
    -----
    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all: in the exponential loss a class that was absent has no finite score to
    begin from. A class that these rows do not have keeps its score.

    Pruning pays for stumps on many features: on usps they took a tenth of the additions and half of
    the CPU time; trees of 8 leaves half of the additions and no less time. It does not from some 20
    leaves on, where an unpruned tree counts only the smaller child of each split and subtracts, and
    a pruned one must count both. SAMME's stumps, whose weights differ less, and those of least
    error save a third on satimage, and no time; those of least entropy take up to four times the
    time, for its logarithms. The thesis counts without subtraction; its tenfold saving is that of
    stumps.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClassWeightClassifier._parameter_constraints,
        "step": [StrOptions({"paper", "scaled", "line", "exact"}), None],
        "weight_floor": [Interval(Real, 0, 1, closed="left")],
        "weak_learner": [HasMethods(["fit", "predict"]), None],
    }

    step: Step | None = None
    weight_floor: float = LEAST_WEIGHT
    weak_learner: Any = None

    def _algorithm(self) -> Algorithm:
        if self.weak_learner is not None:
            raise ConfigurationError(_NO_COMMITTEE)
        return Gamble(self.learning_rate, self.step, floor=self.weight_floor)

    def _learn(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        self.__dict__.pop("committee_", None)
        self.__dict__.pop("regressors_", None)
        if self.weak_learner is None:
            super()._learn(X, y, weight)
            return
        # scikit-learn's own learners take a tenth of a second to load, and few give one.
        from streamboost.boosting.reweighting.regressors import boost_regressor

        self._categorical(X)
        data = training_data(X, y, weighed_by_class(self.class_weight, y, weight), None)
        data, held = self._hold_out(data, self.random_state)
        self.regressors_ = boost_regressor(
            self.weak_learner,
            data,
            self.n_estimators,
            learning_rate=self.learning_rate,
            step=self.step,
            weight_floor=self.weight_floor,
            rng=np.random.default_rng(self._seed()),
            held=held,
        )
        self.classes_ = data.classes
        self._tell(held)

    @property
    def _no_categories(self) -> str:  # type: ignore[override]
        if self.weak_learner is None:
            return ""
        return (
            "hands its rows to a scikit-learn regressor, to which they are numbers: encode them in "
            "columns of 0 and 1, or leave weak_learner out"
        )

    @property
    def _model(self) -> Model:
        return self.committee_ if self.weak_learner is None else self.regressors_

    def __getattr__(self, name: str) -> Any:
        committees = name in ("committee_", "feature_importances_")
        if committees and self.__dict__.get("weak_learner") is not None:
            raise AttributeError(_NO_COMMITTEE)
        if name == "feature_importances_":  # the property's own error led here
            check_is_fitted(self, "classes_")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.weak_learner is not None:
            tags.input_tags.allow_nan = get_tags(self.weak_learner).input_tags.allow_nan
        return tags
