"""Defines the interface of experts, their names, and the tools that they share."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from streamboost.errors import ConfigurationError
from streamboost.storage import Arrays
from streamboost.stream.checks import Label

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = [
    "EXPERTS",
    "MOST_CLASSES",
    "TREES",
    "Expert",
    "Records",
    "Scale",
    "as_experts",
    "kernels",
]

EXPERTS = ("committee", "correction", "neighbours", "sequence", "linear", "words")

MOST_CLASSES = 256
"""Classes that experts with tables of their own tell apart, the first to be learned."""

TREES = 64
"""Trees of a committee, the first, whose leaves are told."""


@cache
def kernels() -> Any:
    """Return the experts' kernels, which are imported when the first of them is wanted.

    An import statement costs half a microsecond also where there is nothing left to import.
    """
    from streamboost.kernels.stream import blending

    return blending


class Records(NamedTuple):
    """Records that are scored, and what experts may go by."""

    committee: "Committee"
    """The one that serves."""
    X: np.ndarray
    """Features, float32 (n, D)."""
    scores: np.ndarray
    """The committee's, float64 (n, its classes)."""
    place: Mapping[Label, int]
    """The classes' numbers."""
    columns: np.ndarray
    """Those of the committee's classes, int64 (its classes,)."""
    leaves: np.ndarray
    """In the committee's first trees, uint8 (n, T); T is 0 where there are none."""


class Expert:
    """Has an opinion, or several, about every record, and learns from every label.

    Classes have numbers, in the order in which they were first learned.
    """

    opinions: ClassVar[tuple[str, ...]]
    """What its opinions are called."""

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features; the ones kept miss the new ones."""

    def say(self, records: "Records", said: np.ndarray) -> None:
        """Write log probabilities of records into `said` float64 (opinions, n, K).

        Where an expert knows nothing it leaves what stands there: what the committee says.
        """
        raise NotImplementedError

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        k: int,
        weight: float,
        scored: "Records | None" = None,
    ) -> None:
        """Learn that a record (D,) is of the class `label`, number `k`.

        `scored` is that record alone as this committee scored it, if that is known.
        """

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        return {}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned, `widen` having been called."""


def as_experts(experts: str | Sequence[str] = "all") -> tuple[str, ...]:
    """Return the experts that are named, in their order; "all" stands for all of them.

    Raises
    ------
    ConfigurationError
        When one is not known, or the committee is not among them.

    Examples
    --------
    >>> as_experts(["words", "committee"])
    ('committee', 'words')
    """
    names = [experts] if isinstance(experts, str) else experts
    if names == ["all"]:
        return EXPERTS
    several = isinstance(names, list | tuple) and "committee" in names
    if not several or any(name not in EXPERTS for name in names):
        raise ConfigurationError(
            f'experts is {experts!r}: give "all", "committee" alone, or a list with "committee" '
            f"and any of {', '.join(EXPERTS[1:])}"
        )
    return tuple(name for name in EXPERTS if name in names)


_NEWEST = 1_000
"""Labelled records over which mean and variance are taken, those before fading."""

_FLAT = 1e-12  # of a variance, beside the square of the mean


class Scale:
    """Means and standard deviations of the features of the newest labelled records."""

    def __init__(self) -> None:
        self._n = np.zeros(0)
        self.mean = np.zeros(0)
        """Float64 (D,)."""
        self._variance = np.zeros(0)
        self.rate = np.zeros(0)
        """One over each standard deviation, float64 (D,); 0 where all values are the same."""

    def widen(self, n_features: int) -> None:
        """Let rows have `n_features` features."""
        filler = np.zeros(n_features - len(self.mean))
        for name in ("_n", "mean", "_variance", "rate"):
            setattr(self, name, np.append(getattr(self, name), filler))

    def learn(self, row: np.ndarray) -> None:
        """Take in one row (D,)."""
        kernels().learn_scale(row, _NEWEST, _FLAT, self._n, self.mean, self._variance, self.rate)

    def state(self) -> Arrays:
        """Return all that changes."""
        return {
            "n": self._n.copy(),
            "mean": self.mean.copy(),
            "variance": self._variance.copy(),
        }

    def resume(self, arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        self._n, self.mean = arrays["n"].copy(), arrays["mean"].copy()
        self._variance = arrays["variance"].copy()
        varies = self._variance > _FLAT * (self.mean * self.mean + _FLAT)
        self.rate = np.where(varies, 1.0 / np.sqrt(np.where(varies, self._variance, 1.0)), 0.0)
