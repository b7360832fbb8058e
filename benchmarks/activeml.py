"""scikit-activeml's strategies, deciding what our learner is taught, beside our own.

    python -m benchmarks.activeml [--sets segments letter satimage] [--seeds 5] [--rows N]
        [--budgets 0.01 0.02 0.05 0.1]

The same learner is fed the same records in batches of ten, each predicted on arrival; labels come
at once. What differs is who decides what to ask for: we, scikit-activeml's stream strategies (their
budgets are soft: the share bought is shown), or its pool strategies, which choose from the newest
200 records whenever the budget has a token. The figure is the accuracy of the second half, with the
share bought, and the default, "chance", less it with a 95 % t interval over the seeds. A last table
says of each set who was best of ours, of the stream's and of the pool's.
"""

import argparse

import numpy as np
from skactiveml.base import SkactivemlClassifier
from skactiveml.pool import Badge, CoreSet, TypiClust, UncertaintySampling
from skactiveml.stream import (
    RandomVariableUncertainty,
    Split,
    StreamRandomSampling,
    VariableUncertainty,
)
from skactiveml.stream.budgetmanager import BalancedIncrementalQuantileFilter

from benchmarks.intervals import cell
from streamboost import StreamLearner

__all__ = ["PEERS", "Peer"]

WINDOW = 200

OURS = {
    "chance": {},
    "chance, loan": {},
    "quantile filter": {"rule": "quantile_filter"},
    "pool": {"mode": "pool"},
}
"""What we decide by; a loan is repaid by the end of the stream."""


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


def asker(who, budget, seed, n):
    """Return the one of that name, for a stream of `n` records."""
    from benchmarks.label_efficiency import Ours

    if who in PEERS:
        return Peer(who, budget, seed)
    if who in POOLS:
        return FromPool(who, budget, seed)
    settings = dict(OURS[who])
    if who == "chance, loan":
        settings |= {"loan": min(10, int(budget * n / 3)), "expected_records": n}
    return Ours(budget, seed, settings)


def measure(streams, budgets):
    """Return accuracy and share bought by name and budget, {(who, budget): (seeds, 2)}."""
    from benchmarks.label_efficiency import second_half

    return {
        (who, budget): np.array(
            [
                second_half(asker(who, budget, seed, len(y)), X, y, 0)
                for seed, (X, y) in enumerate(streams)
            ]
        )
        for who in (*OURS, *PEERS, *POOLS)
        for budget in budgets
    }


def tabulate(name, found, budgets):
    """Give the lines of a set's table."""
    yield f"| {name} | " + " | ".join(f"{b:.0%} | chance less it" for b in budgets) + " |"
    yield "|---" * (1 + 2 * len(budgets)) + "|"
    for who in (*OURS, *PEERS, *POOLS):
        cells = [who]
        for budget in budgets:
            accuracy, bought = found[who, budget].mean(axis=0)
            less = found["chance", budget][:, 0] - found[who, budget][:, 0]
            cells += [f"{accuracy:.1f} ({bought:.1f})", "" if who == "chance" else cell(less, "+")]
        yield "| " + " | ".join(cells) + " |"


def digest(name, found, budgets):
    """Give the lines of a set that say who was best."""
    for budget in budgets:
        cells = [name, f"{budget:.0%}", f"{found['chance', budget][:, 0].mean():.1f}"]
        for family in (list(OURS)[1:], PEERS, POOLS):
            best = max(family, key=lambda who: found[who, budget][:, 0].mean())
            accuracy, bought = found[best, budget].mean(axis=0)
            short = best.removeprefix("activeml ").removeprefix("pool, ")
            cells.append(f"{accuracy:.1f} {short} ({bought:.1f} %)")
        yield "| " + " | ".join(cells) + " |"


def main():
    from benchmarks.label_efficiency import FILES, stream

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.01, 0.02, 0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="only so many records of each set")
    arguments = parser.parse_args()
    budgets, last = arguments.budgets, []
    for name in arguments.sets:
        streams = [stream(name, seed, arguments.rows) for seed in range(arguments.seeds)]
        if streams[0] is None:
            continue
        found = measure(streams, budgets)
        what = f"{name}, {len(streams[0][1]):,}"
        print("\n".join(tabulate(what, found, budgets)), "\n", flush=True)
        last += digest(what, found, budgets)
    print("| set, records | budget | chance | best other of ours | best stream | best pool |")
    print("|---|---|---|---|---|---|")
    print("\n".join(last))


if __name__ == "__main__":
    main()
