"""What to do about a record, where errors cost differently: decisions beside predicted labels."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.stream.scoring import Scored

__all__ = ["Decisions"]

_SAME = 1e-9
"""Share by which expected costs differ that are the same but for rounding."""

_MOST = sys.float_info.max
"""That whole numbers may cost, too."""


class Decisions:
    """Decides on a class by what errors cost, or by how sure one has to be of some classes.

    With costs, the decision is the class k of least expected cost, the sum over the classes j of
    P_j C_jk (Elkan, 2001, equation 1), and of several such the likeliest. With thresholds, it is
    the likeliest of the classes whose probability reaches theirs, those without one coming after
    these; None where there is no such class. A class of probability 0 is never decided on.

    Classes go by their names as text: 1 and "1" are one.

    Parameters
    ----------
    costs
        For each true class, by the class decided on, what that costs: a finite number, not
        negative, 0 on the diagonal. What is not named costs 1 where it is an error. Empty: no
        costs.
    threshold
        For some classes the probability, in (0, 1], from which on they are decided on.

    Raises
    ------
    ConfigurationError
        When a number is out of its range, both are given, or neither is.

    Examples
    --------
    >>> import numpy as np
    >>> from streamboost.stream.scoring import Scored
    >>> P, classes = np.array([[0.8, 0.2], [0.95, 0.05]]), np.array(["ok", "fraud"], object)
    >>> scored = Scored(np.array(["ok", "ok"], object), classes, P, np.zeros(2), 1)
    >>> Decisions(costs={"fraud": {"ok": 10}}).decide(scored).tolist()
    ['fraud', 'ok']
    >>> Decisions(threshold={"ok": 0.9}).decide(scored).tolist()
    ['fraud', 'ok']
    """

    def __init__(
        self,
        costs: Mapping[Any, Mapping[Any, float]] | None = None,
        threshold: Mapping[Any, float] | None = None,
    ) -> None:
        self.costs = {str(true): _row_of(true, row) for true, row in (costs or {}).items()}
        self.threshold = {str(label): _share(label, p) for label, p in (threshold or {}).items()}
        if bool(self.costs) == bool(self.threshold):
            given = "both" if self.costs else "neither"
            raise ConfigurationError(
                f"decisions go by costs or by thresholds, and {given} are given: give one of them"
            )

    def decide(self, scored: Scored) -> np.ndarray:
        """Return the class decided on for each record, object (n,); None where there is none."""
        classes = scored.classes.tolist()
        chosen = self.choose(scored.probabilities, classes).tolist()
        decided = np.full(len(scored), None, dtype=object)
        decided[:] = [classes[k] if k >= 0 else None for k in chosen]
        return decided

    def choose(self, P: np.ndarray, classes: Sequence[Any]) -> np.ndarray:
        """Return the columns decided on, int64 (n,), by probabilities `P` (n, K); -1: none."""
        if not P.shape[1]:
            return np.full(len(P), -1)
        if self.costs:
            C = self.matrix(classes)
            expected = np.where(P > 0.0, P @ C, np.inf)
            least = expected.min(axis=1, keepdims=True)
            among = expected <= least * (1.0 + _SAME)
        else:
            cut = np.array([self.threshold.get(str(label), 0.0) for label in classes])
            among = (P > 0.0) & (cut <= P)
            sure = among & (cut > 0.0)
            among = np.where(sure.any(axis=1, keepdims=True), sure, among)
        chosen = np.where(among & (P > 0.0), P, -1.0).argmax(axis=1)
        return np.where((among & (P > 0.0)).any(axis=1), chosen, -1)

    def matrix(self, classes: Sequence[Any]) -> np.ndarray:
        """Return what it costs to decide on class k where j is true, float64 (K, K) at [j, k]."""
        names = [str(label) for label in classes]
        rows = [[self.costs.get(j, {}).get(k, float(j != k)) for k in names] for j in names]
        return np.array(rows, dtype=np.float64).reshape(len(names), len(names))

    def paid(self, P: np.ndarray, classes: Sequence[Any]) -> np.ndarray | None:
        """Return by true class what is paid for each decision, float64 (n, K).

        NaN where nothing was decided on; None where nothing costs.
        """
        if not self.costs:
            return None
        if not classes:  # records have come, and no label yet
            return np.empty((len(P), 0))
        chosen = self.choose(P, classes)
        paid: np.ndarray = self.matrix(classes).T[chosen]
        paid[chosen < 0] = np.nan
        return paid

    @property
    def classes(self) -> list[str]:
        """The classes that costs or thresholds name, in their order."""
        decided = (name for row in self.costs.values() for name in row)
        return list(dict.fromkeys([*self.costs, *decided, *self.threshold]))

    def to_json(self) -> dict[str, Any]:
        """Return what it was made of; `Decisions(**found)` is an equal one."""
        if self.costs:
            return {"costs": self.costs}
        return {"threshold": self.threshold}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decisions) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(str(self.to_json()))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.to_json().items())
        return f"Decisions({given})"


def _row_of(true: Any, row: Any) -> dict[str, float]:
    if not isinstance(row, Mapping):
        raise ConfigurationError(
            f"costs.{true} is {row!r}: name the classes that may be decided on where {true} is "
            f"true, such as costs.{true}.other = 10"
        )
    found = {}
    for decided, cost in row.items():
        where = f"costs.{true}.{decided} is {cost!r}"
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not abs(cost) <= _MOST:
            raise ConfigurationError(f"{where}: give a finite number")
        if cost < 0:
            raise ConfigurationError(
                f"{where}: costs are not negative; give 0 for a decision that does no harm"
            )
        if str(decided) == str(true) and cost:
            raise ConfigurationError(f"{where}: the right decision costs nothing; leave it out")
        found[str(decided)] = float(cost)
    return found


def _share(label: Any, p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0 < p <= 1:
        raise ConfigurationError(
            f"threshold.{label} is {p!r}: give a probability above 0 and at most 1"
        )
    return float(p)
