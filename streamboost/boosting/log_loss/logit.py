"""LogitBoost with a tree per class in each round (Friedman, Hastie and Tibshirani, 2000)."""

import numpy as np

from streamboost.boosting.log_loss.parameters import NewtonTreesClassifier
from streamboost.boosting.log_loss.softmax import (
    CLAMP,
    SoftmaxAlgorithm,
    SoftmaxState,
    trees_if_improved,
)
from streamboost.boosting.loop import Algorithm
from streamboost.kernels import softmax as kernels
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import gradient_histogram_input
from streamboost.trees.tree import Tree


class TreePerClassAlgorithm(SoftmaxAlgorithm):
    """Base class of algorithms whose trees have scalar leaf steps.

    Each leaf of a tree adds a multiple of the same K-vector, the tree's direction, to the scores.
    """

    def grow_tree(
        self,
        state: SoftmaxState,
        grower: Grower,
        derivatives: tuple[np.ndarray, np.ndarray, float, float],
        direction: np.ndarray,
    ) -> Tree:
        """Return a Newton tree whose leaf values are multiples of `direction` (K,).

        `derivatives` is a tuple: each row's negative gradient and Hessian, float32 (n,), and the
        weighted sums of |gradient| and of Hessians.
        """
        gradient, hessian, sum_g, sum_h = derivatives
        tree = grower(gradient_histogram_input(gradient, hessian, state.weight, sum_g, sum_h))
        step = np.empty(tree.n_leaves)
        ends = tree.start, tree.stop
        kernels.leaf_steps(
            gradient, hessian, state.weight, tree.rows, *ends, self.l2_regularization, CLAMP, step
        )
        tree.values = (self.learning_rate * np.outer(step, direction)).astype(np.float32)
        return tree


class _LogitBoost(TreePerClassAlgorithm):
    """Algorithm of LogitBoost: each round grows K trees, one per class.

    The trees of a round are grown on the same probabilities.
    """

    def grow_round(self, state: SoftmaxState, grower: Grower) -> list[Tree]:
        """Return K trees, one per class, which are grown on the same probabilities."""
        K = state.scores.shape[1]
        trees = []
        for k in range(K):
            g, h = np.empty((2, len(state.y)), dtype=np.float32)
            sums = kernels.class_gradients(state.probabilities, state.y, state.weight, k, g, h)
            centred = (np.eye(K)[k] - 1 / K) * (K - 1) / K
            trees.append(self.grow_tree(state, grower, (g, h, *sums), centred))
        return trees_if_improved(trees, grower)


class LogitBoostClassifier(NewtonTreesClassifier):
    """Multi-class LogitBoost with a tree per class in each round (Friedman et al., 2000).

    The log loss of class probabilities softmax(F) is expanded to second order with a diagonal
    Hessian (Sun, Reid and Zhou, 2014, equation 15). This gives K one-dimensional problems. Tree k
    has the negative gradient r_k - p_k and the Hessian p_k (1 - p_k), with r_k = 1 for rows of
    class k. Splits and leaves use sums of these (Li, 2010, "Robust LogitBoost"). The responses
    (r - p) / (p (1 - p)) of the original diverge if p is near 0 or 1. A leaf of class k adds
    (K-1)/K of its Newton step, centred over the classes.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, K trees each.
    min_child_weight
        Least sum of Hessians (of the tree's class) in a child.
    max_features
        Share of the features that are available to a round. None: all features if there are at
        most 20, half of them if there are fewer than 300, else a fifth.
    subsample
        Share of the rows that a round is grown on, drawn without replacement.
    pruning
        ``"quick"``: QuickBoost's pruning, the same trees with fewer additions (Appel, 2017, chapter
        3, and for leaves of least variance appendix 7.2). See Notes on when it pays. Not with
        categories.

    Notes
    -----
    Training ends before `n_estimators` rounds if no tree of a round can split and none changes the
    scores.

    Pruning saves additions only if no histogram is subtracted: half of the additions of stumps on
    usps, and a tenth to a half of those of AOSO trees. It takes two to ten times the CPU time. Here
    an addition is cheaper than the test that avoids it, and a few badly fitted rows hold most of
    the variance. With 8 leaves, pruning takes more additions than it saves, as an unpruned tree
    only builds the histogram of the smaller child. Use pruning to count additions, not to save
    time.

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

    def _create_algorithm(self) -> Algorithm:
        return _LogitBoost(self.learning_rate, self.l2_regularization)
