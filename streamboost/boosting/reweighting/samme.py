"""SAMME and AdaBoost.M1: multi-class AdaBoost with one classification tree a round."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import StrOptions

from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import Gamble
from streamboost.boosting.reweighting.voting_trees import Votes, VotingClassifier

__all__ = ["AdaBoostM1Classifier", "SammeClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class SammeClassifier(VotingClassifier):
    """Multi-class AdaBoost by the multi-class exponential loss (Zhu et al., 2009; Huang, 2009).

    ``"discrete"`` is SAMME: each round grows a classification tree under the weights, which votes
    with ln((1 - err) / err) + ln(K - 1), and multiplies the weights of the rows it gets wrong by
    the exponential of its vote. A tree need only beat guessing, err < 1 - 1/K; the training ends
    at one that does not even when all rows and features are offered, or that makes no error (its
    own is then taken for 1e-10). With two classes this is AdaBoost, twice its f being the
    difference of the votes.

    ``"real"`` is SAMME.R: a leaf with class shares q scores (K - 1)(log q_k - mean log q), which
    is the leaf's optimum of the loss that GAMBLE approaches by a gentler step. The shares are
    smoothed by one record and not under 1e-5, and weights, when K > 2, not under 3e-5 of the
    heaviest (see `GambleClassifier`).

    Probabilities are the softmax of the votes, or of F / (K - 1): where the expected exponential
    loss is least, they are the class probabilities. The loss does not bound the training error
    when K > 2, and trees with fewer than K leaves can stall.

    Parameters
    ----------
    variant
        ``"discrete"`` or ``"real"``.
    n_estimators
        Rounds of boosting, one tree each.
    learning_rate
        Scales every vote or leaf value, in (0, 1].
    criterion
        What a split makes least: the weighted ``"gini"`` impurity or ``"entropy"``, or ``"error"``,
        the weighted error itself, which suits stumps but finds nothing where both sides answer
        alike.
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: max(15, 2K) leaves, any depth.
    max_bins
        Bins per feature, at most 255, missing values aside.
    min_child_weight
        Least weight in a child, the mean record weighing 1; not for ``"error"``.
    max_features
        Share of the features offered to a tree. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows among which a tree's splits are sought, drawn without replacement; what
        its leaves answer, and its error, are those of all rows.
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
        Class labels (K,).
    n_features_in_
        D, as in `fit`.
    committee_
        The trained `Committee`; its scores are the votes less their mean (``"discrete"``), or F.
    validation_score_
        Minus the loss of the rows held out, before the first round and after each; else empty.
    feature_importances_
        What the splits on each feature gained, as shares of all gain, float64 (D,).
    n_adds_
        Additions to histograms, one per row and feature counted, in the last `fit` or `extend`.

    Notes
    -----
    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all. A class that these rows do not have keeps its score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import SammeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SammeClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **VotingClassifier._parameter_constraints,
        "variant": [StrOptions({"discrete", "real"})],
    }

    variant: Literal["discrete", "real"] = "discrete"

    def _algorithm(self) -> Algorithm:
        if self.variant == "real":
            return Gamble(self.learning_rate, "exact", self.criterion)
        return Votes(self.learning_rate, self.criterion)


class AdaBoostM1Classifier(VotingClassifier):
    """AdaBoost with trees for all classes at once (Freund and Schapire, 1996).

    Each round grows a classification tree under the weights, which votes with
    ln((1 - err) / err), and multiplies the weights of the rows it gets wrong by the exponential of
    its vote. Only the missing ln(K - 1) tells it from SAMME, and so a tree must be right on more
    than half of the weight: the training ends at one that is not, even when all rows and features
    are offered. Where this is the first tree, the committee is that tree alone.

    There is no `predict_proba`: the loss behind these votes, exp of half the votes for other
    classes less half those for the own, has no minimiser over the classes' scores when K > 2.

    Parameters
    ----------
    n_estimators
        Rounds of boosting, one tree each.
    learning_rate
        Scales every vote, in (0, 1].
    criterion
        What a split makes least: the weighted ``"gini"`` impurity or ``"entropy"``, or ``"error"``,
        the weighted error itself, which suits stumps but finds nothing where both sides answer
        alike.
    max_leaf_nodes, max_depth
        Where a tree ends; it grows the best leaf first. None: max(15, 2K) leaves, any depth.
    max_bins
        Bins per feature, at most 255, missing values aside.
    min_child_weight
        Least weight in a child, the mean record weighing 1; not for ``"error"``.
    max_features
        Share of the features offered to a tree. None: all up to 20 features, half of them up to
        300, a fifth beyond.
    subsample
        Share of the rows among which a tree's splits are sought, drawn without replacement; what
        its leaves answer, and its error, are those of all rows.
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
        Class labels (K,).
    n_features_in_
        D, as in `fit`.
    committee_
        The trained `Committee`; its scores are the votes less their mean.
    validation_score_
        Minus the loss of the rows held out, before the first round and after each; else empty.
    feature_importances_
        What the splits on each feature gained, as shares of all gain, float64 (D,).
    n_adds_
        Additions to histograms, one per row and feature counted, in the last `fit` or `extend`.

    Notes
    -----
    `extend` with a class the committee does not know trains anew on the rows it is given, with as
    many rounds in all. A class that these rows do not have keeps its score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import AdaBoostM1Classifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostM1Classifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _no_probabilities = "gives votes and no probabilities: use SammeClassifier for those"

    def _algorithm(self) -> Algorithm:
        return Votes(self.learning_rate, self.criterion, beats_guessing=False)
