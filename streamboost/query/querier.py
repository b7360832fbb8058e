"""Querier: applies a query strategy with its budget to a stream."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.query.config import QueryConfig, Requests
from streamboost.query.pool import Pool
from streamboost.query.sampler import OnePerStratumSampler, SizeMeasure
from streamboost.query.selection import EvenSpending, make_selection
from streamboost.query.settings import check_whole
from streamboost.query.token_bucket import Ledger, TokenBudget
from streamboost.query.window import UtilityWindow

__all__ = ["Querier"]


@dataclass(slots=True)
class _RequestBuilder:
    """Collects the requests of one call."""

    ids: list[str] = field(default_factory=list)
    utility: list[float] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    audit: list[bool] = field(default_factory=list)
    selected: list[bool] = field(default_factory=list)

    def add(
        self, id: str, utility: float, propensity: float, *, audit: bool, selected: bool
    ) -> None:
        """Add a request for one record."""
        self.ids.append(id)
        self.utility.append(utility)
        self.propensity.append(propensity)
        self.audit.append(audit)
        self.selected.append(selected)

    def build(self) -> Requests:
        """Return all requests that were added."""
        return Requests(
            ids=self.ids,
            utility=np.array(self.utility, dtype=np.float64),
            propensity=np.array(self.propensity, dtype=np.float64),
            audit=np.array(self.audit, dtype=bool),
            selected=np.array(self.selected, dtype=bool),
        )


class Querier:
    """Applies a query strategy, with its budget, its window or pool, and random generators.

    Three generators draw one number per record, one per audited block, and the numbers of pool
    rounds. So the requests do not depend on the batch boundaries of the stream.
    """

    def __init__(self, strategy: QueryConfig, seeds: np.random.SeedSequence) -> None:
        self.config = strategy
        earns = strategy.share, strategy.burst, strategy.audit_share
        lent = strategy.initial_credit, strategy.stream_length or 0
        by_probability = strategy.selection == "probability" and strategy.mode == "stream"
        bucket_class = OnePerStratumSampler if by_probability else TokenBudget
        self.budget: TokenBudget | OnePerStratumSampler = bucket_class(
            *earns, *lent, strategy.relabel_share
        )
        self._densities = SizeMeasure(float(strategy.share))
        self._pool = Pool(strategy.window) if strategy.mode == "pool" else None
        self._window = self._pool if self._pool is not None else UtilityWindow(strategy.window)
        self._even_spending = EvenSpending(float(strategy.share))
        self._selection = make_selection(strategy.selection)
        self._draws, self._places, self._tie_rng = (
            np.random.default_rng(seed) for seed in seeds.spawn(3)
        )

    def rescore(self, version: int, measure: Callable[[np.ndarray], np.ndarray]) -> None:
        """Recompute stored utilities with `measure`, unless they are of the committee `version`.

        `measure` maps features (n, D), oldest first, to utilities (n,).
        """
        self._window.rescore(version, measure)

    def widen(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored records get NaN in new columns."""
        self._window.widen(n_features)

    def exclude(self, ids: Iterable[str]) -> None:
        """Exclude records from later requests, as their labels are known."""
        if self._pool is not None:
            self._pool.exclude(ids)

    def decide(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        sure: np.ndarray | None = None,
        *,
        cold: bool,
    ) -> Requests:
        """Process arriving records in order, and decide which to request.

        Parameters
        ----------
        ids
            The records' ids, n of them.
        X
            float32 (n, D), stored to rescore the window.
        utility
            float64 (n,), by the committee version of the window.
        sure
            float64 (n,), the predicted labels' probabilities, or None if not available.
        cold
            Request at random, as there are no utilities to rank by yet.
        """
        draws = self._draws.random(len(ids))  # one number per record, used or not
        if isinstance(self.budget, OnePerStratumSampler):
            return self._sample_by_probability(self.budget, ids, X, utility, sure, draws, cold=cold)
        requests = _RequestBuilder()
        if self._pool is not None:
            self._select_from_pool(requests, self.budget, self._pool, ids, X, utility, cold=cold)
            return requests.build()
        self._select_by_rule(requests, self.budget, ids, X, utility, draws, cold=cold)
        return requests.build()

    def _sample_by_probability(
        self,
        strata: OnePerStratumSampler,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        sure: np.ndarray | None,
        draws: np.ndarray,
        *,
        cold: bool,
    ) -> Requests:
        """Sample the arriving records with individual inclusion probabilities."""
        by_rank = self.config.strategy != "random"
        density = np.ones(len(ids))
        if by_rank and not cold and len(ids):
            density = self._densities.densities(self._window.rank_batch(utility).ranks(), sure)
        if by_rank:
            self._window.extend(X, utility)
        chosen, inclusion_probabilities = strata.sample(density, draws)
        return Requests(
            ids=[ids[i] for i in chosen],
            utility=utility[chosen],
            propensity=inclusion_probabilities[chosen],
            audit=np.zeros(len(chosen), dtype=bool),
            selected=np.ones(len(chosen), dtype=bool),
            inclusion_probabilities=inclusion_probabilities,
        )

    def ask(self, n: int, *, cold: bool) -> Requests:
        """Request the pool's `n` records of highest utility, or fewer if tokens do not suffice.

        Raises
        ------
        ConfigurationError
            When the mode is not "pool", or `n` is not a whole number of at least 1.
        """
        if self._pool is None or isinstance(self.budget, OnePerStratumSampler):
            raise ConfigurationError(
                f'query mode is "{self.config.mode}", which keeps no pool to ask from: choose '
                'mode "pool"'
            )
        check_whole("n, the requests of a round,", n)
        requests = _RequestBuilder()
        self._run_round(requests, self.budget, self._pool, n, cold=cold)
        return requests.build()

    def _select_by_rule(
        self,
        requests: _RequestBuilder,
        budget: TokenBudget,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        draws: np.ndarray,
        *,
        cold: bool,
    ) -> None:
        """Add requests for arriving records by the selection rule, or evenly in a cold start."""
        by_rank = self.config.strategy != "random"
        selection = self._selection if by_rank and not cold else None
        if selection is not None:
            may, probability = selection.rate(utility, self._window, draws)
        else:
            may, probability = self._even_spending.rate(draws)
        seen = 0
        for last in [*may, len(ids) - 1]:
            while seen <= last:
                seen += budget.arrive(self._places, last + 1 - seen)
                i = seen - 1
                affordable = budget.affordable > 0
                p = probability(i, budget) if affordable else 0.0
                selected = bool(draws[i] < p)
                if selection is not None and affordable:
                    selection.update(selected)
                is_asked, audited = budget.charge_record(selected)
                if is_asked:
                    p = budget.inclusion_probability(p)
                    requests.add(ids[i], float(utility[i]), p, audit=audited, selected=selected)
        if by_rank:
            self._window.extend(X, utility)

    def _select_from_pool(
        self,
        requests: _RequestBuilder,
        budget: TokenBudget,
        pool: Pool,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        *,
        cold: bool,
    ) -> None:
        """Add arriving records to the pool, and request the best ones whenever a round is due.

        The audit applies to the record that leaves the pool. If it applied to the arriving record,
        rounds would exclude audited records, whose labels are known, so that the requests of rounds
        would depend on the audit.
        """
        for i, id in enumerate(ids):
            budget.arrive(self._places)
            left = pool.admit(id, X[i], float(utility[i]))
            if pool.is_full and budget.affordable >= self.config.query_batch_size:
                self._run_round(requests, budget, pool, self.config.query_batch_size, cold=cold)
            if budget.audited:
                budget.count_audit(buys=left is not None)
                if left is not None:
                    chance = budget.inclusion_probability(0.0)
                    requests.add(left.id, left.utility, chance, audit=True, selected=False)

    def _run_round(
        self, requests: _RequestBuilder, budget: TokenBudget, pool: Pool, n: int, *, cold: bool
    ) -> None:
        """Request the pool's best records: at most `n`, and at most as many as are affordable."""
        n = min(n, budget.affordable)
        chosen = pool.select_best(n, self._tie_rng, at_random=cold)
        budget.spend(len(chosen))
        for id, utility, p in chosen:
            requests.add(id, utility, budget.inclusion_probability(p), audit=False, selected=True)

    def ledger(self, *, answered: int, expired: int) -> Ledger:
        """Return the budget's counts, with the counts of answered and expired requests."""
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
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        version, arrays = self._window.state()
        state = {
            "budget": self.budget.state(),
            "draws": self._draws.bit_generator.state,
            "places": self._places.bit_generator.state,
            "lots": self._tie_rng.bit_generator.state,
            "selection": self._selection.memory if self._selection is not None else 0.0,
            "doubt": self._densities.state(),
            "window_version": version,
            "pool": self._pool.ids() if self._pool is not None else [],
        }
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Set the state to one that `state` returned for a querier with an equal strategy."""
        self.budget.resume(state["budget"])
        self._draws.bit_generator.state = state["draws"]
        self._places.bit_generator.state = state["places"]
        self._tie_rng.bit_generator.state = state["lots"]
        if self._selection is not None:
            self._selection.memory = state["selection"]
        self._densities.resume(state["doubt"])
        self._window.resume(state["window_version"], arrays)
        if self._pool is not None:
            self._pool.set_ids(state["pool"])
