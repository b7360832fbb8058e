"""Residual correction of the committee by stumps fitted to the newest labels."""

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.errors import ConfigurationError
from streamboost.stacking.experts import Expert, ExpertRecords, stacking_kernels
from streamboost.storage import Arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.boosting.correction import CorrectedCommittee


class CorrectionSettings(NamedTuple):
    """Settings of the stumps that correct a committee by the newest labels.

    Attributes
    ----------
    rounds
        Number of stumps boosted on top of the committee; 0: no correction.
    rows
        Number of newest labelled records that the stumps are fitted to.
    half_life
        Number of labels after which a record's weight is halved.
    """

    rounds: int = 0
    rows: int = 50
    half_life: float = 5.0


PER_LABEL = CorrectionSettings(rounds=5)
"""Correction for streams with autocorrelated labels."""

_NONE = np.zeros(0)


class ResidualCorrection(Expert):
    """Corrects the scores of the current committee by stumps fitted to the newest labels.

    The correction depends only on the committee, on the newest labelled rows and on the number of
    labels. It is computed when the next record is scored.
    """

    output_names: ClassVar[tuple[str, ...]] = ("correction",)

    def __init__(self, settings: CorrectionSettings, *, optional: bool = False) -> None:
        self._is_optional = optional  # skips committees that cannot be corrected
        self._n_stumps, self._size, self._half_life = settings
        self._total = 0
        self._labels: list[Label] = []
        # The rows are stored in arrays of twice the size, from index `_start` on.
        self._start = 0
        self._given = np.ones(2 * self._size)  # weights of the labels
        self._X = np.zeros((2 * self._size, 0), dtype=np.float32)
        self._base: ScoredCommittee | None = None
        self._unread = 0  # number of newest rows that are not scored by the base yet
        self._corrected: CorrectedCommittee | None = None

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        filler = np.full((2 * self._size, n_features - self._X.shape[1]), np.nan, dtype=np.float32)
        self._X = np.hstack([self._X, filler])

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        class_index: int,
        weight: float,
        scored: ExpertRecords | None = None,
    ) -> None:
        """Store the newest labelled record, with features `row` (D,) and the given `weight`."""
        if not self._n_stumps:
            return
        self._total += 1
        if len(self._labels) == self._size:
            del self._labels[0]
            self._start += 1
            if self._start == self._size:
                self._move_rows_to_front()
        end = self._start + len(self._labels)
        self._X[end], self._given[end] = row, weight
        self._labels.append(label)
        self._corrected = None
        base = self._base
        if base and scored and scored.committee is base.committee and not self._unread:
            base.store_scores(end, scored.scores, [label])
        else:
            self._unread = min(self._unread + 1, self._size)

    def _move_rows_to_front(self) -> None:
        """Move the rows from the second half of the arrays to the first, to free space."""
        blocks: list[np.ndarray] = [self._X, self._given]
        if self._base is not None:
            blocks += [self._base.scores, self._base.y]
        for block in blocks:
            block[: self._size] = block[self._size :]
        self._start = 0

    @property
    def n_labels(self) -> int:
        """Number of labels learned; each of them changes the correction."""
        return self._total

    def predict(self, records: ExpertRecords, outputs: np.ndarray) -> None:
        """Write corrected log probabilities into `outputs` (see `Expert.predict`).

        The classes are those of the committee and of the newest labels.
        """
        corrected: Any = self.correct_committee(records.committee)
        if corrected is records.committee:
            return
        columns = records.columns
        if len(corrected.new_class_scores):
            columns = np.array([records.place[label] for label in corrected.classes.tolist()])
        how = corrected.new_class_scores, records.committee.temperature, *corrected.stumps
        stacking_kernels().predict_corrected_committee(
            records.scores, *how, records.X, columns, outputs[0]
        )

    def correct_committee(
        self, committee: "Committee | None"
    ) -> "Committee | CorrectedCommittee | None":
        """Return the corrected committee.

        Returns `committee` itself if there are no labels. Stumps can correct only scores that are
        log probabilities. For other scores, `committee` is returned if the correction was created
        with `optional=True`.

        Raises
        ------
        ConfigurationError
            When the scores are not log probabilities, and `optional` is False.
        """
        if not self._labels or committee is None:
            return committee
        if self._is_optional and not correction_module().supports_residual_correction(committee):
            return committee
        if self._corrected is None or self._corrected.committee is not committee:
            self._corrected = self._fit_correction(committee)
        return self._corrected

    def _fit_correction(self, committee: "Committee") -> "CorrectedCommittee":
        make, base, n = (
            correction_module(),
            self._score_rows_with_committee(committee),
            len(self._labels),
        )
        rows, D = slice(self._start, self._start + n), committee.n_features
        X, scores = self._X[rows], base.scores[rows]
        X = X if X.shape[1] == D else np.ascontiguousarray(X[:, :D])
        weight = normalized_half_life_weights(n, self._half_life), self._given[rows]
        how = base.features, self._n_stumps, self._total, committee.temperature
        stumps = make.train_correction_stumps(X, base.y[rows], *weight, scores, *how)
        if stumps is not None:
            plain: CorrectedCommittee = make.CorrectedCommittee(
                committee, committee.classes, _NONE, stumps
            )
            return plain
        y, classes = base.class_indices(self._labels)
        first = make.initial_scores_of_new_classes(scores, y, len(classes))
        stumps = make.train_correction_stumps(
            X, y, *weight, np.hstack([scores, np.tile(first, (n, 1))]), *how
        )
        wider: CorrectedCommittee = make.CorrectedCommittee(
            committee, classes, first * committee.temperature, stumps
        )
        return wider

    def _score_rows_with_committee(self, committee: "Committee") -> "ScoredCommittee":
        """Return the committee with its scores of all stored rows; scores only new rows."""
        base, end = self._base, self._start + len(self._labels)
        if base is None or base.committee is not committee:
            base = self._base = ScoredCommittee(committee, len(self._X))
            self._unread = len(self._labels)
        if self._unread:
            new = slice(end - self._unread, end)
            scores = committee.class_scores(self._X[new, : committee.n_features])
            base.store_scores(new.start, scores, self._labels[-self._unread :])
            self._unread = 0
        return base

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        rows = slice(self._start, self._start + len(self._labels))
        arrays: Arrays = {"X": self._X[rows].copy(), "weight": self._given[rows].copy()}
        return {"total": self._total, "labels": list(self._labels)}, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that `state` returned for an object with equal settings."""
        self._total, self._labels = state["total"], list(state["labels"])
        self._start, n = 0, len(self._labels)
        self._X = np.full((2 * self._size, arrays["X"].shape[1]), np.nan, dtype=np.float32)
        self._X[:n] = arrays["X"]
        self._given[:n] = arrays["weight"]
        self._base = self._corrected = None


class ScoredCommittee:
    """Committee without correction, with its scores for the newest rows and their labels.

    Attributes
    ----------
    scores
        float64 (rows, classes of the committee), divided by the temperature.
    y
        int64 (rows,), index of each label among the committee's classes; -1 for other labels.
    """

    def __init__(self, committee: "Committee", n_rows: int) -> None:
        if not correction_module().supports_residual_correction(committee):
            raise ConfigurationError(
                f"corrections at every label need scores that are logarithms of probabilities, and "
                f"this committee's are {committee.link} scores: train it with an estimator such as "
                "SketchLogitBoostClassifier, or set the schedule's correction_rounds to 0"
            )
        self.committee = committee
        categories = committee.learners.category_codes.features
        self.features = np.setdiff1d(np.arange(committee.n_features), categories)
        self._place = {label: k for k, label in enumerate(committee.classes.tolist())}
        self.scores = np.zeros((n_rows, len(committee.classes)))
        self.y = np.zeros(n_rows, dtype=np.int64)

    def store_scores(self, first: int, scores: np.ndarray, labels: list[Label]) -> None:
        """Store the committee's `scores` (n, K) and `labels` of n rows, from index `first` on."""
        end = first + len(labels)
        np.divide(scores, self.committee.temperature, out=self.scores[first:end])
        for i, label in enumerate(labels, first):
            self.y[i] = self._place.get(label, -1)

    def class_indices(self, labels: list[Label]) -> tuple[np.ndarray, np.ndarray]:
        """Return the class index of each of `labels`, int64 (n,), and an array of all classes.

        Classes that the committee does not have follow the committee's classes.
        """
        place = dict(self._place)
        y = [place.setdefault(label, len(place)) for label in labels]
        return np.array(y), labels_to_array(place)


@cache
def correction_module() -> Any:
    """Return the module `streamboost.boosting.correction`, imported on first use."""
    from streamboost.boosting import correction

    return correction


@lru_cache(maxsize=64)
def normalized_half_life_weights(n: int, half_life: float) -> np.ndarray:
    """Return `half_life_weights`, scaled to a mean of 1."""
    weight = half_life_weights(n, half_life)
    return np.asarray(weight / weight.mean())


def half_life_weights(n: int, half_life: float) -> np.ndarray:
    """Return weights (n,), oldest first, that halve with every `half_life` labels of age.

    Up to a factor, these are the geometric initial weights of AdaBoost.A with ratio
    2^(-1/half_life). An age that exceeds the range of floats has weight 0.

    >>> half_life_weights(3, 1.0)
    array([0.25, 0.5 , 1.  ])
    """
    with np.errstate(over="ignore"):
        ages = np.arange(n - 1, -1, -1) / float(half_life)
    return np.exp2(-ages)
