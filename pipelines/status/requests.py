"""The open requests, each with what a person needs to answer it."""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import msgspec
import numpy as np

from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.schema import Schema
from streamboost.features.paths import flat
from streamboost.pipelines.engine.batch import Effects
from streamboost.pipelines.engine.pipeline import Pipeline
from streamboost.pipelines.engine.requests import request_of
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.labelled import Looks
from streamboost.stream.checks import as_wide

__all__ = ["Asked", "OpenRequests", "RequestRows", "Sent", "other_fields", "shown_by"]

LONGEST_IMAGE = 100_000
"""Characters kept of an image that a record holds."""

LONGEST_TEXT = 10_000
"""Characters kept of a text field."""

MOST_FIELDS = 100

MOST_CLASSES = 50
"""Probabilities kept: those of the likeliest classes."""

MOST_BYTES = 64_000_000
"""Kept of all open requests; beyond it, new ones come without features and further fields. And of
the records in a pool that may still be asked for."""

COMPARED = 300
"""New requests of a publication that are compared with what is labelled: more than people answer
meanwhile, and the others are seen last."""

SLACK = 1_000
"""Requests that may be held here although they are not open any more."""

_HIDDEN = "label"
"""A field of that name would give the answer away, as it would to the committee."""

_NOTHING = b"{}"

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class _Looked(msgspec.Struct, gc=False):
    """What is looked at in every request; all else is passed on as it was sent."""

    probabilities: dict[str, float | None]
    utility: float
    expires: str | int | float | None


_look = msgspec.json.Decoder(_Looked).decode

Sent = tuple[bytes, bytes]
"""A request as it was sent, and its record's payload."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which requests are open, and those of them that were not before.

    Attributes
    ----------
    ids : of all that are open
    new : what was sent of those that have not been handed over yet
    rows : their features, float32 (D,) each
    """

    ids: frozenset[str]
    new: dict[str, Sent]
    rows: dict[str, np.ndarray] = field(default_factory=dict)

    def most_useful(self, most: int = COMPARED) -> dict[str, np.ndarray]:
        """Return the rows of the `most` new ones whose answers are worth the most."""
        if len(self.rows) <= most:
            return self.rows
        ids = nlargest(most, self.rows, key=lambda id: _look(self.new[id][0]).utility)
        return {id: self.rows[id] for id in ids}


class OpenRequests:
    """Follows the requests of a pipeline from batch to batch, at little cost to the loop.

    The join knows which are open. What it does not know of them is taken from the batch that made
    them; where an earlier run did and is not replayed, from its status. Where neither is at hand, a
    request is made anew with what the committee says of the record now, without further fields.

    Parameters
    ----------
    pipeline : the one that asks
    known : the ids of those that an earlier run's status has
    """

    def __init__(self, pipeline: Pipeline, known: Iterable[str]) -> None:
        self._pipeline = pipeline
        self._known = set(known)
        self._new: dict[str, Sent] = {}
        strategy = pipeline.learner.strategy
        self._pool = strategy.window if strategy.mode == "pool" else 0
        self._held: dict[str, bytes] = {}
        self._held_bytes = 0

    def __call__(self, effects: Effects) -> dict[str, Sent]:
        """Take in the requests of a batch, and return what was sent of each."""
        asked: dict[str, Sent] = {}
        ids = [*effects.asked.ids, *effects.again.ids]
        if self._pool:
            self._hold(effects.records)
        if ids:
            payloads = self._held if self._pool else _payloads(effects.records, set(ids))
            for id, request in zip(ids, effects.messages.requests, strict=True):
                asked[id] = (request, payloads.get(id, _NOTHING))
        self._new |= asked
        self._let_go()
        if len(self._new) > 2 * len(self._pipeline.join.open_requests) + SLACK:
            self._drop_closed()
        return asked

    def take(self) -> Asked:
        """Return those that are open; what is new of them is handed over but once."""
        self._drop_closed()
        ids = frozenset(self._pipeline.join.open_requests)
        if missing := ids - self._known - self._new.keys():
            self._restore(sorted(missing))
        new, self._new, self._known = self._new, {}, set(ids)
        requested = self._pipeline.join.requested
        return Asked(ids, new, {id: requested(id).x for id in new})

    def _hold(self, records: Records) -> None:
        """Keep the records of a batch, as a later one may ask for any in the pool."""
        held = self._held
        for id, message in zip(records.ids, records.messages, strict=True):
            self._held_bytes += len(message.payload) - len(held.pop(id, b""))
            held[id] = message.payload

    def _let_go(self) -> None:
        """Let go of the records that have left the pool, or are too many bytes."""
        held = self._held
        while len(held) > self._pool or self._held_bytes > MOST_BYTES:
            self._held_bytes -= len(held.pop(next(iter(held))))

    def _drop_closed(self) -> None:
        for id in self._new.keys() - self._pipeline.join.open_requests.keys():
            del self._new[id]

    def _restore(self, ids: list[str]) -> None:
        """Make requests anew that nothing is at hand for."""
        pipeline, join = self._pipeline, self._pipeline.join
        held = [join.requested(id) for id in ids]
        X = as_wide([record.x for record in held], pipeline.learner.n_features or 0)
        scored, utilities = pipeline.learner.score(X), pipeline.learner.utility(X)
        for row, id in enumerate(ids):
            asked = join.open_requests[id]
            request = request_of(
                id,
                held[row],
                scored,
                row,
                schema=pipeline.schema,
                utility=float(utilities[row]),
                propensity=asked.propensity,
                expires=join.expires_after.end(asked.asked),
                sequence=pipeline.sequence,
                not_by=asked.not_by,
            )
            self._new[id] = (request.encode(), _NOTHING)


