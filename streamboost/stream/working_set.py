"""The labelled records that training sees now."""

from dataclasses import dataclass

import numpy as np

from streamboost.active.settings import check_whole, is_finite
from streamboost.errors import ConfigurationError

__all__ = ["Rows", "SlidingRows", "WorkingSet"]

_WEIGHTS = ("uniform", "half_life")


@dataclass(frozen=True, kw_only=True)
class WorkingSet:
    """Which labelled records are kept for training, and what each weighs.

    Parameters
    ----------
    size
        The newest `size` records are kept, by the arrival of their labels.
    weights
        "uniform", or "half_life": a record `half_life` labels older than the newest weighs
        half as much as that.
    half_life
        In labels; given with weights="half_life" and only then.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------
    >>> WorkingSet(size=1000, weights="half_life", half_life=1).weigh(2)
    array([0.666..., 1.333...])
    """

    size: int = 10_000
    weights: str = "uniform"
    half_life: float | None = None

    def __post_init__(self) -> None:
        reason = ", as training needs records of two classes"
        check_whole("working set size", self.size, at_least=2, reason=reason)
        if self.weights not in _WEIGHTS:
            raise ConfigurationError(
                f"working set weights {self.weights!r} are not known: choose one of "
                f"{', '.join(_WEIGHTS)}"
            )
        if self.weights == "uniform" and self.half_life is not None:
            raise ConfigurationError(
                f"working set half_life is {self.half_life!r} but weights are uniform: set "
                'weights = "half_life", or leave half_life out'
            )
        if self.weights == "half_life" and not _positive(self.half_life):
            raise ConfigurationError(
                f"working set half_life is {self.half_life!r}: give a positive number of labels"
            )

    def weigh(self, n: int) -> np.ndarray | None:
        """Return the training weights (n,) of n records, oldest first, with mean 1.

        None stands for equal weights.
        """
        if self.half_life is None:
            return None
        # An age too large for a float is infinite, and its weight 0.
        with np.errstate(over="ignore"):
            ages = np.arange(n - 1, -1, -1) / float(self.half_life)
        weights = np.exp2(-ages)
        return np.asarray(weights / weights.mean())


def _positive(value: float | None) -> bool:
    return value is not None and is_finite(value) and value > 0


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Labelled records, oldest label first, as views that the next label may change.

    Attributes
    ----------
    X
        float32 (n, D), NaN where missing.
    codes
        int64 (n,), each label's place among the learner's classes.
    ticks
        int64 (n,), the tick at which each label was learned.
    propensity
        float64 (n,), the chance with which each label was asked for, NaN where nobody asked.
    """

    X: np.ndarray
    codes: np.ndarray
    ticks: np.ndarray
    propensity: np.ndarray


class SlidingRows:
    """The newest `size` rows, kept in order in arrays that grow as they fill.

    There is room for twice `size`; when it is used up, the newest rows move to the front, so a
    row costs O(D) on average and training reads one block without a copy.
    """

    def __init__(self, size: int, n_features: int) -> None:
        self._size = size
        self._start = 0
        self._stop = 0
        self._rows = _blank(min(64, 2 * size), n_features)

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def n_features(self) -> int:
        """Features per row."""
        return int(self._rows.X.shape[1])

    def append(self, row: np.ndarray, code: int, tick: int, propensity: float) -> None:
        """Add one row (D,); the oldest goes when there are more than `size`."""
        if self._stop == len(self._rows.codes):
            self._make_room()
        self._rows.X[self._stop] = row
        self._rows.codes[self._stop] = code
        self._rows.ticks[self._stop] = tick
        self._rows.propensity[self._stop] = propensity
        self._stop += 1
        self._start = max(self._start, self._stop - self._size)

    def _make_room(self) -> None:
        n = len(self)
        kept = self.view()
        self._rows = _blank(min(2 * self._size, 2 * n), kept.X.shape[1])
        for new, old in zip(_parts(self._rows), _parts(kept), strict=True):
            new[:n] = old
        self._start, self._stop = 0, n

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features; the ones kept miss the new ones."""
        old = self._rows
        filler = np.full((len(old.codes), n_features - old.X.shape[1]), np.nan, dtype=np.float32)
        self._rows = Rows(np.hstack([old.X, filler]), old.codes, old.ticks, old.propensity)

    def view(self) -> Rows:
        """Return the rows without copying them."""
        return Rows(*(part[self._start : self._stop] for part in _parts(self._rows)))

    def state(self) -> dict[str, np.ndarray]:
        """Return the rows as arrays of their own."""
        rows = self.view()
        return {
            "X": rows.X.copy(),
            "codes": rows.codes.copy(),
            "ticks": rows.ticks.copy(),
            "propensity": rows.propensity.copy(),
        }

    @classmethod
    def resume(cls, size: int, arrays: dict[str, np.ndarray]) -> "SlidingRows":
        """Go on from what `state` returned for rows of the same size."""
        n, n_features = arrays["X"].shape
        rows = cls(size, n_features)
        rows._rows = _blank(max(min(64, 2 * size), n), n_features)
        rows._rows.X[:n] = arrays["X"]
        rows._rows.codes[:n] = arrays["codes"]
        rows._rows.ticks[:n] = arrays["ticks"]
        rows._rows.propensity[:n] = arrays["propensity"]
        rows._stop = n
        return rows


def _blank(capacity: int, n_features: int) -> Rows:
    return Rows(
        X=np.empty((capacity, n_features), dtype=np.float32),
        codes=np.empty(capacity, dtype=np.int64),
        ticks=np.empty(capacity, dtype=np.int64),
        propensity=np.empty(capacity),
    )


def _parts(rows: Rows) -> tuple[np.ndarray, ...]:
    return rows.X, rows.codes, rows.ticks, rows.propensity
