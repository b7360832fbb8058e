"""LogitBoost with a tree per class (Friedman, Hastie and Tibshirani, 2000)."""

import numpy as np

from streamboost.boosting.log_loss.parameters import NewtonTreesClassifier
from streamboost.boosting.log_loss.softmax import CLAMP, SoftmaxAlgorithm, SoftmaxState, or_end
from streamboost.boosting.loop import Algorithm
from streamboost.kernels import softmax as kernels
from streamboost.trees.grower import Grower
from streamboost.trees.statistics import gradient_statistic
from streamboost.trees.tree import Tree

__all__ = ["LogitBoostClassifier", "TreePerClass"]


class TreePerClass(SoftmaxAlgorithm):
    """Base of algorithms whose trees each move the scores along one direction of the classes."""

    def tree(
        self,
        state: SoftmaxState,
        grow: Grower,
        derivatives: tuple[np.ndarray, np.ndarray, float, float],
        direction: np.ndarray,
    ) -> Tree:
        """Grow the Newton tree of a one-dimensional problem, its steps along `direction` (K,).

        `derivatives` holds each row's negative gradient and Hessian, float32 (n,), and the
        weighted sums of |gradient| and of Hessians.
        """
        gradient, hessian, sum_g, sum_h = derivatives
        tree = grow(gradient_statistic(gradient, hessian, state.weight, sum_g, sum_h))
        step = np.empty(tree.n_leaves)
        kernels.leaf_step(
            gradient,
            hessian,
            state.weight,
            tree.rows,
            tree.start,
            tree.stop,
            self._l2,
            CLAMP,
            step,
        )
        tree.values = (self._learning_rate * np.outer(step, direction)).astype(np.float32)
        return tree


class _LogitBoost(TreePerClass):
    """One round: K trees, each the Newton step of one class by itself, all from one softmax."""

    def round(self, state: SoftmaxState, grow: Grower) -> list[Tree]:
        K = state.scores.shape[1]
        trees = []
        for k in range(K):
            g, h = np.empty((2, len(state.y)), dtype=np.float32)
            sums = kernels.class_gradients(state.probabilities, state.y, state.weight, k, g, h)
            centred = (np.eye(K)[k] - 1 / K) * (K - 1) / K
            trees.append(self.tree(state, grow, (g, h, *sums), centred))
        return or_end(trees, grow)


class LogitBoostClassifier(NewtonTreesClassifier):
    """Multi-class LogitBoost with a tree per class in each round (Friedman et al., 2000).

    Takes the log loss of class probabilities softmax(F) to second order and drops all but the
    diagonal of its Hessian (Sun, Reid and Zhou, 2014, equation 15): K one-dimensional problems, in
    which tree k has the negative gradient r_k - p_k and the Hessian p_k (1 - p_k), r_k being 1 for
    rows of class k. Splits and leaves take sums of these (Li, 2010, "Robust LogitBoost"), not the
    responses (r - p) / (p (1 - p)) of the original, which explode where p is near 0 or 1. A leaf of
    class k adds (K-1)/K of its Newton step, centred over the classes.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, K trees each.
    learning_rate
    max_leaf_nodes, max_depth
    max_bins
    min_child_weight
        Least sum of Hessians (of the tree's class) in a child.
    l2_regularization
    max_features
        Share of the features offered to a round. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows a round is grown on, drawn without replacement.
    pruning
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions (Appel, 2017, chapter
        3, and for leaves of least variance appendix 7.2). See Notes on when it pays. Not with
        categories.
    categorical_features
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
    validation_score_
    feature_importances_

    Notes
    -----
    Training ends before `n_estimators` rounds when no tree of a round can split and none moves the
    scores. `extend` with a class the committee does not know gives it first scores near the log
    odds of its share; absent classes stay.

    Pruning saves additions where nothing is subtracted, a half of those of stumps on usps and of
    every AOSO tree a tenth to a half, and costs two to ten times the CPU time: an addition here
    takes less than looking at a histogram to save it, and where most rows are nearly settled the
    few far off hold all of the variance. With 8 leaves it takes more additions than it saves, the
    smaller child alone being counted otherwise. It is here for those who count additions.

    References
    ----------
    J. Friedman, T. Hastie and R. Tibshirani: Additive logistic regression: a statistical view of
    boosting. The Annals of Statistics 28(2), 2000.
    P. Sun, M. D. Reid and J. Zhou: An improved multiclass LogitBoost using adaptive-one-vs-one.
    Machine Learning 97(3), 2014.
    R. Appel: Boosting Boosting. PhD thesis, California Institute of Technology, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import LogitBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogitBoostClassifier(n_estimators=20).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    def _algorithm(self) -> Algorithm:
        return _LogitBoost(self.learning_rate, self.l2_regularization)
