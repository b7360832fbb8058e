"""How many labels may be bought: an exact token bucket with a slice set apart for audits."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

__all__ = ["Account", "Budget", "Ledger"]

_LONGEST = 2**62
"""Records in the longest block: no stream ends one, and its place is drawn in 64 bits."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What has been asked and answered so far.

    Attributes
    ----------
    records
        Records seen.
    requests
        Labels asked for; a record that rule and audit both chose counts once.
    audits
        Audits that fell due; from a pool, also of records that had been asked for before.
    answered
        Requested labels that came back and were learned.
    expired
        Requests given up.
    tokens
        Labels that could still be bought, the audit's reserved one included.
    again
        Requests about a record that had a label, which looked wrong.
    """

    records: int
    requests: int
    audits: int
    answered: int
    expired: int
    tokens: float
    again: int = 0

    @property
    def pending(self) -> int:
        """Requests neither answered nor given up."""
        return self.requests - self.answered - self.expired


class Account:
    """What records earn, in whole numbers, and what was bought so far.

    Each earns `share` tokens, and of a `loan` the first `expected` repay a part. A part `again` of
    the share is for asking again about labels that look wrong.

    Attributes
    ----------
    records
        How many came.
    requests, audits, again
        Labels asked for, and those of them that were audits, or of records that had one.
    """

    def __init__(self, share: Fraction, loan: int, expected: int, again: Fraction) -> None:
        repaid = Fraction(loan, expected) if loan else Fraction(0)
        self.share = share
        self._least = share - repaid
        self._again_share = again * share
        self._expected = expected if loan else 0
        self._price = (
            share.denominator * repaid.denominator * self._again_share.denominator
        )  # what a token is counted in
        self._earned_at_first = int(self._least * self._price)
        self._earned_later = int(share * self._price)
        self.records = self.requests = self.audits = self.again = 0

    @property
    def _earned(self) -> int:
        """What the next record earns, in units of a token's `_price`."""
        return self._earned_at_first if self.records < self._expected else self._earned_later

    def count(self, records: int, requests: int, audits: int) -> None:
        """Count what others decided by budgets of their own."""
        self.records += records
        self.requests += requests
        self.audits += audits


