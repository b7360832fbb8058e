"""Early stopping: rows held out of a training tell how many of its rounds to keep.

A share of each class's rows is held out. Training ends once none of the last `n_iter_no_change`
rounds has lowered their loss, as in scikit-learn's `HistGradientBoostingClassifier`; and of the
rounds grown, those after the lowest loss are left out, where scikit-learn keeps them. Where every
round only makes it worse, none is kept. This is the hold-out that Huang (2009, section 5.2)
suggests "to determine the early stopping point in training".

The loss is the log loss of softmax(F / (T t)), T being the family's own temperature and t >= 1 what
suits the held-out rows best. Boosters of exponential losses grow sure of themselves long before
they cease to improve: by the plain log loss (t = 1) GAMBLE would end on satimage after 2 rounds, at
19 % of errors, where it ends after 35 at 13.7 %; by the error alone, of which 200 rows tell half a
percent, all families end too early. Costs, REBEL's or AdaBoost.A's, do not enter.

Which rows are held out depends on what they hold and, if it is an integer, on `random_state`; not
on their order, nor on the other rows, but for how many there are. So equal rows are on one side, a
row of weight 2 is two rows, and an extension on the same rows holds out the same again. Where
rows are too few for any to be held out, all are trained on, for all rounds; `fit` and `extend` warn
of it, and a stream's first trainings do not.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from streamboost.boosting.learners import LearnersBuilder, WeakLearners
from streamboost.boosting.training_data import TrainingData

__all__ = ["EarlyStopping", "HeldOut", "WatchedBuilder", "held_out_rows"]

_EXACT = 1e-9  # to this a loss is found, which is well within the least `tol` that makes sense


@dataclass(kw_only=True, eq=False, repr=False)
class EarlyStopping:
    """The parameters of estimators that may hold rows out.

    Parameters
    ----------
    early_stopping
        Whether to.
    validation_fraction
        The share of each class's weight that is held out, in (0, 1).
    n_iter_no_change
        Rounds without a lower loss after which training ends.
    tol
        By how much a loss must be lower.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-7

    def _hold_out(self, data: TrainingData, seed: Any) -> "tuple[TrainingData, HeldOut | None]":
        """Return the rows to train on, and those held out, if any are to be and can be."""
        if not self.early_stopping or len(data.classes) < 2:
            return data, None
        by = int(seed) if isinstance(seed, Integral) else 0
        out = held_out_rows(data, self.validation_fraction, by)
        if not out.any():
            return data, None
        held = HeldOut(data.X[out], data.y[out], data.weight[out], self.n_iter_no_change, self.tol)
        return _only(data, ~out), held

    def _tell(self, held: "HeldOut | None") -> None:
        self.validation_score_ = -np.array([] if held is None else held.losses)

    def _warn_of_none(self, n_rows: int, n_classes: int) -> None:
        """Warn who has called `fit` or `extend` on rows too few for any to be held out."""
        if self.early_stopping and n_classes > 1 and not self.validation_score_.size:
            warnings.warn(
                f"early_stopping holds out validation_fraction={self.validation_fraction} of each "
                f"class, and of {n_rows} rows no class has so many that it comes to one: all "
                "rounds are trained, on all rows. Give more rows, or a larger fraction",
                UserWarning,
                stacklevel=3,
            )


def held_out_rows(data: TrainingData, fraction: float, seed: int) -> np.ndarray:
    """Return which rows are held out, bool (n,): about `fraction` of the weight of each class.

    Rows are drawn by a hash of their values, and equal rows of a class together; at least one of
    each class stays. A value that is missing counts for nothing, so that columns which were added
    since change no draw.
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


def _only(data: TrainingData, rows: np.ndarray) -> TrainingData:
    """Return `rows`, bool (n,), of a training; its classes are all the same."""
    places = np.flatnonzero(rows) if data.places is None else data.places[rows]
    return replace(data, X=data.X[rows], y=data.y[rows], weight=data.weight[rows], places=places)


@dataclass(slots=True)
class HeldOut:
    """The rows that no tree is grown on, and how a committee has done on them.

    Attributes
    ----------
    losses
        Before the first round, and after each.
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

    def begin(self, base: np.ndarray, learners: WeakLearners | None, temperature: float) -> None:
        """Take the first scores (K,) and what `learners` there are already say."""
        self._temperature = temperature
        self.scores = np.tile(base, (len(self.y), 1))
        if learners is not None:
            learners.add_scores(self.X, self.scores)
        self.look(self.scores)

    def look(self, scores: np.ndarray) -> None:
        """Note the loss of scores (n, K)."""
        loss, self._softened = softened_log_loss(
            scores / self._temperature, self.y, self.weight, self._softened
        )
        self.losses.append(loss)

    @property
    def enough(self) -> bool:
        """Whether none of the last rounds was better than the one before them."""
        n = self.n_iter_no_change
        return len(self.losses) > n and min(self.losses[-n:]) >= self.losses[-n - 1] - self.tol

    @property
    def best(self) -> int:
        """How many rounds have the lowest loss; the fewest where more are no better."""
        best = 0
        for rounds, loss in enumerate(self.losses):
            if loss < self.losses[best] - self.tol:
                best = rounds
        return best


