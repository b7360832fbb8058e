"""Early stopping: chooses the number of boosting rounds by the loss of a validation set.

A share of each class's rows is held out from training, as the validation set. Training ends if none
of the last `n_iter_no_change` rounds has lowered the validation loss, as in scikit-learn's
`HistGradientBoostingClassifier`. The rounds after the lowest loss are dropped, whereas scikit-learn
keeps them. If every round increases the loss, no round is kept. Huang (2009, section 5.2) suggests
this hold-out "to determine the early stopping point in training".

The loss is the log loss of softmax(F / (T t)). T is the family's own temperature, and t >= 1 is
fitted to the validation set. Boosters of exponential losses become overconfident long before their
accuracy stops improving. With the plain log loss (t = 1), GAMBLE would end on satimage after 2
rounds, at an error of 19 %; with t, training ends after 35 rounds at 13.7 %. With the error instead
of a loss, whose resolution with 200 rows is half a percent, all families end too early. The costs
of REBEL and AdaBoost.A are ignored.

The choice of the validation rows depends on their values and, if `random_state` is an integer, on
the seed. The choice does not depend on the order of the rows. Of other rows, only their number has
an effect. Three properties follow:

- Equal rows are all held out or all trained on.
- A row of weight 2 is treated as two rows.
- An extension on the same rows holds out the same rows.

If there are too few rows to hold any out, all rows are trained on, for all rounds. In this case
`fit` and `extend` warn; the first trainings of a stream do not.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from streamboost.boosting.committee import WeakLearners
from streamboost.boosting.similarities import SimilarityEnsembleBuilder
from streamboost.boosting.training_data import TrainingData
from streamboost.trees.forest import ForestBuilder

_EXACT = 1e-9  # absolute accuracy of a loss, far below any reasonable `tol`


@dataclass(kw_only=True, eq=False, repr=False)
class EarlyStopping:
    """Parameters for early stopping, and the split of the training data that they define.

    Parameters
    ----------
    early_stopping
        Whether to hold out rows and stop early; see `streamboost.boosting.early_stopping`.
    validation_fraction
        The share of each class's weight that is held out, in (0, 1).
    n_iter_no_change
        Number of rounds without a lower validation loss after which training ends.
    tol
        Least decrease of the loss that counts as an improvement.
    """

    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7

    def _split_off_validation_set(
        self, data: TrainingData, seed: Any
    ) -> "tuple[TrainingData, ValidationSet | None]":
        """Return the training rows of `data`, and the validation set.

        The validation set is None, and `data` is not split, if no row is held out.
        """
        if not self.early_stopping or len(data.classes) < 2:
            return data, None
        by = int(seed) if isinstance(seed, Integral) else 0
        out = validation_row_mask(data, self.validation_fraction, by)
        if not out.any():
            return data, None
        held = ValidationSet(
            data.X[out], data.y[out], data.weight[out], self.n_iter_no_change, self.tol
        )
        return _select_training_rows(data, ~out), held

    def _set_validation_score(self, validation: "ValidationSet | None") -> None:
        self.validation_score_ = -np.array([] if validation is None else validation.losses)

    def _warn_without_validation(self, n_rows: int, n_classes: int) -> None:
        """Warn the user if there are too few rows for a validation set."""
        if self.early_stopping and n_classes > 1 and not self.validation_score_.size:
            warnings.warn(
                f"early_stopping holds out validation_fraction={self.validation_fraction} of each "
                f"class, and of {n_rows} rows no class has enough to hold one out: all "
                "rounds are trained, on all rows. Give more rows, or a larger fraction",
                UserWarning,
                stacklevel=3,
            )


def validation_row_mask(data: TrainingData, fraction: float, seed: int) -> np.ndarray:
    """Return a mask of the validation rows, bool (n,): about `fraction` of each class's weight.

    Rows are chosen by a hash of their values and of `seed`. Equal rows of a class are either all
    chosen or all left. At least one row of each class is left. Missing values do not change the
    hash, so that columns which are added later, and are missing in old rows, do not change the
    choice.
    """
    rng, D = np.random.default_rng(seed), data.X.shape[1]
    draws = np.asarray(rng.integers(2**64, size=D, dtype=np.uint64))
    key = np.zeros(len(data.X), dtype=np.uint64)
    for column, draw in zip(data.X.T, draws, strict=True):
        bits = (np.where(np.isnan(column), 0, column) + np.float32(0)).view(np.uint32)  # -0 is 0
        key += bits.astype(np.uint64) * draw
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    key ^= key >> np.uint64(32)
    order = np.lexsort((key, data.y))
    y, key = data.y[order], key[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (y[1:] != y[:-1]) | (key[1:] != key[:-1])
    first = np.flatnonzero(new)
    mass = np.add.reduceat(data.weight[order], first)  # of equal rows
    of_class = y[first].astype(np.int64)
    total = np.bincount(of_class, weights=mass)
    end = np.cumsum(mass)
    begin = np.r_[0.0, np.cumsum(total)[:-1]]  # where each class begins
    middle = end - mass / 2 - begin[of_class]
    out = middle < fraction * total[of_class]
    out[np.flatnonzero(np.diff(of_class, append=of_class[-1] + 1))] = False  # the last of a class
    held = np.empty(len(order), dtype=bool)
    held[order] = np.repeat(out, np.diff(first, append=len(order)))
    return held


def _select_training_rows(data: TrainingData, mask: np.ndarray) -> TrainingData:
    """Return the rows of `data` for which `mask` bool (n,) is True, with all classes."""
    row_indices = np.flatnonzero(mask) if data.row_indices is None else data.row_indices[mask]
    return replace(
        data, X=data.X[mask], y=data.y[mask], weight=data.weight[mask], row_indices=row_indices
    )


@dataclass(slots=True)
class ValidationSet:
    """Rows that are held out from training, and their loss after each boosting round.

    Attributes
    ----------
    X, y, weight
        Rows float32 (n, D), class indices (n,) and row weights (n,).
    losses
        Loss before the first round, and after each round.
    scores
        Scores after the newest round, float64 (n, K).
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    n_iter_no_change: int
    tol: float
    losses: list[float] = field(default_factory=list)
    scores: np.ndarray = field(init=False)
    _temperature: float = field(init=False)
    _softened: float = 1.0

    def set_initial_scores(
        self, base: np.ndarray, learners: WeakLearners | None, temperature: float
    ) -> None:
        """Set the scores before the first round, and record their loss.

        The scores are those of `base` (K,) plus `learners`, the weak learners of an extended
        committee, if any. `temperature` is that of the algorithm.
        """
        self._temperature = temperature
        self.scores = np.tile(base, (len(self.y), 1))
        if learners is not None:
            learners.add_scores(self.X, self.scores)
        self.record_loss(self.scores)

    def record_loss(self, scores: np.ndarray) -> None:
        """Append the log loss of softmax(b `scores`), with `scores` (n, K), to `losses`.

        b is the factor in [0, 1] with the lowest loss; see `calibrated_log_loss`.
        """
        loss, self._softened = calibrated_log_loss(
            scores / self._temperature, self.y, self.weight, self._softened
        )
        self.losses.append(loss)

    @property
    def has_converged(self) -> bool:
        """Whether the loss has not decreased in the last `n_iter_no_change` rounds."""
        n = self.n_iter_no_change
        return len(self.losses) > n and min(self.losses[-n:]) >= self.losses[-n - 1] - self.tol

    @property
    def best_n_rounds(self) -> int:
        """Number of rounds with the lowest loss; the smaller number if losses are equal."""
        best = 0
        for rounds, loss in enumerate(self.losses):
            if loss < self.losses[best] - self.tol:
                best = rounds
        return best


