"""Young committees: each is trained only on the labels that arrived since its creation (birth).

After a change of the stream, a committee created after the change predicts better than the deployed
committee, which is trained on all labels. The committees are weighted by how probable they found
the labels.
"""

from dataclasses import dataclass, field
from math import ceil, log, pow
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.stacking.experts import kernels
from streamboost.storage import Arrays, select_prefix

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["ROUNDS", "Birth", "YoungCommittees"]

ROUNDS = 30
"""Boosting rounds of a young committee."""

_SPACING = 8
"""Number of labels after which the next young committee is created, while labels are rare."""

_GROWTH = 0.1
"""Share of further labels after which a young committee is trained again, while labels are rare."""

_RARE = 0.1
"""Number of labels per record up to which labels are rare. Above, trainings are less frequent."""

_FIRST = 6
"""Least number of labels for the first training of a young committee."""

_SHARE = 0.02
_RATE = 0.5
_LEAST_LIKELIHOOD = 0.02
"""Constants of fixed share: share given away, exponent of the likelihood, and its bound."""

_FLOOR = 0.003
"""Lower bound of probabilities in the mixture."""

_LEAST_LOG = log(_FLOOR)

_FADE = 0.99
"""Factor by which the class counts decay with each label."""

_TRUSTED = 0.85
"""Weight of the stack above which the stack predicts alone."""

_UNSCORED = 0.02
"""Weight below which a young committee does not predict."""


@dataclass(slots=True, eq=False)
class Birth:
    """Young committee, which is trained only on the labels after the first `order` ones.

    Attributes
    ----------
    order
        Number of labels learned before this committee was created.
    committee
        The committee; None before the first training.
    n_labels
        Number of labels that the committee was trained on.
    columns
        Indices of the committee's classes in the stack, int64.
    """

    order: int
    committee: "Committee | None" = None
    n_labels: int = 0
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def doubt(self) -> float:
        """Weight of the label frequencies in the predictions; decreases with `n_labels`."""
        return 0.5 * min(0.5, 2.0 / (self.n_labels + 2.0))


