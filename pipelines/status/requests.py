"""Open requests for the status file, each with the data that an annotator needs."""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import msgspec
import numpy as np

from streamboost.checks import pad_missing_columns
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.schema import Schema
from streamboost.features.paths import flatten
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.requests import build_request
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.neighbours import RecordImages

LONGEST_IMAGE = 100_000
"""Maximum characters of an image in a record."""

LONGEST_TEXT = 10_000
"""Maximum characters of a text field; longer texts are truncated."""

MOST_FIELDS = 100

MOST_CLASSES = 50
"""Maximum number of probabilities: those of the likeliest classes."""

MOST_BYTES = 64_000_000
"""Maximum total size of the open requests; beyond it, new requests have no features and further
fields. The same limit applies to the records of a pool that may still be requested."""

COMPARED = 300
"""Maximum number of new requests per publication with a nearest-neighbour search. This is more than
annotators answer in that time, and the other requests have a lower utility."""

SLACK = 1_000
"""Number of closed requests that may be kept before they are dropped."""

_HIDDEN = "label"
"""Name of a field that is never shown, as it would reveal the label."""

_NOTHING = b"{}"

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class _DecodedRequest(msgspec.Struct, gc=False):
    probabilities: dict[str, float | None]
    utility: float
    expires: str | int | float | None


_decode_request = msgspec.json.Decoder(_DecodedRequest).decode

Sent = tuple[bytes, bytes]
"""A request as it was sent, and its record's payload."""


@dataclass(frozen=True, slots=True)
class RequestChanges:
    """Ids of all open requests, and messages of those that are new since the last publication.

    Attributes
    ----------
    ids : record ids of all open requests
    new : sent messages of the new requests, keyed by record id
    rows : features of the new requests, float32 (D,) each
    """

    ids: frozenset[str]
    new: dict[str, Sent]
    rows: dict[str, np.ndarray] = field(default_factory=dict)

    def top_request_features(self, limit: int = COMPARED) -> dict[str, np.ndarray]:
        """Map the ids of the `limit` new requests with the largest utility to their features."""
        if len(self.rows) <= limit:
            return self.rows
        ids = nlargest(limit, self.rows, key=lambda id: _decode_request(self.new[id][0]).utility)
        return {id: self.rows[id] for id in ids}


class OpenRequests:
    """Collects the messages of the open requests of a pipeline, batch by batch.

    The pipeline's label join knows which requests are open. A request's message is taken from the
    batch that sent the request. For batches of an earlier run, the message is taken from the status
    of that run. If both are missing, the message is rebuilt with the current prediction and without
    the fields that are not features.

    Parameters
    ----------
    pipeline : the pipeline with the requests
    earlier_ids : record ids of the requests in an earlier run's status
    """

    def __init__(self, pipeline: Pipeline, earlier_ids: Iterable[str]) -> None:
        self._pipeline = pipeline
        self._known = set(earlier_ids)
        self._new: dict[str, Sent] = {}
        query = pipeline.learner.query_config
        self._pool = query.window if query.mode == "pool" else 0
        self._held: dict[str, bytes] = {}
        self._held_bytes = 0

    def __call__(self, effects: StepResult) -> dict[str, Sent]:
        """Add the requests of a batch; return their messages by record id."""
        asked: dict[str, Sent] = {}
        ids = [*effects.asked.ids, *effects.relabels.ids]
        if self._pool:
            self._keep_payloads(effects.records)
        if ids:
            payloads = self._held if self._pool else _payloads_by_id(effects.records, set(ids))
            for id, request in zip(ids, effects.messages.requests, strict=True):
                asked[id] = (request, payloads.get(id, _NOTHING))
        self._new |= asked
        self._evict_oldest_payloads()
        if len(self._new) > 2 * len(self._pipeline.join.open_requests) + SLACK:
            self._drop_closed_requests()
        return asked

    def drain_changes(self) -> RequestChanges:
        """Return the ids of all open requests, and the new requests since the last call."""
        self._drop_closed_requests()
        ids = frozenset(self._pipeline.join.open_requests)
        if missing := ids - self._known - self._new.keys():
            self._rebuild_requests(sorted(missing))
        new, self._new, self._known = self._new, {}, set(ids)
        requested = self._pipeline.join.requested_record
        return RequestChanges(ids, new, {id: requested(id).x for id in new})

    def _keep_payloads(self, records: Records) -> None:
        """Keep the payloads of a batch, as a later batch may request any record of the pool."""
        held = self._held
        for id, message in zip(records.ids, records.messages, strict=True):
            self._held_bytes += len(message.payload) - len(held.pop(id, b""))
            held[id] = message.payload

    def _evict_oldest_payloads(self) -> None:
        held = self._held
        while len(held) > self._pool or self._held_bytes > MOST_BYTES:
            self._held_bytes -= len(held.pop(next(iter(held))))

    def _drop_closed_requests(self) -> None:
        for id in self._new.keys() - self._pipeline.join.open_requests.keys():
            del self._new[id]

    def _rebuild_requests(self, ids: list[str]) -> None:
        pipeline, join = self._pipeline, self._pipeline.join
        held = [join.requested_record(id) for id in ids]
        X = pad_missing_columns([record.x for record in held], pipeline.learner.n_features or 0)
        scored, utilities = pipeline.learner.score(X), pipeline.learner.utility(X)
        for row, id in enumerate(ids):
            asked = join.open_requests[id]
            request = build_request(
                id,
                held[row],
                scored,
                row,
                schema=pipeline.schema,
                utility=float(utilities[row]),
                propensity=asked.propensity,
                expires=join.expires_after.end_time_ms(asked.asked),
                sequence=pipeline.sequence,
                excluded_annotators=asked.excluded_annotators,
            )
            self._new[id] = (request.encode(), _NOTHING)


