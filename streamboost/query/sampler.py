"""Random sampling under a label budget, with an inclusion probability for every record.

The design is the systematic sampling of Deville (1998): one record per stratum, where a stratum is
a group of successive records whose inclusion probabilities sum to 1.
"""

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from streamboost.query.compiled import query_kernels
from streamboost.query.token_bucket import TokenBucket

FLOOR = Fraction(1, 10)
"""Lowest inclusion probability, as a share of the budget; bounds the weight of a label."""

_POWER = 8.0
"""Exponent k of the density by rank: larger values prefer the most useful records more."""

_DOUBT = 0.5
"""Share of a record's density that is proportional to the uncertainty of its label."""

_NEWEST = 500
"""Approximate number of newest records over which the uncertainty is averaged."""

_BELOW_1 = float(np.nextafter(1.0, 0.0))

_HORIZON = 50.0
_MOST = 3.0
_SAVED = 1.0
"""Tokens kept in reserve, so that the balance seldom limits an inclusion probability."""


class OnePerStratumSampler(TokenBucket):
    """Samples one record per stratum with individual inclusion probabilities, within a budget.

    This is systematic sampling (Deville 1998). The inclusion probabilities p of successive records
    are added up, so that each record has an interval of length p on a line. A stratum is a segment
    of length 1 of this line. One point is drawn uniformly in each stratum, before its first record,
    and the record whose interval covers the point is requested. With S the sum of the probabilities
    so far there are fewer than S + 1 requests. Every record earns `share` tokens, and p is at most
    the tokens earned minus S + 1, so that with `share` n tokens earned

        requests < S + 1 <= share * n

    after n records, or share * n + `initial_credit` before record `stream_length`, where an initial
    credit is repaid. As at most `burst` - 1 tokens are kept, requests over any n records stay
    within share * n + burst.

    A record overlaps at most two strata. If the first stratum's point is in the record's interval,
    the second one's point is drawn outside of it; else the point is drawn inside more often. So
    both points are uniform, no record covers two, and each is requested with probability p.

    The part `relabel_share` of the tokens is reserved for relabel requests. The reserve depends on
    the number of records alone, and has at most half of the tokens that `burst` allows.

    Let q be the share of the records to request at present: the tokens that a record earns, plus
    the saved tokens beyond `_SAVED` divided by max(50, 5 / share), and at most three times the
    tokens that a record earns. Then

        p = min(audit * share + (1 - audit) q g, affordable tokens, 1),

    where g >= 0 is the relative inclusion probability of the record (`SizeMeasure`), with a mean of
    about 1. Neither p nor g may depend on whether a stratum's point has been covered.

    Attributes
    ----------
    block
        The largest number of records that a requested record represents.
    """

    def __init__(
        self,
        share: Fraction,
        burst: int,
        audit: Fraction,
        initial_credit: int = 0,
        stream_length: int = 0,
        relabel_share: Fraction = Fraction(0),
    ) -> None:
        super().__init__(share, initial_credit, stream_length, relabel_share)
        # Relabel reserve per record, in units.
        self._relabel_earned = int(self._relabels_per_record * self._unit)
        self._relabel_balance = 0  # unspent relabel reserve
        self._balance = initial_credit * self._unit  # all tokens earned
        self._certain = share == 1 and not relabel_share
        self._audit = float(audit)
        self._floor = float(audit * share)
        self._horizon = max(_HORIZON, 5.0 / float(share))
        self._max_relabel_balance = (burst - 2) // 2 * self._unit if relabel_share else 0
        self._cap = float(burst - 2 - self._max_relabel_balance // self._unit)
        self._discarded = 0.0  # tokens discarded at the limit
        self._spent = 0.0  # S
        self._point: float | None = None  # the stratum's point, in units of S; None: draw it
        self._is_point_covered = False
        self.block = ceil(1 / (FLOOR * share))

    @property
    def tokens(self) -> float:
        """Number of labels that can be requested now."""
        return self._balance / self._unit - self._discarded - self.requests

    @property
    def n_complete_strata(self) -> int:
        """Number of complete strata, each of which has one requested record."""
        return int(self._spent)

    def count_external_records(self, records: int, requests: int, audits: int) -> None:
        """Count records and requests of other processes, which spend their own tokens.

        The records earn tokens for relabel requests in this budget.
        """
        super().count_external_records(records, requests, audits)
        self._balance += records * self._units_earned_per_record
        self._relabel_balance = min(
            self._relabel_balance + records * self._relabel_earned, self._max_relabel_balance
        )

    @property
    def n_due_relabels(self) -> int:
        """Number of relabel requests that are affordable now."""
        return self._relabel_balance // self._unit

    def charge_relabels(self, n: int) -> None:
        """Charge `n` relabel requests to the token balance; `n` is at most `n_due_relabels`."""
        self._relabel_balance -= n * self._unit
        self.again += n
        self.requests += n

    def sample(
        self, relative_probabilities: np.ndarray, draws: np.ndarray
    ) -> tuple[list[int], np.ndarray]:
        """Select a random sample of n arriving records.

        `relative_probabilities` (n,) are the relative inclusion probabilities, and `draws` (n,) are
        uniform random numbers. Returns the indices of the selected records, and the inclusion
        probabilities (n,) of all records.
        """
        relative = relative_probabilities.tolist()
        asked, inclusion_probabilities = [], self._count_records_and_compute_probabilities(relative)
        for i, (p, draw) in enumerate(zip(inclusion_probabilities, draws.tolist(), strict=True)):
            if self._point is None:
                self._point = self._spent + draw
            end = self._spent + p
            if (self._is_point_covered or self._point >= end) and int(end) == int(self._spent):
                self._spent = end  # the common case: within the stratum, no point covered
            elif self._advance_and_check_selected(p, draw):
                asked.append(i)
        return asked, np.array(inclusion_probabilities, dtype=np.float64)

    def _count_records_and_compute_probabilities(
        self, relative_probabilities: list[float]
    ) -> list[float]:
        """Count arriving records; return the inclusion probability of each.

        `relative_probabilities` are the records' relative inclusion probabilities. No inclusion
        probability depends on the random draws, so all are computed before the draws, in one loop.
        Local variables make this loop fast.
        """
        unit, relabel_earned, max_relabel_balance = (
            self._unit,
            self._relabel_earned,
            self._max_relabel_balance,
        )
        keen, floor, cap = 1.0 - self._audit, self._floor, self._cap
        balance, relabel_balance, discarded, spent = (
            self._balance,
            self._relabel_balance,
            self._discarded,
            self._spent,
        )
        charged, horizon, certain = self.again * unit, self._horizon, self._certain
        first, later = (
            (earned, (earned - relabel_earned) / unit, _MOST * ((earned - relabel_earned) / unit))
            for earned in (self._earned_at_first, self._earned_later)
        )
        expected, inclusion_probabilities = self._expected, []
        for n, density in enumerate(relative_probabilities, self.records):
            earned, each, most = first if n < expected else later
            balance += earned
            relabel_balance += relabel_earned
            if relabel_balance > max_relabel_balance:
                discarded += (relabel_balance - max_relabel_balance) / unit
                relabel_balance = max_relabel_balance
            if certain:
                inclusion_probabilities.append(1.0)
                continue
            room = (balance - relabel_balance - charged) / unit - discarded - 1.0 - spent
            if room > cap:
                discarded += room - cap
                room = cap
            share = each + (room - _SAVED) / horizon
            if share > most:
                share = most
            elif share < 0.0:
                share = 0.0
            p = floor + keen * share * density
            if p > room:
                p = room
            if p > 1.0:
                p = 1.0
            elif p < 0.0:
                p = 0.0
            spent += p
            inclusion_probabilities.append(p)
        self._balance, self._relabel_balance, self._discarded = balance, relabel_balance, discarded
        self.records += len(relative_probabilities)
        return inclusion_probabilities

    def _advance_and_check_selected(self, probability: float, draw: float) -> bool:
        """Advance by a record's inclusion probability; return whether the record is requested.

        The record is requested if its interval, of length `probability`, covers the point of a
        stratum. `draw` is a uniform random number, for the point of the next stratum.
        """
        assert self._point is not None
        start, self._spent = self._spent, self._spent + probability
        asked = not self._is_point_covered and self._point < self._spent
        self._is_point_covered = self._is_point_covered or asked
        edge = int(self._spent)
        if edge > int(start):
            self._point = edge + _draw_point_in_next_stratum(
                asked, edge - start, self._spent - edge, draw
            )
            self._is_point_covered = self._point < self._spent
            asked = asked or self._is_point_covered
        self.requests += asked
        return asked

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {
            "bank": self._balance,
            "forgone": self._discarded,
            "spent": self._spent,
            "point": self._point,
            "met": self._is_point_covered,
            "records": self.records,
            "requests": self.requests,
            "owed": self._relabel_balance,
            "again": self.again,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that a sampler with the same settings returned."""
        self._balance = state["bank"]
        self._discarded, self._spent = state["forgone"], state["spent"]
        self._point, self._is_point_covered = state["point"], state["met"]
        self.records, self.requests = state["records"], state["requests"]
        self._relabel_balance, self.again = state["owed"], state["again"]


def _draw_point_in_next_stratum(
    is_point_covered: bool, length_before: float, length_after: float, draw: float
) -> float:
    """Return the sampling point of a stratum that a record's interval enters, uniform in [0, 1).

    The interval covers the last `length_before` of the stratum before, and the first `length_after`
    of the new one; each stratum has length 1. `is_point_covered` says whether it covers the point
    of the stratum before. If so, the new point is outside of the interval, so that the record is
    requested only once. `draw` is a uniform random number in [0, 1).
    """
    inside = (
        0.0
        if is_point_covered or length_before >= 1.0
        else min(length_after / (1.0 - length_before), 1.0)
    )
    if draw < inside:
        return length_after * draw / inside
    rest = (draw - inside) / (1.0 - inside)
    return min(length_after + (1.0 - length_after) * rest, _BELOW_1)


class SizeMeasure:
    """Computes relative inclusion probabilities of records (the size measure of pps sampling).

    The result is the mean of two parts, each with a mean of 1 over records. The first part is k (1
    - r)^(k - 1), where r in [0, 1) is the rank of the utility (0 is highest), and k is 1 / `share`,
    at most 8. The second part is the uncertainty sqrt(c (1 - c)) of a label predicted with
    probability c, divided by its mean over about 500 records. Inclusion probabilities proportional
    to the uncertainty minimize the variance of the estimated accuracy (Zrnic and Candès 2024).
    """

    def __init__(self, share: float) -> None:
        self._power = min(_POWER, max(1.0, 1.0 / share))
        self._mean = 0.0
        self._count = 0

    def relative_probabilities(
        self, ranks: np.ndarray, confidence: np.ndarray | None, use_ranks: bool = True
    ) -> np.ndarray:
        """Return the relative inclusion probabilities (n,) of n records, of mean about 1.

        `ranks` (n, 2) are intervals (`RankedBatch.ranks`), and `confidence` (n,) are the
        probabilities of the predicted labels. If `confidence` is None, the result depends on the
        ranks alone. Without `use_ranks`, it depends on the uncertainty alone.
        """
        low, high = ranks.T
        above = (1.0 - low) ** self._power - (1.0 - high) ** self._power
        by_rank = above / (high - low)
        if confidence is None:
            return np.asarray(by_rank)
        by_doubt = self._divide_by_running_mean(
            np.sqrt(np.maximum(confidence * (1.0 - confidence), 0.0))
        )
        share = _DOUBT if use_ranks else 1.0
        return np.asarray(share * by_doubt + (1.0 - share) * by_rank)

    def _divide_by_running_mean(self, uncertainty: np.ndarray) -> np.ndarray:
        means = np.empty(len(uncertainty))
        if len(uncertainty):
            self._count = query_kernels().update_running_mean(
                uncertainty, self._mean, self._count, _NEWEST, means
            )
            self._mean = float(means[-1])
        return np.where(means > 0.0, uncertainty / np.where(means > 0.0, means, 1.0), 1.0)

    def state(self) -> list[float]:
        """Return the mutable state for `resume`, as JSON values."""
        return [self._mean, self._count]

    def resume(self, state: list[float]) -> None:
        """Set the state to one that the method `state` returned."""
        self._mean, self._count = float(state[0]), int(state[1])
