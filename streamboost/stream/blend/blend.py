"""Combines the predictions of several experts with weights that every label corrects."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamboost.features import Features
from streamboost.storage import Arrays, part
from streamboost.stream.blend.correction import Recent
from streamboost.stream.blend.experts import TREES, Expert, Records, Scale, kernels
from streamboost.stream.blend.memory import Memory, Said
from streamboost.stream.blend.neighbours import Neighbours
from streamboost.stream.blend.online import Linear, Sequences, Words
from streamboost.stream.checks import Label, as_array
from streamboost.stream.scoring import Scored, score_with_committee
from streamboost.stream.training.schedule import Schedule

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import Corrected

__all__ = ["Blend", "Seats"]


class Seats(NamedTuple):
    """The numbers of the classes that a committee's columns stand for.

    Those that only the committee knows are numbered behind the others.
    """

    committee: "Committee"
    n_learned: int
    place: dict[Label, int]
    columns: np.ndarray
    """Int64 (its classes,)."""
    known: np.ndarray
    """Bool (K,), which of all classes it knows."""
    learned: np.ndarray
    """The same of those learned so far, (n_learned,)."""
    classes: np.ndarray
    """(K,), in the order of their numbers."""
    names: np.ndarray
    """The same, object (K,)."""

    @classmethod
    def of(cls, committee: "Committee", learned: dict[Label, int]) -> "Seats":
        """Return those of `committee`, beside the classes learned so far."""
        place = dict(learned)
        columns = np.array(
            [place.setdefault(label, len(place)) for label in committee.classes.tolist()],
            dtype=np.int64,
        )
        known = np.zeros(len(place), dtype=bool)
        known[columns] = True
        classes = as_array(place)
        n, names = len(learned), classes.astype(object)
        return cls(committee, n, place, columns, known, known[:n], classes, names)


_START = {"committee": 0.4, "correction": 0.2, "sequence": 0.1, "words": 0.35}
_OTHERS = 0.15
"""With what weights experts start: the committee leads until labels speak for others."""

_STEP = 0.2
_SQUARES = 10.0
"""AdaGrad's step, and the squared slopes that it starts with."""

_LEAST = -6.0
"""Log probability: whoever says less is too sure."""

_NOBODY = np.zeros(0)
"""The shares of classes that a committee does not know, where it knows all."""

_NEWEST = 50
"""Labels whose shares are the chances of classes that the committee does not know."""


