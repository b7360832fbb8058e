"""The open requests, each with what a person needs to answer it."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from streamboost.active.utilities import UTILITIES
from streamboost.connectors.decoding import Records
from streamboost.connectors.messages import Request, features_of
from streamboost.pipelines.effects import Effects
from streamboost.pipelines.runtime import Pipeline
from streamboost.pipelines.status_file import Row

__all__ = ["OpenRequests", "other_fields"]

LONGEST_TEXT = 10_000
"""Characters kept of a text field."""

MOST_FIELDS = 100

MOST_BYTES = 32_000_000
"""Kept of the fields of all open requests together; beyond it requests come without."""

SLACK = 1_000
"""Requests that may be held here although they are not open any more."""

_HIDDEN = "label"
"""A field of that name would give the answer away, as it would to the committee."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder(enc_hook=lambda value: value.item()).encode
_text = msgspec.json.Encoder().encode


def other_fields(payload: bytes, known: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a record besides those `known`, within bounds.

    Lists and objects are given as the JSON they were.

    >>> other_fields(b'{"id": 7, "a": 0.5, "text": "Hello", "tags": ["x"]}', {"id", "a"})
    {'text': 'Hello', 'tags': '["x"]'}
    """
    try:
        record = _decode(payload)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    names = [name for name in record if name != _HIDDEN and name not in known]
    return {name[:LONGEST_TEXT]: _bounded(record[name]) for name in names[:MOST_FIELDS]}


def _bounded(value: Any) -> Any:
    if isinstance(value, list | dict):
        value = _text(value).decode()
    return value[:LONGEST_TEXT] if isinstance(value, str) else value


def _payloads(records: Records) -> dict[str, bytes]:
    return {id: message.payload for id, message in zip(records.ids, records.messages, strict=True)}


class OpenRequests:
    """Follows the requests of a pipeline from batch to batch.

    The join knows which are open. What it does not know of them is taken from the batch that made
    them or from an earlier run's status; where neither is at hand, a request is made anew with
    what the committee says of the record now, and has no further fields.

    Attributes
    ----------
    fields : the names of the further fields seen in requests, each with whether it holds text
    """

    def __init__(self, pipeline: Pipeline, known: Mapping[str, Row]) -> None:
        self.fields: dict[str, bool] = {}
        self._pipeline = pipeline
        self._rows = dict(known)
        self._sizes = {id: len(_encode(_decode(row[-1])["fields"])) for id, row in known.items()}
        self._bytes = sum(self._sizes.values())
        strategy = pipeline.learner.strategy
        self._pool = strategy.window if strategy.mode == "pool" else 0
        self._payloads: dict[str, bytes] = {}
        self._payload_bytes = 0
        schema = pipeline.schema
        self._names = {schema.id, schema.time or schema.id, *schema.features}

    def __call__(self, effects: Effects) -> None:
        """Take in the requests of a batch."""
        if self._pool:
            self._hold(effects.records)
        if effects.messages.requests:
            self._make_room()
            payloads = self._payloads if self._pool else _payloads(effects.records)
            for id, message in zip(effects.asked.ids, effects.messages.requests, strict=True):
                self._add(id, _decode(message), payloads.get(id, b"{}"))
        self._let_go()

    def rows(self) -> dict[str, Row]:
        """Return the rows of those that are open now."""
        self._drop_closed()
        if missing := [id for id in self._pipeline.join.open_requests if id not in self._rows]:
            self._restore(missing)
        return dict(self._rows)

    def _make_room(self) -> None:
        """Drop what is not open any more once it is much, although nobody asks for `rows`."""
        usual = 2 * len(self._pipeline.join.open_requests) + SLACK
        if len(self._rows) > usual or self._bytes > MOST_BYTES:
            self._drop_closed()

    def _drop_closed(self) -> None:
        for id in self._rows.keys() - self._pipeline.join.open_requests.keys():
            del self._rows[id]
            self._bytes -= self._sizes.pop(id)

    def _hold(self, records: Records) -> None:
        """Keep the records of a batch, as a later one may ask for any in the pool."""
        held = self._payloads
        for id, payload in _payloads(records).items():
            self._payload_bytes += len(payload) - len(held.pop(id, b""))
            held[id] = payload

    def _let_go(self) -> None:
        """Let go of payloads that have left the pool, or are too many bytes."""
        held = self._payloads
        while len(held) > self._pool or self._payload_bytes > MOST_BYTES:
            self._payload_bytes -= len(held.pop(next(iter(held))))

    def _add(self, id: str, request: dict[str, Any], payload: bytes) -> None:
        fields = other_fields(payload, self._names)
        if self._bytes + len(_encode(fields)) > MOST_BYTES:
            fields = {}
        for name, value in fields.items():
            if len(self.fields) < MOST_FIELDS:
                self.fields[name] = self.fields.get(name, False) or isinstance(value, str)
        text = _encode(request | {"fields": fields}).decode()
        self._rows[id] = (request["utility"], request["expires"], text)
        size = len(_encode(fields))
        self._bytes += size - self._sizes.get(id, 0)
        self._sizes[id] = size

    def _restore(self, ids: list[str]) -> None:
        """Make requests anew that no message is at hand for."""
        pipeline = self._pipeline
        join, learner, names = pipeline.join, pipeline.learner, pipeline.schema.features
        arrivals = [join.requested(id) for id in ids]
        scored = learner.score(np.array([arrival.x for arrival in arrivals], dtype=np.float32))
        utilities = UTILITIES["margin"].measure(scored.margins)
        classes = scored.classes.tolist()
        for row, (id, arrival) in enumerate(zip(ids, arrivals, strict=True)):
            asked = join.open_requests[id]
            request = Request(
                id=id,
                time=arrival.time,
                features=features_of(names, arrival.x[-len(names) :]),
                label=scored.labels[row],
                probabilities=dict(zip(classes, scored.probabilities[row].tolist(), strict=True)),
                utility=float(utilities[row]),
                propensity=asked.propensity,
                expires=join.expires_after.end(asked.asked),
                sequence=pipeline.sequence,
            )
            self._add(id, _decode(request.encode()), b"{}")
