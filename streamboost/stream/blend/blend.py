"""What several experts say of a record, as one prediction."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.features import Features
from streamboost.features.text import normalized
from streamboost.storage import Arrays, part
from streamboost.stream.blend.correction import Recent
from streamboost.stream.blend.experts import Expert, Records
from streamboost.stream.blend.linear import Linear
from streamboost.stream.blend.memory import Memory, Said
from streamboost.stream.blend.neighbours import Neighbours
from streamboost.stream.blend.scale import Scale
from streamboost.stream.blend.sequence import Sequences
from streamboost.stream.blend.words import Words
from streamboost.stream.checks import Label, as_array
from streamboost.stream.scoring import Scored, gap_of, score_with_committee
from streamboost.stream.training.schedule import Schedule

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import Corrected

__all__ = ["Blend"]

_START = {"committee": 0.4, "correction": 0.2, "sequence": 0.1, "words": 0.35}
_OTHERS = 0.15
"""With what weights experts start: the committee leads until labels speak for others."""

_STEP = 0.2
_SQUARES = 10.0
"""AdaGrad's step, and the squared slopes that it starts with."""

_LEAST = -6.0
"""Log probability: whoever says less is too sure."""

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
        self._newest: tuple[Committee, bytes, Said] | None = None

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
        from streamboost.kernels.blending import mix

        scores = committee.decision(X[:, : committee.n_features])
        place = self._places(committee)
        columns = [place[label] for label in committee.classes.tolist()]
        known = np.zeros(len(place), dtype=bool)
        known[columns] = True
        said = self._alone(committee.probabilities(scores), columns, known)
        self._join(Records(committee, X, scores, place), said)
        logs = np.empty(said.shape[1:])
        mix(self.weights, said, logs)
        classes, n_learned = as_array(place), len(self._place)
        scored = Scored(
            labels=classes[logs.argmax(axis=1)].astype(object),
            classes=classes,
            probabilities=np.exp(logs),
            margins=gap_of(logs),
            version=committee.version,
            experts=said[:, :, :n_learned],
            known=known[:n_learned],
            scores=scores,
        )
        if len(X) == 1:
            self._newest = committee, X.tobytes(), self._kept(scored)[0]
        return scored

    def _blends(self, committee: "Committee") -> bool:
        # Where mistakes cost, the likeliest class is not the one to name.
        return bool(self._experts) and committee.costs.size == 0

    def _places(self, committee: "Committee") -> dict[Label, int]:
        """Return the classes' numbers, those that only the committee knows behind the others."""
        place = self._place
        for label in committee.classes.tolist():
            if label not in place:
                place = place | {label: len(place)}
        return place

    def _alone(self, P: np.ndarray, columns: list[int], known: np.ndarray) -> np.ndarray:
        """Return the committee's log probabilities in the place of every expert's, (E, n, K).

        `P` (n, its classes) stand in `columns`, which are those `known` (K,).
        """
        said = np.empty((len(self.names), len(P), len(known)))
        said[:, :, columns] = np.log(np.maximum(P, np.exp(_LEAST)))
        if not known.all():
            share = np.bincount(list(self._labels), minlength=len(known)) + 1.0
            share /= share.sum()
            said[:, :, known] += np.log(share[known].sum())
            said[:, :, ~known] = np.log(share[~known])
        return said

    def _join(self, records: Records, said: np.ndarray) -> None:
        """Let each expert say what it knows, at least `_LEAST`."""
        start = 1
        for expert in self._experts.values():
            end = start + len(expert.opinions)
            expert.say(records, said[start:end])
            start = end
        np.maximum(said, _LEAST, out=said)

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
        for id, said in zip(ids, self._kept(scored), strict=True):
            self._memory.note(id, said)

    def _kept(self, scored: Scored) -> list[Said]:
        assert scored.experts is not None
        assert scored.known is not None
        logs = scored.experts.transpose(1, 0, 2).astype(np.float32)
        return [Said(self._sequences.newest, one, scored.known) for one in logs]

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
        if committee is not None and self._blends(committee):
            said = self._memory.take(id) or self._says_now(committee, row)
            self._weigh(said, self._place.get(label), weight)
            before = said.before
        else:
            before = self._sequences.newest
        k = self._place.setdefault(label, len(self._place))
        self._scale.learn(row)
        for expert in self._experts.values():
            expert.learn(committee, row, label, k, weight)
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

    def _says_now(self, committee: "Committee", row: np.ndarray) -> Said:
        if self._newest is None or self._newest[:2] != (committee, row.tobytes()):
            self.score(committee, row[None])
        assert self._newest is not None
        return self._newest[2]

    def _weigh(self, said: Said, k: int | None, weight: float) -> None:
        """Learn weights of what was said of a record of class number `k`."""
        if k is None or k >= len(said.known) or not said.known[k]:
            return
        logs = said.logs.astype(np.float64)
        off = np.exp(normalized(self.weights @ logs))
        off[k] -= 1.0
        slope = weight * (logs @ off)
        self._squares += slope * slope
        self.weights = np.maximum(self.weights - _STEP * slope / np.sqrt(self._squares), 0.0)

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

    def resume_correction(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `Recent.state` returned, which was all before there were experts."""
        self._recent.resume(state, arrays)

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for the same experts, schedule and features."""
        self.weights = np.array(state["weights"])
        self._squares = np.array(state["squares"])
        self._place = {label: k for k, label in enumerate(state["labels"])}
        self._labels = deque(state["newest"], maxlen=_NEWEST)
        self._scale.resume(part(arrays, "scale."))
        for name, expert in ({"correction": self._recent} | self._experts).items():
            expert.resume(state["experts"][name], part(arrays, f"{name}."))
        self._memory.resume(state["waiting"], part(arrays, "said."))
        self._newest = None
