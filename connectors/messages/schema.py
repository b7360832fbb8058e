"""From JSON messages to arrays, and from damaged ones to dead letters.

A schema builds a msgspec struct of the wanted fields once, so that a message is decoded, checked
and stripped of everything else in one call. Where a JSON object names a field twice, the last
value holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoded import Decoded, DecodedLabels, Desk, Labels, Records
from streamboost.connectors.messages.inference import infer_numeric, is_nameable
from streamboost.connectors.messages.written import DeadLetter, Reason, Time
from streamboost.errors import ConfigurationError, StateError

__all__ = [
    "DeadLetter",
    "Decoded",
    "DecodedLabels",
    "Inferred",
    "Labels",
    "Reason",
    "Records",
    "Schema",
]

LONGEST_LABEL = 1_000
"""Characters of a label: classes stand in arrays as wide as the longest of them, in which a NUL
at the end would be lost."""

_FORMAT = 1
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Inferred(NamedTuple):
    """A schema whose numeric fields are known, and a sentence on how they came to be."""

    schema: "Schema"
    sentence: str


@dataclass(frozen=True)
class Schema:
    """Which fields of a JSON record are its id, its time and its numeric features.

    Parameters
    ----------
    id : str
        The field that names a record: text or a whole number, compared and written as text.
        Empty text is a missing id.
    time : str or None
        The field with the record's time, text or a number; passed through, may be absent.
    label : {"string", "integer"}
        What a label is: text, or a whole number of at most 64 bits.
    numeric : "auto" or sequence of str
        The features, in the order of the columns. With "auto", `infer` finds them. Names with a
        quote, a backslash or a control character cannot be used.
    max_record_bytes : int
        Larger messages become dead letters.

    Raises
    ------
    ConfigurationError
        When a setting is wrong.

    Examples
    --------
    >>> schema = Schema(numeric=["width", "height"])
    >>> lines = [b'{"id": 7, "width": 1.5}', b'{"id": 8, "width": "wide"}']
    >>> records, dead = schema.decode([Message(p, "0", i, len(p)) for i, p in enumerate(lines)])
    >>> records.ids, records.X.tolist()
    (['7'], [[1.5, nan]])
    >>> dead[0].reason, dead[0].detail
    ('wrong_type', "field 'width': expected a number or null, got text")
    """

    id: str = "id"
    time: str | None = None
    label: Literal["string", "integer"] = "string"
    numeric: Literal["auto"] | Sequence[str] = "auto"
    max_record_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        if self.numeric != "auto":
            if isinstance(self.numeric, str):
                raise ConfigurationError(
                    f'[schema] numeric = {self.numeric!r}: write "auto" or a list of field names'
                )
            object.__setattr__(self, "numeric", tuple(self.numeric))
        _check(self)

    @property
    def resolved(self) -> bool:
        """Whether the numeric fields are known."""
        return self.numeric != "auto"

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns of `Records.X`."""
        if isinstance(self.numeric, str):
            raise ConfigurationError(
                '[schema] numeric = "auto": let `infer` see messages before decoding, or name them'
            )
        return tuple(self.numeric)

    def infer(self, messages: Sequence[Message]) -> Inferred:
        """Find the numeric fields in the first `messages`; about 200 are enough.

        A field is numeric when most of its values that are not null are numbers. A field called
        "label" is left out, since it would give the answer away: name it to use it. Columns stand
        in the order in which the fields first appear. Damaged messages are passed over.

        Raises DataError when the messages show no id or no numeric field.
        """
        if self.resolved:
            return Inferred(self, f"{len(self.features)} numeric fields, as configured.")
        payloads = [message.payload for message in messages]
        names, sentence = infer_numeric(payloads, id_field=self.id, time_field=self.time)
        resolved = Schema(self.id, self.time, self.label, names, self.max_record_bytes)
        return Inferred(resolved, sentence)

    def decode(
        self, messages: Sequence[Message], *, source: str = "records", time: int | None = None
    ) -> Decoded:
        """Decode records; what cannot be used becomes a dead letter, never an exception.

        `source` and `time` (the tick) are what dead letters say of where and when.
        """
        desk = Desk(messages, self.max_record_bytes, source, time)
        kept, rows = desk.parse(self._record_decoder, {self.id: "missing_id"})
        records = Records(
            ids=[str(row[0]) for row in rows],
            times=[None] * len(rows) if self.time is None else [row[-1] for row in rows],
            X=self._features_of(rows),
            messages=[messages[index] for index in kept],
        )
        infinite = np.isinf(records.X)
        if infinite.any():
            for row, columns in enumerate(infinite):
                if columns.any():
                    name = self.features[int(columns.argmax())]
                    detail = f"field {name!r}: the number is too large for a float32"
                    desk.reject(kept[row], "infinite", detail)
            records = records.take(np.flatnonzero(~infinite.any(axis=1)).tolist())
        return Decoded(records, desk.dead)

    def _features_of(self, rows: Sequence[tuple[Any, ...]]) -> npt.NDArray[np.float32]:
        width = len(self.features)
        values = np.fromiter(
            chain.from_iterable([row[1 : 1 + width] for row in rows]),
            dtype=np.float64,
            count=len(rows) * width,
        )
        with np.errstate(over="ignore"):  # the caller sorts out what becomes infinite
            return values.astype(np.float32).reshape(len(rows), width)

    def decode_labels(
        self, messages: Sequence[Message], *, source: str = "labels", time: int | None = None
    ) -> DecodedLabels:
        """Decode label messages: `id` and `label`, optionally `time` and `source`.

        A null or empty label is a missing one. Text of more than 1,000 characters, or with
        a NUL in it, is a "bad_label".
        """
        desk = Desk(messages, self.max_record_bytes, source, time)
        required: dict[str, Reason] = {"id": "missing_id", "label": "missing_label"}
        kept, rows = desk.parse(self._label_decoder, required)
        usable = []
        for index, row in zip(kept, rows, strict=True):
            if (fault := _fault_of(row[1])) is None:
                usable.append((index, row))
            else:
                desk.reject(index, "bad_label", f"field 'label' {fault}")
        labels = Labels(
            ids=[str(row[0]) for _, row in usable],
            labels=[row[1] for _, row in usable],
            times=[row[2] for _, row in usable],
            sources=[row[3] for _, row in usable],
            messages=[messages[index] for index, _ in usable],
        )
        return DecodedLabels(labels, desk.dead)

    def to_json(self) -> str:
        """Write the schema as JSON, to be kept beside the state.

        >>> Schema.from_json(Schema(numeric=["a"]).to_json())
        Schema(id='id', time=None, label='string', numeric=('a',), max_record_bytes=1000000)
        """
        saved = _Saved(_FORMAT, self.id, self.time, self.label, self.numeric, self.max_record_bytes)
        return msgspec.json.format(msgspec.json.encode(saved)).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> "Schema":
        """Read what `to_json` wrote; StateError when it cannot be trusted."""
        try:
            saved = msgspec.json.decode(text, type=_Saved)
            if saved.format != _FORMAT:
                raise ValueError(f"its format is {saved.format}, this release reads {_FORMAT}")
            return cls(saved.id, saved.time, saved.label, saved.numeric, saved.max_record_bytes)
        except (msgspec.MsgspecError, ValueError) as error:
            raise StateError(
                f"the saved schema cannot be used: {error}; restore the file, or begin anew with "
                "an empty state folder"
            ) from error

    @cached_property
    def _record_decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[tuple[str, Any, Any]] = [("id", str | int | None, None)]
        names = {"id": self.id}
        for column, name in enumerate(self.features):
            fields.append((f"f{column}", float | None, None))
            names[f"f{column}"] = name
        if self.time is not None:
            fields.append(("time", Time, None))
            names["time"] = self.time
        # Nothing in a record can form a cycle: untracked, it costs the collector nothing.
        return msgspec.json.Decoder(msgspec.defstruct("Record", fields, rename=names, gc=False))

    @cached_property
    def _label_decoder(self) -> msgspec.json.Decoder[Any]:
        label: Any = str | None if self.label == "string" else _INT64 | None
        fields = [
            ("id", str | int | None, None),
            ("label", label, None),
            ("time", Time, None),
            ("source", str | None, None),
        ]
        return msgspec.json.Decoder(msgspec.defstruct("Label", fields, gc=False))


