"""How many labels may be bought where every record may be asked for, at random."""

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from streamboost.active.budget import Account
from streamboost.active.compiled import kernels

__all__ = ["Densities", "Strata"]

FLOOR = Fraction(1, 10)
"""Of the budget: a record whose chance was smaller stands for no more others than that."""

_POWER = 8.0
"""Of the rank's density: how much the most useful records are preferred."""

_DOUBT = 0.2 / 0.9
"""Share of the densities that follows the doubt about the label."""

_NEWEST = 500
"""Records over which doubts are averaged."""

_BELOW_1 = float(np.nextafter(1.0, 0.0))

_HORIZON = 50.0
_MOST = 3.0
_SAVED = 1.0
"""Tokens left alone, so that what can be paid seldom bounds a chance."""


class Strata(Account):
    """Asks at random, each record with a chance of its own, and keeps to a budget at every record.

    The chances p of the records, one behind the other, fill strata of length 1. In each stratum
    one point is drawn uniformly before it is entered, and the record whose chance covers it is
    asked for: with S the chances so far there are fewer than S + 1 requests. Every record earns
    `share` tokens, and p is at most what has been earned less S + 1, so that with `share` n
    earned

        requests < S + 1 <= share * n

    after n records, or share * n + `loan` before record `expected`, where a loan is repaid. As no
    more than `burst` - 1 tokens are kept, requests over any n records stay within
    share * n + burst.

    A record covers parts of two strata at most. The second one's point is then drawn so that it
    does not lie in the record's part if the first one's did, and the more often if it did not: both
    are uniform, no record meets two, and each is asked for with chance p.

    A part `again` of the share is set apart for asking again about labels that look wrong, by the
    number of records alone; at most half of what `burst` allows is kept of it.

    The share q of the records to ask for now is what one earns, plus the tokens saved beyond
    `_SAVED` spread over max(50, 5 / share) records, at most three times the earnings. Of it,

        p = min(audit * share + (1 - audit) q g, what can be paid, 1),

    g >= 0 being a record's own density, with a mean of about 1 over records. p must not depend on
    whether a stratum's point has been met, nor must g.

    Attributes
    ----------
    block
        The most records that one asked about stands for.
    """

    def __init__(
        self,
        share: Fraction,
        burst: int,
        audit: Fraction,
        loan: int = 0,
        expected: int = 0,
        again: Fraction = Fraction(0),
    ) -> None:
        super().__init__(share, loan, expected, again)
        self._set_apart = int(self._again_share * self._price)  # by each record, for asking again
        self._owed = 0  # of that, not spent yet
        self._bank = loan * self._price  # all that was earned
        self._certain = share == 1 and not again
        self._audit = float(audit)
        self._floor = float(audit * share)
        self._horizon = max(_HORIZON, 5.0 / float(share))
        self._most_owed = (burst - 2) // 2 * self._price if again else 0
        self._cap = float(burst - 2 - self._most_owed // self._price)
        self._forgone = 0.0  # tokens that there was no room for
        self._spent = 0.0  # S
        self._point: float | None = None  # where the stratum's is, in S; None: draw it
        self._met = False
        self.block = ceil(1 / (FLOOR * share))

    @property
    def tokens(self) -> float:
        """Labels that could still be bought."""
        return self._bank / self._price - self._forgone - self.requests

    def count(self, records: int, requests: int, audits: int) -> None:
        """Count what others decided, who leave to this one what is set apart for asking again."""
        super().count(records, requests, audits)
        self._bank += records * self._earned
        self._owed = min(self._owed + records * self._set_apart, self._most_owed)

    @property
    def due_again(self) -> int:
        """How many labels may be asked for again now."""
        return self._owed // self._price

    def ask_again(self, n: int) -> None:
        """Charge as many requests about labels that are there; `due_again` must cover them."""
        self._owed -= n * self._price
        self.again += n
        self.requests += n

    def ask(self, density: np.ndarray, draws: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Let records of `density` (n,) arrive in turn, with a uniform draw (n,) for each.

        Returns the places of those asked for, and the chance (n,) of each to be asked for.
        """
        asked, chances = [], self._chances(density.tolist())
        for i, (p, draw) in enumerate(zip(chances, draws.tolist(), strict=True)):
            if self._point is None:
                self._point = self._spent + draw
            end = self._spent + p
            if (self._met or self._point >= end) and int(end) == int(self._spent):
                self._spent = end  # mostly it moves on within a stratum, past no point
            elif self._covers(p, draw):
                asked.append(i)
        return asked, np.array(chances, dtype=np.float64)

    def _chances(self, densities: list[float]) -> list[float]:
        """Let records arrive; return the part of the strata of each.

        None depends on draws, and so on what was asked: they are worked out for all, by names of
        this call alone, as looking up its own takes an object half of the time.
        """
        price, set_apart, most_owed = self._price, self._set_apart, self._most_owed
        keen, floor, cap = 1.0 - self._audit, self._floor, self._cap
        bank, owed, forgone, spent = self._bank, self._owed, self._forgone, self._spent
        charged, horizon, certain = self.again * price, self._horizon, self._certain
        first, later = (
            (earned, (earned - set_apart) / price, _MOST * ((earned - set_apart) / price))
            for earned in (self._earned_at_first, self._earned_later)
        )
        expected, chances = self._expected, []
        for n, density in enumerate(densities, self.records):
            earned, each, most = first if n < expected else later
            bank += earned
            owed += set_apart
            if owed > most_owed:
                forgone += (owed - most_owed) / price
                owed = most_owed
            if certain:
                chances.append(1.0)
                continue
            room = (bank - owed - charged) / price - forgone - 1.0 - spent
            if room > cap:
                forgone += room - cap
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
            chances.append(p)
        self._bank, self._owed, self._forgone = bank, owed, forgone
        self.records += len(densities)
        return chances

    def _covers(self, p: float, draw: float) -> bool:
        """Move on by `p`; return whether that covers a point. The next one's place is drawn."""
        assert self._point is not None
        start, self._spent = self._spent, self._spent + p
        asked = not self._met and self._point < self._spent
        self._met = self._met or asked
        edge = int(self._spent)
        if edge > int(start):
            self._point = edge + _beyond(asked, edge - start, self._spent - edge, draw)
            self._met = self._point < self._spent
            asked = asked or self._met
        self.requests += asked
        return asked

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON can hold it."""
        return {
            "bank": self._bank,
            "forgone": self._forgone,
            "spent": self._spent,
            "point": self._point,
            "met": self._met,
            "records": self.records,
            "requests": self.requests,
            "owed": self._owed,
            "again": self.again,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned for the same settings."""
        self._bank = state["bank"]
        self._forgone, self._spent = state["forgone"], state["spent"]
        self._point, self._met = state["point"], state["met"]
        self.records, self.requests = state["records"], state["requests"]
        self._owed, self.again = state["owed"], state["again"]


def _beyond(met: bool, first: float, second: float, draw: float) -> float:
    """Place a uniform point in a stratum, of which a record covers `second`.

    It covers `first` of the stratum before and has `met` the point there, or not.
    """
    inside = 0.0 if met or first >= 1.0 else min(second / (1.0 - first), 1.0)
    if draw < inside:
        return second * draw / inside
    rest = (draw - inside) / (1.0 - inside)
    return min(second + (1.0 - second) * rest, _BELOW_1)


class Densities:
    """How much more often than others a record is asked about.

    A part follows the rank of its utility, r in [0, 1), by the density k (1 - r)^(k - 1), and a
    part the doubt about the predicted label, of probability c, sqrt(c (1 - c)) by its mean over
    some 500 records: chances proportional to the latter make the variance of the estimated
    accuracy least (Zrnic and Candès 2024). Each has a mean of 1.
    """

    def __init__(self, share: float) -> None:
        self._power = min(_POWER, max(1.0, 1.0 / share))
        self._mean = 0.0
        self._count = 0

    def of(self, ranks: np.ndarray, sure: np.ndarray | None) -> np.ndarray:
        """Return the density (n,) of records at `ranks` (n, 2), predicted with `sure` (n,)."""
        low, high = ranks.T
        above = (1.0 - low) ** self._power - (1.0 - high) ** self._power
        by_rank = above / (high - low)
        if sure is None:
            return np.asarray(by_rank)
        by_doubt = self._by_mean(np.sqrt(np.maximum(sure * (1.0 - sure), 0.0)))
        return np.asarray(_DOUBT * by_doubt + (1.0 - _DOUBT) * by_rank)

    def _by_mean(self, doubt: np.ndarray) -> np.ndarray:
        means = np.empty(len(doubt))
        if len(doubt):
            self._count = kernels().follow_mean(doubt, self._mean, self._count, _NEWEST, means)
            self._mean = float(means[-1])
        return np.where(means > 0.0, doubt / np.where(means > 0.0, means, 1.0), 1.0)

    def state(self) -> list[float]:
        """Return all that changes, as JSON can hold it."""
        return [self._mean, self._count]

    def resume(self, state: list[float]) -> None:
        """Go on from what `state` returned."""
        self._mean, self._count = float(state[0]), int(state[1])
