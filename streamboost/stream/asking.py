"""Which labels a learner asks for, by the committee it has, and what came of the requests."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.budget import Ledger
from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy, Requests
from streamboost.storage import Arrays
from streamboost.stream.blend.blend import Blend
from streamboost.stream.labelled_rows.labelled import LabelledRows
from streamboost.stream.scoring import Scored, by_committee, evidence, surest

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Asking"]

_RANDOM_START = Fraction(1, 20)
"""The least budget whose first labels are drawn at random although there is a committee."""


class Asking:
    """A strategy at work, with records rated by whichever committee serves.

    Labels are bought to train it, so that its own doubts count, and not those of the experts that
    join in predictions: on six streams at budgets of 5 and 10 %, two seeds each, that came out 0.27
    points ahead in the mean, and 0.9 points where there are 40 classes.

    Utilities do not know of temperatures: they are measured on what the committee itself says.
    """

    def __init__(
        self,
        strategy: QueryStrategy,
        seeds: np.random.SeedSequence,
        rows: LabelledRows,
        blend: Blend,
    ) -> None:
        self.strategy = strategy
        self.by_scores = False  # whether others score, and their doubts count
        self._rows = rows
        self.blend = blend
        self._querier = Querier(strategy, seeds)
        self._answered = 0
        self._expired = 0
        self._open: dict[str, None] = {}  # in the order they were asked for
        self._again: dict[str, None] = {}  # those that were asked about again

    @property
    def block(self) -> int:
        """m, the records in an audit's block, 0 without audits."""
        return self._querier.budget.block

    @property
    def records(self) -> int:
        """Records queried so far."""
        return self._querier.budget.records

    @property
    def ledger(self) -> Ledger:
        """What has been asked and answered so far."""
        return self._querier.ledger(answered=self._answered, expired=self._expired)

    def widen(self, n_features: int) -> None:
        """Let records have `n_features` features; the ones kept miss the new ones."""
        self._querier.widen(n_features)

    def arrive(
        self, ids: Sequence[str], X: np.ndarray, scored: Scored, committee: "Committee | None"
    ) -> Requests:
        """Let records `X` (n, D), scored as `scored`, arrive, and decide what to ask for."""
        self._follow(committee)
        utility = self.rate(X, scored, committee)
        cold = self._is_cold(committee)
        return self._noted(self._querier.decide(ids, X, utility, surest(scored), cold=cold))

    def rate(self, X: np.ndarray, scored: Scored, committee: "Committee | None") -> np.ndarray:
        """Return the utility (n,) of records `X` (n, D) that were scored as `scored`."""
        if self.by_scores and scored.version:
            needed = scored.margins if self.strategy.needs == "margins" else scored.probabilities
            return self.strategy.measure(needed)
        is_current = committee is not None and scored.version == committee.version
        own = by_committee(committee, scored) if committee is not None and is_current else None
        return self.measure(X, committee, own)

    def arrived(self, records: int, asked: Requests) -> None:
        """Take in how many records others decided about, and what they asked for."""
        self._querier.budget.count(records, len(asked), int(asked.audit.sum()))
        self._noted(asked)

    def ask(self, n: int, committee: "Committee | None") -> Requests:
        """Ask for the `n` best records of the pool; ConfigurationError where there is none."""
        self._follow(committee)
        return self._noted(self._querier.ask(n, cold=self._is_cold(committee)))

    def answer(self, ids: Sequence[str], propensity: np.ndarray) -> None:
        """Take note of labels that came, with the chances (n,) of those that were asked for."""
        self.known(ids)
        for id, chance in zip(ids, propensity.tolist(), strict=True):
            if not math.isnan(chance):
                self._answered += self._closes(id)

    def known(self, ids: Sequence[str]) -> None:
        """Take note of labels that nobody asked for."""
        self._querier.known(ids)

    @property
    def due_again(self) -> int:
        """How many labels may be asked for again now."""
        return self._querier.budget.due_again

    def is_free(self, id: str) -> bool:
        """Whether no request of that record is open."""
        return id not in self._open and id not in self._again

    def ask_again(self, ids: Sequence[str]) -> None:
        """Ask again about these records, for a token each."""
        self._querier.budget.ask_again(len(ids))
        self._again |= dict.fromkeys(ids)

    def close(self, id: str) -> None:
        """Take note that somebody answered for a record that was asked about again, if it was."""
        if id in self._again:
            self._answered += self._closes(id)

    def expire(self, ids: Sequence[str]) -> None:
        """Give up the requests among `ids`."""
        self._expired += sum(map(self._closes, ids))

    def measure(
        self, X: np.ndarray, committee: "Committee | None", scored: Scored | None = None
    ) -> np.ndarray:
        """Return the utility (n,) of records, `scored` by the committee or not yet."""
        if committee is None:
            return np.ones(len(X))
        leader = self.blend.leader(committee)
        return self.strategy.measure(evidence(self.strategy.needs, leader, X, scored))

    def _noted(self, asked: Requests) -> Requests:
        self._open |= dict.fromkeys(asked.ids)
        return asked

    def _closes(self, id: str) -> bool:
        """Tell whether a request waited under `id`; it does not any more."""
        for waiting in (self._open, self._again):
            if id in waiting:
                del waiting[id]
                return True
        return False

    def _is_cold(self, committee: "Committee | None") -> bool:
        """Whether to ask at random.

        Without a committee there is nothing to rank by. From a budget of 5 % on, two labels per
        class drawn at random are affordable before the margins of so young a committee decide;
        below, they would cost more than they teach. Labels on their way count.
        """
        return (committee is None and not self.by_scores) or self.lacking > self.ledger.pending

    @property
    def lacking(self) -> int:
        """Labels to be drawn at random although there is a committee; 0 or less: enough."""
        if self.strategy.share < _RANDOM_START:
            return 0
        return 2 * len(self._rows.counts) - self._rows.total

    def _follow(self, committee: "Committee | None") -> None:
        """Let what is kept be rated by `committee`, anew where it or the blend has changed."""
        self._querier.follow(self.blend.edition(committee), lambda X: self.measure(X, committee))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        querier, window = self._querier.state()
        state = {
            "querier": querier,
            "answered": self._answered,
            "expired": self._expired,
            "open": list(self._open),
            "again": list(self._again),
        }
        return state, window

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for the same strategy."""
        self._querier.resume(state["querier"], arrays)
        self._answered, self._expired = state["answered"], state["expired"]
        self._open = dict.fromkeys(state["open"])
        self._again = dict.fromkeys(state["again"])
