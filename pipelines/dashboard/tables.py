"""Tables of the dashboard, built from the documents of a status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    duration_text,
    number_text,
    percent_text,
    time_text,
)

MOST_CLASSES = 30
"""Maximum number of rows and columns of the confusion matrix, to stay readable."""

MOST_MARKS = 100

MOST_FIELDS = 50
"""Maximum number of fields in the table of unknown and unreadable fields."""


@dataclass(frozen=True, slots=True)
class CellScale:
    """A scale in a table cell: the value is `at`; a band goes from `low` to `high`.

    All positions are from 0 to 1.
    """

    at: float | None
    low: float
    high: float
    marks: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell with a text and optional graphics or a link.

    `bar` is the length of a bar behind the text and `shade` the strength of its tint, both from 0
    to 1. `colour` names the colour of the bar or of the value on a `scale`. `note` is for screen
    readers only. `link` is an address, and `picture` an image (``data:``) before the text.
    """

    text: str
    bar: float | None = None
    shade: float | None = None
    colour: str | None = None
    note: str | None = None
    link: str | None = None
    scale: CellScale | None = None
    picture: str | None = None


Rows = list[list[str | Cell]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, and whether it holds words or numbers."""

    text: str
    kind: Literal["words", "number"] = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its caption and summary; without rows, `summary` explains why it is empty."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str | Cell]]
    summary: str


def class_mix_table(view: StatusSnapshot) -> Table:
    """Build the table of each class's share of the predictions and of the labels."""
    found = view.document("classes")
    labels = [str(label) for label in found.get("labels", [])]
    predicted, labelled = found.get("predicted", []), found.get("labelled", [])
    columns = [Column("Class", "words"), Column("Predicted"), Column("Labelled")]
    n_predicted, n_labelled = sum(predicted), sum(labelled)
    if not labels or not (n_predicted or n_labelled):
        return Table("Class mix", columns, [], "Shown once classes are predicted in this run.")
    shares = [
        (label, quotient_or_none(a, n_predicted), quotient_or_none(b, n_labelled))
        for label, a, b in zip(labels, predicted, labelled, strict=True)
    ]
    rows: Rows = [
        [
            label,
            Cell(percent_text(a), bar=a or 0.0, colour="series-1"),
            Cell(percent_text(b), bar=b or 0.0, colour="series-2"),
        ]
        for label, a, b in shares
    ]
    summary = (
        f"The newest {count_text(n_predicted, 'prediction')} and "
        f"{count_text(n_labelled, 'label')}. Labels are requested where the "
        "prediction is uncertain, so the two shares may differ."
    )
    return Table("Class mix", columns, rows, summary)


def quotient_or_none(n: float, total: float) -> float | None:
    """Return `n` divided by `total`; None if `total` is 0."""
    return n / total if total else None


def confusion_matrix_table(view: StatusSnapshot) -> Table:
    """Build the confusion matrix: rows are true classes, columns predicted ones."""
    found = view.document("confusion")
    labels = [str(label) for label in found.get("labels", [])]
    counts = found.get("counts", [])
    total = sum(map(sum, counts))
    caption = "Confusion matrix: true class by row, predicted by column"
    if not total:
        waiting = "Shown once labels of records predicted in this run arrive."
        return Table(caption, [], [], waiting)
    right = sum(row[i] for i, row in enumerate(counts))
    kept = sorted(sorted(range(len(labels)), key=lambda i: -sum(counts[i]))[:MOST_CLASSES])
    columns = [Column("True class", "words"), Column("Labels"), *(Column(labels[j]) for j in kept)]
    name = view.document("pipeline").get("name")
    rows: Rows = [
        [
            Cell(labels[i], link=page_address("/records", name, true=labels[i])),
            number_text(sum(counts[i])),
            *(
                _confusion_cell(
                    counts[i],
                    i,
                    j,
                    page_address("/records", name, true=labels[i], predicted=labels[j]),
                )
                for j in kept
            ),
        ]
        for i in kept
    ]
    summary = (
        f"Of the newest {count_text(total, 'request')} answered in this run, {number_text(right)} "
        "were predicted correctly. Requested records are harder than average: use the accuracy "
        "above."
    )
    if len(kept) < len(labels):
        summary += f" The {len(kept)} most frequent of {len(labels)} classes are shown."
    return Table(caption, columns, rows, summary)


def _confusion_cell(
    counts: Sequence[int], true_class: int, predicted_class: int, link: str
) -> Cell:
    """Return the cell of two classes (indices); `counts` are all counts of `true_class`."""
    n, share = counts[predicted_class], counts[predicted_class] / max(sum(counts), 1)
    return Cell(
        f"{100 * share:.0f} %" if n else "·",
        shade=share,
        colour="series-1" if predicted_class == true_class else "bad",
        note=f"{count_text(n, 'label')}: " if n else None,
        link=link if n else None,
    )


def field_problem_table(view: StatusSnapshot) -> Table:
    """Build the table of fields that the schema lacks, and of fields with unreadable values."""
    found = view.document("fields")
    unknown, unreadable = (found.get(key) or {} for key in ("unknown", "unreadable"))
    columns = [
        Column("Field", "words"),
        Column("Not in the schema (records)"),
        Column("Unreadable"),
    ]
    names = sorted(
        {**unknown, **unreadable},
        key=lambda name: -max(unknown.get(name, 0), unreadable.get(name, 0)),
    )
    rows: Rows = [
        [
            name,
            *(
                number_text(part[name]) if name in part else NOTHING
                for part in (unknown, unreadable)
            ),
        ]
        for name in names[:MOST_FIELDS]
    ]
    if not names:
        return Table(
            "Unknown and unreadable fields",
            columns,
            [],
            "All fields are known, and their values can be read.",
        )
    lost = count_text(sum(unreadable.values()), "value")
    summary = (
        f"{count_text(len(unknown), 'field')} {'is' if len(unknown) == 1 else 'are'} not in the "
        f"schema, and {lost} could not be read."
    )
    return Table("Unknown and unreadable fields", columns, rows, summary)


def scorer_table(view: StatusSnapshot) -> Table:
    """Build the table of partitions with their scorer, rate and lag, for distributed scoring."""
    found: Mapping[str, Mapping[str, Any]] = view.document("workers")
    columns = [
        Column("Partition"),
        Column("Scorer", "words"),
        Column("Records"),
        Column("Records/s"),
        Column("Lag"),
        Column("Version"),
        Column("Newest batch at", "words"),
    ]
    rows: Rows = [
        [
            partition,
            one["worker"],
            number_text(one["records"]),
            number_text(one["rate"]),
            number_text(one["lag"]),
            number_text(one["version"]),
            time_text(one["tick"]),
        ]
        for partition, one in sorted(found.items(), key=lambda item: int(item[0]))
    ]
    if not rows:
        alone = "Shown with distributed scoring (key scoring in [pipeline])."
        return Table("Scorers", columns, [], alone)
    names = {one["worker"] for one in found.values()}
    scorers = count_text(len(names), "scorer")
    summary = f"{scorers} of {len(rows)} partitions; {view.unscored_records_text}."
    return Table("Scorers", columns, rows, summary)


def latency_table(view: StatusSnapshot) -> Table:
    """Build the table of batch latency by stage: median and 99th percentile."""
    columns = [Column("Stage", "words"), Column("p50"), Column("p99")]
    found: Mapping[str, Mapping[str, float | None]] = view.document("latency")
    longest = max((values.get("p99") or 0.0 for values in found.values()), default=0.0) or 1.0
    rows: Rows = [
        [
            name.replace("_", " "),
            Cell(
                duration_text(values.get("median")),
                bar=(values.get("median") or 0.0) / longest,
                colour="series-1",
            ),
            Cell(
                duration_text(values.get("p99")),
                bar=(values.get("p99") or 0) / longest,
                colour="grey",
            ),
        ]
        for name, values in found.items()
    ]
    summary = "" if rows else "Shown once a batch has been committed."
    return Table("Batch latency by stage", columns, rows, summary)


def committee_history_table(view: StatusSnapshot) -> Table:
    """Build the table of events (such as trainings, changes and commands), the newest first."""
    columns = [
        Column("When", "words"),
        Column("Event", "words"),
        Column("Batch"),
        Column("Note", "words"),
    ]
    name, again = view.document("pipeline").get("name"), rollback_origins(view)
    trained = {mark["version"]: mark for mark in view.marks if mark["kind"] == "trained"}
    deployed = {mark["version"] for mark in view.marks if mark["kind"] == "promoted"}
    rows: Rows = [
        [
            time_text(mark["time"]),
            Cell(_event_text(mark, again), link=_version_link(mark, name)),
            number_text(mark["sequence"]),
            _event_note(trained.get(mark["version"]) if mark["kind"] == "promoted" else mark),
        ]
        for mark in reversed(view.marks[-MOST_MARKS:])
        if mark["kind"] != "trained" or mark["version"] not in deployed
    ]
    summary = "" if rows else "Shown once a committee is trained."
    return Table("Committee history", columns, rows, summary)


def _event_note(event: Mapping[str, Any] | None) -> str:
    return "" if event is None else str(event.get("text") or "")


def rollback_origins(view: StatusSnapshot) -> dict[int, int]:
    """Return a mapping from the version of each rollback's copy to the original version."""
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


def version_text(version: int, original_of_copy: Mapping[int, int]) -> str:
    """Return a version number as text; for a copy made by a rollback, name the original too.

    `original_of_copy` is the result of `rollback_origins`.

    >>> version_text(93, {93: 88}), version_text(92, {93: 88})
    ('93 (a copy of 88)', '92')
    """
    return (
        f"{version} (a copy of {original_of_copy[version]})"
        if version in original_of_copy
        else str(version)
    )


def _version_link(event: Mapping[str, Any], pipeline: str) -> str | None:
    version = event.get("version") if event["kind"] == "promoted" else None
    return None if version is None else page_address("/versions", pipeline, b=version)


def _event_text(event: Mapping[str, Any], original_of_copy: Mapping[int, int]) -> str:
    kind, version = str(event["kind"]), event.get("version") or 0
    if kind == "promoted":
        before = (
            f" (rolled back to {original_of_copy[int(version)]})"
            if version in original_of_copy
            else ""
        )
        return f"Version {version} deployed{before}"
    if kind in ("trained", "drift"):
        return f"{'Drift detected; v' if kind == 'drift' else 'V'}ersion {version} in training"
    return {"trouble": "Error", "change": "Change detected"}.get(kind, kind.capitalize())
