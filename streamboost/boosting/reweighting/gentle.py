"""Gentle AdaBoost: boosting for two classes with one regression tree per round."""

import numpy as np
from sklearn.utils import Tags

from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import GambleAlgorithm
from streamboost.boosting.reweighting.parameters import ClassWeightClassifier
from streamboost.errors import DataError


class GentleAdaBoostClassifier(ClassWeightClassifier):
    """Boosting of regression trees for two classes (Friedman, Hastie and Tibshirani, 2000).

    Let y be 1 for the second class and -1 for the first. Each round fits a tree g to y by weighted
    least squares, adds g to F, and multiplies the weights by exp(-y g). A leaf adds the difference
    of its two class shares, so a step is never longer than 1.

    This is Algorithm 3 of Huang (2009), where the minus sign of the exponent is missing. The thesis
    calls GAMBLE with two classes identical up to a factor of 2. In fact GAMBLE has twice the step,
    so that its weights and later trees differ. GAMBLE with step ``"scaled"`` is Gentle AdaBoost:
    both share their code here, and each may extend the other's committee.

    The probability of the second class is 1 / (1 + exp(-2F)), which is exact at the least expected
    loss.

    Parameters
    ----------
    max_leaf_nodes, max_depth
        Limits of a tree, which is grown best-first. None: 15 leaves, any depth.

    Attributes
    ----------
    classes_
        Class labels, at most 2.
    committee_
        The trained `Committee`; its scores are -F and F, and `decision_function` gives 2F.

    Raises
    ------
    DataError
        If `fit` or `extend` gets more than two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from streamboost import GentleAdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GentleAdaBoostClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    def _create_algorithm(self) -> Algorithm:
        return GambleAlgorithm(self.learning_rate, "scaled")

    def _check_training(self, n_rows: int, classes: np.ndarray) -> None:
        if len(classes) > 2:
            raise DataError(
                f"Only binary classification is supported. There are {len(classes)} classes, "
                f"among them {classes[2]!r}: use GambleClassifier, the extension to several"
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
