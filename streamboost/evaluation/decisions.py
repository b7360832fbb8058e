"""Cost-sensitive decisions about records, in addition to predicted labels."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.predictions import Scored

_SAME = 1e-9
"""Expected costs with a smaller relative difference are equal, to absorb rounding errors."""

_MOST = sys.float_info.max
"""Largest cost; whole numbers above it do not fit into a float."""


class Decisions:
    """Decides on a class by the cost of errors, or by a minimum probability for some classes.

    With costs, the decision is the class k of lowest expected cost, the sum over the classes j of
    P_j C_jk (Elkan 2001, equation 1); in a tie, the most probable of these classes. With
    thresholds, the decision is the most probable class among those whose probability reaches their
    threshold, else among the classes without a threshold. Without such classes, the decision is
    None. A class of probability 0 is never decided on.

    Classes are identified by their names as text: 1 and "1" are the same class.

    Parameters
    ----------
    costs
        For each true class, a mapping from the decided class to the cost of this decision, which is
        finite, not negative, and 0 for the true class. Missing costs of errors are 1. Empty: no
        costs.
    threshold
        For some classes the minimum probability, in (0, 1], to decide on the class.

    Raises
    ------
    ConfigurationError
        When a number is out of its range, both are given, or neither is.

    Examples
    --------
    >>> import numpy as np
    >>> from streamboost.predictions import Scored
    >>> P, classes = np.array([[0.8, 0.2], [0.95, 0.05]]), np.array(["ok", "fraud"], object)
    >>> scored = Scored(np.array(["ok", "ok"], object), classes, P, np.zeros(2), 1)
    >>> Decisions(costs={"fraud": {"ok": 10}}).decide_classes(scored).tolist()
    ['fraud', 'ok']
    >>> Decisions(threshold={"ok": 0.9}).decide_classes(scored).tolist()
    ['fraud', 'ok']
    """

    def __init__(
        self,
        costs: Mapping[Any, Mapping[Any, float]] | None = None,
        threshold: Mapping[Any, float] | None = None,
    ) -> None:
        self.costs = {str(true): _validated_costs(true, row) for true, row in (costs or {}).items()}
        self.threshold = {
            str(label): _validated_threshold(label, p) for label, p in (threshold or {}).items()
        }
        if bool(self.costs) == bool(self.threshold):
            given = "both" if self.costs else "neither"
            raise ConfigurationError(
                f"decisions go by costs or by thresholds, and {given} are given: give one of them"
            )

    def decide_classes(self, scored: Scored) -> np.ndarray:
        """Return the decided class of each record, object (n,); None without a decision."""
        classes = scored.classes.tolist()
        chosen = self.decided_class_indices(scored.probabilities, classes).tolist()
        decided = np.full(len(scored), None, dtype=object)
        decided[:] = [classes[k] if k >= 0 else None for k in chosen]
        return decided

    def decided_class_indices(self, P: np.ndarray, classes: Sequence[Any]) -> np.ndarray:
        """Return the column in `P` (n, K) of each record's decided class, int64 (n,); -1: none.

        `P` are the probabilities of `classes`, one column for each.
        """
        if not P.shape[1]:
            return np.full(len(P), -1)
        if self.costs:
            C = self.cost_matrix(classes)
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

    def cost_matrix(self, classes: Sequence[Any]) -> np.ndarray:
        """Return the cost matrix float64 (K, K): true classes are rows, decided classes columns."""
        names = [str(label) for label in classes]
        rows = [[self.costs.get(j, {}).get(k, float(j != k)) for k in names] for j in names]
        return np.array(rows, dtype=np.float64).reshape(len(names), len(names))

    def decision_cost(self, P: np.ndarray, classes: Sequence[Any]) -> np.ndarray | None:
        """Return the cost of each record's decision for each possible true class, float64 (n, K).

        The rows of records without a decision are NaN. Returns None if no `costs` were given.
        """
        if not self.costs:
            return None
        if not classes:  # records have arrived, but no label yet
            return np.empty((len(P), 0))
        chosen = self.decided_class_indices(P, classes)
        decision_cost: np.ndarray = self.cost_matrix(classes).T[chosen]
        decision_cost[chosen < 0] = np.nan
        return decision_cost

    @property
    def classes(self) -> list[str]:
        """Names of the classes in `costs` and `threshold`, without duplicates."""
        decided = (name for row in self.costs.values() for name in row)
        return list(dict.fromkeys([*self.costs, *decided, *self.threshold]))

    def to_json(self) -> dict[str, Any]:
        """Return the constructor's arguments as JSON values: `costs` or `threshold`."""
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


def _validated_costs(true_class: Any, costs: Any) -> dict[str, float]:
    if not isinstance(costs, Mapping):
        raise ConfigurationError(
            f"costs.{true_class} is {costs!r}: name the classes that may be decided on where "
            f"{true_class} is true, such as costs.{true_class}.other = 10"
        )
    found = {}
    for decided, cost in costs.items():
        where = f"costs.{true_class}.{decided} is {cost!r}"
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not abs(cost) <= _MOST:
            raise ConfigurationError(f"{where}: give a finite number")
        if cost < 0:
            raise ConfigurationError(
                f"{where}: costs are not negative; give 0 for a decision that does no harm"
            )
        if str(decided) == str(true_class) and cost:
            raise ConfigurationError(f"{where}: the right decision costs nothing; leave it out")
        found[str(decided)] = float(cost)
    return found


def _validated_threshold(class_name: Any, probability: Any) -> float:
    if (
        isinstance(probability, bool)
        or not isinstance(probability, int | float)
        or not 0 < probability <= 1
    ):
        raise ConfigurationError(
            f"threshold.{class_name} is {probability!r}: give a probability above 0 and at most 1"
        )
    return float(probability)
