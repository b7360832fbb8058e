"""Recall of each class by model version, and significance tests of recall changes.

Each labelled record is weighted by its inverse inclusion probability, since uncertain records are
requested more often. Predictions made before the first committee are excluded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from streamboost.pipelines.dashboard.binomial_tests import ERROR_PROBABILITY, Proportion
from streamboost.pipelines.dashboard.tables import Cell
from streamboost.pipelines.status.formatting import NOTHING, count_text, percent_text
from streamboost.pipelines.status.reader import LabelledPrediction

NAMED = 10
"""Maximum number of classes named in a sentence."""

FEWEST = 5
"""Effective number of labels from which a recall is shown as a share and a change is tested."""

WIDE = 0.5
"""Width of the interval of a recall change, above which the change is reported as undecided."""


@dataclass(frozen=True, slots=True)
class ClassRecall:
    """Estimated recall of one class: the weighted proportion (`share`) of correct predictions.

    `n_labels` is the number of labelled records, `n_wrong` of them are misclassified.
    `effective_size` is the effective sample size of the weights (Kish 1965).
    """

    n_labels: int
    n_wrong: int
    share: Proportion
    effective_size: int

    @property
    def counts_text(self) -> str:
        """Text with the numbers of correct predictions and of labelled records."""
        return f"{self.n_labels - self.n_wrong:,} of {self.n_labels:,}"

    @property
    def text(self) -> str:
        """Text of the recall with its 95 % interval; the counts if there are few labels."""
        if self.n_labels < FEWEST:
            return self.counts_text
        low, high = self.share.confidence_interval()
        of = f"n = {self.n_labels:,}" + f", n_eff = {self.effective_size:,}" * (
            self.effective_size < self.n_labels
        )
        interval = f"({100 * low:.0f}\u00a0to\u00a0{100 * high:.0f})"  # not broken in narrow tables
        return f"{percent_text(self.share.value)} {interval}, {of}"


def overall_recall(evidence: Sequence[LabelledPrediction]) -> ClassRecall | None:
    """Estimate the proportion of correct predictions, or return None without records.

    Records are weighted by the inverse of their inclusion probability. The variance is that of
    a ratio estimator (Särndal and others 1992, 5.6). Two pseudo-records, one correct and one wrong,
    are added, so that the variance stays positive if all are correct.
    """
    if not evidence:
        return None
    n, weights = len(evidence), [1.0 / one.propensity for one in evidence]
    total = sum(weights)
    mean = total / n
    hits = [float(one.said == one.truth) for one in evidence]
    value = min(sum(weight * hit for weight, hit in zip(weights, hits, strict=True)) / total, 1.0)
    weights, hits = [*weights, mean, mean], [*hits, 1.0, 0.0]
    share = (value * total + mean) / (total + 2 * mean)
    squares = sum((weight * (hit - share)) ** 2 for weight, hit in zip(weights, hits, strict=True))
    alike = share * (1 - share) * sum(weights) ** 2 / squares
    least = total * total / sum(weight * weight for weight in weights[:n])
    share_of_all = Proportion(value, min(max(alike, least), n))
    return ClassRecall(n, n - int(sum(hits[:n])), share_of_all, round(least))


def split_at_version(
    evidence: Sequence[LabelledPrediction], version: int
) -> tuple[Sequence[LabelledPrediction], Sequence[LabelledPrediction]]:
    """Split records into those predicted before `version`, and by `version` or later.

    `evidence` is in arrival order. The first part has only the newest records, as many as the
    second part or fewer.
    """
    later = [one for one in evidence if one.version >= version]
    earlier = [one for one in evidence if one.version < version]
    return earlier[max(len(earlier) - len(later), 0) :], later


@dataclass(frozen=True)
class RecallChange:
    """Change of a class's recall. `n_classes` is the number of classes tested at once."""

    name: str
    before: ClassRecall | None
    after: ClassRecall | None
    n_classes: int = 1

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval (low, high) of the change; None without labels before or after."""
        if self.before is None or self.after is None:
            return None
        return self.after.share.difference_interval(
            self.before.share, ERROR_PROBABILITY / self.n_classes
        )

    @property
    def has_fallen(self) -> bool:
        """Whether the recall fell significantly, corrected for the number of classes."""
        return self.interval is not None and not self.has_few_labels and self.interval[1] < 0.0

    @property
    def has_few_labels(self) -> bool:
        """Whether the effective sample size before or after is too small for an interval."""
        return any(one is None or one.effective_size < FEWEST for one in (self.before, self.after))

    @property
    def is_inconclusive(self) -> bool:
        """Whether labels are too few for a test, or the interval is wider than `WIDE`."""
        if self.interval is None or self.has_few_labels:
            return True
        return not self.has_fallen and self.interval[1] - self.interval[0] > WIDE

    @property
    def percentage_points(self) -> float:
        """Change in percentage points; 0 without labels before or after the change."""
        if self.before is None or self.after is None:
            return 0.0
        return 100 * (self.after.share.value - self.before.share.value)

    @property
    def text(self) -> str:
        """Text of the change with its confidence interval, in percentage points."""
        if self.interval is None:
            return NOTHING
        if self.is_inconclusive:
            return "too few labels" if self.has_few_labels else "undecided"
        points, low, high = (
            round(one) for one in (self.percentage_points, *(100 * end for end in self.interval))
        )
        return f"{points:+d} points ({low:+d} to {high:+d})"


def recall_changes(
    before: Sequence[LabelledPrediction], after: Sequence[LabelledPrediction]
) -> list[RecallChange]:
    """Return the recall change of each class between two sets of labelled records.

    Significant drops are first, undecided classes last; within each group, the largest drop is
    first.
    """
    then, since = _group_by_true_class(before), _group_by_true_class(after)
    among = max(len(then.keys() & since.keys()), 1)
    found = [
        RecallChange(
            name, overall_recall(then.get(name, ())), overall_recall(since.get(name, ())), among
        )
        for name in sorted({**then, **since}, key=class_sort_key)
    ]
    return sorted(
        found,
        key=lambda one: (
            one.is_inconclusive,
            not one.has_fallen,
            0 if one.is_inconclusive else one.percentage_points,
        ),
    )


def _group_by_true_class(
    evidence: Sequence[LabelledPrediction],
) -> Mapping[str, Sequence[LabelledPrediction]]:
    classes: dict[str, list[LabelledPrediction]] = {}
    for one in evidence:
        classes.setdefault(one.truth, []).append(one)
    return classes


def recall_change_summary(
    changes: Sequence[RecallChange], period: str, overall: RecallChange | None = None
) -> str:
    """Say in which classes the recall dropped significantly, and where this is undecided.

    If the recall of no single class dropped, but the accuracy over all classes (`overall`) did, the
    result says so. `period` is the part of the sentence that tells when.
    """
    fell = [one for one in changes if one.has_fallen]
    if fell and (first := fell[0]).before and first.after:
        was, now = first.before, first.after
        more = "".join(f" That of {one.name} dropped too ({one.text})." for one in fell[1:])
        said = (
            f"The recall of class {first.name} dropped significantly {period}: from "
            f"{percent_text(was.share.value)} ({count_text(was.n_labels, 'label')}) to "
            f"{percent_text(now.share.value)} ({count_text(now.n_labels, 'label')}).{more}"
        )
    elif overall is not None and overall.has_fallen:
        said = (
            f"The accuracy over all classes dropped significantly {period}, but no single recall "
            "did."
        )
    elif all(one.has_few_labels for one in changes):
        return f"Too few labels to decide whether the recall of a class dropped {period}."
    elif all(one.is_inconclusive for one in changes):
        return f"Undecided whether the recall of a class dropped {period}."
    else:
        said = f"The recall of no class dropped significantly {period}."
        if (most := changes[0]).percentage_points < 0:
            said += f" Largest decrease, not significant: {most.name}, {most.text}."
    few = _class_names_text(one for one in changes if one.has_few_labels)
    wide = _class_names_text(
        one for one in changes if one.is_inconclusive and not one.has_few_labels
    )
    said += f" There are too few labels of {few}." * bool(few)
    return said + f" Undecided for {wide}." * bool(wide)


def _class_names_text(changes: Iterable[RecallChange]) -> str:
    """List the names of the classes in a text, at most `NAMED` of them."""
    names = sorted((one.name for one in changes), key=class_sort_key)
    others = f" and {len(names) - NAMED:,} more" * (len(names) > NAMED)
    return ", ".join(names[:NAMED]) + others


def recall_text(recall: ClassRecall | None) -> str:
    """Return the recall as text; a dash if it is None."""
    return NOTHING if recall is None else recall.text


def recall_change_cell(change: RecallChange) -> str | Cell:
    """Return a table cell with the text of a change, highlighted if the recall fell."""
    if not change.has_fallen:
        return change.text
    return Cell(change.text, shade=0.6, colour="bad", note="got worse: ")


def class_sort_key(name: str) -> tuple[bool, float, str]:
    """Return the sort key of a class name: numbers by value, before all other names.

    >>> sorted(["10", "b", "9", "a"], key=class_sort_key)
    ['9', '10', 'a', 'b']
    """
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