def _payloads_by_id(records: Records, ids: Set[str]) -> dict[str, bytes]:
    pairs = zip(records.ids, records.messages, strict=True)
    return {id: message.payload for id, message in pairs if id in ids}


class RequestRows:
    """Rows of the table ``requests``: requests with all fields of their records.

    Attributes
    ----------
    rows : rows by record id
    fields : maps the name of each non-feature field so far to whether it is a text field
    """

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.fields: dict[str, bool] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._looks = RecordImages()

    def restore(self, requests: Iterable[dict[str, Any]]) -> None:
        """Restore the requests of an earlier run."""
        for request in requests:
            fields, near = request.pop("fields"), request.pop("near")
            self._store_request(request["id"], _encode(request), fields, near)

    def update(
        self,
        changes: RequestChanges,
        neighbours: Mapping[str, list[dict[str, Any]]],
        schema: Schema,
        stored_fields: Callable[[str], dict[str, Any]],
    ) -> None:
        """Delete the rows of closed requests, and add rows for the new requests.

        `neighbours` has the nearest labelled records by record id. Fields of `schema` are part of
        the request already. `stored_fields` returns the other fields of a record id; it is used for
        a record whose payload is not available.
        """
        for id in self.rows.keys() - changes.ids:
            del self.rows[id]
            self._bytes -= self._sizes.pop(id)
        shown = schema_fields(schema)
        for id, (request, payload) in changes.new.items():
            fields = (
                stored_fields(id) if payload is _NOTHING else decode_fields_except(payload, shown)
            )
            self._looks.add_image(id, fields)
            nearest = [one | self._looks.image_field(one["id"]) for one in neighbours.get(id, ())]
            self._store_request(id, request, fields, nearest)

    def _store_request(
        self, id: str, request: bytes, fields: dict[str, Any], neighbours: list[dict[str, Any]]
    ) -> None:
        looked = _decode_request(request)
        if len(looked.probabilities) > MOST_CLASSES:
            likely = _most_likely_classes(looked.probabilities)
            request = _encode(_decode(request) | {"probabilities": likely})
        text = _append_fields_and_neighbours(request, fields, neighbours)
        size = len(text)
        if self._bytes + size > MOST_BYTES:
            size, fields = 0, {}
            text = _append_fields_and_neighbours(
                _encode(_decode(request) | {"features": {}}), fields, []
            )
        for name, value in fields.items():
            if len(self.fields) < MOST_FIELDS:
                self.fields[name] = self.fields.get(name, False) or isinstance(value, str)
        self.rows[id] = (looked.utility, looked.expires, text.decode())
        self._bytes += size - self._sizes.get(id, 0)
        self._sizes[id] = size


def _append_fields_and_neighbours(
    request: bytes, fields: dict[str, Any], neighbours: list[dict[str, Any]]
) -> bytes:
    return b'%s,"fields":%s,"near":%s}' % (request[:-1], _encode(fields), _encode(neighbours))


def _most_likely_classes(probabilities: dict[str, float | None]) -> dict[str, float | None]:
    ordered = sorted(probabilities.items(), key=lambda one: -(one[1] or 0.0))
    return dict(ordered[:MOST_CLASSES])


def schema_fields(schema: Schema) -> set[str]:
    """Return the names of the fields that the schema uses: id, time, label and features."""
    named = schema.id, schema.time or schema.id, schema.label_fields.label
    return {*named, *schema.features}


def decode_fields_except(payload: bytes, hidden: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a JSON record except the `hidden` ones; long values are truncated.

    If a part of an object is hidden, the other parts become separate fields, named by their paths.
    Lists and other objects become JSON texts. An image (``data:image/...``) that is too large is
    replaced by a text with its size.

    >>> decode_fields_except(b'{"id": 7, "a": 0.5, "text": "Hello", "tags": ["x"]}', {"id", "a"})
    {'text': 'Hello', 'tags': '["x"]'}
    >>> decode_fields_except(b'{"photo": "data:image/png,' + b"A" * 200_000 + b'"}', ())
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
    inner = flatten({name: value for name, value in record.items() if name in parts})
    names = [name for name in (*whole, *inner) if name not in hidden]
    found = whole | inner
    return {name[:LONGEST_TEXT]: _truncate_long_value(found[name]) for name in names[:MOST_FIELDS]}


def _truncate_long_value(value: Any) -> Any:
    if isinstance(value, list | dict):
        value = _encode(value).decode()
    if not isinstance(value, str):
        return value
    if not value.startswith("data:image/"):
        return value[:LONGEST_TEXT]
    # A truncated image could not be shown.
    return value if len(value) <= LONGEST_IMAGE else f"an image of {len(value):,} characters"
