"""Compares model versions: against a baseline, two side by side, and all in a list."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from types import MappingProxyType
from typing import Any

from streamboost.pipelines.dashboard.binomial_tests import change_point
from streamboost.pipelines.dashboard.operations import OFFERED
from streamboost.pipelines.dashboard.recall_by_version import (
    FEWEST,
    WIDE,
    ClassRecall,
    RecallChange,
    change_cell,
    change_summary,
    overall_recall,
    recall_changes,
    recall_text,
    split_at_version,
)
from streamboost.pipelines.dashboard.tables import (
    Cell,
    Column,
    Table,
    rollback_origins,
    version_text,
)
from streamboost.pipelines.dashboard.view import View, page_of
from streamboost.pipelines.dashboard.widgets import DataTable, Tag, show_told
from streamboost.pipelines.status.formatting import (
    NOTHING,
    number_text,
    percent_text,
    plural,
    time_text,
)
from streamboost.pipelines.status.reader import LabelEvidence, Status

__all__ = [
    "RecallDrop",
    "VersionComparison",
    "comparison_table",
    "default_version",
    "importances",
    "recall_drop",
    "recall_since",
    "version_table",
    "with_label_counts",
]


@dataclass(frozen=True, slots=True)
class RecallDrop:
    """Classes whose recall fell significantly since a version, the largest drop first."""

    version: int
    names: Sequence[str]


def default_version(told: Sequence[LabelEvidence], until: int | None = None) -> int | None:
    """Pick the baseline version, with 25 to 50 % of the labels before it; None: no labels.

    Labels of versions after `until` are ignored. If one version dominates, the boundary gives the
    smaller side as many labels as possible. If there are many versions, the number is rounded, so
    that the baseline changes rarely as labels arrive.
    """
    versions = sorted(one.version for one in told if until is None or one.version <= until)
    n = len(versions)
    if not n:
        return None
    quarter, middle = versions[n // 4], versions[n // 2]
    if quarter < middle:
        step = _round_down((middle - quarter) / 2)
        return middle // step * step
    before, after = bisect_left(versions, middle), bisect_right(versions, middle)
    return versions[after] if n - after > before else middle


def _round_down(most: float) -> int:
    """Return the greatest of 1, 2, 5, 10, 20 and so on that is not more than `most`; at least 1.

    >>> [_round_down(most) for most in (0, 1.9, 2, 7, 19, 450)]
    [1, 1, 2, 5, 10, 200]
    """
    power: int = 10 ** floor(log10(max(most, 1)))
    return max(n * power for n in (1, 2, 5) if n == 1 or n * power <= most)


def recall_drop(view: View) -> RecallDrop | None:
    """Return the classes with a significant recall drop since the default version, or None."""
    evidence = view.evidence

    def judge() -> RecallDrop | None:
        version = default_version(evidence.told)
        found = [] if version is None else recall_changes(*split_at_version(evidence.told, version))
        names = [one.name for one in found if one.has_fallen]
        return RecallDrop(version, names) if version is not None and names else None

    return evidence.found.cached(recall_drop, judge)


def recall_since(
    told: Sequence[LabelEvidence], version: int, pipeline: str, until: int | None = None
) -> Table:
    """Build the table of each class's recall since a version and in as many labels before it.

    `until` is the last version included; None means the newest.
    """
    then, now = split_at_version(
        [one for one in told if until is None or one.version <= until], version
    )
    when = f"since version {version}" if until is None else f"from version {version} to {until}"
    columns = [
        Column("Class", "words"),
        Column("Recall before"),
        Column("Recall since" if until is None else "Recall in range"),
        Column("Change"),
        Column("Errors since" if until is None else "Errors in range"),
    ]
    found = recall_changes(then, now)
    rows: list[list[str | Cell]] = [
        [
            one.name,
            recall_text(one.before),
            recall_text(one.after),
            change_cell(one),
            _error_cell(one, version, until, pipeline),
        ]
        for one in found
    ]
    caption = f"Each class {when}"
    by = f"version {version} or a later one" if until is None else f"versions {version} to {until}"
    if not rows:
        whose = by if told else "any committee"
        return Table(caption, columns, [], f"No usable label yet for predictions of {whose}.")
    of = f"Compared: {plural(len(now), 'label')} for predictions of {by}, and {len(then):,} before."
    summary = f"{change_summary(found, when)}{_change_point_text(found[0], [*then, *now])} {of}"
    return Table(caption, columns, rows, summary)


def _change_point_text(most: RecallChange, told: Sequence[LabelEvidence]) -> str:
    """Describe the change point of the class with the largest drop; empty if no class fell."""
    own = [one for one in told if one.truth == most.name]
    place = change_point([one.said == one.truth for one in own]) if most.has_fallen else None
    if place is None:
        return ""
    first = own[place]
    at = f" from about {time_text(first.arrived)} on," if first.arrived else ""
    return f" {most.name} most likely got worse{at} with version {first.version}."


def _error_cell(one: RecallChange, version: int, until: int | None, pipeline: str) -> str | Cell:
    """Return the number of misclassified records of a class since a version, as a link to them."""
    if one.after is None:
        return NOTHING
    text = f"{one.after.wrong:,} of {one.after.told:,}"
    if not one.after.wrong:
        return text
    among = {"true": one.name, "since": version, "until": until, "wrong": "true"}
    link = page_of("/records", pipeline, **among)
    return Cell(text, link=link)


FEATURES = 15
"""Maximum number of features whose importances are compared."""


def with_label_counts(versions: Sequence[Status], again: Mapping[int, int]) -> list[Status]:
    """Return the versions; a copy made by a rollback gets the label count of its original.

    `again` maps each copy's number to the number of the original version.
    """
    known: dict[int, Status] = {}
    for one in versions:
        number = int(one["version"])
        first = known.get(again.get(number, number))
        known[number] = one if first is None else {**one, "labels": first["labels"]}
    return list(known.values())


def comparison_table(a: Status, b: Status, told: Sequence[LabelEvidence]) -> Table:
    """Build the table of two versions: training size, and accuracy and recall while active."""
    columns = [
        Column("Metric", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    rows: list[list[str | Cell]] = [
        ["Active since", *(time_text(one.get("began")) for one in (a, b)), ""]
    ]
    for title, key in (
        ("Labels learned", "labels"),
        ("Trees", "trees"),
        ("Rounds", "rounds"),
        ("Records predicted", "predicted"),
    ):
        was, now = a.get(key), b.get(key)
        rows.append([title, number_text(was), number_text(now), _difference_text(was, now)])
    then, later = (_evidence_of(told, one) for one in (a, b))
    whole, classes = (
        RecallChange("Accuracy", overall_recall(then), overall_recall(later)),
        recall_changes(then, later),
    )
    for title, one in (("Accuracy", whole), *((f"Recall of {one.name}", one) for one in classes)):
        sides = [_accuracy_text(side, one) for side in (one.before, one.after)]
        rows.append([title, *sides, change_cell(one)])
    first, second = a["version"], b["version"]
    said = change_summary(classes, f"from version {first} to {second}", whole)
    judged = (whole, *classes)
    if all(one.is_undecided for one in judged):
        few = all(one.has_few_labels for one in judged)
        begins = "Too few labels to decide" if few else "Undecided"
        said = f"{begins} whether version {second} is better or worse than {first}."
    of = (
        "Each version is evaluated on its own predictions: "
        f"{len(then):,} and {plural(len(later), 'label')}."
    )
    return Table("Two versions side by side", columns, rows, f"{said} {of}")


def _accuracy_text(side: ClassRecall | None, change: RecallChange) -> str:
    """Return the accuracy as a text, or with too few labels the number of correct predictions."""
    return side.counts_text if side is not None and change.has_few_labels else recall_text(side)


def _evidence_of(told: Sequence[LabelEvidence], version: Status) -> list[LabelEvidence]:
    return [one for one in told if one.version == version["version"]]


def _difference_text(was: float | None, now: float | None) -> str:
    return NOTHING if was is None or now is None else f"{now - was:+,}"


def importances(a: Status, b: Status) -> Table:
    """Build the table of two versions' feature importances, the largest of either first."""
    left, right = (one.get("importances") or {} for one in (a, b))
    columns = [
        Column("Feature", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    names = sorted({**left, **right}, key=lambda name: -max(left.get(name, 0), right.get(name, 0)))
    most = max((*left.values(), *right.values()), default=0.0) or 1.0
    rows = [
        [
            name,
            *(
                Cell(
                    percent_text(one.get(name, 0.0)),
                    bar=one.get(name, 0.0) / most,
                    colour="series-1",
                )
                for one in (left, right)
            ),
            f"{100 * (right.get(name, 0.0) - left.get(name, 0.0)):+.1f} points",
        ]
        for name in names[:FEATURES]
    ]
    summary = "" if rows else "Feature importances are available for tree committees only."
    return Table("Feature importances", columns, rows, summary)


def version_table(
    versions: Sequence[Status],
    told: Sequence[LabelEvidence],
    kept: Sequence[int],
    pipeline: str,
    again: Mapping[int, int] = MappingProxyType({}),
    beside: int | None = None,
) -> Table:
    """Build the table of versions, the newest first.

    A version in `kept` can be rolled back to. `again` maps each copy's number to the number of
    the original version. Each row links to the comparison of that version with the one that the
    last argument names (None: the newest).
    """
    words = Column("Version", "words"), Column("Active since", "words")
    figures = (Column(text) for text in ("Labels", "Trees", "Accuracy while active"))
    columns = [*words, *figures, Column("Rollback", "words")]
    other = versions[-1]["version"] if beside is None else beside
    by: dict[int, list[LabelEvidence]] = {}
    for record in told:
        by.setdefault(record.version, []).append(record)
    rows: list[list[str | Cell]] = []
    for one in reversed(versions):
        number = int(one["version"])
        link = page_of("/versions", pipeline, a=number, b=other)
        made = (number_text(one.get(key)) for key in ("labels", "trees"))
        share = recall_text(overall_recall(by.get(number, ())))
        serves = "possible" if number in kept else "no"
        name = Cell(version_text(number, again), link=link)
        rows.append([name, time_text(one.get("began")), *made, share, serves])
    summary = f"{plural(len(kept), 'version')} can be rolled back to."
    if len(kept) > OFFERED + 1:
        summary += (
            f" Operators: the buttons above roll back to the newest {OFFERED} inactive versions. "
            "For another version, open its comparison by its number."
        )
    return Table("Versions", columns, rows, summary)


NAMED = 10
"""Maximum number of versions named in a sentence."""

_ABOUT = (
    "Recall per class with its 95 % interval, weighted by inverse inclusion probability. n: "
    "labels; n_eff: effective sample size (Kish). Excluded: unrequested and disputed labels, and "
    "predictions before the first committee. Changes have simultaneous 95 % intervals "
    f"(Bonferroni). Undecided: wider than {100 * WIDE:.0f} points. Too few labels: n_eff below "
    f"{FEWEST}. Significant decreases come first."
)


class VersionComparison:
    """Comparison page: recall since a version, two versions, their importances and a list of all.

    Parameters
    ----------
    versions : the known versions, the oldest first
    told : the labels as evidence about the versions, in the order in which the records arrived
    view : the pipeline's status
    a, b : the chosen versions in either order, clipped to the versions with stored evidence. If
        `b` is None, the newest version is used; if `a` is None, the default baseline

    Attributes
    ----------
    sides : the numbers of the two compared versions: the chosen ones or the nearest known ones;
        empty if no version is known
    """

    def __init__(
        self,
        versions: Sequence[Status],
        told: Sequence[LabelEvidence],
        view: View,
        a: int | None,
        b: int | None,
    ) -> None:
        self._pipeline = view.document("pipeline").get("name")
        self._shown: Any = self.stamp(view)
        self._menus: list[Tag] = []
        self._beside: int | None = None
        self._offered: set[int] = set()
        self.sides: tuple[int, ...] = ()
        if not versions:
            with Tag("section", classes="panel"):
                Tag("p", "No version has been active yet: reload this page later.", "summary empty")
            return
        if a is not None and b is not None and b < a:
            a, b = b, a
        again = rollback_origins(view)
        known = {int(one["version"]): one for one in with_label_counts(versions, again)}
        self._offered = known.keys() | {one.version for one in told}
        self._beside = self._clip(b)
        right = _nearest_version(max(known) if self._beside is None else self._beside, known)
        before = _nearest_version(right, [n for n in known if n < right] or known)
        first = default_version(told, self._beside) if a is None else self._clip(a)
        first = before if first is None else first
        left = _nearest_version(first, known)
        if a is None and left == right:
            left = before
        self.sides = left, right
        self._show_since(first, a, b, again, told)
        self._show_sides(first, known, again, told)
        with Tag("section", classes="panel whole", aria_labelledby="all-title", id="all"):
            Tag("h2", "All versions", id="all-title")
            self._summary = Tag("p", "", "summary")
            self._table = DataTable()
        self._list(versions, told, view)

    def _clip(self, wanted: int | None) -> int | None:
        """Clip a version number to the range of versions with stored evidence."""
        return None if wanted is None else sorted((*_version_range(self._offered), wanted))[1]

    def _show_since(
        self,
        first: int,
        a: int | None,
        b: int | None,
        again: Mapping[int, int],
        told: Sequence[LabelEvidence],
    ) -> None:
        """Show each class's recall since version `first`; `a` and `b` are the requested ones."""
        last = self._beside
        span = f"Since version {version_text(first, again)}"
        if last is not None:
            span = f"From version {version_text(first, again)} to {version_text(last, again)}"
        with Tag("section", classes="panel whole", aria_labelledby="since-title", id="since"):
            Tag("h2", span, id="since-title")
            self._choose(first, last)
            ends = {number for number in (first, last) if number is not None}
            about = _baseline_text(first, a, last, told), _missing_versions(self._offered | ends)
            for text in filter(None, about):
                Tag("p", text, "about")
            for wanted, found in {a: first, b: last}.items():
                if wanted is not None and wanted not in self._offered:
                    nearest = "" if wanted == found else f"; {found} is the nearest"
                    said = f"No usable labels are kept for version {wanted}{nearest}."
                    Tag("p", said, "summary")
            show_told(recall_since(told, first, self._pipeline, last))
            Tag("p", _ABOUT, "about")

    def _show_sides(
        self,
        first: int,
        known: Mapping[int, Status],
        again: Mapping[int, int],
        told: Sequence[LabelEvidence],
    ) -> None:
        """Show the two compared versions, the left one for version `first`."""
        left, right = self.sides
        with Tag("section", classes="panel whole", aria_labelledby="sides-title", id="sides"):
            if left == right:
                Tag("h2", "Side by side", id="sides-title")
                said = f"Nothing to compare: version {right} is the nearest known on both sides."
                Tag("p", said, "summary empty")
                return
            title = (
                f"Version {version_text(left, again)} compared with {version_text(right, again)}"
            )
            Tag("h2", title, id="sides-title")
            for wanted, found in ((first, left), (self._beside, right)):
                if wanted is not None and wanted not in known:
                    said = f"No model of version {wanted} is kept: version {found} is compared."
                    Tag("p", said, "summary")
            show_told(comparison_table(known[left], known[right], told))
        with Tag("section", classes="panel whole", aria_labelledby="weigh-title", id="weigh"):
            Tag("h2", "Feature importances", id="weigh-title")
            Tag("p", "Share of the total split gain per feature.", "about")
            show_told(importances(known[left], known[right]))

    @staticmethod
    def stamp(view: View) -> Any:
        """Return a value that changes whenever the set of known versions changes."""
        learner = view.document("learner")
        return learner.get("version"), tuple(_retained_versions(view))

    def is_stale(self, view: View) -> bool:
        """Whether the set of known versions has changed since it was shown."""
        return bool(self._menus) and self.stamp(view) != self._shown

    def update(self, versions: Sequence[Status], told: Sequence[LabelEvidence], view: View) -> None:
        """Add new versions to the menus and the list; the chosen comparison stays."""
        self._shown = self.stamp(view)
        for number in sorted({int(one["version"]) for one in versions} - self._offered):
            self._offered.add(number)
            for menu in self._menus:
                # The second menu begins with the option for the newest version.
                with menu:
                    place = menu is self._menus[-1]
                    Tag("option", str(number), value=str(number)).move(target_index=int(place))
        self._list(versions, told, view)

    def _list(self, versions: Sequence[Status], told: Sequence[LabelEvidence], view: View) -> None:
        again = rollback_origins(view)
        known = with_label_counts(versions, again)
        table = version_table(
            known, told, _retained_versions(view), self._pipeline, again, self._beside
        )
        self._summary.text = table.summary
        self._table.show_table(table)

    def _choose(self, first: int, last: int | None) -> None:
        """Add the two version menus; without a choice, the second follows the newest version."""
        with Tag("form", classes="choose", action="/versions"):
            Tag("input", type="hidden", name="pipeline", value=self._pipeline)
            for name, title, chosen in (("a", "Since version", first), ("b", "up to", last)):
                Tag("label", title, for_=f"version-{name}")
                with Tag("select", id=f"version-{name}", name=name) as menu:
                    if name == "b":
                        Tag("option", "the newest", value="")
                    for number in sorted(self._offered | {chosen or first}, reverse=True):
                        is_chosen: dict[str, Any] = {"selected": True} if number == chosen else {}
                        Tag("option", str(number), value=str(number), **is_chosen)
                self._menus.append(menu)
            Tag("button", "Compare")


def _retained_versions(view: View) -> list[int]:
    return [int(one["version"]) for one in view.document("learner").get("versions") or ()]


def _version_range(numbers: Collection[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _nearest_version(wanted: int, numbers: Iterable[int]) -> int:
    """Return the number nearest to `wanted`; of two equally near numbers, the smaller one.

    >>> _nearest_version(90, [91, 4, 89])
    89
    """
    return min(sorted(numbers), key=lambda n: abs(n - wanted))


def _baseline_text(
    first: int, a: int | None, last: int | None, told: Sequence[LabelEvidence]
) -> str:
    """Explain why version `first` is the default baseline; empty if the user chose a version."""
    versions = [one.version for one in told if last is None or one.version <= last]
    if a is not None or not versions:
        return ""
    since = sum(version >= first for version in versions)
    return (
        f"Default baseline: version {first}; {since:,} of {plural(len(versions), 'label')} are for "
        "this or a later version. The baseline moves forward as labels arrive. Compare fixes it in "
        "the address."
    )


def _missing_versions(offered: Collection[int]) -> str:
    """List the versions that the menus lack."""
    low, high = _version_range(offered)
    gone = [n for n in range(low, high) if n not in offered]
    if not gone:
        return ""
    named = ", ".join(map(str, gone[:NAMED])) + f" and {len(gone) - NAMED:,} more" * (
        len(gone) > NAMED
    )
    return f"Not offered, as no usable labels are kept: {named}."