class Blend:
    """Adds the log probabilities of several experts, with weights that every label corrects.

    The weights follow the slope of the log loss that the sum had on arrival (stacking by a
    softmax regression with a weight for each expert, trained by AdaGrad, Duchi et al. 2011). An
    expert that is too sure of itself is tempered, one that is of no use is left out, and with few
    labels the weights stay near their start. A sum of logarithms lets the committee decide where
    it is sure, and the others where it is not: that is why labels asked for by small margins, on
    which weights are learned, mislead it less than they mislead a weighted mean. Labels of
    classes that the committee did not know yet, which it gives their share of the newest labels,
    teach no weights.

    Parameters
    ----------
    experts
        Those that have a voice, of `EXPERTS`; "committee" alone: as the committee says.
    schedule
        How the committee is corrected by the newest labels; where it says so, "correction" speaks
        whenever another expert does.
    features
        What makes columns of records' texts, for "words".
    n_before
        Columns before those of the features.

    Attributes
    ----------
    names
        What each weight is of.
    weights
        float64 (E,).
    """

    def __init__(
        self,
        experts: Sequence[str],
        schedule: Schedule,
        features: Features | None = None,
        n_before: int = 0,
    ) -> None:
        blends = "correction" in experts and not schedule.correction_rounds
        self._recent = Recent(Schedule.per_label() if blends else schedule, optional=blends)
        scale, self._sequences = Scale(), Sequences()
        self._scale = scale
        there: dict[str, Expert] = {
            "correction": self._recent,
            "neighbours": Neighbours(scale),
            "sequence": self._sequences,
            "linear": Linear(scale),
        }
        self._features = features
        if features is not None:
            there["words"] = Words(features, n_before)
        self._experts = {name: there[name] for name in experts if name in there}
        if self._experts and schedule.correction_rounds:  # asked for there, if not among experts
            self._experts = {"correction": self._recent} | self._experts
        self.names = ["committee"]
        for expert in self._experts.values():
            self.names += expert.opinions
        self.weights = np.array([_START.get(name, _OTHERS) for name in self.names])
        self._squares = np.full(len(self.names), _SQUARES)
        self._place: dict[Label, int] = {}  # the classes' numbers, in the order first learned
        self._labels: deque[int] = deque(maxlen=_NEWEST)  # the newest, as numbers
        self._memory = Memory()
        self._seats: Seats | None = None
        # The newest record scored alone, its bytes and what was said, until the next label.
        self._newest: tuple[Records, bytes, Scored] | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The weight of each opinion, as a share of all; nothing where nobody joins in.

        Without texts, words say what the committee says: their weight is the committee's.
        """
        if not self._experts:
            return {}
        total = max(float(self.weights.sum()), 1e-12)
        shares = dict(zip(self.names, (self.weights / total).tolist(), strict=True))
        if self._features is None or not self._features.expert:
            shares["committee"] += shares.pop("words", 0.0)
        return shares

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features; the ones kept miss the new ones."""
        if "correction" not in self._experts:
            self._recent.widen(n_features)
        self._scale.widen(n_features)
        for expert in self._experts.values():
            expert.widen(n_features)
        self._newest = None

    def score(self, committee: "Committee", X: np.ndarray) -> Scored:
        """Score `X` (n, D); columns the committee does not know are left out.

        Raises
        ------
        ConfigurationError
            When the schedule corrects committees, and this one's scores cannot be.
        """
        if not self._blends(committee):
            return score_with_committee(self.leader(committee), X)
        if X.shape[1] < committee.n_features:
            committee.as_rows(X)  # says what is wrong
        seats, n = self._seated(committee), len(X)
        scores, leaves = committee.learners.scores_and_leaves(committee.base, X, TREES)
        records = Records(committee, X, scores, seats.place, seats.columns, leaves)
        said = self._alone(records, seats.known)
        self._join(records, said)
        P, best, margins = np.empty(said.shape[1:]), np.empty(n, dtype=np.int64), np.empty(n)
        kernels().mix(self.weights, said, _LEAST, P, best, margins)
        scored = Scored(
            labels=seats.names[best],
            classes=seats.classes,
            probabilities=P,
            margins=margins,
            version=committee.version,
            experts=said[:, :, : seats.n_learned],
            known=seats.learned,
            scores=scores,
        )
        if n == 1:
            self._newest = records, X.tobytes(), scored
        return scored

    def _blends(self, committee: "Committee") -> bool:
        # Where mistakes cost, the likeliest class is not the one to name.
        return bool(self._experts) and committee.costs.size == 0

    def _seated(self, committee: "Committee") -> Seats:
        seats = self._seats
        if seats is None or seats.committee is not committee or seats.n_learned < len(self._place):
            seats = self._seats = Seats.of(committee, self._place)
        return seats

    def _alone(self, records: Records, known: np.ndarray) -> np.ndarray:
        """Return the committee's log probabilities in the place of every expert's, (E, n, K)."""
        committee, scores = records.committee, records.scores
        temperature, share = committee.temperature, _NOBODY
        if committee.link != "softmax":
            with np.errstate(divide="ignore"):
                scores, temperature = np.log(committee.probabilities(scores)), 1.0
        if len(records.columns) < len(known):
            counts = np.bincount(list(self._labels), minlength=len(known)) + 1.0
            share = np.asarray(counts / counts.sum())
        said = np.empty((len(self.names), len(scores), len(known)))
        kernels().say_alone(scores, temperature, records.columns, share, _LEAST, said)
        return said

    def _join(self, records: Records, said: np.ndarray) -> None:
        """Let each expert say what it knows."""
        start = 1
        for expert in self._experts.values():
            end = start + len(expert.opinions)
            expert.say(records, said[start:end])
            start = end

    def leader(self, committee: "Committee") -> "Committee | Corrected":
        """Return `committee`, as it is corrected where it speaks alone."""
        return committee if self._experts else self._recent.over(committee) or committee

    def edition(self, committee: "Committee | None") -> int:
        """Return a number that rises with every committee, and every correction of the leader."""
        if committee is None:
            return 0
        return committee.version + (0 if self._experts else self._recent.total)

    def note(self, ids: Sequence[str], scored: Scored) -> None:
        """Remember what the experts said of records on their arrival."""
        if scored.experts is None:
            return
        before = self._sequences.newest
        if len(ids) == 1:
            self._memory.hold(ids[0], before, scored)
            return
        self._memory.note_all(ids, before, scored)

    def learn(
        self,
        id: str,
        row: np.ndarray,
        label: Label,
        weight: float = 1.0,
        committee: "Committee | None" = None,
    ) -> None:
        """Learn a record's label; without memory of the record, by what is said of it now."""
        if not self._experts:
            self._recent.learn(committee, row, label, 0, weight)
            return
        before, newest = self._sequences.newest, self._of_newest(committee, row)
        if committee is not None and self._blends(committee):
            said = self._memory.take(id)
            if said is None:
                said = Said.of(before, newest[2] if newest else self.score(committee, row[None]))
            self._weigh(said, self._place.get(label), weight)
            before = said.before
        k = self._place.setdefault(label, len(self._place))
        self._scale.learn(row)
        for expert in self._experts.values():
            expert.learn(committee, row, label, k, weight, newest[0] if newest else None)
        self._sequences.learn_after(before, k, weight)
        self._labels.append(k)
        self._newest = None

    def correct(
        self,
        row: np.ndarray,
        label: Label,
        weight: float = 1.0,
        committee: "Committee | None" = None,
    ) -> None:
        """Learn another label of a record learned before, as one more example.

        Weights and the order of labels stay: who remembers the label of before is not to be judged.
        """
        if not self._experts:
            self._recent.learn(committee, row, label, 0, weight)
            return
        k = self._place.setdefault(label, len(self._place))
        for expert in self._experts.values():
            expert.learn(committee, row, label, k, weight)
        self._newest = None

    def _of_newest(
        self, committee: "Committee | None", row: np.ndarray
    ) -> tuple[Records, bytes, Scored] | None:
        """Return what was said last, if of this row, by this committee, and since the last label.

        It is what would be said of it now.
        """
        newest = self._newest
        if newest is None or newest[0].committee is not committee:
            return None
        return newest if newest[1] == row.tobytes() else None

    def _weigh(self, said: Said, k: int | None, weight: float) -> None:
        """Learn weights of what was said of a record of class number `k`."""
        if k is not None and k < len(said.known) and said.known[k]:
            kernels().learn_weights(said.logs, k, weight, _STEP, self.weights, self._squares)

    def take_weights(self, other: "Blend") -> None:
        """Weigh the experts as `other` does, which has the same ones, and learn on from there."""
        self.weights, self._squares = other.weights, other._squares

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        parts = {name: expert.state() for name, expert in self._experts.items()}
        waiting, said = self._memory.state()
        parts.setdefault("correction", self._recent.state())
        state = {
            "weights": self.weights.tolist(),
            "squares": self._squares.tolist(),
            "labels": list(self._place),
            "newest": list(self._labels),
            "waiting": waiting,
            "experts": {name: about for name, (about, _) in parts.items()},
        }
        return state, {
            **{f"said.{name}": array for name, array in said.items()},
            **{f"scale.{name}": array for name, array in self._scale.state().items()},
            **{
                f"{key}.{name}": one for key, (_, own) in parts.items() for name, one in own.items()
            },
        }

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for the same experts, schedule and features."""
        self.weights = np.array(state["weights"])
        self._squares = np.array(state["squares"])
        self._place, self._seats = {label: k for k, label in enumerate(state["labels"])}, None
        self._labels = deque(state["newest"], maxlen=_NEWEST)
        self._scale.resume(part(arrays, "scale."))
        for name, expert in ({"correction": self._recent} | self._experts).items():
            expert.resume(state["experts"][name], part(arrays, f"{name}."))
        self._memory.resume(state["waiting"], part(arrays, "said."))
        self._newest = None
