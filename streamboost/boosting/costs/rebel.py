"""REBEL: multi-class boosting of the least expected cost (Appel, 2017)."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from streamboost.boosting.costs.coupled_loss import LEAST_GAIN, CoupledState, CoupledTrees, bound
from streamboost.boosting.costs.similarity_rounds import SimilarityRounds
from streamboost.boosting.costs.subcosts import Costs, Subcosts
from streamboost.boosting.estimator import BoostingClassifier
from streamboost.boosting.loop import Algorithm
from streamboost.kernels.growing.criteria import ERROR, STUMP
from streamboost.trees.grower import Grower
from streamboost.trees.layers import add_layer
from streamboost.trees.statistics import vector_statistic
from streamboost.trees.tree import Tree

__all__ = ["RebelClassifier"]


class _SignTrees(CoupledTrees):
    """One round: a ±1 tree grown layer by layer (section 4.4), a refitted after each layer.

    The first split minimises the loss over all stumps (equation 4.10). In a further layer the
    coefficients a are held, and each leaf becomes the stump that minimises the loss; since
    exp(±a f) = cosh a ± f sinh a, that is a weighted ±1 fit in which the row's label and weight
    are those of <w- - w+, sinh a>. (The thesis gives no formula; a in the place of sinh a would be
    right to first order only.) A leaf that no stump improves still takes its better sign. Then a
    is fitted anew on the whole tree, so no layer raises the loss. A tree of one leaf, a constant,
    is a candidate as well.
    """

    def __init__(
        self, learning_rate: float, smoothing: float, costs: Costs, max_depth: int
    ) -> None:
        super().__init__(learning_rate, smoothing, costs)
        self._max_depth = max_depth

    def round(self, state: CoupledState, grow: Grower) -> list[Tree]:
        """Return one tree, or none if none lowers the loss."""
        plus, minus = state.weights()
        total = (plus[grow.rows] + minus[grow.rows]).sum(axis=0)
        pull = plus - minus
        unit = float(plus.sum() + minus.sum()) / state.n_records
        tree = grow(vector_statistic(STUMP, pull, total, unit=unit), max_leaf_nodes=2)
        sums = tree.leaf_sums(pull)
        sign = np.array([1.0, -1.0])[: tree.n_leaves]
        a = self._coefficients(total, sign @ sums)
        for _ in range(1, self._max_depth):
            gain = -(pull @ np.sinh(a))
            by_sign = np.stack([gain, -gain], axis=1)
            deeper = add_layer(grow, tree, vector_statistic(ERROR, by_sign, unit=unit))
            better = np.where(deeper.leaf_sums(gain) >= 0, 1.0, -1.0)
            if deeper.n_leaves == tree.n_leaves and (better == sign).all():
                break
            tree, sign, sums = deeper, better, deeper.leaf_sums(pull)
            a = self._coefficients(total, sign @ sums)
        if not bound(total, sign @ sums, a) < (1 - LEAST_GAIN) * total.sum():
            return []
        tree.values = (self._learning_rate * sign[:, None] * a).astype(np.float32)
        return [tree]


@dataclass(kw_only=True, eq=False, repr=False)
class RebelClassifier(BoostingClassifier):
    """REBEL: boosting that lowers the expected cost of its answers (Appel, 2017).

    Every class has a score H_k. The loss, a sum of exp(H_k) and exp(-H_k) weighted by subcosts
    made from `cost_matrix`, bounds the cost of answering the largest score. Each round adds
    f(x) a: one weak learner f between -1 and 1, shared by all classes, and a coefficient a_k for
    each class. The best constant scores a_0 come first. Without a cost matrix this is AdaBoost.MH
    with a coefficient per class, and for two classes AdaBoost.

    A ``"tree"`` says ±1 and is grown layer by layer: the first split is the stump of least loss
    (equation 4.10); for a further layer a is held, each leaf becomes the stump that lowers the
    loss most, and a is fitted anew on the whole tree (section 4.4). No layer raises the loss.

    A ``"localized_similarity"`` says how much nearer a record is to one training row than to
    another (or than a given distance), so that a committee can be read as comparisons with known
    rows (chapter 5). Each round parts the rows in two groups along the leading eigenvector of
    their pull on the scores, finds the row that is best told from all others, and tries it alone
    and against its nearest rows of the opposite group.

    Parameters
    ----------
    cost_matrix
        Array-like (K, K), in the order of `classes_`: what it costs to answer class k where class
        j is true, at [j, k]; not negative, 0 on the diagonal. None: every wrong answer costs 1.
    subcosts
        What the loss is made of. ``"paper"``: the thesis's subcosts, which grow as the square of
        the costs. The largest score is then not always the class of least expected cost (the
        thesis says it is), and `predict` finds that class from the probabilities behind the
        scores. ``"linear"``: subcosts for which it always is; they carry more noise, and cost more
        in most of what we measured. Without a cost matrix it makes no difference.
    weak_learner
        ``"tree"`` or ``"localized_similarity"``.
    n_estimators
        Rounds of boosting, one weak learner each.
    learning_rate
        Scales every coefficient; the thesis uses 1.
    smoothing
        Added to both sums a coefficient is the ratio of, as a share of the mean over the classes;
        the loss falls all the same. Coefficients stay within ±4 in any case.
    max_depth
        Layers of a tree; 1 is a stump. The thesis uses 1 to 4.
    max_bins
        Trees: bins per feature, at most 255, missing values aside.
    max_features
        Trees: share of the features offered to a tree. None: all up to 20 features, half of them
        up to 300, a fifth beyond.
    subsample
        Trees: share of the rows a tree is grown on, drawn without replacement.
    refinements
        Similarities: Newton steps on the loss with which coefficients are refined; 0 leaves the
        closed form of the sums w (1 ± f) / 2. See Notes.
    standardize
        Similarities: whether to divide each column by its standard deviation before distances are
        taken. The thesis takes them as the columns are.
    categorical_features
        Which columns hold categories: ``"from_dtype"``, those of a frame whose type says so; a
        mask (D,), indices, or column names; None: none does. See
        `streamboost.boosting.categorical`. Similarities know none.
    class_weight
    early_stopping, validation_fraction, n_iter_no_change, tol
    random_state
    n_jobs

    Attributes
    ----------
    classes_
    n_features_in_
    committee_
        The trained `Committee`; its scores are H.
    validation_score_
    feature_importances_
        What the splits on each feature gained, as shares of all gain, float64 (D,); trees only.

    Raises
    ------
    ConfigurationError
        From `fit` and `extend`, when the cost matrix does not fit; the message names the entry.

    Notes
    -----
    `predict_proba` is sigmoid(2 H_k) divided by the sum over the classes, and with the thesis's
    subcosts of a cost matrix the positive eigenvector that belongs to the scores; see
    `streamboost.boosting.links.class_probabilities`. With linear subcosts the scores tell expected
    costs, from which probabilities do not follow in general, and there is no `predict_proba`; nor
    where errors on some class cost nothing, of which nothing is learned.
    `classes_[decision_function(X).argmax(axis=1)]` is the thesis's own prediction under costs.

    Departures for similarities. The printed two-point function has a unit, 1 / length^2, and does
    not peak at its points; here it is 4 |d|^2 <d, x - m> / (3 |d|^4 + |x - m|^4), which has the
    same sign, is ±1 at the two points and nowhere larger. The thesis's sums over the sign of f do
    not belong to the real-valued f that scores, and can raise the loss; the soft sums cannot, but
    bound it loosely where |f| is small: on usps 200 similarities err on 60 % of the test rows with
    the soft sums alone and on 8 % after three Newton steps. Rows at the same place are merged, a
    row alone reaches half way (squared) to its nearest neighbour, missing values count as the
    column's mean, and 50 pairs are tried at most. A round costs about as much as 50 passes over
    the rows.

    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all. Trees and similarities cannot extend one another.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BoostingClassifier._parameter_constraints,
        "cost_matrix": ["array-like", None],
        "subcosts": [StrOptions({"paper", "linear"})],
        "weak_learner": [StrOptions({"tree", "localized_similarity"})],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "max_depth": [Interval(Integral, 1, 15, closed="both")],
        "refinements": [Interval(Integral, 0, None, closed="left")],
        "standardize": ["boolean"],
    }

    cost_matrix: Any = None
    subcosts: Subcosts = "paper"
    weak_learner: Literal["tree", "localized_similarity"] = "tree"
    smoothing: float = 1e-3
    max_depth: int = 2
    refinements: int = 3
    standardize: bool = False

    def _algorithm(self) -> Algorithm:
        costs = Costs(self.cost_matrix, self.subcosts)
        if self.weak_learner == "localized_similarity":
            return SimilarityRounds(
                self.learning_rate,
                self.smoothing,
                costs,
                refinements=self.refinements,
                standardize=bool(self.standardize),
            )
        return _SignTrees(self.learning_rate, self.smoothing, costs, self.max_depth)

    def _leaves(self, n_classes: int) -> int:
        return 2  # of a piece; a tree is put together from them

    @property
    def _no_categories(self) -> str:  # type: ignore[override]
        if self.weak_learner == "tree":
            return ""
        return (
            "measures distances between localized similarities, which categories do not have: "
            'encode them in columns of 0 and 1, or take weak_learner="tree"'
        )

    @property
    def _no_probabilities(self) -> str:  # type: ignore[override]
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
