"""Detects changes of a stream by comparing recent committees with an older one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["ChangeDetector"]

_SHARE = 0.005
"""Share of all weights that each label redistributes, half of it to the reference."""

_LEAST_LIKELIHOOD = 0.02
"""Lower bound of the probability of a label's class."""

_THRESHOLD = 0.9
"""Weight of the committees younger than the reference above which the stream has changed."""

_LEADING = 0.4
"""Weight of the recent committees in predictions below which no change is detected."""


class ChangeDetector:
    """Weights of recent committees by fixed share, without the stack.

    One committee is the reference: the oldest at first. A committee that has learned no labels from
    before a change predicts the labels after it better than the reference. So a change is detected
    when the committees younger than the reference have nearly all the weight. The likeliest of them
    is the next reference, and the change is located at its creation.

    The stack follows a slow change by other means. A change is therefore only detected while the
    recent committees have weight in predictions, too.
    """

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}  # by the committee's number of earlier labels
        self._reference = 0

    def update(
        self, orders: Sequence[int], likelihoods: np.ndarray, weight_in_predictions: float
    ) -> int | None:
        """Update the weights by a label; return the labels before a detected change, or None.

        Parameters
        ----------
        orders
            For each committee, oldest first, the number of labels learned before its creation.
        likelihoods
            float64 (M,), the probability of the label's class by each committee.
        weight_in_predictions
            Total weight of the recent committees in predictions, in [0, 1].
        """
        reference = max(sum(order <= self._reference for order in orders) - 1, 0)
        self._reference = orders[reference]
        weights = np.array([self._weights.get(order, 0.0) for order in orders])
        weights[reference] += 1.0 - weights.sum()  # of those that were removed
        weights = (1.0 - _SHARE) * weights + 0.5 * _SHARE / len(orders)
        weights[reference] += 0.5 * _SHARE
        weights *= np.maximum(likelihoods, _LEAST_LIKELIHOOD)
        weights /= weights.sum()
        self._weights = dict(zip(orders, weights.tolist(), strict=True))
        younger = weights[reference + 1 :]
        if younger.sum() <= _THRESHOLD or weight_in_predictions <= _LEADING:
            return None
        self._reference = orders[reference + 1 + int(younger.argmax())]
        return self._reference

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {"weights": list(self._weights.items()), "reference": self._reference}

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self._weights = dict(state["weights"])
        self._reference = state["reference"]