def calibrated_log_loss(
    scores: np.ndarray, y: np.ndarray, weight: np.ndarray, start: float = 1.0
) -> tuple[float, float]:
    """Return the lowest mean log loss of softmax(b scores) over b in [0, 1], and this b.

    `scores` is float64 (n, K), `y` (n,) are class indices, and `weight` (n,) row weights. The
    search begins at `start`, and uses Newton's method within a bracket of the minimum.
    """
    rows, share = np.arange(len(y)), weight / weight.sum()
    scores = scores - scores.max(axis=1, keepdims=True)
    own = scores[rows, y]

    def loss_and_derivatives_at(b: float) -> tuple[float, float, float]:
        """Return the loss at factor `b`, and its first and second derivatives."""
        e = np.exp(b * scores)
        sums = e.sum(axis=1)
        mean = (e * scores).sum(axis=1) / sums
        square = (e * scores**2).sum(axis=1) / sums
        slope = float(share @ (mean - own))
        return float(share @ (np.log(sums) - b * own)), slope, float(share @ (square - mean**2))

    loss, slope, curvature = loss_and_derivatives_at(1.0)
    if slope <= 0:  # not overconfident
        return loss, 1.0
    low, high, b = 0.0, 1.0, min(start, 1.0)
    for _ in range(60):
        loss, slope, curvature = loss_and_derivatives_at(b)
        if abs(slope) * (high - low) < _EXACT:  # bounds the remaining decrease, by convexity
            break
        low, high = (low, b) if slope > 0 else (b, high)
        step = b - slope / curvature if curvature > 0 else low
        b = step if low < step < high else (low + high) / 2
    return loss, b


