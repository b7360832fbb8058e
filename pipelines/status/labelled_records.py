"""Requested and labelled records for the status file.

The runner only logs requests and labels, which takes little time. The writer thread computes the
feature contributions, in at most `WORK` seconds per publication.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamboost.checks import Label
from streamboost.connectors.messages.outgoing import features_by_name
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import decode_fields
from streamboost.errors import DataError
from streamboost.learner.labelled_rows import resolve_label
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.status.annotators import AnnotatorAgreement, current_votes
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.history import json_text
from streamboost.pipelines.status.requests import Sent, decode_fields_except, schema_fields

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

MOST_AT_ONCE = 500
"""Maximum number of requests, and of labels, that a publication has events for."""


class RequestEvent(msgspec.Struct, frozen=True):
    """A label request, with the model that scored the record.

    `sent` has the request and the record as messages, `tick` is the batch time, and `x` (D,) has
    the record's features.
    """

    sent: Sent
    tick: int
    version: int
    margin: float | None
    x: np.ndarray
    committee: "Committee | None"


class LabelEvent(msgspec.Struct, frozen=True):
    """A label that was learned at batch time `tick`; a label of None retracts earlier labels."""

    id: str
    label: Label | None
    tick: int
    source: str | None = None
    predicted: Label | None = None
    x: np.ndarray | None = None
    values: bytes | None = None


@dataclass(frozen=True, slots=True)
class LabelledChanges:
    """Request and label events since the last publication, each with its record id.

    `columns` are the names of the feature columns. `on_conflict` is the rule for records with
    several labels.
    """

    events: Sequence[tuple[str, RequestEvent | LabelEvent]]
    columns: Sequence[str] = ()
    on_conflict: str | None = None


@dataclass(slots=True)
class LabelledRecordLog:
    """Bounded log of the requests and labels of the committed batches."""

    pipeline: Pipeline
    _events: deque[tuple[str, RequestEvent | LabelEvent]] = field(
        default_factory=lambda: deque(maxlen=2 * MOST_AT_ONCE)
    )

    def __call__(self, effects: StepResult, sent_requests: Mapping[str, Sent]) -> None:
        """Log the labels of a batch, and its requests (`sent_requests`, keyed by record id)."""
        scored, tick, join = effects.scored, effects.batch_time_ms, self.pipeline.join
        are_open = join.open_requests
        committee = self.pipeline.versions.committee(scored.version) if sent_requests else None
        ids = effects.records.ids if sent_requests else ()
        rows = {id: row for row, id in enumerate(ids) if id in sent_requests}
        for id, sent in list(sent_requests.items())[-MOST_AT_ONCE:]:
            if id not in are_open:
                continue  # the label is in the same batch, and its event is enough
            margin = float(scored.margins[rows[id]]) if id in rows else None
            x = join.requested_record(id).x
            seen = RequestEvent(sent, tick, scored.version, margin, x, committee)
            self._events.append((id, seen))
        joined = effects.joined
        for at in range(max(len(joined.ids) - MOST_AT_ONCE, 0), len(joined.ids)):
            id = joined.ids[at]
            told = LabelEvent(
                id,
                joined.labels[at],
                tick,
                joined.sources[at],
                joined.predicted[at],
                joined.rows[at],
                joined.values[at],
            )
            self._events.append((id, told))
        for again in joined.corrections[-MOST_AT_ONCE:]:
            self._events.append((again.id, LabelEvent(again.id, again.label, tick, again.source)))

    def drain_changes(self) -> LabelledChanges:
        """Return the events since the last call, and clear the log."""
        events, self._events = list(self._events), deque(maxlen=2 * MOST_AT_ONCE)
        pipeline = self.pipeline
        learner = pipeline.learner
        return LabelledChanges(
            events, learner.columns(pipeline.schema.features), learner.on_conflict
        )


NAMED = 10
"""Number of features named for each record: those with the largest contributions."""

CLASSES = 8
"""Number of classes with contributions: the likeliest."""


def shap_explanation(
    committee: "Committee",
    x: np.ndarray,
    columns: Sequence[str],
    probabilities: Mapping[str, float | None],
) -> dict[str, Any] | None:
    """Return each feature's contribution to the scores of the likeliest classes (SHAP values).

    `x` (D,) is the row, `columns` its column names. The likeliest classes are those with the
    largest `probabilities`. In the result, `features` lists the `NAMED` features with the largest
    contributions, `others` sums up those of the other features, and `base` has the base scores.
    The result is None if the committee does not support contributions.
    """
    try:
        owed = committee.contributions(x[None, : committee.n_features])[0]
    except DataError:
        return None
    classes = [str(label) for label in committee.classes.tolist()]
    likely = sorted(range(len(classes)), key=lambda k: -(probabilities.get(classes[k]) or 0.0))[
        :CLASSES
    ]
    effect = np.abs(
        owed[likely[0], :-1] - owed[likely[1], :-1] if len(likely) > 1 else owed[0, :-1]
    )
    ordered = np.argsort(-effect, kind="stable")
    most, rest = ordered[:NAMED], np.sort(ordered[NAMED:])
    return {
        "classes": [classes[k] for k in likely],
        "features": [[columns[d], *owed[likely, d].round(4).tolist()] for d in most.tolist()],
        "n_others": len(rest),
        "others": owed[likely][:, rest].sum(axis=1).round(4).tolist(),
        "base": owed[likely, -1].round(4).tolist(),
    }


MOST = 5_000
"""Maximum number of records kept, the newest."""

MOST_BYTES = 32_000_000
"""Maximum total size of the kept records."""

WORK = 0.005
"""Seconds of CPU time per publication for computing contributions."""

Usual = tuple[float | None, float | None]
"""Mean and standard deviation of a feature in the sliding window."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LabelledRecordRows:
    """Rows of the table ``records`` by record id, bounded to the newest.

    Attributes
    ----------
    annotators : agreement and conflict counts of the annotators of these records
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.annotators = AnnotatorAgreement()
        self._bytes = 0

    def restore(self, rows: Iterable[Row]) -> None:
        """Restore the rows of an earlier run; `rows` has the oldest first."""
        for id, *row in rows:
            self._replace_row(id, tuple(row), _decode(row[-1]))

    def update(
        self,
        changes: LabelledChanges,
        schema: Schema,
        usual: Mapping[str, Usual] = MappingProxyType({}),
    ) -> None:
        """Update the rows by new events.

        `usual` has the recent mean and standard deviation of features, keyed by feature name.
        """
        end, shown = time.thread_time() + WORK, schema_fields(schema)
        for id, event in changes.events:
            if isinstance(event, LabelEvent):
                self._add_label_to_record(event, schema, changes.on_conflict)
                continue
            before = self.rows.get(id)
            value = _requested_record_data(event, shown)
            if before is not None:
                known = _decode(before[-1])
                fields = value["fields"] or known["fields"]
                # The committee may have learned the label by now: the first prediction stays.
                if known["labels"]:
                    self._store_record(
                        id, {"again": event.tick} | known | {"fields": fields}, before[1]
                    )
                    continue
                value["fields"] = fields
            if event.committee is not None and time.thread_time() < end:
                said = value.get("probabilities") or {}
                value["why"] = shap_explanation(event.committee, event.x, changes.columns, said)
                named = [row[0] for row in (value["why"] or {}).get("features", ())]
                value["usual"] = {
                    name: _round_mean_and_deviation(usual[name]) for name in named if name in usual
                }
            self._store_record(id, value, None if before is None else before[1])

    def non_feature_fields(self, id: str) -> dict[str, Any]:
        """Return the fields of a stored record that are not features; an empty dict if unknown."""
        row = self.rows.get(id)
        return {} if row is None else dict(_decode(row[-1])["fields"])

    def _add_label_to_record(
        self, event: LabelEvent, schema: Schema, on_conflict: str | None
    ) -> None:
        row = self.rows.get(event.id)
        value = _unsolicited_record_data(event, schema) if row is None else _decode(row[-1])
        value["labels"] = [*value["labels"], [event.tick, event.label, event.source]][-20:]
        truth = None if event.label is None else str(event.label)
        if truth is not None and row is not None and row[1] is not None:
            votes = [(one.source, one.label) for one in current_votes(value["labels"])]
            truth = str(resolve_label(on_conflict or "last", votes, row[1]))
        self._store_record(event.id, value, truth)

    def _store_record(self, id: str, record: dict[str, Any], label: str | None) -> None:
        said = record.get("label")
        self._replace_row(
            id,
            (
                record["labels"][-1][0] if record["labels"] else record["arrived"],
                label,
                None if said is None else str(said),
                json_text(record),
            ),
            record,
        )

    def _replace_row(self, id: str, row: Row, record: Mapping[str, Any]) -> None:
        self.annotators.add_record(id, record)
        before = self.rows.pop(id, None)
        self._bytes += len(row[-1]) - (len(before[-1]) if before else 0)
        self.rows[id] = row
        while len(self.rows) > MOST or self._bytes > MOST_BYTES:
            oldest = next(iter(self.rows))
            self._bytes -= len(self.rows.pop(oldest)[-1])
            self.annotators.remove_record(oldest)


def _round_mean_and_deviation(statistics: Usual) -> Usual:
    mean, deviation = (None if one is None else float(f"{one:.5g}") for one in statistics)
    return mean, deviation


def _requested_record_data(event: RequestEvent, hidden_fields: Set[str]) -> dict[str, Any]:
    request, payload = event.sent
    return _decode(request) | {
        "asked": True,
        "arrived": event.tick,
        "version": event.version,
        "margin": event.margin,
        "fields": decode_fields_except(payload, hidden_fields),
        "labels": [],
    }


def _unsolicited_record_data(event: LabelEvent, schema: Schema) -> dict[str, Any]:
    features: Mapping[str, Any] = {}
    if event.values is not None:
        features = decode_fields(schema.features, event.values)
    elif event.x is not None:
        features = features_by_name(schema.features, event.x[-len(schema.features) :])
    return {
        "id": event.id,
        "label": event.predicted,
        "asked": False,
        "arrived": event.tick,
        "features": features,
        "fields": {},
        "labels": [],
    }
