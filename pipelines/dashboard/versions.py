"""Versions page: compares a version with a baseline, and two versions; lists all versions."""

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
    overall_recall,
    recall_change_cell,
    recall_change_summary,
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
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import (
    DataTable,
    Tag,
    add_heading,
    show_summary_and_table,
)
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    number_text,
    percent_text,
    time_text,
)
from streamboost.pipelines.status.reader import LabelledPrediction, Status
from streamboost.pipelines.status.version_comparison import comparison_lines, versions_text


@dataclass(frozen=True, slots=True)
class RecallDrop:
    """Classes whose recall fell significantly since a version, the largest drop first."""

    version: int
    names: Sequence[str]


def default_baseline_version(
    evidence: Sequence[LabelledPrediction], last_version: int | None = None
) -> int | None:
    """Return the version that 25 to 50 % of the labels precede; None without labels.

    Labels of versions after `last_version` are ignored. If one version dominates, the boundary
    gives the smaller side as many labels as possible. If there are many versions, the number is
    rounded, so that the baseline changes rarely as labels arrive.
    """
    versions = sorted(
        one.version for one in evidence if last_version is None or one.version <= last_version
    )
    n = len(versions)
    if not n:
        return None
    quarter, middle = versions[n // 4], versions[n // 2]
    if quarter < middle:
        step = _round_down_to_1_2_5((middle - quarter) / 2)
        return middle // step * step
    before, after = bisect_left(versions, middle), bisect_right(versions, middle)
    return versions[after] if n - after > before else middle


def _round_down_to_1_2_5(limit: float) -> int:
    """Return the greatest of 1, 2, 5, 10, 20 and so on that is not more than `limit`; at least 1.

    >>> [_round_down_to_1_2_5(most) for most in (0, 1.9, 2, 7, 19, 450)]
    [1, 1, 2, 5, 10, 200]
    """
    power: int = 10 ** floor(log10(max(limit, 1)))
    return max(n * power for n in (1, 2, 5) if n == 1 or n * power <= limit)


def significant_recall_drop(view: StatusSnapshot) -> RecallDrop | None:
    """Return the classes whose recall dropped significantly; None if none did."""
    evidence = view.evidence

    def find_drop() -> RecallDrop | None:
        version = default_baseline_version(evidence.predictions)
        found = (
            []
            if version is None
            else recall_changes(*split_at_version(evidence.predictions, version))
        )
        names = [one.name for one in found if one.has_fallen]
        return RecallDrop(version, names) if version is not None and names else None

    return evidence.cache.get_or_compute(significant_recall_drop, find_drop)


def recall_since_table(
    evidence: Sequence[LabelledPrediction],
    version: int,
    pipeline: str,
    last_version: int | None = None,
) -> Table:
    """Build the table of each class's recall since `version`, and on as many labels before it.

    `last_version` is the last version included; None means the newest.
    """
    then, now = split_at_version(
        [one for one in evidence if last_version is None or one.version <= last_version], version
    )
    when = (
        f"since version {version}"
        if last_version is None
        else f"from version {version} to {last_version}"
    )
    columns = [
        Column("Class", "words"),
        Column("Recall before"),
        Column("Recall since" if last_version is None else "Recall in range"),
        Column("Change"),
        Column("Errors since" if last_version is None else "Errors in range"),
    ]
    found = recall_changes(then, now)
    rows: list[list[str | Cell]] = [
        [
            one.name,
            recall_text(one.before),
            recall_text(one.after),
            recall_change_cell(one),
            _misclassified_records_cell(one, version, last_version, pipeline),
        ]
        for one in found
    ]
    caption = f"Each class {when}"
    by = (
        f"version {version} or a later one"
        if last_version is None
        else f"versions {version} to {last_version}"
    )
    if not rows:
        whose = by if evidence else "any committee"
        return Table(caption, columns, [], f"No usable label yet for predictions of {whose}.")
    compared = count_text(len(now), "label")
    of = (
        f"Compared: {compared} for predictions of {by}, and {len(then):,} before. These are "
        "different records: if the stream changes, recall may change without a new version."
    )
    summary = (
        f"{recall_change_summary(found, when)}{_change_point_text(found[0], [*then, *now])} {of}"
    )
    return Table(caption, columns, rows, summary)


def _change_point_text(largest_drop: RecallChange, evidence: Sequence[LabelledPrediction]) -> str:
    """Describe the change point of the class with the largest drop; empty if no class fell."""
    own = [one for one in evidence if one.truth == largest_drop.name]
    place = (
        change_point([one.said == one.truth for one in own]) if largest_drop.has_fallen else None
    )
    if place is None:
        return ""
    first = own[place]
    at = f" from about {time_text(first.arrived)} on," if first.arrived else ""
    return f" {largest_drop.name} most likely got worse{at} with version {first.version}."


def _misclassified_records_cell(
    change: RecallChange, version: int, last_version: int | None, pipeline: str
) -> str | Cell:
    """Return a cell with a class's number of misclassified records, linked to their list."""
    if change.after is None:
        return NOTHING
    text = f"{change.after.n_wrong:,} of {change.after.n_labels:,}"
    if not change.after.n_wrong:
        return text
    among = {"true": change.name, "since": version, "until": last_version, "wrong": "true"}
    link = page_address("/records", pipeline, **among)
    return Cell(text, link=link)


FEATURES = 15
"""Maximum number of features whose importances are compared."""


def with_label_counts_of_originals(
    versions: Sequence[Status], original_of_copy: Mapping[int, int]
) -> list[Status]:
    """Return `versions`; a copy made by a rollback gets the label count of its original.

    `original_of_copy` maps each copy's number to the number of the original version.
    """
    known: dict[int, Status] = {}
    for one in versions:
        number = int(one["version"])
        first = known.get(original_of_copy.get(number, number))
        known[number] = one if first is None else {**one, "labels": first["labels"]}
    return list(known.values())


def comparison_table(a: Status, b: Status, evidence: Sequence[LabelledPrediction]) -> Table:
    """Build the table that compares versions `a` and `b`: size, and accuracy while active."""
    columns = [
        Column("Metric", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    rows: list[list[str | Cell]] = [
        ["Active since", *(time_text(one.get("began")) for one in (a, b)), ""]
    ]
    for title, key in (
        ("Labels at deployment", "labels"),
        ("Trees", "trees"),
        ("Rounds", "rounds"),
        ("Records predicted", "predicted"),
    ):
        was, now = a.get(key), b.get(key)
        rows.append([title, number_text(was), number_text(now), _difference_text(was, now)])
    then, later = ([one for one in evidence if one.version == side["version"]] for side in (a, b))
    whole, classes = (
        RecallChange("Accuracy", overall_recall(then), overall_recall(later)),
        recall_changes(then, later),
    )
    for title, one in (("Accuracy", whole), *((f"Recall of {one.name}", one) for one in classes)):
        sides = [_accuracy_text(side, one) for side in (one.before, one.after)]
        rows.append([title, *sides, recall_change_cell(one)])
    first, second = a["version"], b["version"]
    said = recall_change_summary(classes, f"from version {first} to {second}", whole)
    judged = (whole, *classes)
    if all(one.is_inconclusive for one in judged):
        few = all(one.has_few_labels for one in judged)
        begins = "Too few labels to decide" if few else "Undecided"
        said = f"{begins} whether version {second} is better or worse than {first}."
    of = (
        "Each version is evaluated on its own predictions: "
        f"{len(then):,} and {count_text(len(later), 'label')}."
    )
    return Table("Two versions side by side", columns, rows, f"{said} {of}")


def _accuracy_text(recall: ClassRecall | None, change: RecallChange) -> str:
    """Return a recall as a text, or the number of correct predictions if labels are too few."""
    return (
        recall.counts_text if recall is not None and change.has_few_labels else recall_text(recall)
    )


def _difference_text(before: float | None, after: float | None) -> str:
    return NOTHING if before is None or after is None else f"{after - before:+,}"


def importance_table(a: Status, b: Status) -> Table:
    """Build the table of the feature importances of versions `a` and `b`, the largest first."""
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
    evidence: Sequence[LabelledPrediction],
    rollback_targets: Sequence[int],
    pipeline: str,
    original_of_copy: Mapping[int, int] = MappingProxyType({}),
    compared_version: int | None = None,
) -> Table:
    """Build the table of versions, the newest first.

    A version in `rollback_targets` can be rolled back to. `original_of_copy` maps each copy's
    number to the number of the original version. Each row links to the comparison of that version
    with `compared_version` (None: the newest version).
    """
    words = Column("Version", "words"), Column("Active since", "words")
    figures = (Column(text) for text in ("Labels at deployment", "Trees", "Accuracy while active"))
    columns = [*words, *figures, Column("Rollback", "words")]
    other = versions[-1]["version"] if compared_version is None else compared_version
    by: dict[int, list[LabelledPrediction]] = {}
    for record in evidence:
        by.setdefault(record.version, []).append(record)
    rows: list[list[str | Cell]] = []
    for one in reversed(versions):
        number = int(one["version"])
        a = None if number == other else number
        link = page_address("/versions", pipeline, a=a, b=other)
        made = (number_text(one.get(key)) for key in ("labels", "trees"))
        share = recall_text(overall_recall(by.get(number, ())))
        serves = "possible" if number in rollback_targets else "no"
        name = Cell(version_text(number, original_of_copy), link=link)
        rows.append([name, time_text(one.get("began")), *made, share, serves])
    summary = f"{count_text(len(rollback_targets), 'version')} can be rolled back to."
    if len(rollback_targets) > OFFERED + 1:
        summary += (
            f" Operators: the buttons below roll back to the newest {OFFERED} inactive versions. "
            "For another version, select its number."
        )
    return Table("Versions", columns, rows, summary)


def version_effect_table(view: StatusSnapshot) -> Table:
    """Build the table of newer versions and the earlier one that predicted the same records."""
    comparisons = view.document("comparisons").get("versions") or ()
    figures = map(
        Column, ("Compared with", "Labels compared", "Difference", "Labels until decided")
    )
    pipeline = view.document("pipeline").get("name")
    rows = [
        [
            Cell(
                versions_text(one),
                link=page_address("/versions", pipeline, b=one["last"]),
            ),
            str(one["baseline"]),
            number_text(one["labels"]),
            _accuracy_difference_cell(one["difference"]),
            number_text(one["missing_labels"]),
        ]
        for one in comparisons[::-1]
    ]
    summary = f"{_unlabelled_version_text(view)}{' '.join(comparison_lines(comparisons))}"
    return Table("Effect of labels", [Column("Newer versions", "words"), *figures], rows, summary)


def _unlabelled_version_text(view: StatusSnapshot) -> str:
    """Say that the newest comparison has no label of the active version itself; else empty."""
    comparisons = view.document("comparisons").get("versions") or ()
    active, evidence = view.document("learner").get("version"), view.evidence.predictions
    if not comparisons or not evidence or any(one.version == active for one in evidence):
        return ""
    first, last = comparisons[-1]["first"], comparisons[-1]["last"]
    if not first < last == active:
        return ""
    return f"No usable label yet for predictions of version {active}; together: "


def _measured_comparison(view: StatusSnapshot, version: int) -> Mapping[str, Any] | None:
    """Return the comparison on the same records that includes `version`; None without a result."""
    comparisons = view.document("comparisons").get("versions") or ()
    found = (one for one in comparisons if one["first"] <= version <= one["last"])
    return next((one for one in found if one["difference"] is not None), None)


def _accuracy_difference_cell(difference: Mapping[str, float] | None) -> str | Cell:
    """Return a cell with a difference in points, highlighted if the newer version is worse."""
    if difference is None:
        return "too few labels"
    value, low, high = (100.0 * difference[name] for name in ("value", "low", "high"))
    text = f"{value:+.1f} points ({low:+.1f} to {high:+.1f})"
    return Cell(text, shade=0.6, colour="bad", note="got worse: ") if high < 0.0 else text


NAMED = 10
"""Maximum number of versions named in a sentence."""

ABOUT_EFFECT = (
    "Accuracy of newer versions minus that of an earlier one, without other experts, on the same "
    "labelled records of all annotators, before these are learned. Each version predicts while it "
    "is active. "
    "Weighted by inverse inclusion probability, with a 95 % confidence sequence."
)

_SAME_VERSIONS = "As in the comparison on the same records above:"

_ABOUT = (
    "Recall per class with its 95 % interval, weighted by inverse inclusion probability. n: "
    "labels; n_eff: effective sample size (Kish). Excluded: unrequested and disputed labels, "
    "annotators that are left out, and predictions before the first committee. Changes have "
    "simultaneous 95 % intervals "
    f"(Bonferroni). Undecided: wider than {100 * WIDE:.0f} points. Too few labels: n_eff below "
    f"{FEWEST}. Significant decreases come first. Quality shows the recall in the sliding window "
    "and since the start instead."
)


class VersionComparison:
    """Versions page: recall since a version, comparison of two versions, list of all.

    Parameters
    ----------
    versions : the known versions, the oldest first
    evidence : labelled records to evaluate the versions, in the order of their arrival
    view : the pipeline's status
    a, b : the versions to compare, in either order, moved into the range of the known ones. If
        `b` is None, the newest version is used. If `a` is None, the versions of the comparison on
        the same records that includes `b` are used, or the default baseline

    Attributes
    ----------
    sides : the numbers of the two compared versions: the chosen ones or the nearest known ones;
        empty if no version is known
    """

    def __init__(
        self,
        versions: Sequence[Status],
        evidence: Sequence[LabelledPrediction],
        view: StatusSnapshot,
        a: int | None,
        b: int | None,
    ) -> None:
        self._pipeline = view.document("pipeline").get("name")
        self._shown: Any = self.versions_fingerprint(view)
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
        original_of_copy = rollback_origins(view)
        known = {
            int(one["version"]): one
            for one in with_label_counts_of_originals(versions, original_of_copy)
        }
        self._offered = known.keys() | {one.version for one in evidence}
        self._beside = self._clamp_version(b)
        right = _nearest_version_number(max(known) if self._beside is None else self._beside, known)
        before = _nearest_version_number(right, [n for n in known if n < right] or known)
        measured = _measured_comparison(view, right) if a is None else None
        if measured is not None:
            first = min(number for number in self._offered if number >= measured["first"])
            left = _nearest_version_number(measured["baseline"], known)
        else:
            found = (
                default_baseline_version(evidence, self._beside)
                if a is None
                else self._clamp_version(a)
            )
            first = before if found is None else found
            left = _nearest_version_number(first, known)
        if a is None and left == right:
            left = before
        self.sides = left, right
        with Tag("section", classes="panel whole", aria_labelledby="effect-title", id="effect"):
            add_heading("Newest versions on the same records", "effect-title", ABOUT_EFFECT)
            self._effect = Tag("p", "", "summary"), DataTable()
        about = (
            _baseline_text(first, a, self._beside, evidence)
            if measured is None
            else f"{_SAME_VERSIONS} {versions_text(measured)} (active from {first} on) and {left}."
        )
        self._show_recall_since(first, a, b, original_of_copy, evidence, about)
        before = first if measured is None else left
        self._show_version_comparison(before, known, original_of_copy, evidence)
        with Tag("section", classes="panel whole", aria_labelledby="all-title", id="all"):
            Tag("h2", "All versions", id="all-title")
            self._summary = Tag("p", "", "summary")
            self._table = DataTable()
        self._show_version_list(versions, evidence, view)

    def _clamp_version(self, version: int | None) -> int | None:
        """Limit a version number to the range of versions that are in the menus."""
        return (
            None if version is None else sorted((*_lowest_and_highest(self._offered), version))[1]
        )

    def _show_recall_since(
        self,
        first: int,
        a: int | None,
        b: int | None,
        original_of_copy: Mapping[int, int],
        evidence: Sequence[LabelledPrediction],
        baseline_text: str,
    ) -> None:
        """Show each class's recall since version `first`; `a` and `b` are the user's choices."""
        last = self._beside
        span = f"Since version {version_text(first, original_of_copy)}"
        if last is not None:
            span = f"From version {version_text(first, original_of_copy)} to "
            span += version_text(last, original_of_copy)
        with Tag("section", classes="panel whole", aria_labelledby="since-title", id="since"):
            add_heading(span, "since-title", _ABOUT)
            self._add_version_menus(first, last)
            ends = {number for number in (first, last) if number is not None}
            about = (
                baseline_text,
                _missing_versions_text(self._offered | ends),
            )
            for text in filter(None, about):
                Tag("p", text, "about")
            for wanted, found in {a: first, b: last}.items():
                if wanted is not None and wanted not in self._offered:
                    nearest = "" if wanted == found else f"; {found} is the nearest"
                    said = f"No usable labels are kept for version {wanted}{nearest}."
                    Tag("p", said, "summary")
            show_summary_and_table(recall_since_table(evidence, first, self._pipeline, last))

    def _show_version_comparison(
        self,
        first: int,
        known_versions: Mapping[int, Status],
        original_of_copy: Mapping[int, int],
        evidence: Sequence[LabelledPrediction],
    ) -> None:
        """Show the table and the feature importances of the two compared versions."""
        left, right = self.sides
        with Tag("section", classes="panel whole", aria_labelledby="sides-title", id="sides"):
            if left == right:
                Tag("h2", "Side by side", id="sides-title")
                said = f"Nothing to compare: both sides are version {right}, the nearest known."
                Tag("p", said, "summary empty")
                return
            title = (
                f"Version {version_text(left, original_of_copy)} compared with "
                f"{version_text(right, original_of_copy)}"
            )
            Tag("h2", title, id="sides-title")
            for wanted, found in ((first, left), (self._beside, right)):
                if wanted is not None and wanted not in known_versions:
                    said = f"No model of version {wanted} is kept: version {found} is compared."
                    Tag("p", said, "summary")
            show_summary_and_table(
                comparison_table(known_versions[left], known_versions[right], evidence)
            )
        with Tag("section", classes="panel whole", aria_labelledby="weigh-title", id="weigh"):
            about = "Share of the total split gain per feature."
            add_heading("Feature importances", "weigh-title", about)
            show_summary_and_table(importance_table(known_versions[left], known_versions[right]))

    @staticmethod
    def versions_fingerprint(view: StatusSnapshot) -> Any:
        """Return a value that changes when the active or a retained version changes."""
        learner = view.document("learner")
        return learner.get("version"), tuple(_retained_versions(view))

    def is_stale(self, view: StatusSnapshot) -> bool:
        """Return whether the active or a retained version has changed since the last update."""
        return bool(self._menus) and self.versions_fingerprint(view) != self._shown

    def update(
        self,
        versions: Sequence[Status],
        evidence: Sequence[LabelledPrediction],
        view: StatusSnapshot,
    ) -> None:
        """Add new versions to the menus and the list; the compared versions stay the same."""
        self._shown = self.versions_fingerprint(view)
        for number in sorted({int(one["version"]) for one in versions} - self._offered):
            self._offered.add(number)
            for menu in self._menus:
                # The second menu begins with the option for the newest version.
                with menu:
                    place = menu is self._menus[-1]
                    Tag("option", str(number), value=str(number)).move(target_index=int(place))
        self._show_version_list(versions, evidence, view)

    def _show_version_list(
        self,
        versions: Sequence[Status],
        evidence: Sequence[LabelledPrediction],
        view: StatusSnapshot,
    ) -> None:
        text, effects = self._effect
        effect = version_effect_table(view)
        text.text = effect.summary
        effects.show_table(effect)
        effects.set_visibility(bool(effect.rows))
        original_of_copy = rollback_origins(view)
        known = with_label_counts_of_originals(versions, original_of_copy)
        table = version_table(
            known,
            evidence,
            _retained_versions(view),
            self._pipeline,
            original_of_copy,
            self._beside,
        )
        self._summary.text = table.summary
        self._table.show_table(table)

    def _add_version_menus(self, baseline: int, last_version: int | None) -> None:
        """Add the two version menus; without a choice, the second follows the newest version."""
        with Tag("form", classes="choose", action="/versions"):
            Tag("input", type="hidden", name="pipeline", value=self._pipeline)
            for name, title, chosen in (
                ("a", "Since version", baseline),
                ("b", "up to", last_version),
            ):
                Tag("label", title, for_=f"version-{name}")
                with Tag("select", id=f"version-{name}", name=name) as menu:
                    if name == "b":
                        Tag("option", "the newest", value="")
                    for number in sorted(self._offered | {chosen or baseline}, reverse=True):
                        is_chosen: dict[str, Any] = {"selected": True} if number == chosen else {}
                        Tag("option", str(number), value=str(number), **is_chosen)
                self._menus.append(menu)
            Tag("button", "Compare")


def _retained_versions(view: StatusSnapshot) -> list[int]:
    return [int(one["version"]) for one in view.document("learner").get("versions") or ()]


def _lowest_and_highest(numbers: Collection[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _nearest_version_number(version: int, versions: Iterable[int]) -> int:
    """Return the number in `versions` nearest to `version`; with ties, the smaller one.

    >>> _nearest_version_number(90, [91, 4, 89])
    89
    """
    return min(sorted(versions), key=lambda n: abs(n - version))


def _baseline_text(
    baseline: int,
    chosen_baseline: int | None,
    last_version: int | None,
    evidence: Sequence[LabelledPrediction],
) -> str:
    """Explain the default baseline; empty if the user chose one or there are no labels."""
    versions = [
        one.version for one in evidence if last_version is None or one.version <= last_version
    ]
    if chosen_baseline is not None or not versions:
        return ""
    since = sum(version >= baseline for version in versions)
    return (
        f"Default baseline: version {baseline}; {since:,} of {len(versions):,} kept labels "
        "are for this or a later version. The baseline moves forward as labels arrive. Compare "
        "keeps it in the address."
    )


def _missing_versions_text(offered_versions: Collection[int]) -> str:
    """Name the versions that are not in the menus, as they have no usable labels; or empty."""
    low, high = _lowest_and_highest(offered_versions)
    gone = [n for n in range(low, high) if n not in offered_versions]
    if not gone:
        return ""
    named = ", ".join(map(str, gone[:NAMED])) + f" and {len(gone) - NAMED:,} more" * (
        len(gone) > NAMED
    )
    return f"Versions without usable labels: {named}."
