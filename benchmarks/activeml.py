"""scikit-activeml's stream strategies, deciding what our learner is taught."""

import numpy as np
from skactiveml.base import SkactivemlClassifier
from skactiveml.stream import (
    RandomVariableUncertainty,
    Split,
    StreamRandomSampling,
    VariableUncertainty,
)
from skactiveml.stream.budgetmanager import BalancedIncrementalQuantileFilter

from streamboost import StreamLearner

__all__ = ["PEERS", "Peer"]


class _AsScored(SkactivemlClassifier):
    """Gives the probabilities that the learner has just given."""

    def fit(self, X, y, sample_weight=None):
        raise NotImplementedError("the learner trains by itself")

    def predict_proba(self, X):
        # Before the first label nothing is known: no confidence in any class.
        return (
            self.scored.probabilities if self.scored.probabilities.size else np.zeros((len(X), 1))
        )


class Peer:
    """The strategy of that name around a learner that does not ask by itself."""

    def __init__(self, name, budget, seed):
        self.learner = StreamLearner(random_state=seed)
        self.strategy = PEERS[name](budget=budget, random_state=seed)
        self.committee = _AsScored()
        self.needs_committee = name != "activeml random"
        self.remembers = name == "activeml quantile filter"

    def ask(self, X, scored, ids):
        self.committee.scored = scored
        if not self.needs_committee:
            chosen = self.strategy.query(candidates=X)
            self.strategy.update(candidates=X, queried_indices=chosen)
            return [ids[i] for i in chosen]
        chosen, utilities = self.strategy.query(X, clf=self.committee, return_utilities=True)
        known = {"utilities": utilities} if self.remembers else {}
        self.strategy.update(X, chosen, budget_manager_param_dict=known)
        return [ids[i] for i in chosen]


def _random(budget, random_state):
    return StreamRandomSampling(
        budget=budget, allow_exceeding_budget=False, random_state=random_state
    )


def _quantile(budget, random_state):
    manager = BalancedIncrementalQuantileFilter(budget=budget)
    return VariableUncertainty(budget_manager=manager, budget=budget, random_state=random_state)


PEERS = {
    "activeml variable": VariableUncertainty,
    "activeml random variable": RandomVariableUncertainty,
    "activeml split": Split,
    "activeml quantile filter": _quantile,
    "activeml random": _random,
}
