"""scikit-activeml's strategies, deciding what our learner is taught, beside our own.

    python -m benchmarks.activeml [--sets segments letter satimage] [--seeds 5] [--rows N]
        [--budgets 0.01 0.02 0.05 0.1]

The same learner is fed the same records in batches of ten, each predicted on arrival; labels come
at once. What differs is who decides what to ask for: we ("chance" as records arrive, and "pool"),
scikit-activeml's stream strategies (their budgets are soft: the share bought is shown), or its pool
strategies, which choose from the newest 200 records whenever the budget has a token. The figure is
the accuracy of the second half, and ours less theirs with a 95 % t interval over the seeds.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from skactiveml.base import SkactivemlClassifier
from skactiveml.pool import Badge, CoreSet, TypiClust, UncertaintySampling
from skactiveml.stream import (
    RandomVariableUncertainty,
    Split,
    StreamRandomSampling,
    VariableUncertainty,
)
from skactiveml.stream.budgetmanager import BalancedIncrementalQuantileFilter

from streamboost import StreamLearner

__all__ = ["PEERS", "Peer"]

WINDOW = 200


class _AsScored(SkactivemlClassifier):
    """Gives the probabilities that the learner gives, or has just given as `scored`."""

    learner = scored = None

    def fit(self, X, y, sample_weight=None):
        raise NotImplementedError("the learner trains by itself")

    def predict_proba(self, X):
        scored = self.scored or self.learner.score(X)
        # Before the first label nothing is known: no confidence in any class.
        return scored.probabilities if scored.probabilities.size else np.zeros((len(X), 1))


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


class FromPool:
    """The pool strategy of that name over the newest records, one choice for each token."""

    def __init__(self, name, budget, seed):
        self.learner = StreamLearner(random_state=seed)
        self.strategy, self.needs_committee = POOLS[name](seed)
        self.committee = _AsScored(classes=[0, 1])
        self.committee.learner = self.learner
        self.rng = np.random.default_rng(seed)
        self.budget, self.tokens, self.kept, self.told = budget, 0.0, {}, []

    def ask(self, X, scored, ids):
        asked = []
        for id, x in zip(ids, X, strict=True):
            self.kept[id] = x
            if len(self.kept) > WINDOW:
                del self.kept[next(iter(self.kept))]
            self.tokens += self.budget
            if self.tokens >= 1.0:
                self.tokens -= 1.0
                asked.append(self.best())
                self.told.append(self.kept.pop(asked[-1]))
        return asked

    def best(self):
        ids, known = list(self.kept), self.told[-WINDOW:]
        X = np.array([*self.kept.values(), *known])
        y = np.append(np.full(len(ids), np.nan), np.zeros(len(known)))  # only whether there is one
        committee = self.learner.committee
        if self.needs_committee and (committee is None or len(committee.classes) < 2):
            return ids[self.rng.integers(len(ids))]
        clf = {"clf": self.committee, "fit_clf": False} if self.needs_committee else {}
        return ids[self.strategy.query(X, y, **clf)[0]]


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

POOLS = {
    "activeml pool, margin": lambda seed: (
        UncertaintySampling(method="margin_sampling", random_state=seed),
        True,
    ),
    "activeml pool, entropy": lambda seed: (
        UncertaintySampling(method="entropy", random_state=seed),
        True,
    ),
    "activeml pool, badge": lambda seed: (Badge(random_state=seed), True),
    "activeml pool, core set": lambda seed: (CoreSet(random_state=seed), False),
    "activeml pool, typiclust": lambda seed: (TypiClust(random_state=seed), False),
}


def main():
    from benchmarks.intervals import cell
    from benchmarks.label_efficiency import FILES, make, second_half, stream

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.01, 0.02, 0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="only so many records of each set")
    arguments = parser.parse_args()
    makers = {"margin": make, "pool": make, **dict.fromkeys(PEERS, Peer)}
    makers |= dict.fromkeys(POOLS, FromPool)
    console = Console(width=100)
    for name in arguments.sets:
        streams = [stream(name, seed, arguments.rows) for seed in range(arguments.seeds)]
        if streams[0] is None:
            continue
        table = Table(title=f"{name}, {len(streams[0][1]):,} records", title_justify="left")
        table.add_column("strategy")
        for budget in arguments.budgets:
            table.add_column(f"{budget:.0%}", justify="right")
            table.add_column("margin less it", justify="right")
            table.add_column("bought", justify="right")
        ours = {}
        for who, maker in makers.items():
            cells = []
            for budget in arguments.budgets:
                found = np.array(
                    [
                        second_half(maker(who, budget, seed), *streams[seed], 0)
                        for seed in range(arguments.seeds)
                    ]
                )
                ours.setdefault(budget, found[:, 0])
                less = cell(ours[budget] - found[:, 0], "+") if who != "margin" else ""
                cells += [f"{found[:, 0].mean():.1f}", less, f"{found[:, 1].mean():.1f}"]
            table.add_row(who, *cells)
        console.print(table)


if __name__ == "__main__":
    main()