def _payloads(records: Records, ids: Set[str]) -> dict[str, bytes]:
    pairs = zip(records.ids, records.messages, strict=True)
    return {id: message.payload for id, message in pairs if id in ids}


class RequestRows:
    """The rows of open requests, each with its record's further fields.

    Attributes
    ----------
    rows : by the record's id
    fields : the names of further fields seen, each with whether it holds text
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.fields: dict[str, bool] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._looks = Looks()

    def resume(self, requests: Iterable[dict[str, Any]]) -> None:
        """Take up what an earlier run has left."""
        for request in requests:
            fields, near = request.pop("fields"), request.pop("near")
            self._put(request["id"], _encode(request), fields, near)

    def update(
        self,
        asked: Asked,
        near: Mapping[str, list[dict[str, Any]]],
        schema: Schema,
        kept: Callable[[str], dict[str, Any]],
    ) -> None:
        """Have the rows of those that are open now, with the labelled records `near` new ones.

        `schema` is that of the records; requests have its fields anyway. `kept` gives the further
        fields of a record that was asked about before, which is not at hand any more.
        """
        for id in self.rows.keys() - asked.ids:
            del self.rows[id]
            self._bytes -= self._sizes.pop(id)
        shown = shown_by(schema)
        for id, (request, payload) in asked.new.items():
            fields = kept(id) if payload is _NOTHING else other_fields(payload, shown)
            self._looks.note(id, fields)
            nearest = [one | self._looks.of(one["id"]) for one in near.get(id, ())]
            self._put(id, request, fields, nearest)

    def _put(
        self, id: str, request: bytes, fields: dict[str, Any], near: list[dict[str, Any]]
    ) -> None:
        looked = _look(request)
        if len(looked.probabilities) > MOST_CLASSES:
            likely = _likeliest(looked.probabilities)
            request = _encode(_decode(request) | {"probabilities": likely})
        text = _with(request, fields, near)
        size = len(text)
        if self._bytes + size > MOST_BYTES:
            size, fields = 0, {}
            text = _with(_encode(_decode(request) | {"features": {}}), fields, [])
        for name, value in fields.items():
            if len(self.fields) < MOST_FIELDS:
                self.fields[name] = self.fields.get(name, False) or isinstance(value, str)
        self.rows[id] = (looked.utility, looked.expires, text.decode())
        self._bytes += size - self._sizes.get(id, 0)
        self._sizes[id] = size


def _with(request: bytes, fields: dict[str, Any], near: list[dict[str, Any]]) -> bytes:
    """Return a request, which is a JSON object, with further keys."""
    return b'%s,"fields":%s,"near":%s}' % (request[:-1], _encode(fields), _encode(near))


def _likeliest(probabilities: dict[str, float | None]) -> dict[str, float | None]:
    ordered = sorted(probabilities.items(), key=lambda one: -(one[1] or 0.0))
    return dict(ordered[:MOST_CLASSES])


def shown_by(schema: Schema) -> set[str]:
    """Return the fields of a record that are no further ones."""
    named = schema.id, schema.time or schema.id, schema.label_fields.label
    return {*named, *schema.features}


def other_fields(payload: bytes, hidden: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a record besides those `hidden`, within bounds.

    What lies in an object of which something is hidden is given by its path.

    Lists and objects are given as the JSON they were, and images (``data:image/...``) that are too
    large by their size.

    >>> other_fields(b'{"id": 7, "a": 0.5, "text": "Hello", "tags": ["x"]}', {"id", "a"})
    {'text': 'Hello', 'tags': '["x"]'}
    >>> other_fields(b'{"photo": "data:image/png,' + b"A" * 200_000 + b'"}', ())
    {'photo': 'an image of 200,015 characters'}
    """
    try:
        record = _decode(payload)
    except (msgspec.MsgspecError, RecursionError):
        return {}
    hidden = {_HIDDEN, *hidden}
    parts = {path.partition(".")[0] for path in hidden if "." in path}
    if not parts and record.keys() <= hidden:
        return {}
    whole = {name: value for name, value in record.items() if name not in parts}
    inner = flat({name: value for name, value in record.items() if name in parts})
    names = [name for name in (*whole, *inner) if name not in hidden]
    found = whole | inner
    return {name[:LONGEST_TEXT]: _bounded(found[name]) for name in names[:MOST_FIELDS]}


def _bounded(value: Any) -> Any:
    if isinstance(value, list | dict):
        value = _encode(value).decode()
    if not isinstance(value, str):
        return value
    if not value.startswith("data:image/"):
        return value[:LONGEST_TEXT]
    # A part of an image is none.
    return value if len(value) <= LONGEST_IMAGE else f"an image of {len(value):,} characters"
