"""The records that were asked about or labelled: what was said of each, why, and what it was.

Which features made a prediction is worked out as the committee serves, within a share of a second
per publication, as that committee may be gone by the time somebody asks.
"""

import time
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

import msgspec

from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import features_of
from streamboost.pipelines.engine.values import as_fields
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.history import text_of
from streamboost.pipelines.status.judged.annotators import Annotators, votes_of
from streamboost.pipelines.status.judged.notes import Judged, Seen, Told
from streamboost.pipelines.status.judged.why import why
from streamboost.pipelines.status.requests import other_fields, shown_by
from streamboost.stream.labelled_rows.labelled import verdict

__all__ = ["JudgedRows", "Usual"]

MOST = 5_000
"""Records kept: the newest."""

MOST_BYTES = 32_000_000
"""Kept of them all."""

WORK = 0.005
"""Seconds a publication may spend on working out which features made its predictions."""

Usual = tuple[float | None, float | None]
"""A feature's mean among the newest records, and its standard deviation."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class JudgedRows:
    """The rows of ``records``, the newest within bounds, each by its record's id.

    Attributes
    ----------
    annotators : what others say of the labels of each who gave some of these
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.annotators = Annotators()
        self._bytes = 0

    def resume(self, rows: Iterable[Row]) -> None:
        """Take up what an earlier run has left, the oldest first."""
        for id, *row in rows:
            self._put(id, tuple(row), _decode(row[-1]))

    def update(
        self, judged: Judged, schema: Schema, usual: Mapping[str, Usual] = MappingProxyType({})
    ) -> None:
        """Take in what came; `schema` is that of the records, `usual` what they have of late."""
        end, shown = time.thread_time() + WORK, shown_by(schema)
        for id, event in judged.events:
            if isinstance(event, Told):
                self._tell(event, schema, judged.on_conflict)
                continue
            before = self.rows.get(id)
            value = _asked(event, shown)
            if before is not None:
                known = _decode(before[-1])
                fields = value["fields"] or known["fields"]
                # Whoever predicts it now may have learned the labels: the first stays.
                if known["labels"]:
                    self._keep(id, {"again": event.tick} | known | {"fields": fields}, before[1])
                    continue
                value["fields"] = fields
            if event.committee is not None and time.thread_time() < end:
                said = value.get("probabilities") or {}
                value["why"] = why(event.committee, event.x, judged.columns, said)
                named = [row[0] for row in (value["why"] or {}).get("features", ())]
                value["usual"] = {name: _short(usual[name]) for name in named if name in usual}
            self._keep(id, value, None if before is None else before[1])

    def fields(self, id: str) -> dict[str, Any]:
        """Return the further fields of a record, none where it is not kept."""
        row = self.rows.get(id)
        return {} if row is None else dict(_decode(row[-1])["fields"])

    def _tell(self, told: Told, schema: Schema, rule: str | None) -> None:
        row = self.rows.get(told.id)
        value = _unasked(told, schema) if row is None else _decode(row[-1])
        value["labels"] = [*value["labels"], [told.tick, told.label, told.source]][-20:]
        truth = None if told.label is None else str(told.label)
        if truth is not None and row is not None and row[1] is not None:
            votes = [(one.source, one.label) for one in votes_of(value["labels"])]
            truth = str(verdict(rule or "last", votes, row[1]))
        self._keep(told.id, value, truth)

    def _keep(self, id: str, value: dict[str, Any], truth: str | None) -> None:
        said = value.get("label")
        self._put(
            id,
            (
                value["labels"][-1][0] if value["labels"] else value["arrived"],
                truth,
                None if said is None else str(said),
                text_of(value),
            ),
            value,
        )

    def _put(self, id: str, row: Row, value: Mapping[str, Any]) -> None:
        self.annotators.note(id, value)
        before = self.rows.pop(id, None)
        self._bytes += len(row[-1]) - (len(before[-1]) if before else 0)
        self.rows[id] = row
        while len(self.rows) > MOST or self._bytes > MOST_BYTES:
            oldest = next(iter(self.rows))
            self._bytes -= len(self.rows.pop(oldest)[-1])
            self.annotators.forget(oldest)


def _short(usual: Usual) -> Usual:
    mean, deviation = (None if one is None else float(f"{one:.5g}") for one in usual)
    return mean, deviation


def _asked(seen: Seen, shown: Set[str]) -> dict[str, Any]:
    request, payload = seen.sent
    return _decode(request) | {
        "asked": True,
        "arrived": seen.tick,
        "version": seen.version,
        "margin": seen.margin,
        "fields": other_fields(payload, shown),
        "labels": [],
    }


def _unasked(told: Told, schema: Schema) -> dict[str, Any]:
    """Return what there is of a record that was labelled without being asked about."""
    features: Mapping[str, Any] = {}
    if told.values is not None:
        features = as_fields(schema.features, told.values)
    elif told.x is not None:
        features = features_of(schema.features, told.x[-len(schema.features) :])
    return {
        "id": told.id,
        "label": told.predicted,
        "asked": False,
        "arrived": told.tick,
        "features": features,
        "fields": {},
        "labels": [],
    }
