"""Label budget: a token bucket in exact arithmetic, with a reserve for random audits."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

_LONGEST = 2**62
"""Limit of the block length in records: longer than any stream, and within 64 bits."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counts of records, label requests and answers, and the tokens left.

    Attributes
    ----------
    records
        Number of records that arrived.
    requests
        Number of labels requested; a record chosen by both selection and audit counts once.
    audits
        Number of audits, in pool mode also of records that had been requested before.
    answered
        Number of requested labels that arrived and were learned.
    expired
        Number of expired requests.
    tokens
        Token balance: number of labels that could be requested now, including a token reserved for
        an audit.
    again
        Number of relabel requests, for records whose label looked wrong.
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
        """Number of open requests: neither answered nor expired."""
        return self.requests - self.answered - self.expired


class TokenBucket:
    """Base class of label budgets: tokens earned per record, and counts of requests.

    Each record earns `share` tokens, and each request costs one. The first `stream_length` records
    repay the `initial_credit` in equal parts. The part `relabel_share`, in [0, 1), of these tokens
    is reserved for relabel requests.

    Attributes
    ----------
    records
        Number of records that arrived.
    requests, audits, again
        Number of labels requested, of audits among them, and of relabel requests among them.
    """

    def __init__(
        self, share: Fraction, initial_credit: int, stream_length: int, relabel_share: Fraction
    ) -> None:
        repaid = Fraction(initial_credit, stream_length) if initial_credit else Fraction(0)
        self.share = share
        self._least = share - repaid
        self._relabels_per_record = relabel_share * share
        self._expected = stream_length if initial_credit else 0
        self._unit = (
            share.denominator * repaid.denominator * self._relabels_per_record.denominator
        )  # number of units of a token
        self._earned_at_first = int(self._least * self._unit)
        self._earned_later = int(share * self._unit)
        self.records = self.requests = self.audits = self.again = 0

    @property
    def _units_earned_per_record(self) -> int:
        """Number of units that the next record earns; `_unit` units are one token."""
        return self._earned_at_first if self.records < self._expected else self._earned_later

    def count_external_records(self, records: int, requests: int, audits: int) -> None:
        """Count records and requests of other processes, which spend their own tokens."""
        self.records += records
        self.requests += requests
        self.audits += audits


