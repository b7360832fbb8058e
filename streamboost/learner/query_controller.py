"""Query controller: computes utilities, requests labels, and counts requests and answers."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.learner.labelled_rows import LabelledRows
from streamboost.predictions import Scored, committee_predictions, top_probabilities, utility_inputs
from streamboost.query.config import QueryConfig, Requests
from streamboost.query.querier import Querier
from streamboost.query.token_bucket import Ledger
from streamboost.stacking.stacking import OnlineStacking
from streamboost.storage import Arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_RANDOM_START = Fraction(1, 20)
"""Lowest budget at which the first labels are requested at random although a committee exists."""


class QueryController:
    """Applies a query strategy to a stream; the current committee determines the utilities.

    Labels are requested to train the committee, so the utility depends on the uncertainty of the
    committee, and not of the other experts. On six streams at budgets of 5 and 10 %, two seeds
    each, the accuracy was higher by 0.27 percentage points in the mean, and by 0.9 points with 40
    classes.

    Utilities are computed from the committee's uncalibrated outputs, without a temperature.
    """

    def __init__(
        self,
        strategy: QueryConfig,
        seeds: np.random.SeedSequence,
        rows: LabelledRows,
        stacking: OnlineStacking,
    ) -> None:
        self.config = strategy
        self.uses_external_scores = False  # utilities come from the scores of other processes
        self._rows = rows
        self.stacking = stacking
        self._querier = Querier(strategy, seeds)
        self._answered = 0
        self._expired = 0
        self._open: dict[str, None] = {}  # in the order of the requests
        self._open_relabels: dict[str, None] = {}  # open relabel requests

    @property
    def audit_block_size(self) -> int:
        """Number of records in an audit block, which has one random request; 0 without audits."""
        return self._querier.budget.block

    @property
    def n_records(self) -> int:
        """Number of records so far, with or without a request; each adds to the budget."""
        return self._querier.budget.records

    @property
    def ledger(self) -> Ledger:
        """Counts of requested, answered and expired labels, and the budget."""
        return self._querier.ledger(answered=self._answered, expired=self._expired)

    def widen_rows(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        self._querier.set_n_features(n_features)

    def query_records(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        scored: Scored,
        committee: "Committee | None",
        external_confidence: np.ndarray | None = None,
    ) -> Requests:
        """Decide which of the arriving records `X` (n, D) to request labels for.

        `scored` are the predictions for the records. Returns the requests made.

        `external_confidence` (n,) is the probability of each label that another system predicted,
        if that system is evaluated. Then inclusion probabilities depend on its uncertainty alone,
        for precise estimates. None: they also depend on the utilities.
        """
        self._rescore_stored_records(committee)
        utility = self.arrival_utilities(X, scored, committee)
        if external_confidence is None:
            has_vectors = self.stacking.vector is not None and not self.uses_external_scores
            cold = self._selects_at_random(committee, has_vectors)
            requests = self._querier.select_requests(
                ids,
                X,
                utility,
                top_probabilities(scored),
                at_random=cold,
                vectors=self.stacking.vectors(X) if cold and has_vectors else None,
            )
        else:
            requests = self._querier.select_requests(
                ids, X, utility, external_confidence, at_random=False, use_ranks=False
            )
        return self._register_requests(requests)

    def arrival_utilities(
        self, X: np.ndarray, scored: Scored, committee: "Committee | None"
    ) -> np.ndarray:
        """Return the utility (n,) of labels for arriving records `X` (n, D).

        `scored` are the predictions for the records. The utilities are computed from the
        predictions of `committee` alone, or from `scored` if other processes score.
        """
        if self.uses_external_scores and scored.version:
            needed = (
                scored.margins if self.config.required_input == "margins" else scored.probabilities
            )
            return self.config.compute_utility(needed)
        is_current = committee is not None and scored.version == committee.version
        own = (
            committee_predictions(committee, scored)
            if committee is not None and is_current
            else None
        )
        return self.committee_utilities(X, committee, own)

    def observe_requests(self, n_records: int, requests: Requests) -> None:
        """Count `n_records` records that other processes scored, and register their `requests`."""
        self._querier.budget.count_external_records(
            n_records, len(requests), int(requests.audit.sum())
        )
        self._register_requests(requests)

    def query_pool(self, n: int, committee: "Committee | None") -> Requests:
        """Request the `n` records of highest utility in the pool.

        Fewer are requested if the budget does not suffice. Raises ConfigurationError if the
        strategy is not in pool mode.
        """
        self._rescore_stored_records(committee)
        return self._register_requests(
            self._querier.request_from_pool(n, at_random=self._selects_at_random(committee))
        )

    def record_answers(self, ids: Sequence[str], propensity: np.ndarray) -> None:
        """Close the requests of the records `ids`, whose labels have arrived.

        `propensity` (n,) is the inclusion probability of each request, NaN for labels without a
        request.
        """
        self.exclude_records(ids)
        for id, chance in zip(ids, propensity.tolist(), strict=True):
            if not math.isnan(chance):
                self._answered += self._close_request(id)

    def exclude_records(self, ids: Sequence[str]) -> None:
        """Exclude the records `ids` from later requests, as their labels are known."""
        self._querier.exclude(ids)

    @property
    def n_due_relabels(self) -> int:
        """Number of relabel requests that the budget allows now."""
        return self._querier.budget.n_due_relabels

    def has_no_open_request(self, id: str) -> bool:
        """Return whether the record `id` has no open request, for a first or a second label."""
        return id not in self._open and id not in self._open_relabels

    def request_relabels(self, ids: Sequence[str]) -> None:
        """Open a relabel request for each of the records `ids`, and spend a token for each."""
        self._querier.budget.charge_relabels(len(ids))
        self._open_relabels |= dict.fromkeys(ids)

    def record_relabel_answer(self, id: str) -> None:
        """Close the relabel request of the record `id` as answered, if one is open."""
        if id in self._open_relabels:
            self._answered += self._close_request(id)

    def expire_requests(self, ids: Sequence[str]) -> None:
        """Close the open requests of the records `ids` as expired."""
        self._expired += sum(map(self._close_request, ids))

    def committee_utilities(
        self, X: np.ndarray, committee: "Committee | None", scored: Scored | None = None
    ) -> np.ndarray:
        """Return the utility (n,) of labels for records `X` (n, D), computed from `committee`.

        `scored` are the committee's predictions; None: they are computed now. Without a committee,
        all utilities are 1.
        """
        if committee is None:
            return np.ones(len(X))
        scored = self.stacking.score_with_vector_expert(committee, X) or scored
        model = self.stacking.scoring_model(committee)
        return self.config.compute_utility(
            utility_inputs(self.config.required_input, model, X, scored)
        )

    def _register_requests(self, requests: Requests) -> Requests:
        self._open |= dict.fromkeys(requests.ids)
        return requests

    def _close_request(self, id: str) -> bool:
        """Close the label request of the record `id`; return whether one was open."""
        for waiting in (self._open, self._open_relabels):
            if id in waiting:
                del waiting[id]
                return True
        return False

    def _selects_at_random(self, committee: "Committee | None", has_vectors: bool = False) -> bool:
        """Return whether to select records at random, or by their vectors, instead of by utility.

        Without a committee there are no utilities to rank by. With a budget of 5 % or more, two
        labels per class are requested at random before the margins of a young committee decide.
        With a smaller budget, these labels would cost more than they gain. Two labels per class
        that are selected by vectors are worth their cost with any budget. Open requests count as
        labels.
        """
        missing = self._n_missing_labels if has_vectors else self.n_missing_random_labels
        return (
            committee is None and not self.uses_external_scores
        ) or missing > self.ledger.pending

    @property
    def n_missing_random_labels(self) -> int:
        """Number of labels still to request at random; 0 or negative if there are enough."""
        return 0 if self.config.budget_share < _RANDOM_START else self._n_missing_labels

    @property
    def _n_missing_labels(self) -> int:
        """Number of labels until there are two per known class; 0 or negative if there are."""
        return 2 * len(self._rows.counts) - self._rows.total

    def _rescore_stored_records(self, committee: "Committee | None") -> None:
        """Recompute utilities of the querier's stored records if the scoring model has changed."""
        self._querier.rescore(
            self.stacking.model_version(committee), lambda X: self.committee_utilities(X, committee)
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        querier, window = self._querier.state()
        state = {
            "querier": querier,
            "answered": self._answered,
            "expired": self._expired,
            "open": list(self._open),
            "again": list(self._open_relabels),
        }
        return state, window

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that `state` returned for an equal strategy."""
        self._querier.resume(state["querier"], arrays)
        self._answered, self._expired = state["answered"], state["expired"]
        self._open = dict.fromkeys(state["open"])
        self._open_relabels = dict.fromkeys(state["again"])