def softened_log_loss(
    F: np.ndarray, y: np.ndarray, weight: np.ndarray, begin: float = 1.0
) -> tuple[float, float]:
    """Return the least mean log loss of softmax(b F) over b in [0, 1], and that b.

    `F` is float64 (n, K), `y` (n,) places of classes, `weight` (n,); the search begins at `begin`.
    The loss is convex in b, and Newton's method is kept between what is known of its slope.
    """
    rows, share = np.arange(len(y)), weight / weight.sum()
    F = F - F.max(axis=1, keepdims=True)
    own = F[rows, y]

    def at(b: float) -> tuple[float, float, float]:
        e = np.exp(b * F)
        sums = e.sum(axis=1)
        mean = (e * F).sum(axis=1) / sums
        square = (e * F**2).sum(axis=1) / sums
        slope = float(share @ (mean - own))
        return float(share @ (np.log(sums) - b * own)), slope, float(share @ (square - mean**2))

    loss, slope, curvature = at(1.0)
    if slope <= 0:  # not too sure of itself
        return loss, 1.0
    low, high, b = 0.0, 1.0, min(begin, 1.0)
    for _ in range(60):
        loss, slope, curvature = at(b)
        if abs(slope) * (high - low) < _EXACT:  # by so much it may fall, being convex
            break
        low, high = (low, b) if slope > 0 else (b, high)
        step = b - slope / curvature if curvature > 0 else low
        b = step if low < step < high else (low + high) / 2
    return loss, b


_Round = tuple[str, tuple[Any, ...]]
"""The builder's method that adds it, and what it takes."""


class WatchedBuilder:
    """Collects rounds for a builder, showing each to the rows held out, up to the best of them."""

    def __init__(
        self,
        into: LearnersBuilder,
        alone: Callable[[], LearnersBuilder],
        held: HeldOut,
    ) -> None:
        """`alone` begins the learners of a few rounds, by which they are scored."""
        self._into = into
        self._alone = alone
        self._held = held
        self._n_kept = 0
        self._later: list[_Round] = []

    def append_round(self, learners: Sequence[Any]) -> None:
        """Add the weak learners of one round."""
        self._add([("append_round", (learners,))])

    def append_rounds(
        self, nodes: np.ndarray, sizes: np.ndarray, values: np.ndarray, weights: np.ndarray
    ) -> None:
        """Add rounds of one tree each, as `ForestBuilder.append_rounds` does."""
        ends, leaves = np.cumsum(sizes), np.cumsum((sizes + 1) // 2)
        parts = zip(
            np.split(nodes, ends[:-1]),
            sizes[:, None],
            np.split(values, leaves[:-1]),
            np.split(weights, leaves[:-1]),
            strict=True,
        )
        self._add([("append_rounds", part) for part in parts])

    def _add(self, rounds: list[_Round]) -> None:
        held, alone = self._held, self._alone()
        for method, given in rounds:
            getattr(alone, method)(*given)
        for scores in alone.freeze().staged_scores(held.X, held.scores):
            if held.enough:  # what a kernel grew beyond
                break
            held.look(scores)
        self._later += rounds
        for method, given in self._later[: held.best - self._n_kept]:
            getattr(self._into, method)(*given)
        del self._later[: held.best - self._n_kept]
        self._n_kept = held.best

    def freeze(self) -> WeakLearners:
        """Return the learners there were and the best number of rounds."""
        return self._into.freeze()
