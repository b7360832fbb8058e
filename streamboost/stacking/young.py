"""Recent committees: each is trained only on the labels that arrived since its creation.

After a change of the stream, a committee created after the change predicts better than the deployed
committee, which is trained on all labels. A committee gets more weight if its predictions gave the
labels a higher probability. In configurations, this expert is called "young".
"""

from dataclasses import dataclass, field
from math import ceil, log, pow
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.stacking.change_detector import ChangeDetector
from streamboost.stacking.experts import stacking_kernels
from streamboost.storage import Arrays, select_prefix

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

ROUNDS = 30
"""Boosting rounds of a recent committee."""

_SPACING = 8
"""Number of labels between the creations of two recent committees, while labels are rare."""

_GROWTH = 0.1
"""Relative growth of a committee's labels that causes a new training, while labels are rare."""

_RARE = 0.1
"""Labels are rare up to this number per record. If there are more, trainings are less frequent."""

_FIRST = 6
"""Least number of labels for the first training of a recent committee."""

_SHARE = 0.04
_RATE = 0.6
_LEAST_LIKELIHOOD = 0.02
"""Fixed share: redistributed share, exponent of the likelihood, its lower bound."""

_FLOOR = 0.003
"""Lower bound of probabilities in the mixture."""

_LEAST_LOG = log(_FLOOR)

_FADE = 0.99
"""Factor by which the class counts decay with each label."""

_TRUSTED = 0.85
"""If the weight of the stack is at least this, the stack predicts alone."""

_UNSCORED = 0.02
"""A recent committee of at most this weight does not predict."""


@dataclass(slots=True, eq=False)
class RecentCommittee:
    """Committee that is trained only on the labels after the first `order` ones.

    Attributes
    ----------
    order
        Number of labels learned before this committee was created.
    committee
        The committee; None before the first training.
    n_labels
        Number of labels since the creation when the committee was trained last.
    columns
        Indices of the committee's classes in the stack, int64.
    """

    order: int
    committee: "Committee | None" = None
    n_labels: int = 0
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def label_frequency_weight(self) -> float:
        """Weight of the label frequencies in the predictions; decreases with `n_labels`."""
        return 0.5 * min(0.5, 2.0 / (self.n_labels + 2.0))


