"""Online stacking of several experts' predictions with weights learned from every label."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.features import Features
from streamboost.predictions import Scored, score_with_committee
from streamboost.stacking.correction import PER_LABEL, CorrectionSettings, ResidualCorrection
from streamboost.stacking.experts import (
    TREES,
    Expert,
    ExpertRecords,
    RunningScaler,
    stacking_kernels,
)
from streamboost.stacking.neighbours import NeighboursExpert
from streamboost.stacking.online import LabelTransitionModel, LinearExpert, TextExpert
from streamboost.stacking.prediction_cache import CachedPrediction, PredictionCache
from streamboost.stacking.runs import ClassRunFilter
from streamboost.stacking.vector import VectorExpert
from streamboost.stacking.young import RecentCommittee, RecentCommittees
from streamboost.storage import Arrays, select_prefix

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import CorrectedCommittee


class ClassIndex(NamedTuple):
    """Maps K class labels to column indices of the combined predictions.

    Classes that only the committee has get the last indices.
    """

    committee: "Committee"
    n_learned: int
    """Number of classes that the stack has learned from labels."""
    place: dict[Label, int]
    """Index of each class."""
    columns: np.ndarray
    """Index of each class of the committee, int64."""
    known: np.ndarray
    """Whether the committee has each class, bool (K,)."""
    learned: np.ndarray
    """The first `n_learned` elements of `known`."""
    classes: np.ndarray
    """Class labels in the order of their indices, (K,)."""
    names: np.ndarray
    """`classes` with dtype object."""

    @classmethod
    def from_learned_and_committee(
        cls, committee: "Committee", learned: dict[Label, int]
    ) -> "ClassIndex":
        """Create the index of the learned classes, followed by other classes of `committee`."""
        place = dict(learned)
        columns = np.array(
            [place.setdefault(label, len(place)) for label in committee.classes.tolist()],
            dtype=np.int64,
        )
        known = np.zeros(len(place), dtype=bool)
        known[columns] = True
        classes = labels_to_array(place)
        n, names = len(learned), classes.astype(object)
        return cls(committee, n, place, columns, known, known[:n], classes, names)


_START = {"committee": 0.4, "correction": 0.2, "transitions": 0.1, "text": 0.35}
_OTHERS = 0.15
"""Initial weights of the experts: the committee dominates until labels support others."""

_START_WITH_VECTORS = {"committee": 0.1, "text": 0.3, "vector": 1.0}
_OTHERS_WITH_VECTORS = 0.05
"""Initial weights if records have vector fields."""

_STEP = 0.2
_SQUARES = 10.0
"""Step size of AdaGrad, and its initial squared gradients."""

_LEAST = -6.0
"""Lower bound of log probabilities, which limits the effect of overconfident experts."""

_NO_SHARES = np.zeros(0)
"""Empty class shares, for a committee that has all classes."""

_NEWEST = 50
"""Number of newest labels whose class shares are used for classes new to the committee."""


class OnlineStacking:
    """Log-linear pool of several experts, with weights learned from every label.

    The weights follow the gradient of the log loss of the prediction on arrival (stacking by a
    softmax regression with one weight per expert, trained by AdaGrad, Duchi et al. 2011). The
    weight of an overconfident expert decreases, and the weight of a useless one vanishes. With few
    labels, the weights are near their initial values.

    In a sum of log probabilities, the committee decides where it is confident, and the other
    experts decide elsewhere. The weights are learned from requested labels, which have small
    margins. This biases a log-linear pool less than a weighted mean of probabilities. If a class is
    new to the committee, its probability is its share of the newest labels. Labels of such classes
    do not change the weights.

    Parameters
    ----------
    experts
        Names of the experts in use, from `EXPERTS`. If "committee" is the only name, only the
        committee predicts.
    correction
        Settings of the committee's correction by the newest labels. If `rounds` is above 0,
        "correction" is in use together with any other expert.
    features
        Feature encoders, required by the experts "text" and "vector".
    n_before
        Number of columns before the features: the lagged labels.

    Attributes
    ----------
    names
        Names of the E combined predictions, in the order of `weights`; an expert may have several.
    weights
        float64 (E,), the weight of each prediction.
    vector
        The expert of the vector fields; None without vector fields, or if it is not in use.
    young
        Recent committees, which are mixed with the pool; None if they are not in use.
    runs
        The filter of arriving records; None if it is not in use.
    """

    def __init__(
        self,
        experts: Sequence[str],
        correction: CorrectionSettings = CorrectionSettings(),  # noqa: B008 - it is immutable
        features: Features | None = None,
        n_before: int = 0,
    ) -> None:
        blends = "correction" in experts and not correction.rounds
        self._correction = ResidualCorrection(PER_LABEL if blends else correction, optional=blends)
        scale, self._transitions = RunningScaler(), LabelTransitionModel()
        self._scale = scale
        there: dict[str, Expert] = {
            "correction": self._correction,
            "neighbours": NeighboursExpert(scale),
            "transitions": self._transitions,
            "linear": LinearExpert(scale),
        }
        self._features, self._n_before = features, n_before
        self._may_use_vectors = "vector" in experts
        self._vector_decides = False
        self.vector: VectorExpert | None = None
        if features is not None:
            there["text"] = TextExpert(features, n_before)
            if self._may_use_vectors and features.vector_columns:
                there["vector"] = self.vector = VectorExpert(features, n_before)
        self._experts = {name: there[name] for name in experts if name in there}
        if self._experts and correction.rounds:  # then "correction" is in use, even if not listed
            self._experts = {"correction": self._correction} | self._experts
        self.names = ["committee"]
        for expert in self._experts.values():
            self.names += expert.output_names
        start, others = _START, _OTHERS
        if self.vector is not None:
            start, others = _START_WITH_VECTORS, _OTHERS_WITH_VECTORS
        self.weights = np.array([start.get(name, others) for name in self.names])
        self._squares = np.full(len(self.names), _SQUARES)
        self.young = RecentCommittees() if "young" in experts else None
        self.runs = ClassRunFilter() if "runs" in experts else None
        mixtures = {"young": self.young, "runs": self.runs}
        self._mixtures = {name: one for name, one in mixtures.items() if one is not None}
        if not self._experts:  # the committee alone predicts as it is
            self.weights[:] = 1.0
        self._place: dict[Label, int] = {}  # class indices, in the order first learned
        self._labels: deque[int] = deque(maxlen=_NEWEST)  # class indices of the newest labels
        self._cache = PredictionCache()
        self._class_index: ClassIndex | None = None
        # The newest record scored alone, its bytes and its scores, until the next label.
        self._newest: tuple[ExpertRecords, bytes, Scored] | None = None

    @property
    def normalized_weights(self) -> dict[str, float]:
        """The normalized weight of each expert by name; empty if only the committee predicts.

        Without text features, "text" predicts as the committee does, so its weight is added to the
        committee's.
        """
        if not self._has_other_experts:
            return {}
        total = max(float(self.weights.sum()), 1e-12)
        normalized_weights = dict(zip(self.names, (self.weights / total).tolist(), strict=True))
        if self._features is None or not self._features.text_columns:
            normalized_weights["committee"] += normalized_weights.pop("text", 0.0)
        for mixture, one in self._mixtures.items():
            mass = one.mixture_weight
            normalized_weights = {name: (1 - mass) * w for name, w in normalized_weights.items()}
            normalized_weights[mixture] = mass
        return normalized_weights

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features, which has grown, to `n_features`."""
        if "correction" not in self._experts:
            self._correction.set_n_features(n_features)
        self._scale.set_n_features(n_features)
        for expert in self._experts.values():
            expert.set_n_features(n_features)
        self._newest = None

    def add_vector_expert_if_due(self) -> None:
        """Add the vector expert once the features have a vector field.

        Cached predictions, which lack this expert, are dropped.
        """
        features = self._features
        if features is None or not (self._may_use_vectors and features.vector_columns):
            return
        if self.vector is None:
            self.vector = self._experts["vector"] = VectorExpert(features, self._n_before)
            self.names += self.vector.output_names
            self.weights = np.append(self.weights, _START_WITH_VECTORS["vector"])
            self._squares = np.append(self._squares, _SQUARES)
            self._cache, self._newest = PredictionCache(), None

    def score(self, committee: "Committee", X: np.ndarray) -> Scored:
        """Return the ensemble's predictions for the records `X` (n, D).

        Columns that were added after the committee was trained are used by other experts only.

        Raises
        ------
        ConfigurationError
            When the committee alone predicts, with `correction.rounds` above 0, but its scores are
            not log probabilities, so that stumps cannot correct them.
        """
        if not self._combines_experts(committee):
            return score_with_committee(self.scoring_model(committee), X)
        if X.shape[1] < committee.n_features:
            committee.as_rows(X)  # raises an error with the reason
        index, n = self._get_or_create_class_index(committee), len(X)
        scores, leaves = committee.learners.scores_and_leaves(committee.base, X, TREES)
        records = ExpertRecords(committee, X, scores, index.place, index.columns, leaves)
        outputs = self._committee_outputs(records, index.known)
        self._write_expert_outputs(records, outputs)
        P, best, margins = np.empty(outputs.shape[1:]), np.empty(n, dtype=np.int64), np.empty(n)
        stacking_kernels().combine_experts(self.weights, outputs, _LEAST, P, best, margins)
        if self.young is not None:
            self.young.mix_predictions(X, P, best, margins)
        scored = Scored(
            labels=index.names[best],
            classes=index.classes,
            probabilities=P,
            margins=margins,
            version=committee.version,
            experts=outputs[:, :, : index.n_learned],
            known=index.learned,
            scores=scores,
        )
        if n == 1:
            self._newest = records, X.tobytes(), scored
        return scored

    def apply_class_run_filter(self, X: np.ndarray, scored: Scored) -> Scored | None:
        """Return the predictions of arriving records `X` (n, D), updated by `ClassRunFilter`.

        The filter is a hidden Markov model of runs: successive records of the same class. `scored`
        are the predictions of the stack. Their probabilities must be calibrated: an overconfident
        prediction would outweigh earlier records. Returns None if the filter is not used.
        """
        if self.runs is None or scored.experts is None:
            return None
        n, own = len(X), scored.probabilities
        P, best, margins = np.empty_like(own), np.empty(n, dtype=np.int64), np.empty(n)
        if not self.runs.filter_predictions(X, own, P, best, margins):
            return None
        labels = scored.classes.astype(object)[best]
        return replace(scored, labels=labels, probabilities=P, margins=margins)

    def _combines_experts(self, committee: "Committee") -> bool:
        # With error costs, the most probable class is not the one to predict.
        return self._has_other_experts and committee.costs.size == 0

    @property
    def _has_other_experts(self) -> bool:
        return bool(self._experts or self._mixtures)

    def _get_or_create_class_index(self, committee: "Committee") -> ClassIndex:
        index = self._class_index
        if index is None or index.committee is not committee or index.n_learned < len(self._place):
            index = self._class_index = ClassIndex.from_learned_and_committee(
                committee, self._place
            )
        return index

    def _committee_outputs(self, records: ExpertRecords, known: np.ndarray) -> np.ndarray:
        """Return the committee's log probabilities for each of the E experts, float64 (E, n, K).

        An expert that has no prediction for a row keeps those of the committee.
        """
        committee, scores = records.committee, records.scores
        temperature, share = committee.temperature, _NO_SHARES
        if committee.link != "softmax":
            with np.errstate(divide="ignore"):
                scores, temperature = np.log(committee.probabilities(scores)), 1.0
        if len(records.columns) < len(known):
            counts = np.bincount(list(self._labels), minlength=len(known)) + 1.0
            share = np.asarray(counts / counts.sum())
        outputs = np.empty((len(self.names), len(scores), len(known)))
        stacking_kernels().predict_committee(
            scores, temperature, records.columns, share, _LEAST, outputs
        )
        return outputs

    def _write_expert_outputs(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write each expert's log probabilities to that expert's part of `outputs` (E, n, K)."""
        start = 1
        for expert in self._experts.values():
            end = start + len(expert.output_names)
            expert.predict(records, outputs[start:end])
            start = end

    def scoring_model(self, committee: "Committee") -> "Committee | CorrectedCommittee":
        """Return `committee`, or if there are no other experts, the corrected committee."""
        return (
            committee
            if self._has_other_experts
            else self._correction.correct_committee(committee) or committee
        )

    def vectors(self, X: np.ndarray) -> np.ndarray | None:
        """Return the columns of the vector fields in `X` (n, D), or None without such fields."""
        return None if self.vector is None else X[:, self.vector.columns()]

    def score_with_vector_expert(self, committee: "Committee", X: np.ndarray) -> Scored | None:
        """Return the vector expert's own predictions for `X` (n, D), or None.

        The result is None unless this expert's weight was above the committee's when the expert was
        last trained.
        """
        if self.vector is None or not self._vector_decides:
            return None
        return self.vector.score(X, committee.version)

    def model_version(self, committee: "Committee | None") -> int:
        """Return a number that changes whenever the scoring model changes; 0 without a committee.

        The number increases with each new committee, correction or vector expert.
        """
        if committee is None:
            return 0
        if self._has_other_experts:
            return committee.version + (0 if self.vector is None else self.vector.n_trainings)
        return committee.version + self._correction.n_labels

    def cache_predictions(self, ids: Sequence[str], scored: Scored) -> None:
        """Cache the experts' predictions for arriving records until their labels arrive."""
        if self.runs is not None:
            self.runs.set_ids_of_filtered_records(ids)
        if scored.experts is None:
            return
        before = self._transitions.newest
        if len(ids) == 1:
            self._cache.put_scored(ids[0], before, scored)
            return
        self._cache.put_all(ids, before, scored)

    def learn(
        self,
        id: str,
        row: np.ndarray,
        label: Label,
        weight: float = 1.0,
        committee: "Committee | None" = None,
    ) -> None:
        """Learn the label of the record `id`, and update the experts' weights.

        The weights are updated with the predictions on arrival. If these are not cached, the record
        is scored now. `row` (D,) has the features, and `weight` is the record's weight.
        """
        if not self._has_other_experts:
            self._correction.learn(committee, row, label, 0, weight)
            return
        before, newest = self._transitions.newest, self._cached_scores_of_row(committee, row)
        if committee is not None and self._combines_experts(committee):
            scored, prediction = newest[2] if newest else None, self._cache.pop(id)
            if scored is None and (prediction is None or self._is_recent_committee_update_due):
                scored = self.score(committee, row[None])
            if prediction is None:
                assert scored is not None
                prediction = CachedPrediction.from_scored(before, scored)
            k = self._place.get(label)
            if scored is not None and self._is_recent_committee_update_due:
                self._update_recent_committee_weights(
                    scored, row, len(self._place) if k is None else k
                )
            self._update_weights(prediction, k, weight)
            before = prediction.newest_class
        k = self._place.setdefault(label, len(self._place))
        if self.young is not None:
            self.young.count_label(k)
        self._scale.learn(row)
        for expert in self._experts.values():
            expert.learn(committee, row, label, k, weight, newest[0] if newest else None)
        self._transitions.learn_transition(before, k, weight)
        if self.runs is not None:
            self.runs.learn(id, k)
        self._labels.append(k)
        self._newest = None

    def correct_label(
        self,
        row: np.ndarray,
        label: Label,
        weight: float = 1.0,
        committee: "Committee | None" = None,
    ) -> None:
        """Learn a second label of a record as one more example.

        The weights of the experts do not change, as experts that have learned the first label would
        bias them. The order of the labels does not change either.
        """
        if not self._has_other_experts:
            self._correction.learn(committee, row, label, 0, weight)
            return
        k = self._place.setdefault(label, len(self._place))
        for expert in self._experts.values():
            expert.learn(committee, row, label, k, weight)
        self._newest = None

    def _cached_scores_of_row(
        self, committee: "Committee | None", row: np.ndarray
    ) -> tuple[ExpertRecords, bytes, Scored] | None:
        """Return the newest scores if they are of this row by this committee, else None.

        The scores are removed whenever a label is learned.
        """
        newest = self._newest
        if newest is None or newest[0].committee is not committee:
            return None
        return newest if newest[1] == row.tobytes() else None

    def _update_weights(
        self, prediction: CachedPrediction, class_index: int | None, weight: float
    ) -> None:
        """Update the experts' weights with their cached `prediction` for a labelled record.

        `class_index` is the label's class index in the stack. If the experts did not know the class
        when they predicted (None for a new class), the weights stay unchanged.
        """
        if (
            class_index is not None
            and class_index < len(prediction.known)
            and prediction.known[class_index]
        ):
            stacking_kernels().update_expert_weights(
                prediction.logs, class_index, weight, _STEP, self.weights, self._squares
            )

    @property
    def _is_recent_committee_update_due(self) -> bool:
        """Whether the next label updates the weights of the recent committees."""
        return self.young is not None and self.young.updates_weights_at_next_label

    def _update_recent_committee_weights(
        self, scored: Scored, row: np.ndarray, class_index: int
    ) -> None:
        """Update the weights of stack and recent committees with a record of class `class_index`.

        `scored` is the stack's prediction for the features `row` (D,) just before the label is
        learned. The recent committees predict at the same time, so the comparison is fair.
        """
        assert self.young is not None
        assert scored.experts is not None
        logs = self.weights @ scored.experts[:, 0]
        own = np.zeros(len(self._place))
        own[: len(logs)] = np.exp(logs - logs.max())
        self.young.update_weights(row, own / own.sum(), class_index)

    def train_expert_of_vector_fields(
        self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None
    ) -> None:
        """Train the expert of the vector fields, if it is in use, on labelled rows.

        The arguments are as in `VectorExpert.train`.
        """
        if self.vector is not None:
            self.vector.train(X, y, weight)
            own = self.weights[self.names.index("vector")]
            self._vector_decides = bool(own > self.weights[0])

    def set_recent_committee(self, member: RecentCommittee, committee: "Committee") -> None:
        """Set the committee of `member`, an entry of `young.members`, to a newly trained one."""
        assert self.young is not None
        place = self._place
        columns = [place.setdefault(label, len(place)) for label in committee.classes.tolist()]
        self.young.set_trained_committee(member, committee, np.array(columns, dtype=np.int64))

    def copy_weights(self, other: "OnlineStacking") -> None:
        """Copy weights and untrained recent committees from `other`, which has the same experts."""
        self.weights, self._squares = other.weights, other._squares
        if self.vector is not None and other.vector is not None:
            self.vector.n_trainings = other.vector.n_trainings
        if self.young is not None and other.young is not None:
            self.young.copy_untrained(other.young)

    @property
    def _always_stored_experts(self) -> dict[str, Expert]:
        """Experts with a state that is used, and stored, even if they are not in the stack."""
        return {"correction": self._correction, "transitions": self._transitions}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        parts = {name: expert.state() for name, expert in self._experts.items()}
        waiting, cached = self._cache.state()
        for name, expert in self._always_stored_experts.items():
            parts.setdefault(name, expert.state())
        parts |= {name: one.state() for name, one in self._mixtures.items()}
        state = {
            "weights": self.weights.tolist(),
            "squares": self._squares.tolist(),
            "labels": list(self._place),
            "newest": list(self._labels),
            "waiting": waiting,
            "vector_decides": self._vector_decides,
            "experts": {name: about for name, (about, _) in parts.items()},
        }
        return state, {
            **{f"said.{name}": array for name, array in cached.items()},
            **{f"scale.{name}": array for name, array in self._scale.state().items()},
            **{
                f"{key}.{name}": one for key, (_, own) in parts.items() for name, one in own.items()
            },
        }

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that a stack of equal experts, correction and features returned."""
        self.weights = np.array(state["weights"])
        self._squares = np.array(state["squares"])
        self._place, self._class_index = {label: k for k, label in enumerate(state["labels"])}, None
        self._labels = deque(state["newest"], maxlen=_NEWEST)
        self._scale.resume(select_prefix(arrays, "scale."))
        for name, expert in (self._always_stored_experts | self._experts).items():
            expert.resume(state["experts"][name], select_prefix(arrays, f"{name}."))
        for name, one in self._mixtures.items():
            one.resume(state["experts"][name], select_prefix(arrays, f"{name}."))
        self._vector_decides = state["vector_decides"]
        self._cache.resume(state["waiting"], select_prefix(arrays, "said."))
        self._newest = None
