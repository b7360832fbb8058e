"""What the dashboard's tables show, from the documents of a status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.status.formatting import NOTHING, amount, clock, percent, plural, seconds

__all__ = [
    "Cell",
    "Column",
    "Rows",
    "Scale",
    "Table",
    "class_mix",
    "committees",
    "confusion",
    "fields",
    "latencies",
    "named",
    "rolled_back",
    "share_of",
    "workers",
]

MOST_CLASSES = 30
"""Rows and columns of a confusion matrix that a person can still take in."""

MOST_MARKS = 100

MOST_FIELDS = 50
"""Fields shown that came later or could not be read."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from 0 to 1: a value `at` a place, a band from `low` to `high`, and marks."""

    at: float | None
    low: float
    high: float
    marks: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with more than a text.

    `bar` is the length of a bar behind it and `shade` how strongly it is tinted, both from 0 to 1;
    `colour` names the bar's or that of the value on a `scale`. `note` is only read aloud. `link` is
    where the text leads, and `picture` an image (``data:``) that stands before it.
    """

    text: str
    bar: float | None = None
    shade: float | None = None
    colour: str | None = None
    note: str | None = None
    link: str | None = None
    scale: Scale | None = None
    picture: str | None = None


Rows = list[list[str | Cell]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, and whether it holds words or numbers."""

    text: str
    kind: Literal["words", "number"] = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, what it is of, and what it comes to; without rows `summary` says what to do."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell]]
    summary: str


def class_mix(view: View) -> Table:
    """Show the share of each class among the predictions and among the labels."""
    found = view.document("classes")
    labels = [str(label) for label in found.get("labels", [])]
    predicted, labelled = found.get("predicted", []), found.get("labelled", [])
    columns = [Column("Class", "words"), Column("Predicted"), Column("Labelled")]
    n_predicted, n_labelled = sum(predicted), sum(labelled)
    if not labels or not (n_predicted or n_labelled):
        return Table("Class mix", columns, [], "Shown once classes are predicted in this run.")
    shares = [
        (label, share_of(a, n_predicted), share_of(b, n_labelled))
        for label, a, b in zip(labels, predicted, labelled, strict=True)
    ]
    longest = max(max(a or 0.0, b or 0.0) for _, a, b in shares) or 1.0
    rows: Rows = [
        [
            label,
            Cell(percent(a), bar=(a or 0.0) / longest, colour="series-1"),
            Cell(percent(b), bar=(b or 0.0) / longest, colour="series-2"),
        ]
        for label, a, b in shares
    ]
    summary = (
        f"The newest {plural(n_predicted, 'prediction')} and {plural(n_labelled, 'label')}. "
        "Labels are asked for where the committee is unsure, so the two need not agree."
    )
    return Table("Class mix", columns, rows, summary)


def share_of(n: float, of: float) -> float | None:
    """Return `n` as a share; None where there is nothing `of` which."""
    return n / of if of else None


def confusion(view: View) -> Table:
    """Show which classes are taken for which: rows are true, columns predicted."""
    found = view.document("confusion")
    labels = [str(label) for label in found.get("labels", [])]
    counts = found.get("counts", [])
    total = sum(map(sum, counts))
    caption = "Confusion matrix: true class by row, predicted by column"
    if not total:
        waiting = "Shown once somebody answers for records that were predicted in this run."
        return Table(caption, [], [], waiting)
    right = sum(row[i] for i, row in enumerate(counts))
    kept = sorted(sorted(range(len(labels)), key=lambda i: -sum(counts[i]))[:MOST_CLASSES])
    columns = [Column("True class", "words"), *(Column(labels[j]) for j in kept)]
    name = view.document("pipeline").get("name")
    rows: Rows = [
        [
            Cell(labels[i], link=page_of("/records", name, true=labels[i])),
            *(
                _taken_for(
                    counts[i], i, j, page_of("/records", name, true=labels[i], predicted=labels[j])
                )
                for j in kept
            ),
        ]
        for i in kept
    ]
    summary = (
        f"Of the newest {plural(total, 'request')} answered in this run, {amount(right)} were "
        "predicted rightly. These are the hard records: the share says less than the accuracy "
        "above."
    )
    if len(kept) < len(labels):
        summary += f" The {len(kept)} commonest of {len(labels)} classes are shown."
    return Table(caption, columns, rows, summary)


def _taken_for(counts: Sequence[int], own: int, other: int, link: str) -> Cell:
    """Return how often the class `own` was taken for `other`, which leads to these records."""
    return Cell(
        amount(counts[other]) if counts[other] else "·",
        shade=counts[other] / max(sum(counts), 1),
        colour="series-1" if other == own else "bad",
        link=link if counts[other] else None,
    )


