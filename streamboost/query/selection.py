"""Selection rules of stream mode: the inclusion probability of a record on its arrival.

A selection rule is applied only while the budget has a token. The inclusion probability depends
only on earlier records and requests, and not on the random number that decides about the record.
"""

from collections.abc import Callable, Iterable
from math import erf, sqrt
from typing import Protocol

import numpy as np

from streamboost.query.token_bucket import TokenBudget
from streamboost.query.window import UtilityWindow

SELECTIONS = ("probability", "quantile_filter", "variable_uncertainty")

_TOLERANCE = 50.0
"""Number of saved tokens that lower the quantile filter's threshold by the range of utilities."""

_STEP = 0.01
"""Relative change of the variable threshold with each decision; the paper's s."""


_ROUNDING = 1e-6
"""Upper bound of the rounding error of a probability."""

RecordProbability = Callable[[int, TokenBudget], float]
"""Maps the index of a record in a batch, and the budget on arrival, to its probability."""


class SelectionRule(Protocol):
    """Interface of a selection rule, which computes each record's inclusion probability."""

    memory: float
    """State of the rule, which is stored in snapshots: a threshold, or 0."""

    def candidates_and_probability(
        self, utility: np.ndarray, window: UtilityWindow, draws: np.ndarray
    ) -> tuple[Iterable[int], RecordProbability]:
        """Return the indices of arriving records that may be requested, and a probability function.

        `utility` (n,) are the utilities, `window` has the earlier records, and `draws` (n,) are
        uniform random numbers. A record is requested if its draw is below its probability, which
        the function computes from the record's index and the budget. Records at other indices
        cannot be requested. The indices are ascending.
        """

    def update(self, selected: bool) -> None:
        """Update the rule after a decision; `selected` says whether the record was requested."""


class EvenSpending:
    """Spends the budget evenly: requests each record with the same probability, at random.

    The probability is the number of tokens that a record earns, plus a correction: the saved tokens
    beyond one, divided by max(50, 5 / budget). It is at most three times the tokens that a record
    earns.
    """

    def __init__(self, share: float) -> None:
        self._horizon = max(50.0, 5.0 / share)
        self._most = min(3.0 * share, 1.0)

    def request_probability(self, budget: TokenBudget) -> float:
        """Return the probability with which to request the next record."""
        earned = budget.tokens_per_record
        share = earned + (budget.spendable_tokens - 1.0) / self._horizon
        return min(max(share, 0.0), 3.0 * earned, 1.0)

    def candidates_and_probability(
        self, draws: np.ndarray
    ) -> tuple[Iterable[int], RecordProbability]:
        """Return the indices of records that may be requested, and a probability function.

        `draws` (n,) are uniform random numbers, see `SelectionRule.candidates_and_probability`.
        """
        may = np.flatnonzero(draws < self._most + _ROUNDING).tolist()
        return may, lambda i, budget: self.request_probability(budget)


class QuantileFilter:
    """Balanced incremental quantile filter: requests the records of highest utility.

    The threshold is the quantile 1 - q of the window's utilities, where q is the number of
    tokens that a record earns. Saved tokens lower the threshold by the utilities' range times
    (tokens - 1) / 50, so that they are spent. The paper has a soft budget that may be overdrawn;
    here the budget is exact.

    References
    ----------
    .. [1] Kottke, D., Krempl, G. and Spiliopoulou, M. (2015). Probabilistic active learning in
       datastreams. Advances in Intelligent Data Analysis XIV.
    """

    memory = 0.0

    def candidates_and_probability(
        self, utility: np.ndarray, window: UtilityWindow, draws: np.ndarray
    ) -> tuple[Iterable[int], RecordProbability]:
        """Return all indices, and a function with probability 1 from the threshold on, else 0."""
        batch = window.rank_batch(utility)

        def probability(i: int, budget: TokenBudget) -> float:
            known = np.sort(batch.utilities_at(i))
            threshold = _quantile_of_sorted(known, 1.0 - max(budget.tokens_per_record, 0.0))
            lowered = (
                threshold - (known[-1] - known[0]) * (budget.spendable_tokens - 1.0) / _TOLERANCE
            )
            return float(utility[i] >= lowered)

        return range(len(draws)), probability

    def update(self, selected: bool) -> None:
        """Do nothing, as the rule does not depend on earlier decisions."""


class VariableUncertainty:
    """Variable uncertainty: a confidence threshold that falls with requests and rises in between.

    A record of confidence c = 1 - utility is requested if c < t e, where t is the threshold, and e
    is normal with mean 1 and deviation 1. The probability is Phi(1 - c / t), where Phi is the
    normal distribution function. A request lowers t by 1 %; no request raises t by 1 %. The paper
    estimates recent spending; here the exact budget decides.

    References
    ----------
    .. [1] Žliobaitė, I., Bifet, A., Pfahringer, B. and Holmes, G. (2014). Active learning with
       drifting streaming data. IEEE TNNLS 25 (1), Algorithm 4.
    """

    def __init__(self) -> None:
        self.memory = 1.0  # the threshold t

    def candidates_and_probability(
        self, utility: np.ndarray, window: UtilityWindow, draws: np.ndarray
    ) -> tuple[Iterable[int], RecordProbability]:
        """Return all indices, and a function that returns the probability Phi(1 - c / t)."""
        known = utility.tolist()

        def probability(i: int, budget: TokenBudget) -> float:
            return 0.5 + 0.5 * erf((1.0 - (1.0 - known[i]) / self.memory) / sqrt(2.0))

        return range(len(draws)), probability

    def update(self, selected: bool) -> None:
        """Lower the threshold by 1 % after a request, and raise it by 1 % otherwise."""
        self.memory *= 1.0 - _STEP if selected else 1.0 + _STEP


def make_selection_rule(name: str) -> SelectionRule | None:
    """Return a new selection rule by its `name`; None for "probability".

    With "probability", `OnePerStratumSampler` selects the records instead.
    """
    if name == "quantile_filter":
        return QuantileFilter()
    return VariableUncertainty() if name == "variable_uncertainty" else None


def _quantile_of_sorted(values: np.ndarray, quantile: float) -> float:
    """Return the `quantile`, in [0, 1], of sorted `values` (n,), bitwise as np.quantile does."""
    last = len(values) - 1
    place = last * quantile
    i = min(int(place), last)
    low, high = float(values[i]), float(values[min(i + 1, last)])
    part = place - i
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)
