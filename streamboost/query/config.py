"""Settings of a query strategy, and the label requests that it returns."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.query.selection import SELECTIONS
from streamboost.query.settings import as_exact_fraction, check_choice, check_integer
from streamboost.query.strategies import UTILITIES, Needs

MODES = ("stream", "pool")


@dataclass(frozen=True, kw_only=True)
class QueryConfig:
    """Settings of a query strategy and its label budget.

    Parameters
    ----------
    strategy
        Rule that ranks records by the utility of their labels. The utility is high if the scores of
        the two most probable classes are close ("margin"), if the probabilities have a high entropy
        ("entropy"), if the most probable class is improbable ("least_confident"), or if the
        committees after 1, 2, ... rounds vote for different classes ("vote_entropy"). "random"
        ignores utilities.
    mode
        "stream" decides about each record on arrival. "pool" keeps the newest `window` records.
        Once the pool is full, the `query_batch_size` records of highest utility are requested
        whenever the token balance allows it.
    selection
        Selection rule of stream mode. "probability" selects at random, with an inclusion
        probability that grows with the rank of the utility and with the uncertainty of the
        label, so that every label also contributes to unbiased estimates. "quantile_filter" and
        "variable_uncertainty" select by threshold; with these, only audits contribute.
    budget
        Share of the records whose label may be bought, in (0, 1]. A float is read as its decimal
        notation: 0.1 is exactly 1/10.
    burst
        Requests over any n consecutive records stay within budget * n + burst.
    audit
        Share of the budget, in [0, 1], that is spent on records selected uniformly at random, so
        that accuracy can be estimated without bias. Requires a burst of at least 2; selection
        "probability" requires at least 3, also without audits. In pool mode a record is audited
        when it leaves the pool, as the record may be requested until then.
    window
        Number of newest records among which a new record is ranked by utility; in pool mode, the
        size of the pool.
    query_batch_size
        Requests per round of pool mode (batch-mode active learning), at most `burst` (with audits,
        minus 2). The records of a round are selected by one committee, so large rounds gain less.
    initial_credit
        Number of labels that may be requested before the budget has earned them. They are repaid
        evenly until record `stream_length`. At most `burst` (with audits, minus 1), and at most a
        third of the labels that the budget allows until then.
    stream_length
        Number of records over which the initial credit is repaid; None without a credit.
    relabel
        Share of the budget, in [0, 1), for relabel requests: if a label looks wrong, another
        annotator is asked. Above 0, labels are also weighted in training by the estimated
        probability that they are right (`LabelQuality`).
    evaluation_labels
        Minimum number of labels in the sliding window of the recent estimates. The window has 2,000
        records, or more if these have fewer labels.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------
    >>> QueryConfig(budget=0.1).strategy
    'margin'
    >>> QueryConfig(budget=0.02, initial_credit=10, stream_length=2_000).budget_share
    Fraction(1, 50)
    """

    strategy: str = "margin"
    mode: str = "stream"
    selection: str = "probability"
    budget: float = 0.05
    burst: int = 20
    audit: float = 0.1
    window: int = 200
    query_batch_size: int = 1
    initial_credit: int = 0
    stream_length: int | None = None
    relabel: float = 0.0
    evaluation_labels: int = 200

    @property
    def allows_late_requests(self) -> bool:
        """Whether a record may still be requested after the call of `query` in which it arrives."""
        return self.mode == "pool" or self.relabel > 0

    def __post_init__(self) -> None:
        check_choice("query strategy", self.strategy, UTILITIES)
        check_choice("query mode", self.mode, MODES)
        check_choice("query selection", self.selection, SELECTIONS)
        if self.mode == "pool" and self.selection != "probability":
            raise ConfigurationError(
                f'query selection is {self.selection!r}, and mode "pool" selects in batches alone: '
                'leave this key out, or choose mode "stream"'
            )
        if not 0 < self.budget_share <= 1:
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
        check_integer("query window", self.window)
        check_integer("query query_batch_size", self.query_batch_size)
        check_integer("query evaluation_labels", self.evaluation_labels, at_least=0)
        self._check_initial_credit()
        self._check_burst()

    def _check_initial_credit(self) -> None:
        check_integer("query initial_credit", self.initial_credit, at_least=0)
        if self.stream_length is not None:
            check_integer("query stream_length", self.stream_length)
        if self.initial_credit and self.stream_length is None:
            raise ConfigurationError(
                f"query initial_credit is {self.initial_credit}, and stream_length is not given: "
                "say how long the stream will be, by when it is repaid"
            )
        bought = self.budget_share * (self.stream_length or 0)
        if 3 * self.initial_credit > bought:
            raise ConfigurationError(
                f"query initial_credit is {self.initial_credit}: give at most {int(bought / 3)}, a "
                f"third of what the budget buys of {self.stream_length} records"
            )

    def _check_burst(self) -> None:
        audits = self.audit_share > 0
        if self.selection == "probability" and self.mode == "stream":
            least = 4 if self.relabel_share else 3
            check_integer(
                "query burst",
                self.burst,
                at_least=least,
                reason=', as selection "probability" needs',
            )
            reason = ", as the initial credit is available at once"
            check_integer(
                "query burst", self.burst, at_least=self.initial_credit + 1, reason=reason
            )
            return
        reason = " with audits, without which 1 will do" if audits else ""
        check_integer("query burst", self.burst, at_least=1 + audits, reason=reason)
        reason = ", as a query batch is asked for at once"
        if self.mode == "pool":
            least = self.query_batch_size + 2 * audits
            check_integer("query burst", self.burst, at_least=least, reason=reason)
        reason = ", as the initial credit is available at once"
        check_integer(
            "query burst", self.burst, at_least=self.initial_credit + audits, reason=reason
        )

    @cached_property
    def budget_share(self) -> Fraction:
        """The budget, in labels per record, as an exact fraction: 0.1 is 1/10."""
        return as_exact_fraction("query budget", self.budget)

    @cached_property
    def audit_share(self) -> Fraction:
        """The share of the budget for audits, as an exact fraction."""
        return as_exact_fraction("query audit", self.audit)

    @cached_property
    def relabel_share(self) -> Fraction:
        """The share of the budget reserved for relabel requests, as an exact fraction."""
        return as_exact_fraction("query relabel", self.relabel)

    @property
    def required_input(self) -> Needs:
        """Input of `compute_utility`: "margins", "probabilities", "votes" or "nothing"."""
        return UTILITIES[self.strategy].required_input

    def compute_utility(self, evidence: np.ndarray) -> np.ndarray:
        """Return the utility (n,), in [0, 1], of a label for each of n records.

        Records of higher utility are requested first. `required_input` determines the content of
        `evidence`: raw score margins (n,), probabilities (n, K), vote shares (n, K), or, for
        "nothing", any array with n rows.
        """
        return UTILITIES[self.strategy].measure(evidence)


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Label requests for m records; all sequences but the last have length m.

    Attributes
    ----------
    ids
        The records' ids; in pool mode also of records from earlier batches.
    utility
        float64 (m,), the utility of each label.
    propensity
        float64 (m,), the inclusion probability of each record, given all earlier requests.
    audit
        bool (m,), whether the record was requested at random by an audit.
    selected
        bool (m,), whether the record was selected by the selection rule or for its utility;
        `selected` or `audit` is true, or both.
    inclusion_probabilities
        float64 (n,), the inclusion probability of each of the n records that arrived, requested or
        not; None unless selection is "probability".
    """

    ids: list[str]
    utility: np.ndarray
    propensity: np.ndarray
    audit: np.ndarray
    selected: np.ndarray
    inclusion_probabilities: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)
