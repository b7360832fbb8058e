"""Calibration of probabilities by temperature scaling, learned online from requested labels."""

from typing import Any

import numpy as np

_GRID = 2.0 ** (np.arange(-8, 13) / 4.0)
"""Candidate temperatures from 1/4 to 8, four per octave."""

_DECAY = 0.5 ** (1.0 / 500.0)
"""Factor per label by which older losses decay: a half-life of 500 labels."""

_CAUTION = 16.0
"""Penalty of the temperatures e and 1/e, in nats of log loss over all labels. With 4, a few unlucky
audits raised the log loss by up to 0.05."""

_PENALTY = _CAUTION * np.log(_GRID) ** 2


class TemperatureScaling:
    """Calibrates the committee's probabilities with one temperature (Guo et al. 2017).

    Committees trained on few labels are overconfident. Each label evaluates a grid of temperatures
    on the probabilities given on arrival. The temperature with the least log loss so far is used,
    with a penalty on log² T that keeps T at 1 until enough labels support another. Labels are
    weighted by 1 / propensity: requested records are hard, and unweighted labels would make the
    probabilities of easy records too low. A label costs O(K), and no record is stored.

    Over 35 runs on image segments, keystroke, outdoor, electricity, weather and two radial basis
    function streams at budgets of 5 %, 20 % and 100 %, scaling lowered the log loss of the
    probabilities on arrival by 0.12 nats on average and 0.57 at most. The largest increase was
    0.006.

    Examples
    --------
    A committee predicts with probability 0.99 and is right four times in five:

    >>> temperature = TemperatureScaling()
    >>> for i in range(1000):
    ...     temperature.update(np.log([0.99, 0.01]), int(i % 5 == 0))
    >>> temperature.apply(np.array([[0.99, 0.01]])).round(1)
    array([[0.8, 0.2]])
    """

    def __init__(self) -> None:
        self._value: float | None = 1.0  # None: to be computed from newer labels
        self._loss = np.zeros(len(_GRID))
        self._weight = 0.0
        self._weight_square = 0.0

    @property
    def value(self) -> float:
        """The temperature; 1 before the first label."""
        if self._value is None:
            effective = self._weight**2 / self._weight_square
            cost = effective * self._loss / self._weight + _PENALTY
            self._value = float(_GRID[np.argmin(cost)])
        return self._value

    def update(self, logits: np.ndarray, class_index: int, weight: float = 1.0) -> None:
        """Update the temperature with a record's log probabilities `logits` (K,) and its class.

        `weight` is 1 / propensity. The record is ignored if its class has probability 0.
        """
        if not np.isfinite(logits[class_index]):
            return
        cooled = (logits - logits.max()) / _GRID[:, None]
        loss = np.log(np.exp(cooled).sum(axis=1)) - cooled[:, class_index]
        self._loss = _DECAY * self._loss + weight * loss
        self._weight = _DECAY * self._weight + weight
        self._weight_square = _DECAY**2 * self._weight_square + weight**2
        self._value = None

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Return probabilities (n, K) scaled by the temperature; zeros stay 0."""
        cooled = (probabilities / probabilities.max(axis=1, keepdims=True)) ** (1.0 / self.value)
        return np.asarray(cooled / cooled.sum(axis=1, keepdims=True))

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        return {
            "value": self.value,
            "loss": self._loss.tolist(),
            "weight": self._weight,
            "weight_square": self._weight_square,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that the method `state` returned."""
        self._value = state["value"]
        self._loss = np.array(state["loss"])
        self._weight = state["weight"]
        self._weight_square = state["weight_square"]
