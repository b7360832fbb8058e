"""A transformer of somebody else's before the fields: what it makes of records, and has learned.

It is known by a protocol, River's of transformers, by what River's composites hold (`steps` one
after the other, `transformers` side by side), and by the pickle of its state.
"""

import inspect
import logging
import pickle
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

import msgspec
import numpy as np

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import Records, plain_numbers, values_reader
from streamboost.connectors.messages.schema import LABEL, Schema
from streamboost.connectors.messages.written import Time, milliseconds
from streamboost.pipelines.engine.values import whole_of
from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.stream.checks import Label

__all__ = ["Transformer", "Transforms", "before", "moment"]

_log = logging.getLogger(__name__)

_KEPT = 2_000
"""The newest labelled records, from which a transformer of another release begins."""

Document = dict[str, Any]


class Transforms(Protocol):
    """What is asked of a transformer, as River's do it."""

    def learn_one(self, x: Document, *args: Any) -> Any:
        """Learn of the record `x`, and of its label where that is what it learns of."""

    def transform_one(self, x: Document) -> Mapping[Any, Any]:
        """Return what it makes of the record `x`."""


class Transformer:
    """A transformer that learns of every record as it comes, and of labels when they do.

    The parts that need no label learn of a record before it is transformed, as River's do when
    predicting; the others when the label comes, once, of the record as it was. `t` is given to
    those that take it: the record's time, in UTC, naming no zone.

    Parameters
    ----------
    made : what it is to begin with

    Attributes
    ----------
    failures : records that it could not transform, which then miss every field, or learn of
    """

    def __init__(self, made: Transforms) -> None:
        self.failures = 0
        self._made = made
        self._kept: deque[tuple[bytes, Label | bool]] = deque(maxlen=_KEPT)

    def arrive(self, x: Document, time: Time = None) -> Document:
        """Learn of a record what needs no label; return what is made of it, as JSON can hold it.

        Nothing, where it fails.
        """
        t = moment(time)
        try:
            _teach(self._made, x, t, (), has_label=False)
            return _plain(self._made.transform_one(x))
        except Exception as error:  # whatever stands in it
            self._failed("transform", error)
            return {}

    def records(self, records: Records, schema: Schema) -> Records:
        """Return records that have arrived, with the values that are made of them."""
        read = values_reader(schema.features)
        xs = [before(message, schema) for message in records.messages]
        wholes = [whole_of(x, time) for x, time in zip(xs, records.times, strict=True)]
        made = [self.arrive(x, time) for x, time in zip(xs, records.times, strict=True)]
        return replace(records, values=[read(one) for one in made], wholes=wholes)

    def learn(self, whole: bytes, label: Label | bool) -> None:
        """Learn the label of a record, `whole` as it was when it came."""
        self._kept.append((whole, label))
        x, time = msgspec.json.decode(whole)
        self._learn(x, time, label)

    def newest(self, most: int) -> list[tuple[Document, Time]]:
        """Return at most so many of the newest labelled records, and their times."""
        return [tuple(msgspec.json.decode(whole)) for whole, _ in list(self._kept)[-most:]]

    def state(self) -> Arrays:
        """Return all there is: the transformer pickled, and the newest labelled records."""
        about = {
            "kept": [[whole.decode(), label] for whole, label in self._kept],
            "failures": self.failures,
        }
        blob = np.frombuffer(pickle.dumps(self._made), dtype=np.uint8)
        return {"pickle": blob, "about": pack_json(about)}

    def resume(self, arrays: Arrays, *, anew: bool) -> None:
        """Go on from what `state` returned; `anew`: from its labelled records, with no pickle."""
        about = unpack_json(arrays["about"])
        self.failures = about["failures"]
        kept = [(whole.encode(), label) for whole, label in about["kept"]]
        if not anew:
            self._kept.extend(kept)
            self._made = pickle.loads(arrays["pickle"].tobytes())
            return
        for whole, label in kept:
            self.arrive(*msgspec.json.decode(whole))
            self.learn(whole, label)

    def _learn(self, x: Document, time: Time, label: Label | bool) -> None:
        try:
            _teach(self._made, x, moment(time), (label,), has_label=True)
        except Exception as error:  # whatever stands in it
            self._failed("learn", error)

    def _failed(self, what: str, error: Exception) -> None:
        if not self.failures:
            name = type(self._made).__name__
            _log.warning("%s cannot %s a record (further ones are counted)", name, what)
            _log.warning("%s: %s", type(error).__name__, error)
        self.failures += 1


def before(message: Message, schema: Schema) -> Document:
    """Return a record as it came, without what says its id, its time and its label.

    What `schema` excludes is not there, either. In a row of a table, text that is plainly a number
    is one.
    """
    names = schema.label_fields
    hidden = {schema.id, schema.time, names.id, names.label, LABEL, *schema.exclude} - {None}
    record: Document = msgspec.json.decode(message.payload)
    for path in hidden:
        record = _without(record, str(path))
    return plain_numbers(record) if message.is_row else record


def moment(time: Time) -> datetime | None:
    """Return a record's time as River's windows compare it: in UTC, naming no zone."""
    since = milliseconds(time)
    try:
        return (
            None
            if since is None
            else datetime.fromtimestamp(since / 1_000, UTC).replace(tzinfo=None)
        )
    except (OverflowError, ValueError, OSError):  # further than a calendar goes
        return None


def _without(record: Document, path: str) -> Document:
    """Return a record in which nothing stands at `path`."""
    if path in record:
        return {name: value for name, value in record.items() if name != path}
    head, dot, rest = path.partition(".")
    if dot and isinstance(inner := record.get(head), dict):
        return record | {head: _without(inner, rest)}
    return record


def _teach(
    part: Any, x: Document, t: datetime | None, label: Sequence[Any], *, has_label: bool
) -> None:
    """Let the parts learn that go by labels, or those that do not, each of what it is given."""
    if steps := getattr(part, "steps", None):
        for step in list(steps.values()):
            if has_label:  # what it makes of a record is what it made before it knew the label
                made = step.transform_one(x)
                _teach(step, x, t, label, has_label=True)
            else:
                _teach(step, x, t, label, has_label=False)
                made = step.transform_one(x)
            x = made
    elif beside := getattr(part, "transformers", None):
        for one in beside.values():
            _teach(one, x, t, label, has_label=has_label)
    elif bool(getattr(part, "_supervised", False)) == has_label:
        timed = {"t": t} if t is not None and _takes_time(part) else {}
        part.learn_one(x, *label, **timed)


def _takes_time(part: Any) -> bool:
    """Tell whether a part learns of times: it takes `t`, and what it updates, if anything, too."""
    updated = getattr(part, "how", None)
    return _has_t(part.__class__, "learn_one") and (
        updated is None or _has_t(updated.__class__, "update")
    )


@lru_cache(maxsize=1_000)
def _has_t(kind: type, method: str) -> bool:
    """Tell whether a method of a class takes `t`; finding out takes longer than most methods."""
    try:
        return "t" in inspect.signature(getattr(kind, method)).parameters
    except (AttributeError, TypeError, ValueError):  # one that is compiled may tell nothing
        return False


def _plain(made: Mapping[Any, Any]) -> Document:
    """Return what was made as it would have come in JSON; what has no number there is missing."""
    named = {_name(name): value for name, value in made.items()}
    plain: Document = msgspec.json.decode(msgspec.json.encode(named, enc_hook=_item))
    return plain


def _name(name: Any) -> str:
    return "_".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _item(value: Any) -> Any:
    """Return what a number of numpy's is."""
    return value.item() if isinstance(value, np.generic) else str(value)
