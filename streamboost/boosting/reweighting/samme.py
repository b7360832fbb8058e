"""SAMME and AdaBoost.M1: multi-class AdaBoost with one classification tree per round."""

from dataclasses import dataclass
from typing import Literal

from streamboost.boosting.loop import Algorithm
from streamboost.boosting.reweighting.gamble_round import GambleAlgorithm
from streamboost.boosting.reweighting.voting_trees import VotingClassifier, VotingTreeAlgorithm


@dataclass(kw_only=True, eq=False, repr=False)
class SammeClassifier(VotingClassifier):
    """Multi-class AdaBoost with the multi-class exponential loss (Zhu et al., 2009; Huang, 2009).

    ``"discrete"`` is SAMME: each round grows a classification tree on the weighted rows. The vote
    of the tree is ln((1 - err) / err) + ln(K - 1), with err its weighted error rate. The weights of
    wrongly predicted rows are multiplied by the exponential of the vote. A tree must only be better
    than guessing, err < 1 - 1/K. Training ends if a tree is not, even with all rows and features,
    or if a tree makes no error. An error of 0 is replaced by 1e-10. With two classes this is
    AdaBoost, and the difference of the votes is twice AdaBoost's f.

    ``"real"`` is SAMME.R: a leaf with class shares q scores (K - 1)(log q_k - mean log q). This is
    the leaf's optimum of the loss; GAMBLE's step in the same direction is smaller. The shares are
    smoothed by one record and at least 1e-5. If K > 2, weights are at least 3e-5 of the largest
    (see `GambleClassifier`).

    Probabilities are the softmax of the votes, or of F / (K - 1), which is exact at the least
    expected exponential loss. If K > 2, the loss does not bound the training error, and trees with
    fewer than K leaves can stall.

    Parameters
    ----------
    variant
        ``"discrete"`` or ``"real"``.

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are the votes less their mean (``"discrete"``), or F.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import SammeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SammeClassifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    variant: Literal["discrete", "real"] = "discrete"

    def _create_algorithm(self) -> Algorithm:
        if self.variant == "real":
            return GambleAlgorithm(self.learning_rate, "exact", self.criterion)
        return VotingTreeAlgorithm(self.learning_rate, self.criterion)


class AdaBoostM1Classifier(VotingClassifier):
    """AdaBoost with multi-class trees (Freund and Schapire, 1996).

    Each round grows a classification tree on the weighted rows. The vote of the tree is
    ln((1 - err) / err), with err its weighted error rate. The weights of wrongly predicted rows are
    multiplied by the exponential of the vote. SAMME differs only by the term ln(K - 1). Hence a
    tree must be right on more than half of the weight. Training ends if a tree is not, even with
    all rows and features. If this is the first tree, the committee consists of that tree.

    There is no `predict_proba`. The loss that these votes lower is exp((V_other - V_own) / 2), with
    V_own the sum of the votes for the row's class, and V_other that for all other classes. If
    K > 2, this loss has no minimum over the scores.

    Parameters
    ----------
    learning_rate
        Learning rate: factor of each vote, in (0, 1].

    Attributes
    ----------
    committee_
        The trained `Committee`; its scores are the votes less their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from streamboost import AdaBoostM1Classifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AdaBoostM1Classifier(n_estimators=20, max_leaf_nodes=4, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _no_probabilities_reason = "gives votes and no probabilities: use SammeClassifier for those"

    def _create_algorithm(self) -> Algorithm:
        return VotingTreeAlgorithm(self.learning_rate, self.criterion, is_samme=False)
