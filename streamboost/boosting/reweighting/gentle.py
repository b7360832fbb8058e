"""Gentle AdaBoost: two classes, one regression tree a round."""

import numpy as np
from sklearn.utils import Tags

from streamboost.boosting.committee import Committee
from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import Gamble
from streamboost.boosting.reweighting.parameters import ClassWeightClassifier
from streamboost.boosting.training_data import TrainingData
from streamboost.errors import DataError

__all__ = ["GentleAdaBoostClassifier"]


class GentleAdaBoostClassifier(ClassWeightClassifier):
    """Boosting of regression trees for two classes (Friedman, Hastie and Tibshirani, 2000).

    With y = 1 for the second class and -1 for the first, each round fits a tree g to y by weighted
    least squares, adds it to F, and multiplies the weights by exp(-y g). A leaf adds the
    difference of its two class shares, so a step is never longer than 1.

    This is Algorithm 3 of Huang (2009), which prints the exponent without its minus. The same
    thesis calls GAMBLE with two classes identical up to a factor of 2; it is Gentle AdaBoost with
    twice the step, whose weights and later trees differ, and GAMBLE's step ``"scaled"`` is Gentle
    AdaBoost itself: the two share their code here, and each may extend the other's committee.

    Probabilities are 1 / (1 + exp(-2F)) for the second class, where the expected loss is least.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree each.
    learning_rate
        Scales every leaf value, in (0, 1].
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: 15 leaves, any depth.
    max_bins
        Bins per feature, at most 255, missing values aside.
    min_child_weight
        Least weight in a child, the mean record weighing 1.
    max_features
        Share of the features offered to a tree. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows among which a tree's splits are sought, drawn without replacement; its
        leaf values are those of all rows.
    weight_trimming
        Share of the total weight, its lightest rows, that may be left out of the search for a
        round's splits, in [0, 1); they may return later (Friedman, Hastie and Tibshirani, 2000).
    pruning
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions; see
        `GambleClassifier`. Not with categories.
    categorical_features
        Which columns hold categories: ``"from_dtype"``, those of a frame whose type says so; a
        mask (D,), indices, or column names; None: none does. See
        `streamboost.boosting.categorical`.
    class_weight
        What the rows of a class count as: a dictionary, where the others weigh 1; ``"balanced"``,
        and all classes weigh alike; or None.
    early_stopping, validation_fraction, n_iter_no_change, tol
        Whether rows held out tell how many rounds to keep, and when; see
        `streamboost.boosting.early_stopping`.
    random_state
        Seed, generator or None.
    n_jobs
        Threads that score rows; training uses one. The results do not depend on it.

    Attributes
    ----------
    classes_
        Class labels, at most 2.
    n_features_in_
        D, as in `fit`.
    committee_
        The trained `Committee`; its scores are -F and F, and `decision_function` gives 2F.
    validation_score_
        Minus the loss of the rows held out, before the first round and after each; else empty.
    feature_importances_
        What the splits on each feature gained, as shares of all gain, float64 (D,).
    n_adds_
        Additions to histograms, one per row and feature counted, in the last `fit` or `extend`.

    Raises
    ------
    DataError
        When `fit` or `extend` meets a third class.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from streamboost import GentleAdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GentleAdaBoostClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    def _algorithm(self) -> Algorithm:
        return Gamble(self.learning_rate, "scaled")

    def _boost(
        self,
        data: TrainingData,
        rounds: int,
        rng: np.random.Generator,
        committee: Committee | None,
    ) -> Committee:
        if len(data.classes) > 2:
            raise DataError(
                f"Only binary classification is supported. There are {len(data.classes)} classes, "
                f"among them {data.classes[2]!r}: use GambleClassifier, the extension to several"
            )
        return super()._boost(data, rounds, rng, committee)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
