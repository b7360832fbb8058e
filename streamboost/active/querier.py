"""A query strategy at work on a stream."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamboost.active.budget import Budget, Ledger
from streamboost.active.pool import Pool
from streamboost.active.query import QueryStrategy, Requests
from streamboost.active.rules import EvenSpending, make_rule
from streamboost.active.settings import check_whole
from streamboost.active.strata import Densities, Strata
from streamboost.active.window import UtilityWindow
from streamboost.errors import ConfigurationError

__all__ = ["Querier"]


@dataclass(slots=True)
class _Asked:
    """Requests as they come up."""

    ids: list[str] = field(default_factory=list)
    utility: list[float] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    audit: list[bool] = field(default_factory=list)
    rule: list[bool] = field(default_factory=list)

    def add(self, id: str, utility: float, propensity: float, *, audit: bool, rule: bool) -> None:
        """Append one request."""
        self.ids.append(id)
        self.utility.append(utility)
        self.propensity.append(propensity)
        self.audit.append(audit)
        self.rule.append(rule)

    def requests(self) -> Requests:
        """Return what was appended."""
        return Requests(
            ids=self.ids,
            utility=np.array(self.utility, dtype=np.float64),
            propensity=np.array(self.propensity, dtype=np.float64),
            audit=np.array(self.audit, dtype=bool),
            rule=np.array(self.rule, dtype=bool),
        )


class Querier:
    """A query strategy at work: its budget, its window or pool, and its random numbers.

    One number is drawn per record, one per audited block, and those of a pool's round by
    themselves, from three generators, so that the answers do not depend on how a stream is cut
    into batches.
    """

    def __init__(self, strategy: QueryStrategy, seeds: np.random.SeedSequence) -> None:
        self.strategy = strategy
        earns = strategy.share, strategy.burst, strategy.audit_share
        lent = strategy.loan, strategy.expected_records or 0
        by_chance = strategy.rule == "chance" and strategy.mode == "stream"
        way = Strata if by_chance else Budget
        self.budget: Budget | Strata = way(*earns, *lent, strategy.relabel_share)
        self._densities = Densities(float(strategy.share))
        self._pool = Pool(strategy.window) if strategy.mode == "pool" else None
        self._window = self._pool if self._pool is not None else UtilityWindow(strategy.window)
        self._evenly = EvenSpending(float(strategy.share))
        self._rule = make_rule(strategy.rule)
        self._draws, self._places, self._lots = (
            np.random.default_rng(seed) for seed in seeds.spawn(3)
        )

    def follow(self, version: int, measure: Callable[[np.ndarray], np.ndarray]) -> None:
        """Measure the kept records again if their utilities are not those of `version`.

        `measure` maps features (n, D), oldest first, to utilities (n,).
        """
        self._window.follow(version, measure)

    def widen(self, n_features: int) -> None:
        """Let records have `n_features` features; the ones kept miss the new ones."""
        self._window.widen(n_features)

    def known(self, ids: Iterable[str]) -> None:
        """Ask for none of these records from now on: their labels are there."""
        if self._pool is not None:
            self._pool.take(ids)

    def decide(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        sure: np.ndarray | None = None,
        *,
        cold: bool,
    ) -> Requests:
        """Let each record arrive in turn, and decide what to ask for.

        Parameters
        ----------
        ids
            The records' ids, n of them.
        X
            float32 (n, D), kept to measure the window again.
        utility
            float64 (n,), of the committee version that the window follows.
        sure
            float64 (n,), the predicted labels' probabilities; None where they are not known.
        cold
            There is nothing to rank by yet: ask at random.
        """
        draws = self._draws.random(len(ids))  # one a record, whoever needs it
        if isinstance(self.budget, Strata):
            return self._draw(self.budget, ids, X, utility, sure, draws, cold=cold)
        asked = _Asked()
        if self._pool is not None:
            self._collect(asked, self.budget, self._pool, ids, X, utility, cold=cold)
            return asked.requests()
        self._rate(asked, self.budget, ids, X, utility, draws, cold=cold)
        return asked.requests()

    def _draw(
        self,
        strata: Strata,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        sure: np.ndarray | None,
        draws: np.ndarray,
        *,
        cold: bool,
    ) -> Requests:
        """Ask for each record with a chance of its own."""
        by_rank = self.strategy.utility != "random"
        density = np.ones(len(ids))
        if by_rank and not cold and len(ids):
            density = self._densities.of(self._window.meet(utility).ranks(), sure)
        if by_rank:
            self._window.extend(X, utility)
        asked, chances = strata.ask(density, draws)
        return Requests(
            ids=[ids[i] for i in asked],
            utility=utility[asked],
            propensity=chances[asked],
            audit=np.zeros(len(asked), dtype=bool),
            rule=np.ones(len(asked), dtype=bool),
            chances=chances,
        )

    def ask(self, n: int, *, cold: bool) -> Requests:
        """Ask for the `n` best of the pool now, as far as tokens go; no record arrives.

        Raises
        ------
        ConfigurationError
            When there is no pool, or `n` is not a whole number of at least 1.
        """
        if self._pool is None or isinstance(self.budget, Strata):
            raise ConfigurationError(
                f'query mode is "{self.strategy.mode}", which keeps no pool to ask from: choose '
                'mode "pool"'
            )
        check_whole("n, the requests of a round,", n)
        asked = _Asked()
        self._round(asked, self.budget, self._pool, n, cold=cold)
        return asked.requests()

    def _rate(
        self,
        asked: _Asked,
        budget: Budget,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        draws: np.ndarray,
        *,
        cold: bool,
    ) -> None:
        """Decide about records that arrive, looking only at those that may be asked for."""
        by_rank = self.strategy.utility != "random"
        rule = self._rule if by_rank and not cold else None
        if rule is not None:
            may, chance = rule.over(utility, self._window, draws)
        else:
            may, chance = self._evenly.over(draws)
        seen = 0
        for last in [*may, len(ids) - 1]:
            while seen <= last:
                seen += budget.arrive(self._places, last + 1 - seen)
                i = seen - 1
                affordable = budget.affordable > 0
                p = chance(i, budget) if affordable else 0.0
                wanted = bool(draws[i] < p)
                if rule is not None and affordable:
                    rule.settle(wanted)
                is_asked, audited = budget.settle(wanted)
                if is_asked:
                    p = budget.combine(p)
                    asked.add(ids[i], float(utility[i]), p, audit=audited, rule=wanted)
        if by_rank:
            self._window.extend(X, utility)

    def _collect(
        self,
        asked: _Asked,
        budget: Budget,
        pool: Pool,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        *,
        cold: bool,
    ) -> None:
        """Put records that arrive into the pool, and ask for a round whenever it is due.

        The audit looks at the record that leaves the pool. If it looked at the one that arrives,
        the rounds would meet audited records whose labels are known, and pass them over: those
        they do ask for would no longer be chosen without regard to the audit.
        """
        for i, id in enumerate(ids):
            budget.arrive(self._places)
            left = pool.admit(id, X[i], float(utility[i]))
            if pool.full and budget.affordable >= self.strategy.round_size:
                self._round(asked, budget, pool, self.strategy.round_size, cold=cold)
            if budget.audited:
                budget.audit(buys=left is not None)
                if left is not None:
                    chance = budget.combine(0.0)
                    asked.add(left.id, left.utility, chance, audit=True, rule=False)

    def _round(self, asked: _Asked, budget: Budget, pool: Pool, n: int, *, cold: bool) -> None:
        """Ask for the best of the pool, at most `n` and what can be paid."""
        n = min(n, budget.affordable)
        chosen = pool.choose(n, self._lots, at_random=cold)
        budget.spend(len(chosen))
        for id, utility, p in chosen:
            asked.add(id, utility, budget.combine(p), audit=False, rule=True)

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
            again=budget.again,
        )

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        version, arrays = self._window.state()
        state = {
            "budget": self.budget.state(),
            "draws": self._draws.bit_generator.state,
            "places": self._places.bit_generator.state,
            "lots": self._lots.bit_generator.state,
            "rule": self._rule.memory if self._rule is not None else 0.0,
            "doubt": self._densities.state(),
            "window_version": version,
            "pool": self._pool.ids() if self._pool is not None else [],
        }
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `state` returned for a querier of the same strategy."""
        self.budget.resume(state["budget"])
        self._draws.bit_generator.state = state["draws"]
        self._places.bit_generator.state = state["places"]
        self._lots.bit_generator.state = state["lots"]
        if self._rule is not None:
            self._rule.memory = state["rule"]
        self._densities.resume(state["doubt"])
        self._window.resume(state["window_version"], arrays)
        if self._pool is not None:
            self._pool.name(state["pool"])