class RecentCommittees:
    """Fixed-share mixture of the stack with committees that are trained on recent labels only.

    A committee is created every few labels, and others are removed so that about two are left for
    each doubling of the age (follow the leading history, Hazan and Seshadhri, 2009). Each label
    first updates the weights, from the predictions of all committees, by fixed share (Herbster and
    Warmuth, 1998). Then committees may learn the label. Half of the shared weight returns to the
    stack. So committees of few labels gain weight only while they predict better.

    Attributes
    ----------
    members
        The committees, oldest first, trained or not.
    n_labels
        Number of labels learned.
    weights
        float64 (1 + 2M,): the weight of the stack, of each of the M trained committees, and of the
        geometric mean of each committee with the stack.
    """

    def __init__(self) -> None:
        self.members: list[RecentCommittee] = []
        self.weights = np.ones(1)
        self._counts = np.zeros(0)  # of the classes, decayed
        self.n_labels = self._newest = 0
        self._frequency = 1.0  # labels per record relative to `_RARE`, at least 1
        self._changes = ChangeDetector()
        self._change: int | None = None
        self._scored: list[RecentCommittee] = []  # the committees that predict
        self._scored_weights = np.ones(1)  # of the stack, and of each in `_scored`

    @property
    def trained_committees(self) -> list[RecentCommittee]:
        """Recent committees that have been trained, oldest first."""
        return [member for member in self.members if member.committee is not None]

    @property
    def updates_weights_at_next_label(self) -> bool:
        """Whether the next label updates the weights: if labels are frequent, every n-th does."""
        stride = round(pow(self._frequency, 0.7))
        return self.n_labels % stride == 0 and self.trained_committees != []

    @property
    def are_used_in_predictions(self) -> bool:
        """Whether recent committees predict, because the weight of the stack is below 0.85."""
        return bool(self.weights[0] < _TRUSTED)

    @property
    def mixture_weight(self) -> float:
        """Total weight of the recent committees in predictions, in [0, 1]."""
        return float(1.0 - self.weights[0])

    def mix_predictions(
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
        stacking_kernels().combine_experts(
            self._scored_weights, logs, _LEAST_LOG, probabilities, best, margins
        )

    def _write_probabilities(
        self, members: list[RecentCommittee], X: np.ndarray, outputs: np.ndarray
    ) -> None:
        """Write the class probabilities for `X` (n, D) by each committee to `outputs`.

        `outputs` is float64 (M, n, K), for the M `members`.
        """
        for member, probabilities in zip(members, outputs, strict=True):
            committee = member.committee
            assert committee is not None
            scores, _ = committee.learners.scores_and_leaves(committee.base, X, 0)
            if committee.link != "softmax":
                with np.errstate(divide="ignore"):
                    scores = np.log(committee.probabilities(scores))
            stacking_kernels().predict_young_committee(
                scores, member.columns, member.label_frequency_weight, self._counts, probabilities
            )

    def update_weights(
        self, row: np.ndarray, stack_probabilities: np.ndarray, class_index: int
    ) -> None:
        """Update the weights with a record `row` (D,) of class `class_index`, and detect changes.

        Call this only if `updates_weights_at_next_label`. `stack_probabilities`, float64 (K,), are
        the probabilities that the stack predicts for the record. For a new class, `class_index` is
        K.
        """
        trained, n_classes = self.trained_committees, len(stack_probabilities)
        young = np.empty((len(trained), 1, n_classes))
        self._write_probabilities(trained, row[None], young)
        law = _SHARE, _RATE, _LEAST_LIKELIHOOD, _FLOOR
        stacking_kernels().update_fixed_share_weights(
            stack_probabilities, young.reshape(len(trained), -1), class_index, *law, self.weights
        )
        self._select_weighted_members()
        likelihoods = (
            young[:, 0, class_index] if class_index < n_classes else np.zeros(len(trained))
        )
        orders = [member.order for member in trained]
        self._change = self._changes.update(orders, likelihoods, self.mixture_weight)

    def pop_detected_change(self) -> int | None:
        """Return the number of labels before the change that was detected since the last call.

        Returns None if no change was detected since then.
        """
        change, self._change = self._change, None
        return change

    def _select_weighted_members(self) -> None:
        """Select the recent committees that predict: those with more weight than `_UNSCORED`."""
        trained = self.trained_committees
        with_stack = 0.5 * self.weights[1 + len(trained) :]
        weights = self.weights[1 : 1 + len(trained)] + with_stack
        heavy = np.flatnonzero((weights > _UNSCORED) & self.are_used_in_predictions)
        self._scored = [trained[i] for i in heavy.tolist()]
        own = self.weights[0] + with_stack.sum()
        self._scored_weights = np.concatenate([[own], weights[heavy]])

    def count_label(self, class_index: int) -> None:
        """Count a label of class `class_index`; older counts decay."""
        if class_index >= len(self._counts):
            self._counts = np.append(self._counts, np.zeros(class_index + 1 - len(self._counts)))
        self._counts *= _FADE
        self._counts[class_index] += 1.0

    def add_committee_if_due(self, n_labels: int, label_share: float) -> None:
        """Add a recent committee if enough labels have arrived since the last was added.

        Parameters
        ----------
        n_labels
            Number of labels learned.
        label_share
            Number of labels per record, in (0, 1]. With frequent labels, new committees, trainings
            and weight updates are rarer, as each costs time.
        """
        self.n_labels = n_labels
        self._frequency = max(label_share / _RARE, 1.0)
        if n_labels - self._newest >= _SPACING * self._frequency**2:
            self._newest = n_labels
            self.members.append(RecentCommittee(n_labels))
            self._keep_members(self._members_without_similar_ages())

    def _members_without_similar_ages(self) -> list[RecentCommittee]:
        """Return the members except those whose age is close to the ages of both neighbours."""
        members, now, i = list(self.members), self.n_labels, 1
        while i < len(members) - 1:
            older, younger = now - members[i - 1].order, now - members[i + 1].order
            if older < 2 * max(younger, _SPACING):
                del members[i]
            else:
                i += 1
        return members

    def _keep_members(self, members: list[RecentCommittee]) -> None:
        """Remove all committees except `members`, and the weights of those removed."""
        m = len(self.trained_committees)
        kept = [i for i, member in enumerate(self.trained_committees) if member in members]
        self.weights = self.weights[[0, *(1 + i for i in kept), *(1 + m + i for i in kept)]]
        self.weights /= self.weights.sum()
        self.members = members
        self._select_weighted_members()

    def committees_due_for_training(self) -> list[RecentCommittee]:
        """Return the recent committees with enough new labels since their last training."""
        return [member for member in self.members if self._is_training_due(member)]

    def _is_training_due(self, member: RecentCommittee) -> bool:
        growth = _GROWTH * pow(self._frequency, 0.7)
        grown = max(ceil((1.0 + growth) * member.n_labels), member.n_labels + 2)
        return self.n_labels - member.order >= max(_FIRST, grown)

    def set_trained_committee(
        self, member: RecentCommittee, committee: "Committee", columns: np.ndarray
    ) -> None:
        """Store the newly trained committee of `member`, one of `members`.

        `columns` int64 are the indices of the committee's classes in the stack.
        """
        is_new = member.committee is None
        member.committee, member.columns = committee, columns
        member.n_labels = self.n_labels - member.order
        if is_new:
            i, m = self.trained_committees.index(member), len(self.trained_committees) - 1
            self.weights = np.insert(self.weights, [1 + i, 1 + m + i], 0.0)
        self._select_weighted_members()

    def drop_created_before(self, label_number: int) -> None:
        """Remove recent committees created before the label number `label_number` was learned.

        `label_number` is the number of labels that the working set has evicted. An older recent
        committee would next be trained on the whole working set, as the deployed committee is.
        """
        if self.members and self.members[0].order < label_number:
            self._keep_members([one for one in self.members if one.order >= label_number])

    def copy_untrained(self, other: "RecentCommittees") -> None:
        """Copy the members of `other` without their committees, which must be trained again."""
        self.members = [RecentCommittee(member.order) for member in other.members]
        self.n_labels, self._newest = other.n_labels, other._newest
        self._frequency = other._frequency
        self._changes.resume(other._changes.state())  # so that no change is reported twice

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        about = {
            "births": [(one.order, one.n_labels, one.columns.tolist()) for one in self.members],
            "weights": self.weights.tolist(),
            "counts": self._counts.tolist(),
            "n_labels": self.n_labels,
            "newest": self._newest,
            "frequency": self._frequency,
            "changes": self._changes.state(),
        }
        arrays: Arrays = {}
        for member in self.members:
            if member.committee is not None:
                own = member.committee.to_arrays()
                arrays |= {f"{member.order}.{name}": array for name, array in own.items()}
        return about, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        from streamboost.boosting.committee import Committee

        self.members = []
        for order, n_labels, columns in state["births"]:
            own = select_prefix(arrays, f"{order}.")
            committee = Committee.from_arrays(own) if own else None
            at = np.array(columns, dtype=np.int64)
            self.members.append(RecentCommittee(order, committee, n_labels, at))
        self.weights, self._counts = np.array(state["weights"]), np.array(state["counts"])
        self.n_labels, self._newest = state["n_labels"], state["newest"]
        self._frequency = state["frequency"]
        self._changes.resume(state["changes"])
        self._select_weighted_members()