class YoungCommittees:
    """Fixed-share mixture of the stack with committees that are trained on recent labels only.

    A committee is born every few labels, and births are removed so that about two are left for each
    doubling of the age (follow the leading history, Hazan and Seshadhri, 2009). Each committee's
    prediction is compared with a label before the committee learns it, and the weights are updated
    by fixed share (Herbster and Warmuth, 1998). Half of the shared weight returns to the stack. So
    committees of few labels gain weight only while they predict better.

    Attributes
    ----------
    births
        The oldest first.
    n_labels
        Number of labels learned.
    weights
        float64 (1 + 2M,): of the stack, of each of the M trained committees, and of the geometric
        mean of each with the stack.
    """

    def __init__(self) -> None:
        self.births: list[Birth] = []
        self.weights = np.ones(1)
        self._counts = np.zeros(0)  # of the classes, decayed
        self.n_labels = self._newest = 0
        self._frequency = 1.0  # labels per record relative to `_RARE`, at least 1
        self._scored: list[Birth] = []  # births of enough weight
        self._scored_weights = np.ones(1)  # of the stack, and of each of them

    @property
    def trained(self) -> list[Birth]:
        """Young committees that have been trained, oldest first."""
        return [birth for birth in self.births if birth.committee is not None]

    @property
    def updates_weights_at_next_label(self) -> bool:
        """Whether the next label updates the weights: each label, or every nth if frequent."""
        stride = round(pow(self._frequency, 0.7))
        return self.n_labels % stride == 0 and self.trained != []

    @property
    def mass(self) -> float:
        """Total weight of the young committees in predictions, in [0, 1]."""
        return float(1.0 - self.weights[0])

    def mix(
        self, X: np.ndarray, probabilities: np.ndarray, best: np.ndarray, margins: np.ndarray
    ) -> None:
        """Replace the stack's predictions for `X` (n, D) by those of the mixture, in place.

        `probabilities` float64 (n, K), the indices `best` int64 (n,) of the most probable classes,
        and `margins` float64 (n,) are overwritten.
        """
        if not self._scored:
            return
        logs = np.empty((1 + len(self._scored), *probabilities.shape))
        logs[0] = probabilities
        self._write_probabilities(self._scored, X, logs[1:])
        np.log(logs, out=logs)
        kernels().combine_experts(
            self._scored_weights, logs, _LEAST_LOG, probabilities, best, margins
        )

    def _write_probabilities(self, births: list[Birth], X: np.ndarray, outputs: np.ndarray) -> None:
        """Write the class probabilities for `X` (n, D) by each committee to `outputs`.

        `outputs` is float64 (M, n, K), for the committees of the M `births`.
        """
        for birth, probabilities in zip(births, outputs, strict=True):
            committee = birth.committee
            assert committee is not None
            scores, _ = committee.learners.scores_and_leaves(committee.base, X, 0)
            if committee.link != "softmax":
                with np.errstate(divide="ignore"):
                    scores = np.log(committee.probabilities(scores))
            kernels().predict_young_committee(
                scores, birth.columns, birth.doubt, self._counts, probabilities
            )

    def update_weights(self, row: np.ndarray, stack_probabilities: np.ndarray, k: int) -> None:
        """Update the weights by a record (D,) of class index `k`.

        Call this only if `updates_weights_at_next_label`. `stack_probabilities` are float64 (K,).
        A new class has no index yet: `k` is K.
        """
        trained = self.trained
        young = np.empty((len(trained), 1, len(stack_probabilities)))
        self._write_probabilities(trained, row[None], young)
        law = _SHARE, _RATE, _LEAST_LIKELIHOOD, _FLOOR
        kernels().update_fixed_share_weights(
            stack_probabilities, young.reshape(len(trained), -1), k, *law, self.weights
        )
        self._select_scored_births()

    def _select_scored_births(self) -> None:
        """Select the young committees that predict: those of enough weight."""
        trained = self.trained
        with_stack = 0.5 * self.weights[1 + len(trained) :]
        weights = self.weights[1 : 1 + len(trained)] + with_stack
        heavy = np.flatnonzero((weights > _UNSCORED) & (self.weights[0] < _TRUSTED))
        self._scored = [trained[i] for i in heavy.tolist()]
        own = self.weights[0] + with_stack.sum()
        self._scored_weights = np.concatenate([[own], weights[heavy]])

    def learn(self, k: int) -> None:
        """Count a label of class index `k`; older counts decay."""
        if k >= len(self._counts):
            self._counts = np.append(self._counts, np.zeros(k + 1 - len(self._counts)))
        self._counts *= _FADE
        self._counts[k] += 1.0

    def advance(self, n_labels: int, share: float) -> None:
        """Add a young committee if enough labels have arrived since the last was added.

        Parameters
        ----------
        n_labels
            Number of labels learned.
        share
            Number of labels per record, in (0, 1]. With frequent labels, new committees, trainings
            and weight updates are rarer, as each costs time.
        """
        self.n_labels = n_labels
        self._frequency = max(share / _RARE, 1.0)
        if n_labels - self._newest >= _SPACING * self._frequency**2:
            self._newest = n_labels
            self.births.append(Birth(n_labels))
            self._keep_births(self._births_after_thinning())

    def _births_after_thinning(self) -> list[Birth]:
        """Return the births except those whose age is close to the ages of both neighbours."""
        births, now, i = list(self.births), self.n_labels, 1
        while i < len(births) - 1:
            older, younger = now - births[i - 1].order, now - births[i + 1].order
            if older < 2 * max(younger, _SPACING):
                del births[i]
            else:
                i += 1
        return births

    def _keep_births(self, births: list[Birth]) -> None:
        """Remove all young committees except `births`, and the weights of those removed."""
        m = len(self.trained)
        kept = [i for i, birth in enumerate(self.trained) if birth in births]
        self.weights = self.weights[[0, *(1 + i for i in kept), *(1 + m + i for i in kept)]]
        self.weights /= self.weights.sum()
        self.births = births
        self._select_scored_births()

    def due_births(self) -> list[Birth]:
        """Return the young committees with enough new labels since their last training."""
        return [birth for birth in self.births if self._is_training_due(birth)]

    def _is_training_due(self, birth: Birth) -> bool:
        growth = _GROWTH * pow(self._frequency, 0.7)
        grown = max(ceil((1.0 + growth) * birth.n_labels), birth.n_labels + 2)
        return self.n_labels - birth.order >= max(_FIRST, grown)

    def set_committee(self, birth: Birth, committee: "Committee", columns: np.ndarray) -> None:
        """Set the committee of `birth`, which was trained on all labels since the birth.

        `columns` int64 are the indices of the committee's classes in the stack.
        """
        is_new = birth.committee is None
        birth.committee, birth.columns = committee, columns
        birth.n_labels = self.n_labels - birth.order
        if is_new:
            i, m = self.trained.index(birth), len(self.trained) - 1
            self.weights = np.insert(self.weights, [1 + i, 1 + m + i], 0.0)
        self._select_scored_births()

    def drop_before(self, n_labels: int) -> None:
        """Remove young committees created before `n_labels` labels were learned.

        The working set has evicted rows since, so their next training would be on the same rows as
        that of the deployed committee.
        """
        if self.births and self.births[0].order < n_labels:
            self._keep_births([birth for birth in self.births if birth.order >= n_labels])

    def copy_births(self, other: "YoungCommittees") -> None:
        """Copy the births of `other` without their committees, which must be trained again."""
        self.births = [Birth(birth.order) for birth in other.births]
        self.n_labels, self._newest = other.n_labels, other._newest
        self._frequency = other._frequency

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        about = {
            "births": [(one.order, one.n_labels, one.columns.tolist()) for one in self.births],
            "weights": self.weights.tolist(),
            "counts": self._counts.tolist(),
            "n_labels": self.n_labels,
            "newest": self._newest,
            "frequency": self._frequency,
        }
        arrays: Arrays = {}
        for birth in self.births:
            if birth.committee is not None:
                own = birth.committee.to_arrays()
                arrays |= {f"{birth.order}.{name}": array for name, array in own.items()}
        return about, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        from streamboost.boosting.committee import Committee

        self.births = []
        for order, n_labels, columns in state["births"]:
            own = select_prefix(arrays, f"{order}.")
            committee = Committee.from_arrays(own) if own else None
            at = np.array(columns, dtype=np.int64)
            self.births.append(Birth(order, committee, n_labels, at))
        self.weights, self._counts = np.array(state["weights"]), np.array(state["counts"])
        self.n_labels, self._newest = state["n_labels"], state["newest"]
        self._frequency = state["frequency"]
        self._select_scored_births()
