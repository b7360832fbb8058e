"""Experts that predict in addition to the committee: interface, names and shared tools."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from streamboost.checks import Label
from streamboost.errors import ConfigurationError
from streamboost.storage import Arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

EXPERTS = (
    "committee",
    "correction",
    "neighbours",
    "transitions",
    "linear",
    "text",
    "vector",
    "young",
    "runs",
)

MOST_CLASSES = 256
"""Limit of the classes of experts with a table per class; later classes are not learned."""

TREES = 64
"""Number of a committee's first trees whose leaves the experts use."""


@cache
def stacking_kernels() -> Any:
    """Return the experts' kernels, imported on first use.

    The module is cached, as even the import of a loaded module takes half a microsecond.
    """
    from streamboost.kernels import stacking

    return stacking


class ExpertRecords(NamedTuple):
    """Records scored by the committee, as inputs for the experts."""

    committee: "Committee"
    """The deployed committee."""
    X: np.ndarray
    """Features, float32 (n, D)."""
    scores: np.ndarray
    """Raw scores of the committee, float64 (n, C), for its C classes."""
    place: Mapping[Label, int]
    """Index of each class in the combined predictions, which have K classes."""
    columns: np.ndarray
    """Indices of the committee's C classes among the K classes, int64 (C,)."""
    leaves: np.ndarray
    """Leaf of each record in the committee's first T trees, uint8 (n, T); T is 0 without trees."""


class Expert:
    """Base class of experts, which predict every record and learn from every label.

    Classes have indices in the order in which they were first learned.
    """

    output_names: ClassVar[tuple[str, ...]]
    """Names of the expert's predictions, one for each output of `predict`."""

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features, which has grown, to `n_features`."""

    def predict(self, records: "ExpertRecords", outputs: np.ndarray) -> None:
        """Write class log probabilities into `outputs`, float64 (number of outputs, n, K).

        Before the call, `outputs` holds the committee's log probabilities. An expert without a
        prediction for a record or class leaves these values unchanged.
        """
        raise NotImplementedError

    def learn(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        class_index: int,
        weight: float,
        scored: "ExpertRecords | None" = None,
    ) -> None:
        """Update the expert with one labelled record.

        `row` (D,) has the features, `class_index` is the index of `label` in the order of learning,
        and `weight` is the record's weight. `scored` contains the record with the scores of
        `committee`; None if unavailable.
        """

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        return {}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned; call `set_n_features` before."""


def as_expert_names(experts: str | Sequence[str] = "all") -> tuple[str, ...]:
    """Return the names of the selected experts, in the order of `EXPERTS`; "all" selects all.

    Raises
    ------
    ConfigurationError
        When a name is unknown, or "committee" is missing.

    Examples
    --------
    >>> as_expert_names(["text", "committee"])
    ('committee', 'text')
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
"""Approximate number of newest labelled records that means and variances depend on."""

_FLAT = 1e-12  # relative to the squared mean, a smaller variance is that of a constant feature


class RunningScaler:
    """Running means and standard deviations of the features of the newest labelled records."""

    def __init__(self) -> None:
        self._n = np.zeros(0)
        self.mean = np.zeros(0)
        """Mean of each feature, float64 (D,)."""
        self._variance = np.zeros(0)
        self.rate = np.zeros(0)
        """Reciprocal of each standard deviation, float64 (D,); 0 for constant features."""

    def set_n_features(self, n_features: int) -> None:
        """Set the number of features to `n_features`; new features have mean and rate 0."""
        filler = np.zeros(n_features - len(self.mean))
        for name in ("_n", "mean", "_variance", "rate"):
            setattr(self, name, np.append(getattr(self, name), filler))

    def learn(self, row: np.ndarray) -> None:
        """Update means and deviations with the features (D,) of one record."""
        stacking_kernels().update_scaler(
            row, _NEWEST, _FLAT, self._n, self.mean, self._variance, self.rate
        )

    def state(self) -> Arrays:
        """Return the mutable state for `resume`, as arrays by name."""
        return {
            "n": self._n.copy(),
            "mean": self.mean.copy(),
            "variance": self._variance.copy(),
        }

    def resume(self, arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self._n, self.mean = arrays["n"].copy(), arrays["mean"].copy()
        self._variance = arrays["variance"].copy()
        varies = self._variance > _FLAT * (self.mean * self.mean + _FLAT)
        self.rate = np.where(varies, 1.0 / np.sqrt(np.where(varies, self._variance, 1.0)), 0.0)
