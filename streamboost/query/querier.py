"""Querier: decides which records of a stream to request, by strategy and budget."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.query.config import QueryConfig, Requests
from streamboost.query.facility_location import FacilityLocationRanker
from streamboost.query.pool import Pool
from streamboost.query.sampler import OnePerStratumSampler, SizeMeasure
from streamboost.query.selection import EvenSpending, make_selection_rule
from streamboost.query.settings import check_integer
from streamboost.query.token_bucket import Ledger, TokenBudget
from streamboost.query.window import UtilityWindow
from streamboost.storage import select_prefix


@dataclass(slots=True)
class _RequestBuilder:
    """Collects the label requests of one call."""

    ids: list[str] = field(default_factory=list)
    utility: list[float] = field(default_factory=list)
    propensity: list[float] = field(default_factory=list)
    audit: list[bool] = field(default_factory=list)
    selected: list[bool] = field(default_factory=list)

    def add(
        self, id: str, utility: float, propensity: float, *, audit: bool, selected: bool
    ) -> None:
        """Add a request for one record, which the rule `selected`, or an `audit` drew at random."""
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
    """Decides which records of a stream to request, by a query strategy and its budget.

    There are three random generators: for a number per record, for a number per audit block, and
    for ties in pool mode. So the requests do not depend on how the stream is divided into batches.
    """

    def __init__(self, strategy: QueryConfig, seeds: np.random.SeedSequence) -> None:
        self.config = strategy
        earns = strategy.budget_share, strategy.burst, strategy.audit_share
        lent = strategy.initial_credit, strategy.stream_length or 0
        by_probability = strategy.selection == "probability" and strategy.mode == "stream"
        bucket_class = OnePerStratumSampler if by_probability else TokenBudget
        self.budget: TokenBudget | OnePerStratumSampler = bucket_class(
            *earns, *lent, strategy.relabel_share
        )
        self._densities = SizeMeasure(float(strategy.budget_share))
        self._pool = Pool(strategy.window) if strategy.mode == "pool" else None
        self._window = self._pool if self._pool is not None else UtilityWindow(strategy.window)
        self._facility_location = FacilityLocationRanker()
        self._even_spending = EvenSpending(float(strategy.budget_share))
        self._selection = make_selection_rule(strategy.selection)
        self._draws, self._places, self._tie_rng = (
            np.random.default_rng(seed) for seed in seeds.spawn(3)
        )

    def rescore(self, version: int, measure: Callable[[np.ndarray], np.ndarray]) -> None:
        """Recompute stored utilities with `measure` if the committee `version` has changed.

        `measure` maps features (n, D), oldest first, to utilities (n,).
        """
        self._window.rescore(version, measure)

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored records get NaN in new columns."""
        self._window.set_n_features(n_features)

    def exclude(self, ids: Iterable[str]) -> None:
        """Exclude the records `ids` from later requests, as their labels are known."""
        if self._pool is not None:
            self._pool.exclude(ids)

    def select_requests(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        confidence: np.ndarray | None = None,
        *,
        at_random: bool,
        vectors: np.ndarray | None = None,
        use_ranks: bool = True,
    ) -> Requests:
        """Decide which of the arriving records to request; return the requests.

        Parameters
        ----------
        ids
            The records' ids, n of them.
        X
            float32 (n, D), stored to rescore the window.
        utility
            float64 (n,), the utility of each label, computed with the committee version of
            `rescore`.
        confidence
            float64 (n,), the probability of each predicted label; None if not available.
        at_random
            Whether to request at random or by `vectors`, because there are no useful utilities yet.
        vectors
            (n, d), the values of the records' vector fields; None without vector fields.
        use_ranks
            Whether inclusion probabilities depend on the utility in addition to `confidence`.
        """
        draws = self._draws.random(len(ids))  # one number per record, used or not
        if isinstance(self.budget, OnePerStratumSampler):
            return self._sample_by_probability(
                self.budget,
                ids,
                X,
                utility,
                confidence,
                draws,
                at_random=at_random,
                vectors=vectors,
                use_ranks=use_ranks,
            )
        requests = _RequestBuilder()
        if self._pool is not None:
            self._select_from_pool(
                requests, self.budget, self._pool, ids, X, utility, at_random=at_random
            )
            return requests.build()
        self._select_by_selection_rule(
            requests, self.budget, ids, X, utility, draws, at_random=at_random
        )
        return requests.build()

    def _sample_by_probability(
        self,
        strata: OnePerStratumSampler,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        confidence: np.ndarray | None,
        draws: np.ndarray,
        *,
        at_random: bool,
        vectors: np.ndarray | None,
        use_ranks: bool,
    ) -> Requests:
        """Return requests for a random sample of the arriving records.

        The arguments are those of `select_requests`; `draws` (n,) are uniform random numbers.
        """
        by_rank = self.config.strategy != "random"
        density = np.ones(len(ids))
        if by_rank and not at_random and len(ids):
            density = self._densities.relative_probabilities(
                self._window.rank_batch(utility).ranks(), confidence, use_ranks
            )
        if by_rank:
            self._window.extend(X, utility)
        if by_rank and at_random and vectors is not None and self.config.budget_share < 1:
            chosen, inclusion_probabilities = self._sample_by_facility_location(
                strata, vectors, draws
            )
        else:
            chosen, inclusion_probabilities = strata.sample(density, draws)
        return Requests(
            ids=[ids[i] for i in chosen],
            utility=utility[chosen],
            propensity=inclusion_probabilities[chosen],
            audit=np.zeros(len(chosen), dtype=bool),
            selected=np.ones(len(chosen), dtype=bool),
            inclusion_probabilities=inclusion_probabilities,
        )

    def _sample_by_facility_location(
        self, strata: OnePerStratumSampler, vectors: np.ndarray, draws: np.ndarray
    ) -> tuple[list[int], np.ndarray]:
        """Select records with `vectors` (n, d) one by one; the results are those of `sample`."""
        chosen, inclusion_probabilities = [], np.empty(len(vectors))
        for i, vector in enumerate(vectors):
            ranks = self._facility_location.rank(vector, strata.n_complete_strata)
            density = self._densities.relative_probabilities(ranks, None)
            found, inclusion_probabilities[i : i + 1] = strata.sample(density, draws[i : i + 1])
            if found:
                chosen.append(i)
                self._facility_location.add_request(vector, strata.n_complete_strata)
        return chosen, inclusion_probabilities

    def request_from_pool(self, n: int, *, at_random: bool) -> Requests:
        """Request the `n` pool records of highest utility, or fewer if tokens do not suffice.

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
        check_integer("n, the requests of a round,", n)
        requests = _RequestBuilder()
        self._request_pool_round(requests, self.budget, self._pool, n, at_random=at_random)
        return requests.build()

    def _select_by_selection_rule(
        self,
        requests: _RequestBuilder,
        budget: TokenBudget,
        ids: Sequence[str],
        X: np.ndarray,
        utility: np.ndarray,
        draws: np.ndarray,
        *,
        at_random: bool,
    ) -> None:
        """Add requests for arriving records, by the selection rule or, if `at_random`, at random.

        The arguments are those of `select_requests`; `draws` (n,) are uniform random numbers.
        """
        by_rank = self.config.strategy != "random"
        selection = self._selection if by_rank and not at_random else None
        if selection is not None:
            may, probability = selection.candidates_and_probability(utility, self._window, draws)
        else:
            may, probability = self._even_spending.candidates_and_probability(draws)
        seen = 0
        for last in [*may, len(ids) - 1]:
            while seen <= last:
                seen += budget.count_arrivals(self._places, last + 1 - seen)
                i = seen - 1
                affordable = budget.n_affordable > 0
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
        at_random: bool,
    ) -> None:
        """Add arriving records to the pool, and request pool records whenever a round is due.

        A round requests the `query_batch_size` records of highest utility, once the pool is full
        and the token balance suffices. An audited record is requested when it leaves the pool. If
        it were requested on arrival, it would be excluded from rounds, and rounds would depend on
        the audit.
        """
        for i, id in enumerate(ids):
            budget.count_arrivals(self._places)
            left = pool.admit(id, X[i], float(utility[i]))
            if pool.is_full and budget.n_affordable >= self.config.query_batch_size:
                self._request_pool_round(
                    requests, budget, pool, self.config.query_batch_size, at_random=at_random
                )
            if budget.is_audited:
                budget.count_audited_record(is_new_request=left is not None)
                if left is not None:
                    chance = budget.inclusion_probability(0.0)
                    requests.add(left.id, left.utility, chance, audit=True, selected=False)

    def _request_pool_round(
        self, requests: _RequestBuilder, budget: TokenBudget, pool: Pool, n: int, *, at_random: bool
    ) -> None:
        """Add requests for the pool records of highest utility.

        At most `n` are requested, and at most as many as the tokens allow.
        """
        n = min(n, budget.n_affordable)
        chosen = pool.select_best(n, self._tie_rng, at_random=at_random)
        budget.spend(len(chosen))
        for id, utility, p in chosen:
            requests.add(id, utility, budget.inclusion_probability(p), audit=False, selected=True)

    def ledger(self, *, answered: int, expired: int) -> Ledger:
        """Return the counts of the budget together with `answered` and `expired`."""
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
        arrays |= {
            f"facility_location.{name}": array
            for name, array in self._facility_location.state().items()
        }
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
        if ranked := select_prefix(arrays, "facility_location."):
            self._facility_location.resume(ranked)
        self._window.resume(state["window_version"], arrays)
        if self._pool is not None:
            self._pool.set_ids(state["pool"])
