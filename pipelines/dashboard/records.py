"""Records page: labelled records filtered by class, prediction, version, annotator or dispute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamboost.pipelines.dashboard.explanations import contrast_class, contrast_contributions
from streamboost.pipelines.dashboard.record import is_disputed, record_votes
from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import BidiText, Tag, add_heading, show_table
from streamboost.pipelines.status.annotators import SURE
from streamboost.pipelines.status.formatting import NOTHING, count_text, percent_text, time_text
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.status.record_filter import RecordFilter

MOST = 100
"""Maximum number of records on a page."""

REASONS = 3
"""Number of features named for each record."""

NAMED = 10
"""Number of classes in the summary above the list."""

Sums = Sequence[tuple[str, str | None, int]]
"""True class, predicted class (None: no prediction) and number of records, most first."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """One page of the stored records that match a filter, with counts of all matches.

    `total` is the number of matches, `more` whether further pages follow, and `sums` counts the
    matches by true and predicted class. `disputed` is the number of records left out because of a
    disputed label. In blind mode, `sums` is empty, and counts that would reveal hidden predictions
    are None.
    """

    records: Sequence[Status]
    total: int | None
    more: bool = False
    sums: Sums = ()
    disputed: int | None = 0


_ABOUT = (
    "Kept labelled records, newest label first. Select an id for details. Tinted: the prediction "
    "differs from the label. Disputed: another class has at least as many votes. Left out: metrics "
    "do not use the annotator's labels. Main reasons: features that favour the prediction over the "
    "label, or over the second class."
)


def show_records(
    page: RecordPage, view: StatusSnapshot, record_filter: RecordFilter, offset: int = 0
) -> None:
    """Show a page of matching records; `offset` is the number of matches on earlier pages."""
    pipeline = view.document("pipeline").get("name")
    with Tag("section", classes="panel whole", aria_labelledby="listed-title", id="listed"):
        add_heading("Labelled records", "listed-title", _ABOUT)
        _show_filter_form(view, record_filter, pipeline)
        BidiText("p", "summary").show_text(*_describe_filter(page.total, record_filter))
        _show_disputed_count(page.disputed, record_filter, pipeline)
        _show_class_counts(page.sums, record_filter, pipeline)
        _show_page_links(page, record_filter, pipeline, offset)
        recent = view.document("evaluation").get("recent") or {}
        left_out = () if page.total is None else recent.get("left_out") or ()
        show_table(record_table(page.records, pipeline, left_out))


def _show_filter_form(view: StatusSnapshot, record_filter: RecordFilter, pipeline: str) -> None:
    classes = [str(one) for one in view.document("classes").get("labels") or ()]
    sources = list(view.document("annotators"))
    with Tag("form", classes="choose", action="/records"):
        Tag("input", type="hidden", name="pipeline", value=pipeline)
        for bound, number in (("since", record_filter.since), ("until", record_filter.until)):
            if number is not None:
                Tag("input", type="hidden", name=bound, value=str(number))
        for name, title, names, chosen in (
            ("true", "True class", classes, record_filter.truth),
            ("predicted", "Predicted as", classes, record_filter.said),
            ("by", "Labelled by", sources, record_filter.by),
        ):
            Tag("label", title, for_=f"records-{name}")
            with Tag("select", id=f"records-{name}", name=name):
                Tag("option", "any", value="")
                for one in names if chosen is None or chosen in names else [*names, chosen]:
                    Tag(
                        "option",
                        one,
                        value=one,
                        **_boolean_html_attribute("selected", one == chosen),
                    )
        for name, title, is_chosen in (
            ("wrong", "Mistakes only", record_filter.wrong),
            (
                "confident",
                f"Predictions of at least {percent_text(SURE)}",
                record_filter.confident,
            ),
            ("contested", "Annotators disagree", record_filter.contested),
            ("disputed", "Disputed labels only", record_filter.disputed is True),
        ):
            with Tag("label"):
                is_checked = _boolean_html_attribute("checked", is_chosen)
                Tag("input", type="checkbox", name=name, value="true", **is_checked)
                Tag("span", title)
        Tag("button", "Show")
        if record_filter != RecordFilter():
            Tag("a", "All labelled records", href=page_address("/records", pipeline))


def _boolean_html_attribute(name: str, is_set: bool) -> dict[str, Any]:
    return {name: True} if is_set else {}


def _filter_address(record_filter: RecordFilter, pipeline: str, **query: Any) -> str:
    """Return the address of the records page with this filter; `query` adds parameters."""
    named = {
        "true": record_filter.truth,
        "predicted": record_filter.said,
        "by": record_filter.by,
        "since": record_filter.since,
        "until": record_filter.until,
        "wrong": "true" if record_filter.wrong else None,
        "confident": "true" if record_filter.confident else None,
        "contested": "true" if record_filter.contested else None,
        "disputed": "true" if record_filter.disputed else None,
    }
    return page_address("/records", pipeline, **named, **query)


def _show_disputed_count(
    n_disputed: int | None, record_filter: RecordFilter, pipeline: str
) -> None:
    """Show a link to the `n_disputed` records excluded because of a disputed label."""
    if n_disputed == 0:
        return
    which = "Disputed records"
    if n_disputed is not None:
        which = "1 record" if n_disputed == 1 else f"{n_disputed:,} records"
    with Tag("p", classes="summary", id="left-out"):
        Tag("a", which, href=_filter_address(replace(record_filter, disputed=True), pipeline))
        Tag(
            "span",
            " is excluded, as its label is disputed."
            if n_disputed == 1
            else " are excluded, as their label is disputed.",
        )


def _show_class_counts(class_sums: Sums, record_filter: RecordFilter, pipeline: str) -> None:
    """Show the number of matches by predicted or true class, the largest first."""
    begins, parts = class_count_texts(class_sums, record_filter)
    if not parts:
        return
    with Tag("p", classes="summary", id="sums"):
        Tag("span", begins)
        for i, ((truth, said, n), (text, *names)) in enumerate(
            zip(class_sums, parts, strict=False)
        ):
            link = _filter_address(replace(record_filter, truth=truth, said=said), pipeline)
            # There is no filter for records without a prediction.
            with Tag("span") if said is None else Tag("a", href=link):
                BidiText("span").show_text(text, *names)
            Tag("span", f" {n:,}{', ' if i + 1 < len(class_sums) else '.'}")
        if rest := sum(n for *_, n in class_sums[NAMED:]):
            Tag("span", f"and {rest:,} more.")


def class_count_texts(
    class_sums: Sums, record_filter: RecordFilter
) -> tuple[str, list[tuple[str, ...]]]:
    """Return the start of a sentence on the matches, and for each class a text with its names.

    The list is empty if the filter fixes both classes or neither.

    >>> class_count_texts([("a", "b", 3), ("a", None, 1)], RecordFilter(truth="a"))
    ('Predicted as ', [('{}', 'b'), ('nothing yet',)])
    """
    some = class_sums[:NAMED]
    if record_filter.truth is None and record_filter.said is not None:
        return "True classes: ", [("{}", truth) for truth, *_ in some]
    if record_filter.truth is not None and record_filter.said is None:
        return "Predicted as ", [("nothing yet",) if s is None else ("{}", s) for _, s, _ in some]
    if record_filter.truth is None and record_filter.wrong:
        return "Most frequent errors: ", [
            ("{} predicted as {}", t, s) for t, s, _ in some if s is not None
        ]
    return "", []


def _show_page_links(
    page: RecordPage, record_filter: RecordFilter, pipeline: str, offset: int
) -> None:
    """Show the numbers of the listed records, with links to newer and older records."""
    if not offset and not page.more:
        return

    def add_link(text: str, target_offset: int) -> None:
        Tag(
            "a",
            text,
            href=_filter_address(record_filter, pipeline, after=target_offset or None),
        )

    with Tag("nav", classes="paging", aria_label="Further records"):
        if page.total is not None:
            end = offset + len(page.records)
            none = end == offset
            Tag("span", "No more" if none else f"{offset + 1:,} to {end:,} of {page.total:,} kept")
        if offset:
            add_link("Newer ones", max(offset - MOST, 0))
        if page.more:
            add_link("Older ones", offset + MOST)


def _describe_filter(n_records: int | None, record_filter: RecordFilter) -> tuple[str, ...]:
    """Describe the filter in a sentence, as a text and its names."""
    parts: list[str] = []
    names: list[str] = []
    if record_filter.truth is not None and record_filter.said is not None:
        parts, names = ["{} that was predicted as {}"], [record_filter.truth, record_filter.said]
    elif record_filter.truth is not None:
        is_mistaken = record_filter.wrong or _version_range_text(record_filter)
        parts, names = ["{}" if is_mistaken else "{}, any prediction"], [record_filter.truth]
    elif record_filter.said is not None:
        parts, names = ["predicted as {}, any label"], [record_filter.said]
    if version := _version_range_text(record_filter):
        wrong = "wrongly " if record_filter.wrong else ""
        parts.append(f"predicted {wrong}by version {version}")
    elif record_filter.wrong:
        parts.append("predicted wrongly")
    if record_filter.confident:
        parts.append(f"with a probability of at least {percent_text(SURE)}")
    if record_filter.by is not None:
        parts.append(f"labelled by {{}}{', and differently by others' * record_filter.contested}")
        names.append(record_filter.by)
    elif record_filter.contested:
        parts.append("with labels that disagree")
    if record_filter.disputed:
        parts.append("with disputed labels")
    told = f": {', '.join(parts)}" if parts else ""
    if n_records is None:
        return f"Labelled records{told}. Only records that you labelled are listed.", *names
    return f"{count_text(n_records, 'labelled record')}{told}.", *names


def _version_range_text(record_filter: RecordFilter) -> str:
    """Describe the range of versions in the filter; empty if all versions match."""
    if record_filter.since is None:
        return "" if record_filter.until is None else f"{record_filter.until} or earlier"
    return f"{record_filter.since} " + (
        "or later" if record_filter.until is None else f"to {record_filter.until}"
    )


def record_table(records: Sequence[Status], pipeline: str, left_out: Sequence[str] = ()) -> Table:
    """Build the table of records, each with its prediction and the main reasons.

    `left_out` are the annotators whose labels metrics do not use.
    """
    columns = [
        *(Column(text, "words") for text in ("Record", "Labelled", "Label", "Predicted")),
        Column("Probability"),
        Column("Version"),
        Column("Main reasons", "words"),
        Column("Annotator", "words"),
    ]
    rows = [_record_row(one, pipeline, left_out) for one in records]
    return Table("Records", columns, rows, "")


def _record_row(record: Status, pipeline: str, left_out: Sequence[str]) -> list[str | Cell]:
    label = record.get("label")
    share = (record.get("probabilities") or {}).get(str(label))
    when = record["labels"][-1][0] if record.get("labels") else None
    return [
        Cell(str(record["id"]), link=page_address("/record", pipeline, id=record["id"])),
        time_text(when),
        str(record["truth"]) + " (disputed)" * is_disputed(record),
        _prediction_cell(record),
        percent_text(share),
        str(record.get("version") or NOTHING),
        _main_features_text(record.get("why"), str(label), record["truth"]),
        _annotator_text(record, left_out),
    ]


def _prediction_cell(record: Status) -> str | Cell:
    label = record.get("label")
    if label is None:
        return NOTHING
    if str(label) == record["truth"] or is_disputed(record):
        return str(label)
    return Cell(str(label), shade=0.6, colour="bad", note="wrong: ")


def _annotator_text(record: Status, left_out: Sequence[str]) -> str:
    """Return the annotators of a record, with their labels if these differ."""
    said = dict.fromkeys(record_votes(record))
    differ = len({label for _, label in said}) > 1
    texts = [
        (f"{source} ({label})" if differ else source) + " [left out]" * (source in left_out)
        for source, label in said
    ]
    return ", ".join(texts) or NOTHING


def _main_features_text(explanation: Mapping[str, Any] | None, label: str, true_class: str) -> str:
    """Name the features with the largest contribution to `label` against the rival class."""
    if not explanation or label not in explanation["classes"]:
        return NOTHING
    apart = contrast_contributions(
        explanation, label, contrast_class(explanation, label, true_class)
    )[:REASONS]
    return ", ".join(f"{name} {by:+.2f}" for name, by in apart if by > 0) or NOTHING
