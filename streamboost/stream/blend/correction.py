"""The newest labels, and the correction they give the committee."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.storage import Arrays
from streamboost.stream.blend.experts import Expert, Records
from streamboost.stream.checks import Label, as_array
from streamboost.stream.labelled_rows.weights import by_half_life
from streamboost.stream.training.schedule import Schedule

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import Corrected

__all__ = ["Recent"]

_LEAST = 1e-6


class Recent(Expert):
    """Corrects whichever committee serves by what the newest labels say.

    The correction is a function of the committee, these rows and the number of labels, and is made
    when the next record is scored: after many labels at once, once.
    """

    opinions: ClassVar[tuple[str, ...]] = ("correction",)

    def __init__(self, schedule: Schedule, *, optional: bool = False) -> None:
        self._is_optional = optional  # leaves out committees that cannot be corrected
        self._n_stumps = schedule.correction_rounds
        self._size = schedule.correction_rows
        self._weights = by_half_life(self._size, schedule.correction_half_life)
        self._total = 0
        self._labels: list[Label] = []
        self._given = np.ones(self._size)  # as how many records each of the labels counts
        self._X = np.zeros((self._size, 0), dtype=np.float32)
        self._base: Base | None = None
        self._corrected: Corrected | None = None

    def widen(self, n_features: int) -> None:
        """See `Expert`."""
        filler = np.full((self._size, n_features - self._X.shape[1]), np.nan, dtype=np.float32)
        self._X = np.hstack([self._X, filler])

    def learn(
        self, committee: "Committee | None", row: np.ndarray, label: Label, k: int, weight: float
    ) -> None:
        """See `Expert`."""
        if not self._n_stumps:
            return
        self._total += 1
        if len(self._labels) == self._size:
            del self._labels[0]
            self._X[:-1] = self._X[1:]
            self._given[:-1] = self._given[1:]
        self._X[len(self._labels)] = row
        self._given[len(self._labels)] = weight
        self._labels.append(label)
        self._corrected = None

    @property
    def total(self) -> int:
        """Labels learned, each of which makes another correction."""
        return self._total

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`; of classes that committee and newest labels know."""
        from streamboost.boosting.correction import Corrected

        corrected = self.over(records.committee)
        if not isinstance(corrected, Corrected):
            return
        P = corrected.probabilities(corrected.corrected(records.scores.copy(), records.X))
        columns = [records.place[label] for label in corrected.classes.tolist()]
        said[0][:, columns] = np.log(np.maximum(P, _LEAST))

    def over(self, committee: "Committee | None") -> "Committee | Corrected | None":
        """Return `committee` corrected, or as it is where there is nothing to correct it by.

        Raises
        ------
        ConfigurationError
            When its scores are not of the kind that can be corrected, and it must be.
        """
        from streamboost.boosting.correction import correctable

        if not self._labels or committee is None:
            return committee
        if self._is_optional and not correctable(committee):
            return committee
        if self._corrected is None or self._corrected.committee is not committee:
            self._corrected = self._correct(committee)
        return self._corrected

    def _correct(self, committee: "Committee") -> "Corrected":
        from streamboost.boosting.correction import Corrected, correct, first_scores

        base = self._base
        if base is None or base.committee is not committee:
            base = self._base = Base(committee)
        n = len(self._labels)
        X = self._X[:n, : committee.n_features]
        known = base.scores(X, self._total)
        y, classes = base.places(self._labels)
        first = first_scores(known, y, len(classes))
        scores = np.empty((n, len(classes)), dtype=np.float32)
        scores[:, : known.shape[1]] = known
        scores[:, known.shape[1] :] = first
        weight = self._weights[-n:]
        stumps = correct(
            np.ascontiguousarray(X),
            y,
            weight / weight.mean() * self._given[:n],
            scores,
            features=base.features,
            n_stumps=self._n_stumps,
            turn=self._total,
            temperature=committee.temperature,
        )
        return Corrected(committee, classes, first * committee.temperature, stumps)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """See `Expert`."""
        n = len(self._labels)
        rows: Arrays = {"X": self._X[:n].copy(), "weight": self._given[:n].copy()}
        return {"total": self._total, "labels": list(self._labels)}, rows

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """See `Expert`; for the same schedule."""
        self._total, self._labels = state["total"], list(state["labels"])
        self._X = np.full((self._size, arrays["X"].shape[1]), np.nan, dtype=np.float32)
        self._X[: len(self._labels)] = arrays["X"]
        self._given[: len(self._labels)] = arrays.get("weight", np.ones(1))


class Base:
    """A committee before its correction, with what it says about the newest rows."""

    def __init__(self, committee: "Committee") -> None:
        from streamboost.boosting.correction import correctable

        if not correctable(committee):
            raise ConfigurationError(
                f"corrections at every label need scores that are logarithms of probabilities, and "
                f"this committee's are {committee.link} scores: train it with an estimator such as "
                "SketchLogitBoostClassifier, or set the schedule's correction_rounds to 0"
            )
        self.committee = committee
        categories = committee.learners.categories.features
        self.features = np.setdiff1d(np.arange(committee.n_features), categories)
        self._place = {label: k for k, label in enumerate(committee.classes.tolist())}
        self._scores = np.zeros((0, len(committee.classes)))
        self._scored = 0

    def scores(self, X: np.ndarray, total: int) -> np.ndarray:
        """Return the scores (n, known) of the newest rows `X`, the last being label `total`.

        Those of rows scored before are taken from then.
        """
        n_new = min(total - self._scored, len(X))
        new = self.committee.decision(X[len(X) - n_new :]) / self.committee.temperature
        kept = self._scores[len(self._scores) - (len(X) - n_new) :]
        self._scores, self._scored = np.concatenate([kept, new]), total
        return self._scores

    def places(self, labels: list[Label]) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels' places among the classes, int64 (n,), and the classes.

        Those that the committee does not know join behind the others.
        """
        try:
            return np.array([self._place[label] for label in labels]), self.committee.classes
        except KeyError:
            place = dict(self._place)
            y = [place.setdefault(label, len(place)) for label in labels]
            return np.array(y), as_array(place)
