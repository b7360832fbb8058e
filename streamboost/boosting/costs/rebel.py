"""REBEL: multi-class boosting of the least expected cost (Appel, 2017)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from streamboost.boosting.constraints import (
    ARRAY_LIKE,
    BOOLEAN,
    NONE,
    Constraint,
    integer_in,
    number_in,
)
from streamboost.boosting.costs.coupled_loss import (
    LEAST_GAIN,
    CoupledAlgorithm,
    CoupledState,
    loss_bound,
)
from streamboost.boosting.costs.similarity_rounds import SimilarityAlgorithm
from streamboost.boosting.costs.subcosts import Costs, Subcosts
from streamboost.boosting.estimator import BoostingClassifier
from streamboost.boosting.loop import Algorithm
from streamboost.kernels.growing.criteria import ERROR, STUMP
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import vector_histogram_input
from streamboost.trees.layers import add_layer
from streamboost.trees.tree import Tree


@dataclass(eq=False)
class _SignTreeAlgorithm(CoupledAlgorithm):
    """Algorithm of REBEL: each round grows a tree of leaf values ±1, layer by layer (section 4.4).

    The first split is the stump of least loss (equation 4.10). In each further layer, the
    coefficients a are fixed, and each leaf is replaced by the stump of least loss. For fixed a,
    this stump is a weighted fit to labels ±1: the sign of <w- - w+, sinh a> is the label of a row
    with loss terms w+ and w- (`CoupledState.weights`), and the absolute value is its weight. This
    follows from exp(±a f) = cosh a ± f sinh a; the thesis gives no formula. A leaf that no stump
    improves gets the value 1 or -1 of lower loss. After each layer, a is fitted again to the whole
    tree, so that no layer raises the loss. If no split lowers the loss, the tree has one leaf.
    """

    max_depth: int

    def grow_round(self, state: CoupledState, grower: Grower) -> list[Tree]:
        """Return a list of one tree, or an empty list if no tree lowers the loss."""
        plus, minus = state.weights()
        total = (plus[grower.rows] + minus[grower.rows]).sum(axis=0)
        pull = plus - minus
        unit = float(plus.sum() + minus.sum()) / state.n_records
        tree = grower(vector_histogram_input(STUMP, pull, total, unit=unit), max_leaf_nodes=2)
        sums = tree.leaf_sums(pull)
        sign = np.array([1.0, -1.0])[: tree.n_leaves]
        a = self._optimal_coefficients(total, sign @ sums)
        for _ in range(1, self.max_depth):
            gain = -(pull @ np.sinh(a))
            by_sign = np.stack([gain, -gain], axis=1)
            deeper = add_layer(grower, tree, vector_histogram_input(ERROR, by_sign, unit=unit))
            better = np.where(deeper.leaf_sums(gain) >= 0, 1.0, -1.0)
            if deeper.n_leaves == tree.n_leaves and (better == sign).all():
                break
            tree, sign, sums = deeper, better, deeper.leaf_sums(pull)
            a = self._optimal_coefficients(total, sign @ sums)
        if not loss_bound(total, sign @ sums, a) < (1 - LEAST_GAIN) * total.sum():
            return []
        tree.values = (self.learning_rate * sign[:, None] * a).astype(np.float32)
        return [tree]


@dataclass(kw_only=True, eq=False, repr=False)
class RebelClassifier(BoostingClassifier):
    """REBEL: boosting of the least expected misclassification cost (Appel, 2017).

    Each class has a score H_k. The loss is a sum of exp(H_k) and exp(-H_k), weighted by subcosts
    derived from `cost_matrix`. The loss bounds the cost of predicting the largest score. Each round
    adds f(x) a: one weak learner f between -1 and 1, shared by all classes, and a coefficient a_k
    for each class. The base scores are the best constants a_0. Without a cost matrix this is
    AdaBoost.MH with a coefficient per class, and for two classes AdaBoost.

    A ``"tree"`` has outputs ±1 and is grown layer by layer. The first split is the stump of least
    loss (equation 4.10). For each further layer, a is fixed and each leaf becomes the stump that
    lowers the loss most. Then a is refitted on the whole tree (section 4.4). No layer raises the
    loss.

    A ``"localized_similarity"`` measures how much closer a record is to one training row than to
    another row, or than a given distance. Hence predictions can be explained by comparisons with
    training rows (chapter 5). Each round divides the rows into two groups along the leading
    eigenvector of their gradients. The round then selects the row that separates best from all
    others. The candidates are this row alone, and its pairs with the nearest rows of the opposite
    group.

    Parameters
    ----------
    cost_matrix
        Array-like (K, K), in the order of `classes_`: entry [j, k] is the cost of predicting class
        k if class j is true. Costs are not negative, and 0 on the diagonal. None: each error costs
        1.
    subcosts
        Subcosts of the loss. ``"paper"``: the thesis's subcosts, which grow as the square of the
        costs. Contrary to the thesis, the largest score is then not always the class of least
        expected cost, and `predict` finds that class from the probabilities behind the scores.
        ``"linear"``: subcosts for which the largest score always is that class. Linear subcosts
        are noisier, and gave a higher cost in most measurements. Without a cost matrix both are
        equal.
    weak_learner
        ``"tree"`` or ``"localized_similarity"``.
    n_estimators
        Rounds of boosting, one weak learner per round.
    learning_rate
        Learning rate: factor of each coefficient; the thesis uses 1.
    smoothing
        Smoothing of the two sums whose ratio is a coefficient, as a share of their mean over the
        classes. The loss still decreases. Coefficients are always within ±4.
    max_depth
        Layers of a tree; 1 is a stump. The thesis uses 1 to 4.
    max_bins
        Trees: bins per feature, at most 255, without the bin of missing values.
    max_features
        Trees: share of the features that are available to a tree. None: all features if there are
        at most 20, half of them if there are fewer than 300, else a fifth.
    subsample
        Trees: share of the rows a tree is grown on, drawn without replacement.
    refinements
        Similarities: Newton steps that refine the coefficients; 0 keeps the closed form of the sums
        w (1 ± f) / 2. See Notes.
    standardize
        Similarities: whether to divide each column by its standard deviation before distances are
        computed. The thesis does not.
    categorical_features
        Categorical columns: ``"from_dtype"``, the columns of a frame with a categorical type; a
        mask (D,), indices, or column names; or None for no column. See
        `streamboost.boosting.categorical`. Not with similarities.

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are H.
    feature_importances_
        Share of the total split gain of each feature, float64 (D,); trees only.

    Raises
    ------
    ConfigurationError
        From `fit` and `extend`, if the cost matrix is invalid; the message names the entry.

    Notes
    -----
    `predict_proba` is sigmoid(2 H_k) divided by the sum over the classes. With the thesis's
    subcosts of a cost matrix, it is the positive eigenvector of
    `streamboost.boosting.links.class_probabilities`. There is no `predict_proba` in two cases:

    - With linear subcosts, the scores give expected costs, which do not determine probabilities.
    - If errors on some class cost nothing, nothing is learned about that class.

    `classes_[decision_function(X).argmax(axis=1)]` is the thesis's own prediction under costs.

    Similarities depart from the thesis in these points:

    - The printed two-point function has a unit, 1 / length^2, and its maximum is not at its points.
      Here the function is 4 |d|^2 <d, x - m> / (3 |d|^4 + |x - m|^4), which has the same sign, is
      ±1 at the two points and nowhere larger.
    - The thesis's sums over the sign of f do not match the real-valued f that scores, and can raise
      the loss. The soft sums cannot, but their bound is loose if |f| is small. On usps, 200
      similarities have a test error of 60 % with the soft sums alone, and 8 % after three Newton
      steps.
    - Equal rows are merged.
    - The similarity to a single row falls to 0 at half the squared distance to its nearest
      neighbour.
    - Missing values are replaced by the mean of the column.
    - At most 50 pairs are tried. A round costs about as much as 50 passes over the rows.

    Trees and similarities cannot extend each other.

    References
    ----------
    R. Appel, "Boosting Boosting", PhD thesis, California Institute of Technology, 2017, chapters 4
    and 5.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import RebelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> costs = [[0, 1, 1], [1, 0, 10], [1, 1, 0]]  # answering class 2 for class 1 is expensive
    >>> model = RebelClassifier(cost_matrix=costs, n_estimators=20).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _constraints: ClassVar[Mapping[str, Sequence[Constraint]]] = {
        "cost_matrix": [ARRAY_LIKE, NONE],
        "smoothing": [number_in("[0, inf)")],
        "max_depth": [integer_in("[1, 15]")],
        "refinements": [integer_in("[0, inf)")],
        "standardize": [BOOLEAN],
    }

    cost_matrix: Any = None
    subcosts: Subcosts = "paper"
    weak_learner: Literal["tree", "localized_similarity"] = "tree"
    smoothing: float = 1e-3
    max_depth: int = 2
    refinements: int = 3
    standardize: bool = False

    def _create_algorithm(self) -> Algorithm:
        costs = Costs(self.cost_matrix, self.subcosts)
        if self.weak_learner == "localized_similarity":
            return SimilarityAlgorithm(
                self.learning_rate,
                self.smoothing,
                costs,
                refinements=self.refinements,
                standardize=bool(self.standardize),
            )
        return _SignTreeAlgorithm(self.learning_rate, self.smoothing, costs, self.max_depth)

    def _max_leaf_nodes_for_classes(self, n_classes: int) -> int:
        return 2  # per stump; a tree is composed of stumps

    @property
    def _no_categories_reason(self) -> str:  # type: ignore[override]
        if self.weak_learner == "tree":
            return ""
        return (
            "measures distances between localized similarities, which categories do not have: "
            'encode them in columns of 0 and 1, or take weak_learner="tree"'
        )

    @property
    def _no_probabilities_reason(self) -> str:  # type: ignore[override]
        if self.cost_matrix is None:
            return ""
        if self.subcosts == "linear":
            return (
                "has no class probabilities with linear subcosts: its scores tell expected costs; "
                'take subcosts="paper", or decision_function'
            )
        if not all(np.any(row) for row in self.cost_matrix):
            return (
                "has no class probabilities where errors on some class cost nothing: give each "
                "row of cost_matrix a cost"
            )
        return ""