class Budget(Account):
    """A token bucket in whole numbers, and the audit's place in each block of records.

    Every record earns `share` tokens and a request costs one. Counted in units of
    1/denominator(share), all of it is integer arithmetic, and two inequalities always hold:
    requests <= share * n after n records, as the bucket starts empty and never goes below zero;
    and requests <= share * n + burst in any n consecutive records, as it never holds more than
    `burst` tokens.

    With a `loan` of L tokens the bucket starts with these, and each of the `expected` records N
    that the stream is thought to have earns share - L / N instead: requests <= share * n + L
    after n records, and <= share * n from record N on, where the loan is repaid. As the bucket
    holds L at the start, a burst below L (with audits, L + 1) cannot be kept.

    From record ceil(1 / share) on, each block of m = ceil(1 / (audit * share)) records has one
    place, drawn uniformly before the block is seen, that is asked whatever the query rule says.
    For the audit to be a fair sample, the rule must answer every record as if it did not know
    where that place is, and so must everything its answer depends on:

    - The block's audit token leaves the rule's bank at the block's first record, wherever the
      place will be. The bank plus that reserve stay within `burst`, so the bank alone is held to
      `burst - 1`. (A burst of 1 cannot be kept with audits: two blocks may place theirs in
      neighbouring records.)
    - The rule may spend only what leaves a whole token at the next block's first record: the
      bank after spending plus what is earned until then must reach 1. A block earns at least
      1 / audit >= 1 tokens, so a block just begun can always afford the next; m is counted with
      what a record earns while a loan is repaid.
    - Where rule and audit choose the same record, the label is bought once but the rule's bank
      is charged as well as the reserve. Sparing either would let the bank tell where the audit
      fell. It wastes about share * audit of the tokens, and as more tokens leave than labels
      are bought, both inequalities hold all the more.

    A part `again` of the share is for asking again about labels that look wrong. What has fallen
    due depends on the number of records alone, so that it cannot tell of the audit either.
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
        self.block = min(ceil(1 / (audit * self._least)), _LONGEST) if audit else 0
        self._first = self._next = ceil(1 / share)
        self._cap = (burst - 1 if audit else burst) * self._price
        self._bank = loan * self._price
        self._place = 0  # of the newest block's audit

    def count(self, records: int, requests: int, audits: int) -> None:
        """Count what others decided, who spent what these records earned."""
        self._bank += records * self._earned - requests * self._price
        super().count(records, requests, audits)

    @property
    def rule_share(self) -> float:
        """What the rule earns per record now, in tokens, once all others have had theirs."""
        others = (1.0 / self.block if self.block else 0.0) + float(self._again_share)
        return self._earned / self._price - others

    @property
    def due_again(self) -> int:
        """How many labels may be asked for again now."""
        return max(min(int(self._again_share * self.records) - self.again, self.affordable), 0)

    def ask_again(self, n: int) -> None:
        """Charge as many requests about labels that are there; `due_again` must cover them."""
        self.spend(n)
        self.again += n

    @property
    def tokens(self) -> float:
        """Tokens left, the audit's reserved one included."""
        reserved = self._price if self._place > self.records else 0
        return (self._bank + reserved) / self._price

    @property
    def free(self) -> float:
        """Tokens the rule may spend now, in part or whole."""
        return self._free / self._price

    @property
    def affordable(self) -> int:
        """How many labels the rule may ask for now."""
        return max(0, self._free // self._price)

    @property
    def _free(self) -> int:
        if not self.block:
            return self._bank
        return self._bank - max(0, self._price - (self._next - self.records) * self._earned)

    def arrive(self, generator: np.random.Generator, most: int = 1) -> int:
        """Count the next record, or up to `most` of them; return how many were counted.

        It stops at one that is audited. The rule asks for none of them but, perhaps, the last. At
        a block's first record its token is set apart and its place drawn.
        """
        arrived = 0
        while arrived < most:
            n = most - arrived
            if n > 1:
                n = self._alike(n)
            self._bank = min(self._bank + n * self._earned, self._cap)
            self.records += n
            arrived += n
            if self.block and self.records == self._next:
                self._next += self.block
                self._bank -= self._price
                self._place = self.records + int(generator.integers(self.block))
            if self.audited:
                break
        return arrived

    def _alike(self, n: int) -> int:
        """Return how many of the next `n` records do nothing but earn alike, and at least one.

        The last of them may begin a block, or be audited.
        """
        if self.records < self._expected:
            n = min(n, self._expected - self.records)
        if self.block:
            n = min(n, self._next - self.records)
            if self._place > self.records:
                n = min(n, self._place - self.records)
        return n

    @property
    def auditing(self) -> bool:
        """Whether the record that has arrived lies in an audited block."""
        return self.block > 0 and self.records >= self._first

    def combine(self, probability: float) -> float:
        """Return the chance that rule or audit asks, the rule asking with `probability`.

        1 - (1 - p)(1 - 1/m) inside a block, p before the first one.
        """
        return probability + (1.0 - probability) / self.block if self.auditing else probability

    @property
    def audited(self) -> bool:
        """Whether the record that has arrived is its block's place."""
        return self.records == self._place > 0

    def settle(self, wanted: bool) -> tuple[bool, bool]:
        """Charge the record that has arrived; return (asked, audited).

        `wanted` is the rule's answer, given before this call and only when `affordable`.
        """
        audited = self.audited
        self.spend(int(wanted))
        if audited:
            self.audit(buys=not wanted)
        return wanted or audited, audited

    def spend(self, tokens: int) -> None:
        """Charge the rule for as many requests; `affordable` must cover them."""
        self._bank -= tokens * self._price
        self.requests += tokens

    def audit(self, *, buys: bool) -> None:
        """Count an audit, for which a token is set apart; it `buys` no label asked for before."""
        self.audits += 1
        self.requests += buys

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON can hold it."""
        return {
            "bank": self._bank,
            "place": self._place,
            "records": self.records,
            "requests": self.requests,
            "audits": self.audits,
            "again": self.again,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned for a budget of the same settings."""
        self._bank = state["bank"]
        self._place = state["place"]
        self.records = state["records"]
        self._next = self._first
        if self.block and self.records >= self._first:
            self._next += ((self.records - self._first) // self.block + 1) * self.block
        self.requests = state["requests"]
        self.audits = state["audits"]
        self.again = state["again"]