class _Saved(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    id: str
    time: str | None
    label: Literal["string", "integer"]
    numeric: Literal["auto"] | Sequence[str]
    max_record_bytes: int


def _fault_of(label: str | int) -> str | None:
    """Return why a committee cannot keep `label`, or None when it can."""
    if isinstance(label, str) and len(label) > LONGEST_LABEL:
        return f"has {len(label)} characters: give at most {LONGEST_LABEL}"
    if isinstance(label, str) and "\0" in label:
        return "holds a NUL character: leave it out"
    return None


def _check(schema: Schema) -> None:
    """Raise ConfigurationError for the first setting that is wrong."""
    if schema.label not in ("string", "integer"):
        raise ConfigurationError(f'[schema] label = {schema.label!r}: write "string" or "integer"')
    limit = schema.max_record_bytes
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigurationError(
            f"[schema] max_record_bytes = {limit!r}: write a whole number of at least 1"
        )
    names = [schema.id, *([] if schema.time is None else [schema.time])]
    names += [] if schema.numeric == "auto" else schema.numeric
    if schema.resolved and not schema.numeric:
        raise ConfigurationError('[schema] numeric = []: name at least one field, or write "auto"')
    for name in names:
        if not isinstance(name, str) or not is_nameable(name):
            raise ConfigurationError(
                f"[schema] names the field {name!r}: a name is text without quotes, backslashes "
                "and control characters"
            )
        if names.count(name) > 1:
            raise ConfigurationError(
                f"[schema] names the field {name!r} twice: id, time and numeric must differ"
            )
