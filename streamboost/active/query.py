"""Which records to ask for: utilities, the pace of spending and the decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from streamboost.active.budget import Budget, Ledger
from streamboost.active.settings import check_whole, is_finite
from streamboost.active.window import UtilityWindow
from streamboost.errors import ConfigurationError

__all__ = ["Querier", "QueryStrategy", "Requests"]


def _by_margin(margins: np.ndarray) -> np.ndarray:
    """1 / (1 + margin): finite on ties and ordered as 1 / margin, query by committee's measure."""
    return np.asarray(1.0 / (1.0 + margins))


def _by_nothing(margins: np.ndarray) -> np.ndarray:
    """One for every record: as far as is known, each label would teach the same."""
    return np.ones(len(margins))


_UTILITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "margin": _by_margin,
    "random": _by_nothing,
}

_SMALL_BUDGET = Fraction(1, 20)
"""Up to here the decision is drawn, which stands delay best; above it, the rank decides alone."""


@dataclass(frozen=True, kw_only=True)
class QueryStrategy:
    """Which records to ask for, and how many.

    Parameters
    ----------
    utility
        "margin" asks where the committee's two best scores are close, "random" asks anywhere.
    budget
        Share of the records whose label may be bought, in (0, 1], taken as the decimal number
        it is written as.
    burst
        Requests over any n consecutive records stay within budget * n + burst.
    audit
        Share of the budget spent uniformly at random, in [0, 1], so that accuracy can be
        estimated without bias. It needs a burst of at least 2.
    window
        The newest records among which a record's utility is ranked.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------

    >>> QueryStrategy(budget=0.1).utility
    'margin'
    """

    utility: str = "margin"
    budget: float = 0.05
    burst: int = 20
    audit: float = 0.1
    window: int = 200

    def __post_init__(self) -> None:
        if self.utility not in _UTILITIES:
            names = ", ".join(_UTILITIES)
            raise ConfigurationError(
                f"query utility {self.utility!r} is not known: choose one of {names}"
            )
        if not 0 < _exact("budget", self.budget) <= 1:
            raise ConfigurationError(
                f"query budget is {self.budget!r}: give the share of records that may be asked "
                "for, above 0 and at most 1"
            )
        if not 0 <= _exact("audit", self.audit) <= 1:
            raise ConfigurationError(
                f"query audit is {self.audit!r}: give a share of the budget from 0 to 1"
            )
        check_whole("query window", self.window)
        if self.audit:
            reason = " with audits, without which 1 will do"
            check_whole("query burst", self.burst, at_least=2, reason=reason)
        else:
            check_whole("query burst", self.burst)

    @property
    def share(self) -> Fraction:
        """The budget as an exact fraction: 0.1 is 1/10."""
        return _exact("budget", self.budget)

    def measure(self, margins: np.ndarray) -> np.ndarray:
        """Return the utility (n,) of records with raw score `margins` (n,); higher asks first."""
        return _UTILITIES[self.utility](margins)


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Records whose label is asked for; all of one length m.

    Attributes
    ----------
    ids
        The records' ids.
    utility
        float64 (m,), how much each label would teach.
    propensity
        float64 (m,), the chance with which each record was asked for.
    audit
        bool (m,), the record was its block's audited place.
    rule
        bool (m,), the query rule asked for it; at least one of the two holds.
    """

    ids: list[str]
    utility: np.ndarray
    propensity: np.ndarray
    audit: np.ndarray
    rule: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


class Querier:
    """A query strategy at work: its budget, its window and its random numbers.

    One number is drawn per record and one per audited block, from two generators, so that the
    answers do not depend on how a stream is cut into batches.
    """

    def __init__(self, strategy: QueryStrategy, seeds: np.random.SeedSequence) -> None:
        self.strategy = strategy
        self.budget = Budget(strategy.share, strategy.burst, _exact("audit", strategy.audit))
        self.window = UtilityWindow(strategy.window)
        self._draws, self._places = (np.random.default_rng(seed) for seed in seeds.spawn(2))
        rate = self.budget.rule_share
        self._rate = rate
        self._horizon = max(50.0, 5.0 / float(strategy.share))
        self._density = _drawn if strategy.share <= _SMALL_BUDGET else _cut

    def decide(
        self, ids: Sequence[str], X: np.ndarray, utility: np.ndarray, *, cold: bool
    ) -> Requests:
        """Decide for each record in turn whether to ask for its label.

        Parameters
        ----------
        ids
            The records' ids, n of them.
        X
            float32 (n, D), kept to measure the window again.
        utility
            float64 (n,), of the committee version that `window` follows.
        cold
            There is nothing to rank by yet: ask at random.
        """
        draws = self._draws.random(len(ids))
        by_rank = self.strategy.utility != "random"
        chosen: list[int] = []
        propensity, audits, wants = [], [], []
        for i in range(len(ids)):
            self.budget.arrive(self._places)
            p = self._probability(float(utility[i]), at_random=cold or not by_rank)
            wanted = bool(draws[i] < p)
            asked, audited = self.budget.settle(wanted)
            if by_rank:
                self.window.push(X[i], float(utility[i]))
            if asked:
                chosen.append(i)
                propensity.append(self.budget.combine(p))
                audits.append(audited)
                wants.append(wanted)
        return Requests(
            ids=[ids[i] for i in chosen],
            utility=np.asarray(utility, dtype=np.float64)[chosen],
            propensity=np.array(propensity, dtype=np.float64),
            audit=np.array(audits, dtype=bool),
            rule=np.array(wants, dtype=bool),
        )

    def _probability(self, utility: float, *, at_random: bool) -> float:
        """Return the rule's own chance of asking for the record that has arrived."""
        if not self.budget.affordable:
            return 0.0
        # One token is kept in hand and what is saved beyond it is spent over the horizon.
        pace = self._rate + (self.budget.free - 1.0) / self._horizon
        pace = min(max(pace, 0.0), 3.0 * self._rate)
        if at_random:
            return min(1.0, pace)
        low, high = self.window.rank(utility)
        share = (self._density(high, pace) - self._density(low, pace)) / (high - low)
        return min(max(share, 0.0), 1.0)

    def ledger(self, *, answered: int, expired: int) -> Ledger:
        """Return the budget's counts beside those of the answers, which the caller keeps."""
        budget = self.budget
        return Ledger(
            records=budget.records,
            requests=budget.requests,
            audits=budget.audits,
            answered=answered,
            expired=expired,
            tokens=budget.tokens,
        )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        version, arrays = self.window.state()
        state = {
            "budget": self.budget.state(),
            "draws": self._draws.bit_generator.state,
            "places": self._places.bit_generator.state,
            "window_version": version,
        }
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `state` returned for a querier of the same strategy."""
        self.budget.resume(state["budget"])
        self._draws.bit_generator.state = state["draws"]
        self._places.bit_generator.state = state["places"]
        self.window.resume(state["window_version"], arrays)


def _cut(rank: float, pace: float) -> float:
    """Integral over ranks 0..rank of the rule "ask when the rank is under the pace".

    Ranks are spread evenly, so over all of them either rule asks for a share `pace` of the
    records. A record's chance is the mean over the part of [0, 1) it takes up.
    """
    return min(rank, pace)


def _drawn(rank: float, pace: float) -> float:
    """Integral over ranks 0..rank of the rule "ask with p = min(1, 10 pace (1 - rank)^9)"."""
    certain = max(0.0, 1.0 - (10.0 * pace) ** (-1.0 / 9.0)) if pace > 0.0 else 0.0
    drawn = (1.0 - certain) ** 10 - (1.0 - max(rank, certain)) ** 10
    return min(rank, certain) + pace * drawn


def _exact(name: str, value: float) -> Fraction:
    """Return the decimal number `value` is written as: 0.1 is 1/10, not the nearest double."""
    if not is_finite(value):
        raise ConfigurationError(f"query {name} is {value!r}: give a finite number")
    return Fraction(Decimal(repr(float(value))))