class TokenBudget(TokenBucket):
    """Token bucket in integer arithmetic, with one random audit per block of records.

    Every record earns `share` tokens and a request costs one token. Tokens are counted in integer
    fractions of a token (units), so that the arithmetic is exact and two inequalities always hold:

    - requests <= share * n after n records, as the bucket starts empty and is never below zero;
    - requests <= share * n + burst in any n consecutive records, as the bucket never holds more
      than `burst` tokens.

    With an `initial_credit` of L tokens, the bucket starts with L tokens. Each of the
    `stream_length` N records of the stream then earns share - L / N instead: requests <= share * n
    + L after n records, and <= share * n from record N on, where the credit is repaid. As the
    bucket holds L tokens at the start, a burst below L (with audits, L + 1) is not possible.

    From record ceil(1 / share) on, each block of m = ceil(1 / (audit * share)) records has one
    audit: one record, drawn uniformly before the block starts, is requested regardless of the
    selection rule. For the audit to be a uniform random sample, the decisions of the selection
    rule, and all of their inputs, must be independent of the audited record:

    - The block's audit token is withdrawn from the selection's balance at the block's first record,
      regardless of the audited record. Balance and reserve stay within `burst`, so the balance
      alone is limited to `burst - 1`. (A burst of 1 is not possible with audits: the audited
      records of two blocks may be neighbours.)
    - The selection must leave a whole token for the next block's first record: the balance after
      spending, plus the earnings until then, must reach 1. A block earns at least 1 / audit >= 1
      tokens, so a block that has just started can always afford the next. m is computed with the
      lower earnings while an initial credit is repaid.
    - If selection and audit choose the same record, the label is bought once, but both balance and
      reserve are charged. Otherwise the balance would depend on the audited record. This wastes
      about share * audit of the tokens, and both inequalities still hold.

    The part `relabel_share` of the tokens is for relabel requests. Their number depends on the
    number of records alone, so that it is independent of the audit, too.
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
        self.block = min(ceil(1 / (audit * self._least)), _LONGEST) if audit else 0
        self._first = self._next = ceil(1 / share)
        self._cap = (burst - 1 if audit else burst) * self._unit
        self._balance = initial_credit * self._unit
        self._place = 0  # of the newest block's audit

    def count_external_records(self, records: int, requests: int, audits: int) -> None:
        """Count records and requests of other processes, which spend this budget's tokens."""
        self._balance += records * self._units_earned_per_record - requests * self._unit
        super().count_external_records(records, requests, audits)

    @property
    def tokens_per_record(self) -> float:
        """Number of tokens that the next record earns for the selection.

        Tokens for audits and relabel requests are not included.
        """
        others = (1.0 / self.block if self.block else 0.0) + float(self._relabels_per_record)
        return self._units_earned_per_record / self._unit - others

    @property
    def n_due_relabels(self) -> int:
        """Number of relabel requests that are due and affordable now."""
        return max(
            min(int(self._relabels_per_record * self.records) - self.again, self.n_affordable), 0
        )

    def charge_relabels(self, n: int) -> None:
        """Charge `n` relabel requests to the token balance; `n` is at most `n_due_relabels`."""
        self.spend(n)
        self.again += n

    @property
    def tokens(self) -> float:
        """Number of tokens left, including the token reserved for an audit."""
        reserved = self._unit if self._place > self.records else 0
        return (self._balance + reserved) / self._unit

    @property
    def spendable_tokens(self) -> float:
        """Number of tokens, not rounded, that the selection may spend now; may be negative."""
        return self._spendable_units / self._unit

    @property
    def n_affordable(self) -> int:
        """Number of labels that the selection may request now."""
        return max(0, self._spendable_units // self._unit)

    @property
    def _spendable_units(self) -> int:
        if not self.block:
            return self._balance
        return self._balance - max(
            0, self._unit - (self._next - self.records) * self._units_earned_per_record
        )

    def count_arrivals(self, generator: np.random.Generator, max_records: int = 1) -> int:
        """Count at most `max_records` arriving records, which earn tokens; return how many.

        Counting stops after an audited record, and only the last counted record can be requested.
        So `max_records` above 1 is for records that the selection rule does not select. At the
        first record of a block, the audit's token is reserved, and the record to be audited is
        drawn.
        """
        arrived = 0
        while arrived < max_records:
            n = max_records - arrived
            if n > 1:
                n = self._n_countable_in_one_step(n)
            self._balance = min(self._balance + n * self._units_earned_per_record, self._cap)
            self.records += n
            arrived += n
            if self.block and self.records == self._next:
                self._next += self.block
                self._balance -= self._unit
                self._place = self.records + int(generator.integers(self.block))
            if self.is_audited:
                break
        return arrived

    def _n_countable_in_one_step(self, n: int) -> int:
        """Return how many of the next `n` records can be counted in one step, at least 1.

        Only the last of these records may begin a block, or be audited.
        """
        if self.records < self._expected:
            n = min(n, self._expected - self.records)
        if self.block:
            n = min(n, self._next - self.records)
            if self._place > self.records:
                n = min(n, self._place - self.records)
        return n

    @property
    def is_in_audited_block(self) -> bool:
        """Whether the newest record is in an audited block."""
        return self.block > 0 and self.records >= self._first

    def inclusion_probability(self, selection_probability: float) -> float:
        """Return the newest record's probability of being requested by selection or audit.

        `selection_probability` is p. The result is 1 - (1 - p)(1 - 1/m) in a block of m records,
        and p before the first block.
        """
        p = selection_probability
        return p + (1.0 - p) / self.block if self.is_in_audited_block else p

    @property
    def is_audited(self) -> bool:
        """Whether the newest record is audited."""
        return self.records == self._place > 0

    def charge_record(self, selected: bool) -> tuple[bool, bool]:
        """Spend tokens on the newest record; return whether it is requested, and whether audited.

        `selected` is the decision of the selection rule, which may be True only if `n_affordable`
        is at least 1.
        """
        audited = self.is_audited
        self.spend(int(selected))
        if audited:
            self.count_audited_record(is_new_request=not selected)
        return selected or audited, audited

    def spend(self, tokens: int) -> None:
        """Spend `tokens`, at most `n_affordable`, on as many requests of the selection."""
        self._balance -= tokens * self._unit
        self.requests += tokens

    def count_audited_record(self, *, is_new_request: bool) -> None:
        """Count an audited record, whose token is already reserved.

        `is_new_request` is False if the selection also requested the record's label.
        """
        self.audits += 1
        self.requests += is_new_request

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {
            "bank": self._balance,
            "place": self._place,
            "records": self.records,
            "requests": self.requests,
            "audits": self.audits,
            "again": self.again,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that `state` returned for a budget with equal settings."""
        self._balance = state["bank"]
        self._place = state["place"]
        self.records = state["records"]
        self._next = self._first
        if self.block and self.records >= self._first:
            self._next += ((self.records - self._first) // self.block + 1) * self.block
        self.requests = state["requests"]
        self.audits = state["audits"]
        self.again = state["again"]