LearnersBuilder = ForestBuilder | SimilarityEnsembleBuilder
"""Builder that collects rounds of weak learners and packs them once at the end."""

_Round = tuple[str, tuple[Any, ...]]
"""Name of the builder's method that adds a round, and the arguments of the call."""


class EarlyStoppingBuilder:
    """Builder of weak learners that keeps new rounds only up to the lowest validation loss."""

    def __init__(
        self,
        builder: LearnersBuilder,
        new_builder: Callable[[], LearnersBuilder],
        validation: ValidationSet,
    ) -> None:
        """Wrap `builder`, which gets the rounds to keep.

        `new_builder` creates builders of trial ensembles, which score new rounds on the validation
        set.
        """
        self._builder = builder
        self._new_builder = new_builder
        self._held = validation
        self._n_retained = 0
        self._pending: list[_Round] = []

    def append_round(self, learners: Sequence[Any]) -> None:
        """Append one round, and record the loss on the validation set after this round."""
        self._score_and_add_rounds([("append_round", (learners,))])

    def append_rounds(
        self, nodes: np.ndarray, sizes: np.ndarray, values: np.ndarray, weights: np.ndarray
    ) -> None:
        """Append several rounds of one tree each, and record the loss after each round.

        The arguments are those of `ForestBuilder.append_rounds`.
        """
        ends, leaves = np.cumsum(sizes), np.cumsum((sizes + 1) // 2)
        parts = zip(
            np.split(nodes, ends[:-1]),
            sizes[:, None],
            np.split(values, leaves[:-1]),
            np.split(weights, leaves[:-1]),
            strict=True,
        )
        self._score_and_add_rounds([("append_rounds", part) for part in parts])

    def _score_and_add_rounds(self, rounds: list[_Round]) -> None:
        held, trial = self._held, self._new_builder()
        for method, given in rounds:
            getattr(trial, method)(*given)
        for scores in trial.build().staged_scores(held.X, held.scores):
            if held.has_converged:  # a kernel grew more rounds than needed
                break
            held.record_loss(scores)
        self._pending += rounds
        for method, given in self._pending[: held.best_n_rounds - self._n_retained]:
            getattr(self._builder, method)(*given)
        del self._pending[: held.best_n_rounds - self._n_retained]
        self._n_retained = held.best_n_rounds

    def build(self) -> WeakLearners:
        """Return the weak learners of all rounds up to the lowest validation loss."""
        return self._builder.build()
