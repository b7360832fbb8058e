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
    learning_rate
    criterion
    max_leaf_nodes, max_depth
    max_bins
    min_child_weight
    max_features
    subsample
    weight_trimming
    pruning
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
        The trained `Committee`; its scores are the votes less their mean (``"discrete"``), or F.
    validation_score_
    feature_importances_
    n_adds_

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
    learning_rate
        Scales every vote, in (0, 1].
    criterion
    max_leaf_nodes, max_depth
    max_bins
    min_child_weight
    max_features
    subsample
    weight_trimming
    pruning
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
        The trained `Committee`; its scores are the votes less their mean.
    validation_score_
    feature_importances_
    n_adds_

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
