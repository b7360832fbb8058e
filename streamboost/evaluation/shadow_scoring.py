"""Shadow scoring: an earlier version of the committee predicts the labelled records, too.

The accuracies of two versions on different records also differ by chance, and by changes of the
stream. Here each requested label evaluates both versions, before either learns the label: the
active committee, and an earlier one as the baseline. On most records both are right or both are
wrong, so the difference of their accuracies is more precise than each accuracy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.checks import Label
from streamboost.evaluation.confidence_sequence import relative_width_since_start
from streamboost.evaluation.report import FEWEST, Estimate
from streamboost.predictions import predict_labels

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["FEWEST_LABELS", "MOST_LABELS", "PairedComparison", "ShadowScoring"]

FEWEST_LABELS, MOST_LABELS = 100, 2_000
"""Number of labels from which a comparison may end, and after which it ends inconclusive."""

_KEPT = 10
"""Number of comparisons kept, including the current one."""

_TAIL = 0.975  # upper quantile of a 95 % interval


@dataclass(slots=True)
class PairedComparison:
    """Comparison of newer versions with an earlier one, on the same labelled records.

    Attributes
    ----------
    baseline
        Number of the earlier version.
    first, last
        Numbers of the first and of the last newer version. Each label evaluates the version that is
        active when the label arrives.
    n_labels
        Number of labels.
    sums
        Sums over the labels of w, w², w d, w² d and w² d². w is the inverse inclusion probability.
        d is 1 if only the newer version is right, -1 if only the baseline is, and 0 otherwise.

    Examples
    --------
    >>> comparison = PairedComparison(baseline=7, first=8, last=8)
    >>> for d in [1] * 40 + [-1] * 10 + [0] * 450:
    ...     comparison.add(d, 10.0)
    >>> comparison.difference.value, comparison.n_missing_labels, comparison.is_finished
    (0.06, 0, True)
    """

    baseline: int
    first: int
    last: int
    n_labels: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0] * 5)

    def add(self, difference: int, weight: float) -> None:
        """Add a label with d = `difference` and w = `weight` to the sums."""
        square = weight * weight
        terms = weight, square, weight * difference, square * difference, square * difference**2
        self.sums = [total + term for total, term in zip(self.sums, terms, strict=True)]
        self.n_labels += 1

    @property
    def difference(self) -> Estimate | None:
        """Accuracy of the newer versions minus that of the baseline; None with too few labels.

        The value is the weighted mean of d (Hájek), and the variance is that of a ratio estimator
        (Särndal and others 1992, 5.6). Two pseudo-records, one with d = 1 and one with d = -1, are
        added to the variance (Bonett and Price 2012), so that it stays positive if all d are 0. The
        interval is a confidence sequence of 95 %, as a comparison may end at any label.
        """
        from scipy.special import stdtrit  # imported here: a slow import delays short commands

        weight, squares, shift, first, second = self.sums
        effective = weight**2 / squares if squares else 0.0
        if effective < FEWEST:
            return None
        pseudo = weight / self.n_labels
        total = weight + 2.0 * pseudo
        mean = shift / total
        spread = second - 2.0 * mean * first + mean**2 * squares
        spread += 2.0 * pseudo**2 * (1.0 + mean**2)
        half = float(stdtrit(effective + 1.0, _TAIL)) * sqrt(spread) / total
        half *= relative_width_since_start(self.n_labels)
        value = shift / weight
        return Estimate(value, value - half, value + half).clipped_to(-1.0, 1.0)

    @property
    def n_missing_labels(self) -> int | None:
        """Estimated number of further labels until the sign of the difference is known.

        0 if the sign is known. None if there are too few labels for an estimate, or if the
        difference is too small for a decision within `MOST_LABELS` labels. The width of the
        interval falls with the square root of the number of labels.
        """
        found = self.difference
        if found is None:
            return None
        if found.low > 0.0 or found.high < 0.0:
            return 0
        needed = self.n_labels * found.half_width**2
        most = MOST_LABELS * found.value**2
        return max(ceil(needed / found.value**2) - self.n_labels, 1) if needed <= most else None

    @property
    def is_finished(self) -> bool:
        """Whether the next new version starts another comparison."""
        if self.n_labels < FEWEST_LABELS:
            return False
        return self.n_labels >= MOST_LABELS or self.n_missing_labels == 0

    def to_json(self) -> dict[str, Any]:
        """Return the compared versions and the result, as JSON values."""
        found = self.difference
        return {
            "baseline": self.baseline,
            "first": self.first,
            "last": self.last,
            "labels": self.n_labels,
            "difference": found and asdict(found),
            "missing_labels": self.n_missing_labels,
        }


class ShadowScoring:
    """Keeps one earlier version of the committee, and compares newer versions with it.

    A comparison ends with the first new version after 100 labels that show the sign of the
    difference, or after 2,000 labels; the version that is then replaced is the next baseline.

    Attributes
    ----------
    comparisons
        The newest comparisons, the current one last.
    """

    def __init__(self) -> None:
        self.comparisons: list[PairedComparison] = []
        self._baseline: Committee | None = None

    def on_deploy(self, replaced: "Committee", deployed: "Committee", *, restart: bool) -> None:
        """Continue with the version `deployed` instead of the version `replaced`.

        If the current comparison is finished, or with `restart`, another one starts.
        """
        if self._baseline is None or restart or self.comparisons[-1].is_finished:
            self._baseline = replaced
            new = PairedComparison(replaced.version, deployed.version, deployed.version)
            self.comparisons = [*self.comparisons[1 - _KEPT :], new]
        self.comparisons[-1].last = deployed.version

    def add_label(
        self,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
        weight: float,
        names: Mapping[Label, Label | None],
    ) -> None:
        """Predict a labelled record with `committee` and with the baseline, and compare them.

        Neither may have learned the `label` of `row` (D,). `weight` is the inverse inclusion
        probability. `names` maps classes of the committees to their current names.
        """
        if committee is None or self._baseline is None:
            return
        said = [predict_labels(one, row[None])[0] for one in (committee, self._baseline)]
        is_right, was_right = (names.get(one, one) == label for one in said)
        self.comparisons[-1].add(is_right - was_right, weight)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the newest comparisons, the current one last, as JSON values."""
        return [one.to_json() for one in self.comparisons]

    def state(self) -> tuple[list[Any], "Committee | None"]:
        """Return the complete state for `resume`: JSON values, and the baseline."""
        return [asdict(one) for one in self.comparisons], self._baseline

    def resume(self, comparisons: Sequence[Any], baseline: "Committee | None") -> None:
        """Set the state to one that `state` returned."""
        self.comparisons = [PairedComparison(**one) for one in comparisons]
        self._baseline = baseline
