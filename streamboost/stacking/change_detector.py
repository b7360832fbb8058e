"""Detects changes of a stream by comparing recent committees with an older one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_SHARE = 0.005
"""Share of the weights that is redistributed at each label, half of it to the reference."""

_LEAST_LIKELIHOOD = 0.02
"""Lower bound of the probability of a label's class."""

_THRESHOLD = 0.9
"""A change is detected if committees younger than the reference have more total weight."""

_LEADING = 0.4
"""No change is detected if the recent committees have at most this weight in predictions."""


class ChangeDetector:
    """Detects changes by fixed-share weights (Herbster and Warmuth, 1998) of recent committees.

    Only recent committees have weights here. One committee is the reference: the oldest at first. A
    committee that has learned no labels from before a change predicts the labels after it better
    than the reference. So a change is detected when the committees younger than the reference have
    nearly all the weight. The likeliest of them is the next reference, and the change is located at
    its creation.

    The other experts of the stack follow slow changes. So a change is only detected while the
    recent committees also have weight in predictions (`RecentCommittees`).
    """

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}  # by the committee's number of earlier labels
        self._reference = 0

    def update(
        self,
        labels_before_creation: Sequence[int],
        likelihoods: np.ndarray,
        weight_in_predictions: float,
    ) -> int | None:
        """Update the weights with a label, and detect a change.

        Returns the number of labels learned before the change; None if no change is detected.

        Parameters
        ----------
        labels_before_creation
            For each committee, oldest first, the number of labels learned before its creation.
        likelihoods
            float64 (M,), the probability that each of the M committees predicted for the label.
        weight_in_predictions
            Total weight of the recent committees in predictions, in [0, 1].
        """
        reference = max(sum(order <= self._reference for order in labels_before_creation) - 1, 0)
        self._reference = labels_before_creation[reference]
        weights = np.array([self._weights.get(order, 0.0) for order in labels_before_creation])
        weights[reference] += 1.0 - weights.sum()  # of those that were removed
        weights = (1.0 - _SHARE) * weights + 0.5 * _SHARE / len(labels_before_creation)
        weights[reference] += 0.5 * _SHARE
        weights *= np.maximum(likelihoods, _LEAST_LIKELIHOOD)
        weights /= weights.sum()
        self._weights = dict(zip(labels_before_creation, weights.tolist(), strict=True))
        younger = weights[reference + 1 :]
        if younger.sum() <= _THRESHOLD or weight_in_predictions <= _LEADING:
            return None
        self._reference = labels_before_creation[reference + 1 + int(younger.argmax())]
        return self._reference

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {"weights": list(self._weights.items()), "reference": self._reference}

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self._weights = dict(state["weights"])
        self._reference = state["reference"]
