"""Recall of each class by model version, and significance tests of recall changes.

Each labelled record is weighted by its inverse inclusion probability, since uncertain records are
requested more often. Predictions made before the first committee are excluded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from streamboost.pipelines.dashboard.binomial_tests import ERROR_PROBABILITY, Share
from streamboost.pipelines.dashboard.tables import Cell
from streamboost.pipelines.status.formatting import NOTHING, percent_text, plural
from streamboost.pipelines.status.reader import LabelEvidence

__all__ = [
    "ClassRecall",
    "RecallChange",
    "change_cell",
    "change_summary",
    "class_sort_key",
    "overall_recall",
    "recall_changes",
    "recall_text",
    "split_at_version",
]

NAMED = 10
"""Maximum number of classes named in a sentence."""

FEWEST = 5
"""Effective number of labels from which a recall is shown as a share and a change is tested."""

WIDE = 0.5
"""Width of the interval of a recall change, above which the change is reported as undecided."""


@dataclass(frozen=True, slots=True)
class ClassRecall:
    """Recall of one class: the labelled records, the misclassified ones, and the weighted share.

    `worth` is the effective sample size of the weights (Kish 1965).
    """

    told: int
    wrong: int
    share: Share
    worth: int

    @property
    def counts_text(self) -> str:
        """Number of correct predictions among the labelled records."""
        return f"{self.told - self.wrong:,} of {self.told:,}"

    @property
    def text(self) -> str:
        """Share of correct predictions with its 95 % interval; counts if the labels are few."""
        if self.told < FEWEST:
            return self.counts_text
        low, high = self.share.interval()
        of = f"n = {self.told:,}" + f", n_eff = {self.worth:,}" * (self.worth < self.told)
        return f"{percent_text(self.share.value)} ({100 * low:.0f} to {100 * high:.0f}), {of}"


def overall_recall(found: Sequence[LabelEvidence]) -> ClassRecall | None:
    """Estimate the share of correct predictions by inverse-probability weights; None: no records.

    The variance is that of a ratio estimator (Särndal and others 1992, 5.6). Two pseudo-records,
    one correct and one wrong, are added, so that the variance stays positive if all are correct.
    """
    if not found:
        return None
    n, weights = len(found), [1.0 / one.propensity for one in found]
    total = sum(weights)
    mean = total / n
    hits = [float(one.said == one.truth) for one in found]
    value = min(sum(weight * hit for weight, hit in zip(weights, hits, strict=True)) / total, 1.0)
    weights, hits = [*weights, mean, mean], [*hits, 1.0, 0.0]
    share = (value * total + mean) / (total + 2 * mean)
    squares = sum((weight * (hit - share)) ** 2 for weight, hit in zip(weights, hits, strict=True))
    alike = share * (1 - share) * sum(weights) ** 2 / squares
    least = total * total / sum(weight * weight for weight in weights[:n])
    share_of_all = Share(value, min(max(alike, least), n))
    return ClassRecall(n, n - int(sum(hits[:n])), share_of_all, round(least))


def split_at_version(
    found: Sequence[LabelEvidence], version: int
) -> tuple[Sequence[LabelEvidence], Sequence[LabelEvidence]]:
    """Split records into equally many before `version` and all by `version` or a later one.

    `found` is in arrival order. The first part has fewer records if there are not enough.
    """
    later = [one for one in found if one.version >= version]
    earlier = [one for one in found if one.version < version]
    return earlier[max(len(earlier) - len(later), 0) :], later


@dataclass(frozen=True)
class RecallChange:
    """Change of a class's recall; `n_classes` is the number of classes tested (Bonferroni)."""

    name: str
    before: ClassRecall | None
    after: ClassRecall | None
    n_classes: int = 1

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of the change; None if one side has no labels."""
        if self.before is None or self.after is None:
            return None
        return self.after.share.difference(self.before.share, ERROR_PROBABILITY / self.n_classes)

    @property
    def has_fallen(self) -> bool:
        """Whether the recall fell significantly, corrected for the number of classes."""
        return self.interval is not None and not self.has_few_labels and self.interval[1] < 0.0

    @property
    def has_few_labels(self) -> bool:
        """Whether the effective sample size of either side is too small for an interval."""
        return any(one is None or one.worth < FEWEST for one in (self.before, self.after))

    @property
    def is_undecided(self) -> bool:
        """Whether the labels do not decide: too few, or an interval wider than `WIDE`."""
        if self.interval is None or self.has_few_labels:
            return True
        return not self.has_fallen and self.interval[1] - self.interval[0] > WIDE

    @property
    def points(self) -> float:
        """Change in percentage points; 0 if one side has no labels."""
        if self.before is None or self.after is None:
            return 0.0
        return 100 * (self.after.share.value - self.before.share.value)

    @property
    def text(self) -> str:
        """Change with its confidence interval, in percentage points."""
        if self.interval is None:
            return NOTHING
        if self.is_undecided:
            return "too few labels" if self.has_few_labels else "undecided"
        points, low, high = (
            round(one) for one in (self.points, *(100 * end for end in self.interval))
        )
        return f"{points:+d} points ({low:+d} to {high:+d})"


def recall_changes(
    before: Sequence[LabelEvidence], after: Sequence[LabelEvidence]
) -> list[RecallChange]:
    """Return the recall change of each class: significant drops first, undecided classes last.

    Within each group, the largest drop is first.
    """
    then, since = _by_class(before), _by_class(after)
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
            one.is_undecided,
            not one.has_fallen,
            0 if one.is_undecided else one.points,
        ),
    )


def _by_class(found: Sequence[LabelEvidence]) -> Mapping[str, Sequence[LabelEvidence]]:
    classes: dict[str, list[LabelEvidence]] = {}
    for one in found:
        classes.setdefault(one.truth, []).append(one)
    return classes


def change_summary(
    found: Sequence[RecallChange], when: str, whole: RecallChange | None = None
) -> str:
    """Summarize which classes lost recall significantly, that none did, or that it is undecided.

    If no single class fell but the accuracy over all classes (`whole`) did, report that instead.
    """
    fell = [one for one in found if one.has_fallen]
    if fell and (first := fell[0]).before and first.after:
        was, now = first.before, first.after
        more = "".join(f" That of {one.name} dropped too ({one.text})." for one in fell[1:])
        said = (
            f"The recall of class {first.name} dropped significantly {when}: from "
            f"{percent_text(was.share.value)} ({plural(was.told, 'label')}) to "
            f"{percent_text(now.share.value)} ({plural(now.told, 'label')}).{more}"
        )
    elif whole is not None and whole.has_fallen:
        said = (
            f"The accuracy over all classes dropped significantly {when}, but no single recall did."
        )
    elif all(one.has_few_labels for one in found):
        return f"Too few labels to decide whether the recall of a class dropped {when}."
    elif all(one.is_undecided for one in found):
        return f"Undecided whether the recall of a class dropped {when}."
    else:
        said = f"The recall of no class dropped significantly {when}."
        if (most := found[0]).points < 0:
            said += f" Largest decrease, not significant: {most.name}, {most.text}."
    few = _class_names(one for one in found if one.has_few_labels)
    wide = _class_names(one for one in found if one.is_undecided and not one.has_few_labels)
    said += f" There are too few labels of {few}." * bool(few)
    return said + f" Undecided for {wide}." * bool(wide)


def _class_names(found: Iterable[RecallChange]) -> str:
    """Join the names of classes for a sentence, at most `NAMED` of them."""
    names = sorted((one.name for one in found), key=class_sort_key)
    others = f" and {len(names) - NAMED:,} more" * (len(names) > NAMED)
    return ", ".join(names[:NAMED]) + others


def recall_text(one: ClassRecall | None) -> str:
    """Return a recall as a text."""
    return NOTHING if one is None else one.text


def change_cell(one: RecallChange) -> str | Cell:
    """Return a change as a table cell, highlighted if the recall fell."""
    if not one.has_fallen:
        return one.text
    return Cell(one.text, shade=0.6, colour="bad", note="got worse: ")


def class_sort_key(name: str) -> tuple[bool, float, str]:
    """Return the sort key of a class name: numbers by value, before all other names.

    >>> sorted(["10", "b", "9", "a"], key=class_sort_key)
    ['9', '10', 'a', 'b']
    """
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