def fields(view: View) -> Table:
    """Show the fields that came later, and those with values that could not be read."""
    found = view.document("fields")
    unknown, unreadable = (found.get(key) or {} for key in ("unknown", "unreadable"))
    columns = [Column("Field", "words"), Column("Came later, in records"), Column("Unreadable")]
    names = sorted({**unknown, **unreadable}, key=lambda name: -_most(name, unknown, unreadable))
    rows: Rows = [
        [name, *(amount(part[name]) if name in part else NOTHING for part in (unknown, unreadable))]
        for name in names[:MOST_FIELDS]
    ]
    if not names:
        return Table("Fields", columns, [], "All fields are known, and their values can be read.")
    lost = plural(sum(unreadable.values()), "value")
    summary = f"{plural(len(unknown), 'field')} came later, and {lost} could not be read."
    return Table("Fields", columns, rows, summary)


def workers(view: View) -> Table:
    """Show who scores each partition, where scoring is apart."""
    found: Mapping[str, Mapping[str, Any]] = view.document("workers")
    columns = [
        Column("Partition"),
        Column("Scorer", "words"),
        Column("Records"),
        Column("A second"),
        Column("Records wait"),
        Column("Version"),
        Column("Newest batch", "words"),
    ]
    rows: Rows = [
        [
            partition,
            one["worker"],
            amount(one["records"]),
            amount(one["rate"]),
            amount(one["lag"]),
            amount(one["version"]),
            clock(one["tick"]),
        ]
        for partition, one in sorted(found.items(), key=lambda item: int(item[0]))
    ]
    if not rows:
        alone = "This pipeline predicts by itself: [pipeline] scoring."
        return Table("Scorers", columns, [], alone)
    names = {one["worker"] for one in found.values()}
    summary = f"{plural(len(names), 'scorer')} of {len(rows)} partitions; {view.unscored}."
    return Table("Scorers", columns, rows, summary)


def _most(name: str, *parts: Mapping[str, int]) -> int:
    return max(part.get(name, 0) for part in parts)


def latencies(view: View) -> Table:
    """Show how long each step of a batch takes."""
    columns = [Column("Step", "words"), Column("Median"), Column("99 % below")]
    found: Mapping[str, Mapping[str, float | None]] = view.document("latency")
    longest = max((values.get("p99") or 0.0 for values in found.values()), default=0.0) or 1.0
    rows: Rows = [
        [
            name.replace("_", " "),
            Cell(
                seconds(values.get("median")),
                bar=(values.get("median") or 0.0) / longest,
                colour="series-1",
            ),
            Cell(seconds(values.get("p99")), bar=(values.get("p99") or 0) / longest, colour="grey"),
        ]
        for name, values in found.items()
    ]
    summary = "" if rows else "Shown once a batch has been committed."
    return Table("Latency by step", columns, rows, summary)


def committees(view: View) -> Table:
    """Show what happened to the committee, the newest first."""
    columns = [
        Column("When", "words"),
        Column("What", "words"),
        Column("Batch"),
        Column("Note", "words"),
    ]
    name, again = view.document("pipeline").get("name"), rolled_back(view)
    rows: Rows = [
        [
            clock(mark["time"]),
            Cell(_what(mark, again), link=_version_of(mark, name)),
            amount(mark["sequence"]),
            "" if mark["kind"] == "promoted" else str(mark.get("text") or ""),
        ]
        for mark in reversed(view.marks[-MOST_MARKS:])
    ]
    summary = "" if rows else "Shown once a committee is trained."
    return Table("What happened, the newest first", columns, rows, summary)


def rolled_back(view: View) -> dict[int, int]:
    """Return the versions that began to serve by a rollback, with the number they had before."""
    told = {
        mark["sequence"]: mark["version"]
        for mark in view.marks
        if mark["kind"] == "command" and mark.get("version") is not None
    }
    return {
        int(mark["version"]): int(told[mark["sequence"]])
        for mark in view.marks
        if mark["kind"] == "promoted" and mark["sequence"] in told
    }


def named(version: int, again: Mapping[int, int]) -> str:
    """Return a version's number, with that of which it is a copy, where that was rolled back to.

    >>> named(93, {93: 88}), named(92, {93: 88})
    ('93 (a copy of 88)', '92')
    """
    return f"{version} (a copy of {again[version]})" if version in again else str(version)


def _version_of(mark: Mapping[str, Any], pipeline: str) -> str | None:
    version = mark.get("version") if mark["kind"] == "promoted" else None
    return None if version is None else page_of("/versions", pipeline, b=version)


def _what(mark: Mapping[str, Any], again: Mapping[int, int]) -> str:
    kind, version = str(mark["kind"]), mark.get("version") or 0
    if kind == "promoted":
        before = f" (rolled back to {again[int(version)]})" if version in again else ""
        return f"Version {version} serves{before}"
    if kind in ("trained", "drift"):
        return f"{'Drift: v' if kind == 'drift' else 'V'}ersion {version} is trained"
    return kind.capitalize()
