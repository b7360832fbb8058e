"""Query strategies of scikit-activeml and of this project, compared on the same learner.

    python -m benchmarks.activeml [--sets segments letter satimage] [--seeds 5] [--rows N]
        [--budgets 0.01 0.02 0.05 0.1]

The same learner receives the same records in batches of ten and predicts each on arrival. Labels
arrive at once. The rows of the table differ in the strategy that requests labels:

- the strategies of this project;
- scikit-activeml's stream strategies, whose budgets are soft (the table shows the share bought);
- the same "in bounds": a label is bought only if the budget has earned it by then, as in this
  project without initial credit;
- scikit-activeml's pool strategies, which choose from the newest 200 records whenever the budget
  has a token;
- as the last row, this project with initial credit and, as its budget, the share that Split bought.

The figure is the accuracy on the second half, with the share bought, and the difference between the
default ("probability") and that strategy, with a 95 % t interval over the seeds. The last table
names the best strategy of each family for each set.

Each seed shuffles the records, also those of ImageSegments, whose classes are already mixed.
Without the shuffle, deterministic strategies would see one order only, and the interval would not
cover the other orders.
"""

import argparse
from dataclasses import replace
from fractions import Fraction

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
    "probability": {},
    "probability, initial credit": {},
    "quantile filter": {"selection": "quantile_filter"},
    "pool": {"mode": "pool"},
}
"""Query settings of this project; an initial credit is repaid by the end of the stream."""


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
        chosen, utilities = self.choose(X)
        self.settle(X, chosen, utilities)
        return [ids[i] for i in chosen]

    def choose(self, X):
        """Return the positions that the strategy selects, and the utilities of all records."""
        clf = {"clf": self.committee} if self.needs_committee else {}
        return self.strategy.query(X, **clf, return_utilities=True)

    def settle(self, X, bought, utilities):
        """Update the strategy with the positions that were bought."""
        known = {"budget_manager_param_dict": {"utilities": utilities}} if self.remembers else {}
        self.strategy.update(X, bought, **known)


class InBounds(Peer):
    """Strategy `name` that buys a label only if the budget has earned it.

    The strategy is queried record by record. It is updated with the labels bought, so that a record
    without a label may be selected again.
    """

    def __init__(self, name, budget, seed):
        super().__init__(name, budget, seed)
        self.share, self.records, self.bought = Fraction(str(budget)), 0, 0

    def ask(self, X, scored, ids):
        asked = []
        for i, id in enumerate(ids):
            self.records += 1
            self.committee.scored = replace(scored, probabilities=scored.probabilities[i : i + 1])
            chosen, utilities = self.choose(X[i : i + 1])
            if len(chosen) and self.bought + 1 <= self.share * self.records:
                self.bought += 1
                asked.append(id)
            else:
                chosen = chosen[:0]
            self.settle(X[i : i + 1], chosen, utilities)
        return asked


class FromPool:
    """Pool strategy `name` over the newest records, with one choice for each token."""

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

BOUND = {f"{name}, in bounds": name for name in PEERS}

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

EVERYBODY = (*OURS, *PEERS, *BOUND, *POOLS)
FOR_AS_MUCH = "probability, initial credit, for what split bought"


def asker(who, budget, seed, n):
    """Return the one of that name, for a stream of `n` records."""
    from benchmarks.label_efficiency import Ours

    if who in PEERS:
        return Peer(who, budget, seed)
    if who in BOUND:
        return InBounds(BOUND[who], budget, seed)
    if who in POOLS:
        return FromPool(who, budget, seed)
    settings = dict(OURS[who])
    if who == "probability, initial credit":
        settings |= {"initial_credit": min(10, int(budget * n / 3)), "stream_length": n}
    return Ours(budget, seed, settings)


def shuffled(name, seed, rows):
    """Return X, y of a set in an order of the seed's own; None where it is missing."""
    from benchmarks.label_efficiency import stream

    found = stream(name, seed, None)
    if found is None or name != "segments":
        return found and tuple(part[:rows] for part in found)
    order = np.random.default_rng(seed).permutation(len(found[1]))[:rows]
    return tuple(part[order] for part in found)


def measure(streams, budgets):
    """Return accuracy and share bought by name and budget, {(who, budget): (seeds, 2)}."""
    found = {}
    for budget in budgets:
        found |= {(who, budget): runs(streams, who, budget) for who in EVERYBODY}
        spent = found["activeml split", budget][:, 1].mean() / 100
        found[FOR_AS_MUCH, budget] = runs(streams, "probability, initial credit", round(spent, 4))
    return found


def runs(streams, who, budget):
    """Return accuracy and share bought of that name, (seeds, 2)."""
    from benchmarks.label_efficiency import second_half

    return np.array(
        [
            second_half(asker(who, budget, seed, len(y)), X, y, 0)
            for seed, (X, y) in enumerate(streams)
        ]
    )


def tabulate(name, found, budgets):
    """Yield the lines of the table of a set."""
    yield f"| {name} | " + " | ".join(f"{b:.0%} | chance less it" for b in budgets) + " |"
    yield "|---" * (1 + 2 * len(budgets)) + "|"
    for who in (*EVERYBODY, FOR_AS_MUCH):
        cells = [who]
        for budget in budgets:
            accuracy, bought = found[who, budget].mean(axis=0)
            less = found["probability", budget][:, 0] - found[who, budget][:, 0]
            cells += [
                f"{accuracy:.1f} ({bought:.1f})",
                "" if who == "probability" else cell(less, "+"),
            ]
        yield "| " + " | ".join(cells) + " |"


def digest(name, found, budgets):
    """Yield the lines of a set that name the best strategy of each family."""
    for budget in budgets:
        cells = [name, f"{budget:.0%}", f"{found['probability', budget][:, 0].mean():.1f}"]
        for family in (list(OURS)[1:], PEERS, BOUND, POOLS):
            best = max(family, key=lambda who: found[who, budget][:, 0].mean())
            accuracy, bought = found[best, budget].mean(axis=0)
            short = (
                best.removeprefix("activeml ").removeprefix("pool, ").removesuffix(", in bounds")
            )
            cells.append(f"{accuracy:.1f} {short} ({bought:.1f} %)")
        yield "| " + " | ".join(cells) + " |"


def main():
    from benchmarks.label_efficiency import FILES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.01, 0.02, 0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="limit to N records of each set")
    arguments = parser.parse_args()
    budgets, last = arguments.budgets, []
    for name in arguments.sets:
        streams = [shuffled(name, seed, arguments.rows) for seed in range(arguments.seeds)]
        if streams[0] is None:
            continue
        found = measure(streams, budgets)
        what = f"{name}, {len(streams[0][1]):,}"
        print("\n".join(tabulate(what, found, budgets)), "\n", flush=True)
        last += digest(what, found, budgets)
    families = "best other of ours | best stream | best stream in bounds | best pool"
    print(f"| set, records | budget | chance | {families} |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(last))


if __name__ == "__main__":
    main()
