"""Shows one record: its history, labels, disagreement, and nearest labelled records."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

import numpy as np

from streamboost.pipelines.dashboard.annotators import disagreeing_annotators
from streamboost.pipelines.dashboard.explanations import (
    LONGEST,
    contribution_table,
    explanation_summary,
)
from streamboost.pipelines.dashboard.labelling_request import (
    UNTOLD,
    first_small_image,
    is_long_or_media,
    show_fields,
)
from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import (
    BidiText,
    Tag,
    add_heading,
    show_summary_and_table,
    show_table,
)
from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.status import neighbours as labelled
from streamboost.pipelines.status.annotators import current_votes
from streamboost.pipelines.status.formatting import (
    NOTHING,
    count_text,
    field_text,
    is_number,
    number_text,
    percent_text,
    time_text,
)
from streamboost.pipelines.status.reader import Status, StatusReader

__all__ = [
    "UnstoredRecord",
    "contribution_table",
    "disagreement_text",
    "is_disputed",
    "label_error_text",
    "missing_record_text",
    "nearest_records",
    "neighbour_table",
    "record_history_texts",
    "record_votes",
    "show_missing_record",
    "show_record",
]

StoredRecord = Mapping[str, Any]

CONFIDENT = 0.7
"""Minimum probability of a prediction that counts as evidence against a label."""

FEWEST = 3
"""Minimum number of neighbours, of which more than half must agree with the prediction."""

UNNAMED = "unknown annotator"
"""Name shown for a label without a source."""


def current_label_annotator(record: StoredRecord) -> str:
    """Return the newest annotator who chose the record's current label.

    >>> current_label_annotator({"truth": "a", "labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    'ann'
    """
    said = [name for name, label in record_votes(record) if label == record["truth"]]
    return said[-1] if said else UNNAMED


def record_votes(record: StoredRecord) -> list[tuple[str, str]]:
    """Return the votes on a record, as pairs of annotator and label.

    These are the newest label of each named annotator, and each label without a name. A label of
    None is a retraction, which removes all earlier votes, of all annotators.

    >>> labels = [[1, "a", "ann"], [2, None, "bob"], [3, "b", None], [4, "b", "eve"]]
    >>> record_votes({"labels": labels})  # bob's retraction removes the label by ann
    [('unknown annotator', 'b'), ('eve', 'b')]
    """
    votes = current_votes(record.get("labels") or ())
    return [(UNNAMED if one.source is None else one.source, one.label) for one in votes]


def is_disputed(record: StoredRecord) -> bool:
    """Return whether another class has at least as many votes as the record's current label.

    >>> is_disputed({"truth": "b", "labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    True
    >>> is_disputed({"truth": "b", "labels": [[1, "a", "ann"], [2, "b", "bob"], [3, "b", "eve"]]})
    False
    """
    said = [label for _, label in record_votes(record)]
    others = (said.count(one) for one in set(said) if one != record.get("truth"))
    return max(others, default=0) >= max(said.count(str(record.get("truth"))), 1)


def disagreement_text(record: StoredRecord) -> tuple[str, ...] | None:
    """Describe the annotators' votes on a record; None if all votes agree.

    The result is a text with ``{}`` for each name, followed by the names.

    >>> disagreement_text({"labels": [[1, "a", "ann"], [2, "b", "bob"], [3, "b", "ann"]]})
    >>> disagreement_text({"labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    ('People disagree: {} says {}, {} says {}.', 'ann', 'a', 'bob', 'b')
    """
    said = list(dict.fromkeys(record_votes(record)))
    if len({label for _, label in said}) < 2:
        return None
    text = ", ".join(["{} says {}"] * len(said))
    return f"People disagree: {text}.", *(part for one in said for part in one)


def label_error_text(
    record: StoredRecord, neighbours: Sequence[tuple[float, Status]]
) -> tuple[str, ...] | None:
    """Explain why a record's label looks wrong; None if the label does not look wrong.

    The result is a text with ``{}`` for each name, followed by the names. A label looks wrong if a
    confident prediction differs from the label, and most of `neighbours` (distance and labelled
    record) have the predicted class.
    """
    truth, label = record.get("truth"), record.get("label")
    share = (record.get("probabilities") or {}).get(str(label)) or 0.0
    if truth is None or label is None or str(label) == truth or share < CONFIDENT:
        return None
    agreed = sum(str(one.get("truth")) == str(label) for _, one in neighbours)
    if len(neighbours) < FEWEST or 2 * agreed <= len(neighbours):
        return None
    return (
        "The label looks wrong: {} says {}, but it was predicted as {}, "
        f"{percent_text(share)} sure, and {agreed} of the {len(neighbours)} nearest labelled "
        "records have the predicted class.",
        current_label_annotator(record),
        truth,
        str(label),
    )


def record_history_texts(
    record: StoredRecord, unreliable_annotators: Collection[str] = ()
) -> list[tuple[str, ...]]:
    """Describe the history of a record: prediction, request and labels, one entry per sentence.

    Each entry is a text with ``{}`` for each name, followed by the names.

    `unreliable_annotators` has the annotators who disagree with others significantly often.
    """
    when, label = time_text(record.get("arrived")), record.get("label")
    told: list[tuple[str, ...]] = []
    if record.get(HIDDEN):
        told.append((f"It came at {when}. {UNTOLD}",))
    elif not record.get("asked"):
        if label is None:
            told.append((f"It was labelled at {when}, without a prediction or a request.",))
        else:
            text = f"It was predicted as {{}}, and labelled at {when}, without a request."
            told.append((text, str(label)))
    elif label is None:
        told.append((f"It was asked about at {when}, before there was any prediction.",))
    else:
        share = (record.get("probabilities") or {}).get(str(label))
        sure = "" if share is None else f", {percent_text(share)} sure"
        version, margin = record.get("version"), record.get("margin")
        by = f"by version {version}" if version else "not by a trained version"
        gap = "" if margin is None or not version else f", margin {number_text(margin)}"
        told.append((f"Predicted as {{}} {by}{sure}{gap}, at {when}.", str(label)))
        expires = (
            "" if record.get("truth") or record.get("expires") is None else _expiry_text(record)
        )
        told += _label_history_texts(record, unreliable_annotators)
        told.append((f"{_request_text(record)}{expires}",))
        if record.get("again") is not None:
            again = time_text(record["again"])
            told.append((f"At {again} its label looked wrong, and it was asked about again.",))
        return told
    return told + _label_history_texts(record, unreliable_annotators)


def _label_history_texts(
    record: StoredRecord, unreliable_annotators: Collection[str]
) -> list[tuple[str, ...]]:
    """Say whether the prediction was right, wrong, or the label is disputed or missing."""
    truth, label = record.get("truth"), record.get("label")
    if truth is None:
        return [("The record has no label yet.",)]
    if is_disputed(record):
        text = (
            "The label is disputed: another class has at least as many votes. The pipeline uses "
            "the label of {}: {}."
        )
        if label is not None and str(label) not in (said for _, said in record_votes(record)):
            text += " No annotator chose the predicted class."
        return [(text, current_label_annotator(record), str(truth))]
    return _prediction_correctness_texts(record) + _single_vote_warning(
        record, unreliable_annotators
    )


def _prediction_correctness_texts(record: StoredRecord) -> list[tuple[str, ...]]:
    truth, label, who = str(record["truth"]), record.get("label"), current_label_annotator(record)
    if label is None:
        return [("{} says it is {}.", who, truth)]
    if str(label) == truth:
        return [("That was right, says {}.", who)]
    return [("That was wrong: {} says it is {}.", who, truth)]


def _single_vote_warning(
    record: StoredRecord, unreliable_annotators: Collection[str]
) -> list[tuple[str, ...]]:
    """Return a warning if only one of `unreliable_annotators` chose the label; else []."""
    sources = [name for name, label in record_votes(record) if label == record["truth"]]
    if len(sources) != 1 or sources[0] not in unreliable_annotators:
        return []
    text = "The only vote is by {}, who often disagrees with others."
    return [(text, sources[0])]


def _request_text(record: StoredRecord) -> str:
    utility, chance = number_text(record.get("utility")), percent_text(record.get("propensity"))
    return (
        f"Requested in batch {number_text(record.get('sequence'))}: utility {utility}, "
        f"probability {chance}."
    )


def _expiry_text(record: StoredRecord) -> str:
    expires = record["expires"]
    if not isinstance(expires, int):
        return ""
    if expires < 1000 * time():
        return f" An answer was to come by {time_text(expires)}: now it may be too late."
    return f" An answer counts until {time_text(expires)}."


@dataclass(frozen=True, slots=True)
class UnstoredRecord:
    """Status of a record that was not requested or labelled, or was evicted.

    Attributes
    ----------
    prediction : the record's prediction, if it is among the newest predictions
    is_open : whether a request for the record's label is open
    predictions : how many of the newest predictions are stored
    records : how many requested or labelled records are stored
    """

    prediction: Mapping[str, Any] | None = None
    is_open: bool = False
    predictions: int = 0
    records: int = 0

    @classmethod
    def from_status(cls, id: str, status: StatusReader) -> "UnstoredRecord":
        """Return what `status` has on the record `id`."""
        newest = status.predictions()
        mine = next((one for one in newest if str(one["id"]) == id), None)
        return cls(mine, status.request(id) is not None, len(newest), status.count_records(None))


def missing_record_text(id: str, unstored: UnstoredRecord, view: StatusSnapshot) -> tuple[str, ...]:
    """Explain why the record `id` has no page, as a text and the names for its ``{}``."""
    if unstored.is_open:
        return "Record {} was requested, and has no label yet.", id
    if unstored.prediction is not None:
        return _unstored_prediction_text(id, unstored.prediction)
    ledger, join = view.document("ledger"), view.document("join")
    asked = ledger.get("requests", 0) - ledger.get("again", 0) + join.get("unsolicited", 0)
    if not join or unstored.records < asked:
        return (
            "No data is kept on record {}: it was never requested or labelled, its data was "
            f"evicted, or it never arrived.{_stored_records_limit_text(unstored)}",
            id,
        )
    if join.get("records", 0) <= unstored.predictions and not view.document("workers"):
        return "Record {} has never arrived.", id
    return (
        "Record {} was never requested or labelled, if it ever arrived."
        f"{_stored_records_limit_text(unstored)}",
        id,
    )


def _unstored_prediction_text(id: str, prediction: Mapping[str, Any]) -> tuple[str, ...]:
    if prediction.get("asked"):
        came = "Record {} was requested and evicted, as there were too many requests at once."
    else:
        came = "Record {} arrived, and was never requested or labelled."
    if HIDDEN in prediction:
        return f"{came} {UNTOLD}", id
    if prediction.get("label") is None:
        return f"{came} There was no prediction yet.", id
    version = prediction.get("version")
    by = f"by version {version}" if version else "not by a trained version"
    share = prediction.get("probability")
    sure = "" if share is None else f", {percent_text(share)} sure"
    return f"{came} It was predicted as {{}} {by}{sure}.", id, str(prediction["label"])


def _stored_records_limit_text(unstored: UnstoredRecord) -> str:
    predictions = f", and the newest {count_text(unstored.predictions, 'prediction')}"
    newest = count_text(unstored.records, "record")
    return (
        f" Kept here are the newest {newest} that were requested or labelled"
        f"{predictions if unstored.predictions else ''}."
    )


def nearest_records(
    features: Mapping[str, Any], candidates: Sequence[Status], n_neighbours: int = 5
) -> list[tuple[float, Status]]:
    """Return the records of `candidates` nearest to `features`, each as (distance, record).

    The distance is that of `nearest_rows`. For a value that is not a number, the column is 1 if the
    value equals that in `features`, else 0.

    >>> others = [{"id": "far", "features": {"a": 9.0}}, {"id": "near", "features": {"a": 1.0}}]
    >>> [(away, one["id"]) for away, one in nearest_records({"a": 1.0}, others)]
    [(0.0, 'near'), (2.0, 'far')]
    """
    wanted = {name: one for name, one in features.items() if not isinstance(one, list | dict)}
    there = [one for one in candidates if one.get("features")]
    if not wanted or not there:
        return []
    rows = [_numeric_coordinates(wanted, one["features"]) for one in there]
    places, away = labelled.nearest_rows(
        np.array([_numeric_coordinates(wanted, wanted)]), np.array(rows), n_neighbours
    )
    pairs = zip(away[0].tolist(), places[0].tolist(), strict=True)
    return [(round(far, 3), there[place]) for far, place in pairs]


def _numeric_coordinates(reference: Mapping[str, Any], features: Mapping[str, Any]) -> list[float]:
    return [_numeric_coordinate(given, features.get(name)) for name, given in reference.items()]


def _numeric_coordinate(reference: Any, value: Any) -> float:
    """Return `value`, NaN if it is no number; if `reference` is no number, 1 if equal, else 0."""
    if not is_number(reference):
        return float(value == reference)
    return float(value) if is_number(value) else float("nan")


def show_record(
    record: Status, view: StatusSnapshot, candidates: Sequence[Status], *, can_change: bool = False
) -> None:
    """Show a stored record; its nearest neighbours are searched among the labelled `candidates`.

    `can_change` is true if the user may change the label.
    """
    pipeline = view.document("pipeline").get("name")
    near = nearest_records(
        record.get("features") or {}, [o for o in candidates if o["id"] != record["id"]]
    )
    with Tag("section", classes="panel", aria_labelledby="said-title"):
        Tag("h2", "History", id="said-title")
        for text, *names in record_history_texts(record, disagreeing_annotators(view)):
            BidiText("p").show_text(text, *names)
        _show_label_doubts(record, near, pipeline, can_change)
        show_table(_label_table(record))
    with Tag("div", classes="panels halves"):
        _show_fields(record)
        _show_section(
            "Class probabilities",
            "Class probabilities of the ensemble on arrival.",
            probability_table(record),
        )
        _show_section(
            "Why this prediction",
            explanation_summary(view),
            contribution_table(record, view),
            section_id="why",
        )
        _show_section(
            "Nearest labelled records", _ABOUT_NEAREST, neighbour_table(record, near, pipeline)
        )


def _show_label_doubts(
    record: StoredRecord,
    neighbours: Sequence[tuple[float, Status]],
    pipeline: str,
    can_change: bool,
) -> None:
    """Show the evidence against the label, if any, and a link to change the label."""
    wrong, differ = label_error_text(record, neighbours), disagreement_text(record)
    for said in filter(None, (wrong, differ)):
        with Tag("div", classes="doubt"):
            BidiText("p").show_text(*said)
    if record.get("truth") is None:
        return
    if can_change:
        with Tag("p"), Tag("a", href=page_address("/label", pipeline, change=record["id"])):
            Tag("span", "Change the label")
    elif wrong:
        Tag("p", "Its annotator or an operator can change the label.", "about")


_ABOUT_NEAREST = (
    "Kept labelled records by distance: root mean square of the feature differences in standard "
    "deviations. Later records did not influence the prediction."
)


def show_missing_record(
    explanation: tuple[str, ...], similar_ids: Sequence[str], pipeline: str
) -> None:
    """Show why a record has no page, and links to `similar_ids`, stored ids with the same start.

    `explanation` is a text with ``{}`` for each name, followed by the names.
    """
    with Tag("section", classes="panel"):
        BidiText("p").show_text(*explanation)
        Tag(
            "p",
            "The pipeline's predictions sink has the prediction of every record.",
            "about",
        )
        if similar_ids:
            Tag("p", "Records with this prefix:")
            with Tag("ul", classes="alike"):
                for one in similar_ids:
                    with Tag("li"), Tag("a", href=page_address("/record", pipeline, id=one)):
                        Tag("bdi", one)


def _label_table(record: StoredRecord) -> Table:
    columns = [Column(text, "words") for text in ("When", "Label", "Annotator")]
    rows = [
        [
            time_text(when),
            "retracted" if label is None else str(label),
            UNNAMED if source is None else source,
        ]
        for when, label, source in reversed(record.get("labels") or [])
    ]
    return Table("Labels, newest first", columns, rows, "")


def probability_table(record: StoredRecord) -> Table:
    """Build the table of a record's class probabilities."""
    if record.get(HIDDEN):
        return Table("Class probabilities", [], [], UNTOLD)
    columns = [Column("Class", "words"), Column("Probability")]
    given = record.get("probabilities") or {}
    ordered = sorted(given.items(), key=lambda one: -(one[1] or 0.0))
    rows = [[name, Cell(percent_text(p), bar=p or 0.0, colour="series-1")] for name, p in ordered]
    return Table(
        "Class probabilities", columns, rows, "" if rows else "Kept for requested records only."
    )


def neighbour_table(
    record: StoredRecord, neighbours: Sequence[tuple[float, Status]], pipeline: str
) -> Table:
    """Build the table of a record's nearest labelled records, and their state on its arrival."""
    columns = [
        Column("Record", "words"),
        Column("Label", "words"),
        Column("Predicted", "words"),
        Column("State at prediction", "words"),
        Column("Distance"),
    ]
    then = [_label_state_when_record_arrived(record, one) for _, one in neighbours]
    rows: list[list[str | Cell]] = [
        [
            Cell(
                str(one["id"]),
                link=page_address("/record", pipeline, id=one["id"]),
                picture=first_small_image(one),
            ),
            str(one.get("truth")),
            NOTHING if one.get("label") is None else str(one["label"]),
            when,
            number_text(away),
        ]
        for (away, one), when in zip(neighbours, then, strict=True)
    ]
    if not rows:
        return Table("Nearest", columns, [], "None: no other record with features was labelled.")
    of = [str(one.get("truth")) for _, one in neighbours]
    first = max(of, key=of.count)
    late = len(then) - then.count(_LABELLED)
    told = f" When it was predicted, {late} of them had no label yet." if late else ""
    return Table("Nearest", columns, rows, f"{of.count(first)} of {len(of)} are {first}.{told}")


_LABELLED = "labelled"


def _label_state_when_record_arrived(record: StoredRecord, neighbour: StoredRecord) -> str:
    """Return "labelled", "not labelled" or "not arrived": the state when `record` arrived."""
    when = record.get("arrived") or 0
    labels = neighbour.get("labels") or ()
    if (neighbour.get("arrived") or 0) > when:
        return "not arrived"
    return "not labelled" if labels and labels[0][0] > when else _LABELLED


def _show_fields(record: StoredRecord) -> None:
    given = record.get("features") or {}
    features = {name: value for name, value in given.items() if not is_long_or_media(value)}
    fields = {name: value for name, value in given.items() if is_long_or_media(value)}
    fields |= record.get("fields") or {}
    further = f", {count_text(len(fields), 'long or non-feature field')}" if fields else ""
    title = f"{count_text(len(given), 'feature')}{further}"
    with Tag("section", classes="panel", aria_labelledby="fields-title"):
        add_heading("Fields", "fields-title", f"{title}. Values are as received.")
        with Tag("dl", classes="fields"):
            show_fields(fields)
        columns = [Column("Feature", "words"), Column("Value")]
        rows = [[str(name), field_text(value)[:LONGEST]] for name, value in features.items()]
        show_table(Table("Features", columns, rows, ""))


def _show_section(
    title: str, description: str, table: Table, section_id: str | None = None
) -> None:
    name = section_id or title.lower().replace(" ", "-")
    with Tag("section", classes="panel", id=name, aria_labelledby=f"{name}-title"):
        add_heading(title, f"{name}-title", description)
        show_summary_and_table(table)
