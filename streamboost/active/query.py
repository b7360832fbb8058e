"""Which records to ask for: the settings, and the requests that come of them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from streamboost.active.rules import RULES
from streamboost.active.settings import as_decimal, check_choice, check_whole
from streamboost.active.utilities import UTILITIES, Needs
from streamboost.errors import ConfigurationError

__all__ = ["QueryStrategy", "Requests"]

MODES = ("stream", "pool")


@dataclass(frozen=True, kw_only=True)
class QueryStrategy:
    """Which records to ask for, and how many.

    Parameters
    ----------
    utility
        How much a label would teach: much where the two likeliest classes are close ("margin"),
        the probabilities have a high "entropy", the likeliest class is unlikely
        ("least_confident"), or the committees after 1, 2, ... rounds vote for different classes
        ("vote_entropy"); "random" asks anywhere.
    mode
        "stream" decides about each record when it arrives. "pool" keeps the newest `window`
        records and, from when they have come, asks for the `round_size` best of them whenever as
        many tokens are there.
    rule
        How stream mode decides: "chance" at random, each record with a chance that grows with its
        utility's rank and with the doubt about its label, so that every label tells of the
        records that nobody asked about, too; "quantile_filter" or "variable_uncertainty" by
        threshold. With these two only audits tell.
    budget
        Share of the records whose label may be bought, in (0, 1], taken as the decimal number
        it is written as.
    burst
        Requests over any n consecutive records stay within budget * n + burst.
    audit
        Share of the budget spent uniformly at random, in [0, 1], so that accuracy can be
        estimated without bias. It needs a burst of at least 2, and the rule "chance" one of 3
        with and without. In pool mode a record's audit
        falls due when it leaves the pool, as before it may still be asked for anyway.
    window
        The newest records, among whose utilities that of a new one is ranked; or the pool.
    round_size
        Requests that pool mode makes together, at most `burst` (with audits, less 2). They are
        chosen by one committee, so more than a few at a time teach less.
    loan
        Tokens to start with, repaid evenly until record `expected_records`: at most `burst`
        (with audits, less 1), and at most a third of what the budget buys until then.
    expected_records
        Length of the stream, for the loan; None without one.
    relabel
        Share of the budget, in [0, 1), for asking again, by somebody else, for labels that look
        wrong; above 0 training also trusts each label as far as what was predicted on arrival and
        the reliability of who gave it speak for it.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------
    >>> QueryStrategy(budget=0.1).utility
    'margin'
    >>> QueryStrategy(budget=0.02, loan=10, expected_records=2_000).share
    Fraction(1, 50)
    """

    utility: str = "margin"
    mode: str = "stream"
    rule: str = "chance"
    budget: float = 0.05
    burst: int = 20
    audit: float = 0.1
    window: int = 200
    round_size: int = 1
    loan: int = 0
    expected_records: int | None = None
    relabel: float = 0.0

    @property
    def asks_later(self) -> bool:
        """Whether a record may be asked about after the call that it arrived in."""
        return self.mode == "pool" or self.relabel > 0

    def __post_init__(self) -> None:
        check_choice("query utility", self.utility, UTILITIES)
        check_choice("query mode", self.mode, MODES)
        check_choice("query rule", self.rule, RULES)
        if self.mode == "pool" and self.rule != "chance":
            raise ConfigurationError(
                f'query rule is {self.rule!r}, and mode "pool" has none but its rounds: leave the '
                'rule out, or choose mode "stream"'
            )
        if not 0 < self.share <= 1:
            raise ConfigurationError(
                f"query budget is {self.budget!r}: give the share of records that may be asked "
                "for, above 0 and at most 1"
            )
        if not 0 <= self.audit_share <= 1:
            raise ConfigurationError(
                f"query audit is {self.audit!r}: give a share of the budget from 0 to 1"
            )
        if not 0 <= self.relabel_share < 1 or self.audit_share + self.relabel_share > 1:
            raise ConfigurationError(
                f"query relabel is {self.relabel!r}: give a share of the budget from 0 to below 1, "
                "which leaves the audit its own"
            )
        check_whole("query window", self.window)
        check_whole("query round_size", self.round_size)
        self._check_loan()
        self._check_burst()

    def _check_loan(self) -> None:
        check_whole("query loan", self.loan, at_least=0)
        if self.expected_records is not None:
            check_whole("query expected_records", self.expected_records)
        if self.loan and self.expected_records is None:
            raise ConfigurationError(
                f"query loan is {self.loan}, and expected_records is not given: say how long the "
                "stream will be, by when the loan is repaid"
            )
        bought = self.share * (self.expected_records or 0)
        if 3 * self.loan > bought:
            raise ConfigurationError(
                f"query loan is {self.loan}: give at most {int(bought / 3)}, a third of what the "
                f"budget buys of {self.expected_records} records"
            )

    def _check_burst(self) -> None:
        audits = self.audit_share > 0
        if self.rule == "chance" and self.mode == "stream":
            least = 4 if self.relabel_share else 3
            check_whole(
                "query burst", self.burst, at_least=least, reason=', as rule "chance" needs'
            )
            reason = ", as the loan is there at once"
            check_whole("query burst", self.burst, at_least=self.loan + 1, reason=reason)
            return
        reason = " with audits, without which 1 will do" if audits else ""
        check_whole("query burst", self.burst, at_least=1 + audits, reason=reason)
        reason = ", as a round is asked for at once"
        if self.mode == "pool":
            least = self.round_size + 2 * audits
            check_whole("query burst", self.burst, at_least=least, reason=reason)
        reason = ", as the loan is there at once"
        check_whole("query burst", self.burst, at_least=self.loan + audits, reason=reason)

    @cached_property
    def share(self) -> Fraction:
        """The budget as an exact fraction: 0.1 is 1/10."""
        return as_decimal("query budget", self.budget)

    @cached_property
    def audit_share(self) -> Fraction:
        """The audit as an exact fraction."""
        return as_decimal("query audit", self.audit)

    @cached_property
    def relabel_share(self) -> Fraction:
        """What is set apart for asking again, as an exact fraction of the budget."""
        return as_decimal("query relabel", self.relabel)

    @property
    def needs(self) -> Needs:
        """What `measure` takes: "margins", "probabilities", "votes" or "nothing"."""
        return UTILITIES[self.utility].needs

    def measure(self, evidence: np.ndarray) -> np.ndarray:
        """Return the utility (n,), in [0, 1], of n records; higher asks first.

        `evidence` is what `needs` names: raw score margins (n,), or probabilities or shares of
        the votes (n, K); for "nothing", any array with n rows.
        """
        return UTILITIES[self.utility].measure(evidence)


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Records whose label is asked for; all of one length m.

    Attributes
    ----------
    ids
        The records' ids; in pool mode also of records that came in earlier batches.
    utility
        float64 (m,), how much each label would teach.
    propensity
        float64 (m,), the chance with which each record was asked for, given what came before.
    audit
        bool (m,), the record was its block's audited place.
    rule
        bool (m,), the query rule asked for it; at least one of the two holds.
    chances
        float64 (n,), where the rule is "chance": that of each record that arrived, asked for or
        not; else None.
    """

    ids: list[str]
    utility: np.ndarray
    propensity: np.ndarray
    audit: np.ndarray
    rule: np.ndarray
    chances: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)
