"""With what chance to ask for a record that has just arrived: the rules of stream mode.

A rule is asked only where the budget has a token for it. Its chance follows from what came
before; nothing else is drawn.
"""

from collections.abc import Callable, Iterable
from math import erf, sqrt
from typing import Protocol

import numpy as np

from streamboost.active.budget import Budget
from streamboost.active.window import UtilityWindow

__all__ = ["RULES", "Chance", "EvenSpending", "Rule", "make_rule"]

RULES = ("chance", "quantile_filter", "variable_uncertainty")

_TOLERANCE = 50.0
"""Tokens saved that lower the quantile filter's threshold by the whole range of the utilities."""

_STEP = 0.01
"""Share by which the variable threshold moves with each decision; the paper's s."""


_ROUNDING = 1e-6
"""More than rounding can add to a chance."""

Chance = Callable[[int, Budget], float]
"""Maps the place of a record in a batch, and the budget when it has arrived, to its chance."""


class Rule(Protocol):
    """Gives each record its chance, and hears what came of it."""

    memory: float

    def over(
        self, utility: np.ndarray, window: UtilityWindow, draws: np.ndarray
    ) -> tuple[Iterable[int], Chance]:
        """Rate the next records of the stream, of `utility` (n,), as they arrive in turn.

        Returns the places in order of those that may be asked for, whatever the budget and the
        memory will be then: no other's draw (n,) falls below its chance. And what tells a chance.
        """

    def settle(self, wanted: bool) -> None:
        """Hear whether the record just rated was asked for."""


class EvenSpending:
    """Asks for each record with the same chance, and spends the budget evenly over time.

    The chance is what the rule earns per record, plus the tokens saved beyond one spread over
    H = max(50, 5 / budget) records. It is at most three times the earnings.
    """

    def __init__(self, share: float) -> None:
        self._horizon = max(50.0, 5.0 / share)
        self._most = min(3.0 * share, 1.0)

    def share(self, budget: Budget) -> float:
        """Return the share of records to ask for now."""
        earned = budget.rule_share
        share = earned + (budget.free - 1.0) / self._horizon
        return min(max(share, 0.0), 3.0 * earned, 1.0)

    def over(self, draws: np.ndarray) -> tuple[Iterable[int], Chance]:
        """Rate the next records of the stream by their `draws` (n,), as `Rule.over` does."""
        may = np.flatnonzero(draws < self._most + _ROUNDING).tolist()
        return may, lambda i, budget: self.share(budget)


class QuantileFilter:
    """The balanced incremental quantile filter: ask where the utility is among the highest.

    The threshold is the quantile 1 - q of the window's utilities, with q what the rule earns per
    record, lowered by the utilities' range times (tokens - 1) / 50: what has been saved is spent.
    The paper counts tokens from a soft budget that may be overdrawn; here it never is.

    References
    ----------
    .. [1] Kottke, D., Krempl, G. and Spiliopoulou, M. (2015). Probabilistic active learning in
       datastreams. Advances in Intelligent Data Analysis XIV.
    """

    memory = 0.0

    def over(
        self, utility: np.ndarray, window: UtilityWindow, draws: np.ndarray
    ) -> tuple[Iterable[int], Chance]:
        """Give 1 from the threshold on, and 0 below."""
        met = window.meet(utility)

        def chance(i: int, budget: Budget) -> float:
            known = np.sort(met.known(i))
            threshold = _quantile(known, 1.0 - max(budget.rule_share, 0.0))
            lowered = threshold - (known[-1] - known[0]) * (budget.free - 1.0) / _TOLERANCE
            return float(utility[i] >= lowered)

        return range(len(draws)), chance

    def settle(self, wanted: bool) -> None:
        """Keep nothing: what was spent shows in the budget."""


class VariableUncertainty:
    """A threshold on the confidence that falls with each request and rises in between.

    A record of confidence c = 1 - utility is asked for when c < t * e, e normal with mean 1 and
    deviation 1: with chance Phi(1 - c / t). Then t falls by 1 %, and rises by 1 % where it was not
    asked for. The paper estimates what was spent lately; here the exact budget decides.

    References
    ----------
    .. [1] Žliobaitė, I., Bifet, A., Pfahringer, B. and Holmes, G. (2014). Active learning with
       drifting streaming data. IEEE TNNLS 25 (1), Algorithm 4.
    """

    def __init__(self) -> None:
        self.memory = 1.0  # the threshold t

    def over(
        self, utility: np.ndarray, window: UtilityWindow, draws: np.ndarray
    ) -> tuple[Iterable[int], Chance]:
        """Give Phi(1 - c / t)."""
        known = utility.tolist()

        def chance(i: int, budget: Budget) -> float:
            return 0.5 + 0.5 * erf((1.0 - (1.0 - known[i]) / self.memory) / sqrt(2.0))

        return range(len(draws)), chance

    def settle(self, wanted: bool) -> None:
        """Move the threshold."""
        self.memory *= 1.0 - _STEP if wanted else 1.0 + _STEP


def make_rule(name: str) -> Rule | None:
    """Return a new rule of RULES; None for "chance", which `Strata` carries out."""
    if name == "quantile_filter":
        return QuantileFilter()
    return VariableUncertainty() if name == "variable_uncertainty" else None


def _quantile(values: np.ndarray, share: float) -> float:
    """Return what np.quantile does, bit for bit, of `values` (n,) that are in order."""
    last = len(values) - 1
    place = last * share
    i = min(int(place), last)
    low, high = float(values[i]), float(values[min(i + 1, last)])
    part = place - i
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)
