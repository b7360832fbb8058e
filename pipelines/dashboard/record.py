"""Shows one record: its history, labels, disagreement, and nearest labelled records."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any

import numpy as np

from streamboost.pipelines.dashboard.annotators import disagreeing_annotators
from streamboost.pipelines.dashboard.explanations import LONGEST, explanation_summary, reasons
from streamboost.pipelines.dashboard.labelling_request import (
    UNTOLD,
    is_long,
    picture_of,
    show_field,
)
from streamboost.pipelines.dashboard.tables import Cell, Column, Table
from streamboost.pipelines.dashboard.view import View, page_of
from streamboost.pipelines.dashboard.widgets import Sentence, Tag, show_table, show_told
from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.status import neighbours as labelled
from streamboost.pipelines.status.annotators import votes_of
from streamboost.pipelines.status.formatting import (
    NOTHING,
    field_text,
    is_number,
    number_text,
    percent_text,
    plural,
    time_text,
)
from streamboost.pipelines.status.reader import Status, StatusReader

__all__ = [
    "Traces",
    "disagreement",
    "is_disputed",
    "label_error",
    "missing_record_text",
    "nearest_records",
    "neighbour_table",
    "reasons",
    "record_history",
    "record_votes",
    "show_missing_record",
    "show_record",
]

Found = Mapping[str, Any]

CONFIDENT = 0.7
"""Minimum probability of a prediction that counts as evidence against a label."""

FEWEST = 3
"""Minimum number of neighbours, of which more than half must agree with the prediction."""

UNNAMED = "unknown annotator"
"""Name shown for a label without a source."""


def current_annotator(found: Found) -> str:
    """Return the newest annotator whose label is the record's current label.

    >>> current_annotator({"truth": "a", "labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    'ann'
    """
    said = [name for name, label in record_votes(found) if label == found["truth"]]
    return said[-1] if said else UNNAMED


def record_votes(found: Found) -> list[tuple[str, str]]:
    """Return the votes on a record: annotator and label, the newest of each named annotator.

    Labels without a source each count as a vote.

    >>> labels = [[1, "a", "ann"], [2, None, "bob"], [3, "b", None], [4, "b", "eve"]]
    >>> record_votes({"labels": labels})
    [('unknown annotator', 'b'), ('eve', 'b')]
    """
    votes = votes_of(found.get("labels") or ())
    return [(UNNAMED if one.source is None else one.source, one.label) for one in votes]


def is_disputed(found: Found) -> bool:
    """Return whether another class has at least as many votes as the record's current label.

    >>> is_disputed({"truth": "b", "labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    True
    >>> is_disputed({"truth": "b", "labels": [[1, "a", "ann"], [2, "b", "bob"], [3, "b", "eve"]]})
    False
    """
    said = [label for _, label in record_votes(found)]
    others = (said.count(one) for one in set(said) if one != found.get("truth"))
    return max(others, default=0) >= max(said.count(str(found.get("truth"))), 1)


def disagreement(found: Found) -> tuple[str, ...] | None:
    """Describe the votes on a record if they differ, as a text and its names; None: they agree.

    >>> disagreement({"labels": [[1, "a", "ann"], [2, "b", "bob"], [3, "b", "ann"]]})
    >>> disagreement({"labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    ('People disagree: {} says {}, {} says {}.', 'ann', 'a', 'bob', 'b')
    """
    said = list(dict.fromkeys(record_votes(found)))
    if len({label for _, label in said}) < 2:
        return None
    text = ", ".join(["{} says {}"] * len(said))
    return f"People disagree: {text}.", *(part for one in said for part in one)


def label_error(found: Found, near: Sequence[tuple[float, Status]]) -> tuple[str, ...] | None:
    """Explain why a record's label looks wrong, as a text and its names; None: it does not.

    A label looks wrong if a confident prediction differs from it, and most of the `near` labelled
    records have the predicted class.
    """
    truth, label = found.get("truth"), found.get("label")
    share = (found.get("probabilities") or {}).get(str(label)) or 0.0
    if truth is None or label is None or str(label) == truth or share < CONFIDENT:
        return None
    agreed = sum(str(one.get("truth")) == str(label) for _, one in near)
    if len(near) < FEWEST or 2 * agreed <= len(near):
        return None
    return (
        "The label looks wrong: {} says {}, but it was predicted as {}, "
        f"{percent_text(share)} sure, and {agreed} of the {len(near)} nearest labelled records "
        "have the predicted class.",
        current_annotator(found),
        truth,
        str(label),
    )


def record_history(found: Found, unreliable: Collection[str] = ()) -> list[tuple[str, ...]]:
    """Return the history of a record in sentences, each a text and its names.

    `unreliable` has the annotators who disagree with others significantly often.
    """
    when, label = time_text(found.get("arrived")), found.get("label")
    told: list[tuple[str, ...]] = []
    if found.get(HIDDEN):
        told.append((f"It came at {when}. {UNTOLD}",))
    elif not found.get("asked"):
        if label is None:
            told.append((f"It was labelled at {when}, without a prediction and unasked.",))
        else:
            told.append((f"It was predicted as {{}}, and labelled at {when}, unasked.", str(label)))
    elif label is None:
        told.append((f"It was asked about at {when}, before there was any prediction.",))
    else:
        share = (found.get("probabilities") or {}).get(str(label))
        sure = "" if share is None else f", {percent_text(share)} sure"
        version, margin = found.get("version"), found.get("margin")
        by = f"by version {version}" if version else "before the first committee"
        gap = "" if margin is None or not version else f", margin {number_text(margin)}"
        told.append((f"Predicted as {{}} {by}{sure}{gap}, at {when}.", str(label)))
        expires = "" if found.get("truth") or found.get("expires") is None else _expiry_text(found)
        told += _label_history(found, unreliable)
        told.append((f"{_request_text(found)}{expires}",))
        if found.get("again") is not None:
            again = time_text(found["again"])
            told.append((f"At {again} its label looked wrong, and it was asked about again.",))
        return told
    return told + _label_history(found, unreliable)


def _label_history(found: Found, unreliable: Collection[str]) -> list[tuple[str, ...]]:
    """Describe whether the prediction was right, by whose label, and if the label is disputed."""
    truth, label = found.get("truth"), found.get("label")
    if truth is None:
        return [("The record has no label yet.",)]
    if is_disputed(found):
        text = (
            "The label is disputed: another class has at least as many votes. The pipeline uses "
            "the label of {}: {}."
        )
        if label is not None and str(label) not in (said for _, said in record_votes(found)):
            text += " No annotator chose the predicted class."
        return [(text, current_annotator(found), str(truth))]
    return _correctness(found) + _single_vote_warning(found, unreliable)


def _correctness(found: Found) -> list[tuple[str, ...]]:
    truth, label, who = str(found["truth"]), found.get("label"), current_annotator(found)
    if label is None:
        return [("{} says it is {}.", who, truth)]
    if str(label) == truth:
        return [("That was right, says {}.", who)]
    return [("That was wrong: {} says it is {}.", who, truth)]


def _single_vote_warning(found: Found, unreliable: Collection[str]) -> list[tuple[str, ...]]:
    """Warn if the only vote for the label is of an annotator in `unreliable`."""
    sources = [name for name, label in record_votes(found) if label == found["truth"]]
    if len(sources) != 1 or sources[0] not in unreliable:
        return []
    text = "Only {} says so, who disagrees with others significantly often."
    return [(text, sources[0])]


def _request_text(found: Found) -> str:
    utility, chance = number_text(found.get("utility")), percent_text(found.get("propensity"))
    return (
        f"Its label was asked for in batch {number_text(found.get('sequence'))}: its utility was "
        f"{utility}, and its chance of being asked for {chance}."
    )


def _expiry_text(found: Found) -> str:
    expires = found["expires"]
    if not isinstance(expires, int):
        return ""
    if expires < 1000 * time():
        return f" An answer was to come by {time_text(expires)}: now it may be too late."
    return f" An answer counts until {time_text(expires)}."


@dataclass(frozen=True, slots=True)
class Traces:
    """Traces in a status of a record that is not among the kept requested or labelled ones.

    Attributes
    ----------
    prediction : the record's prediction, if it is among the newest predictions
    is_open : whether a request for the record's label is open
    predictions : number of the newest predictions that are kept
    records : number of requested or labelled records that are kept
    """

    prediction: Mapping[str, Any] | None = None
    is_open: bool = False
    predictions: int = 0
    records: int = 0

    @classmethod
    def of(cls, id: str, status: StatusReader) -> "Traces":
        """Look for the record `id`."""
        newest = status.predictions()
        mine = next((one for one in newest if str(one["id"]) == id), None)
        return cls(mine, status.request(id) is not None, len(newest), status.count(None))


def missing_record_text(id: str, traces: Traces, view: View) -> tuple[str, ...]:
    """Describe the fate of a record that is not kept, as a text and its names."""
    if traces.is_open:
        return "Record {} was requested, and has no label yet.", id
    if traces.prediction is not None:
        return _unstored_prediction(id, traces.prediction)
    ledger, join = view.document("ledger"), view.document("join")
    asked = ledger.get("requests", 0) - ledger.get("again", 0) + join.get("unsolicited", 0)
    if not join or traces.records < asked:
        return (
            "No data is kept on record {}: it was never requested or labelled, its data was "
            f"evicted, or it never arrived.{_retention_text(traces)}",
            id,
        )
    if join.get("records", 0) <= traces.predictions and not view.document("workers"):
        return "Record {} has never arrived.", id
    return (
        "Record {} was never requested or labelled, if it ever arrived."
        f"{_retention_text(traces)}",
        id,
    )


def _unstored_prediction(id: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    if found.get("asked"):
        came = "Record {} was requested and evicted, as there were too many requests at once."
    else:
        came = "Record {} arrived, and was never requested or labelled."
    if HIDDEN in found:
        return f"{came} {UNTOLD}", id
    if found.get("label") is None:
        return f"{came} There was no prediction yet.", id
    version = found.get("version")
    by = f"by version {version}" if version else "before the first committee"
    share = found.get("probability")
    sure = "" if share is None else f", {percent_text(share)} sure"
    return f"{came} It was predicted as {{}} {by}{sure}.", id, str(found["label"])


def _retention_text(traces: Traces) -> str:
    predictions = f", and the newest {plural(traces.predictions, 'prediction')}"
    newest = plural(traces.records, "record")
    return (
        f" Kept here are the newest {newest} that were requested or labelled"
        f"{predictions if traces.predictions else ''}."
    )


def nearest_records(
    features: Mapping[str, Any], others: Sequence[Status], most: int = 5
) -> list[tuple[float, Status]]:
    """Return the nearest neighbours of `features` among `others`, with their distances.

    The distance is that of `nearest_rows`. A value that is not a number is a column with 1 if the
    values are equal, else 0.

    >>> others = [{"id": "far", "features": {"a": 9.0}}, {"id": "near", "features": {"a": 1.0}}]
    >>> [(away, one["id"]) for away, one in nearest_records({"a": 1.0}, others)]
    [(0.0, 'near'), (2.0, 'far')]
    """
    wanted = {name: one for name, one in features.items() if not isinstance(one, list | dict)}
    there = [one for one in others if one.get("features")]
    if not wanted or not there:
        return []
    rows = [_row(wanted, one["features"]) for one in there]
    places, away = labelled.nearest_rows(np.array([_row(wanted, wanted)]), np.array(rows), most)
    pairs = zip(away[0].tolist(), places[0].tolist(), strict=True)
    return [(round(far, 3), there[place]) for far, place in pairs]


def _row(wanted: Mapping[str, Any], features: Mapping[str, Any]) -> list[float]:
    return [_coordinate(given, features.get(name)) for name, given in wanted.items()]


def _coordinate(wanted: Any, given: Any) -> float:
    if not is_number(wanted):
        return float(given == wanted)
    return float(given) if is_number(given) else float("nan")


def show_record(
    found: Status, view: View, others: Sequence[Status], *, may_change: bool = False
) -> None:
    """Show a stored record; `others` are labelled records to search for neighbours.

    `may_change` is true if the user may change the label.
    """
    pipeline = view.document("pipeline").get("name")
    near = nearest_records(
        found.get("features") or {}, [o for o in others if o["id"] != found["id"]]
    )
    with Tag("section", classes="panel", aria_labelledby="said-title"):
        Tag("h2", "History", id="said-title")
        for text, *names in record_history(found, disagreeing_annotators(view)):
            Sentence("p").say(text, *names)
        _show_doubts(found, near, pipeline, may_change)
        show_table(_label_table(found))
    with Tag("div", classes="panels halves"):
        _show_section(
            "Class probabilities",
            "Class probabilities of the ensemble on arrival.",
            probability_table(found),
        )
        _show_section(
            "Why this prediction", explanation_summary(view), reasons(found, view), id="why"
        )
        _show_fields(found)
        _show_section(
            "Nearest labelled records", _ABOUT_NEAREST, neighbour_table(found, near, pipeline)
        )


def _show_doubts(
    found: Found, near: Sequence[tuple[float, Status]], pipeline: str, may_change: bool
) -> None:
    """Show the evidence against the label, if any, and a link to change the label."""
    wrong, differ = label_error(found, near), disagreement(found)
    for said in filter(None, (wrong, differ)):
        with Tag("div", classes="doubt"):
            Sentence("p").say(*said)
    if found.get("truth") is None:
        return
    if may_change:
        with Tag("p"), Tag("a", href=page_of("/label", pipeline, change=found["id"])):
            Tag("span", "Change the label")
    elif wrong:
        Tag("p", "Its annotator or an operator can change the label.", "about")


_ABOUT_NEAREST = (
    "Kept labelled records by distance: root mean square of the feature differences in standard "
    "deviations. Later records did not influence the prediction."
)


def show_missing_record(said: tuple[str, ...], alike: Sequence[str], pipeline: str) -> None:
    """Show `said` about a record that is not kept, and stored ids with the same prefix."""
    with Tag("section", classes="panel"):
        Sentence("p").say(*said)
        Tag(
            "p",
            "The pipeline's predictions sink has the prediction of every record.",
            "about",
        )
        if alike:
            Tag("p", "Records with this prefix:")
            with Tag("ul", classes="alike"):
                for one in alike:
                    with Tag("li"), Tag("a", href=page_of("/record", pipeline, id=one)):
                        Tag("bdi", one)


def _label_table(found: Found) -> Table:
    columns = [Column(text, "words") for text in ("When", "Label", "Annotator")]
    rows = [
        [
            time_text(when),
            "retracted" if label is None else str(label),
            UNNAMED if source is None else source,
        ]
        for when, label, source in reversed(found.get("labels") or [])
    ]
    return Table("Labels, newest first", columns, rows, "")


def probability_table(found: Found) -> Table:
    """Build the table of a record's class probabilities."""
    if found.get(HIDDEN):
        return Table("Class probabilities", [], [], UNTOLD)
    columns = [Column("Class", "words"), Column("Probability")]
    given = found.get("probabilities") or {}
    ordered = sorted(given.items(), key=lambda one: -(one[1] or 0.0))
    rows = [[name, Cell(percent_text(p), bar=p or 0.0, colour="series-1")] for name, p in ordered]
    return Table(
        "Class probabilities", columns, rows, "" if rows else "Kept for requested records only."
    )


def neighbour_table(found: Found, near: Sequence[tuple[float, Status]], pipeline: str) -> Table:
    """Build the table of the nearest labelled records, and if they were labelled by then."""
    columns = [
        Column("Record", "words"),
        Column("Label", "words"),
        Column("Predicted", "words"),
        Column("State at prediction", "words"),
        Column("Distance"),
    ]
    then = [_state_at_prediction(found, one) for _, one in near]
    rows: list[list[str | Cell]] = [
        [
            Cell(
                str(one["id"]),
                link=page_of("/record", pipeline, id=one["id"]),
                picture=picture_of(one),
            ),
            str(one.get("truth")),
            NOTHING if one.get("label") is None else str(one["label"]),
            when,
            number_text(away),
        ]
        for (away, one), when in zip(near, then, strict=True)
    ]
    if not rows:
        return Table("Nearest", columns, [], "None: no other record with features was labelled.")
    of = [str(one.get("truth")) for _, one in near]
    first = max(of, key=of.count)
    late = len(then) - then.count(_LABELLED)
    told = f" When it was predicted, {late} of them had no label yet." if late else ""
    return Table("Nearest", columns, rows, f"{of.count(first)} of {len(of)} are {first}.{told}")


_LABELLED = "labelled"


def _state_at_prediction(found: Found, other: Found) -> str:
    """Return the state of another record at the time of the prediction, as a text."""
    when = found.get("arrived") or 0
    labels = other.get("labels") or ()
    if (other.get("arrived") or 0) > when:
        return "arrived later"
    return "labelled later" if labels and labels[0][0] > when else _LABELLED


def _show_fields(found: Found) -> None:
    given = found.get("features") or {}
    features = {name: value for name, value in given.items() if not is_long(value)}
    fields = {name: value for name, value in given.items() if is_long(value)}
    fields |= found.get("fields") or {}
    further = f", {plural(len(fields), 'long or further field')}" if fields else ""
    title = f"{plural(len(given), 'feature')}{further}"
    with Tag("section", classes="panel", aria_labelledby="fields-title"):
        Tag("h2", "The record", id="fields-title")
        Tag("p", f"{title}, as they came.", "about")
        with Tag("dl", classes="fields"):
            for name, value in fields.items():
                with Tag("dt"):
                    Tag("bdi", str(name))
                with Tag("dd"):
                    show_field(value)
        columns = [Column("Feature", "words"), Column("Value")]
        rows = [[str(name), field_text(value)[:LONGEST]] for name, value in features.items()]
        show_table(Table("Features", columns, rows, ""))


def _show_section(title: str, about: str, table: Table, id: str | None = None) -> None:
    name = id or title.lower().replace(" ", "-")
    with Tag("section", classes="panel", id=name, aria_labelledby=f"{name}-title"):
        Tag("h2", title, id=f"{name}-title")
        Tag("p", about, "about")
        show_told(table)
