"""Records decoded: numbers alone, as a list of fields asks for, into an array; or as they are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoded import Desk, Records
from streamboost.connectors.messages.values import Known, id_reader, time_of, values_reader
from streamboost.connectors.messages.written import Time
from streamboost.features.paths import getter

__all__ = ["Mixed", "Numbers"]


@dataclass(frozen=True)
class Numbers:
    """Reads id, time and numbers of records; each is called so at the top of a JSON object.

    Without an `id`, whoever reads has that from elsewhere.
    """

    id: str | None
    time: str | None
    names: Sequence[str]

    def decode(self, desk: Desk, messages: Sequence[Message]) -> Records:
        """Decode records; one in which something else stands becomes a dead letter."""
        kept, rows = desk.parse(
            self._decoder.decode, msgspec.structs.astuple, {self.id or "id": "missing_id"}
        )
        records = Records(
            ids=[str(row[0]) for row in rows],
            times=[None] * len(rows) if self.time is None else [row[-1] for row in rows],
            X=self._array(rows),
            messages=[messages[index] for index in kept],
        )
        infinite = np.isinf(records.X)
        if not infinite.any():
            return records
        for row, columns in enumerate(infinite):
            if columns.any():
                name = self.names[int(columns.argmax())]
                detail = f"field {name!r}: the number is too large for a float32"
                desk.reject(kept[row], "infinite", detail)
        return records.take(np.flatnonzero(~infinite.any(axis=1)).tolist())

    def _array(self, rows: Sequence[tuple[Any, ...]]) -> npt.NDArray[np.float32]:
        width = len(self.names)
        values = np.fromiter(
            chain.from_iterable([row[1 : 1 + width] for row in rows]),
            dtype=np.float64,
            count=len(rows) * width,
        )
        with np.errstate(over="ignore"):  # the caller sorts out what becomes infinite
            return values.astype(np.float32).reshape(len(rows), width)

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[tuple[str, Any, Any]] = [("id", str | int | None if self.id else Any, None)]
        names = {"id": self.id or "id"}
        for column, name in enumerate(self.names):
            fields.append((f"f{column}", float | None, None))
            names[f"f{column}"] = name
        if self.time is not None:
            fields.append(("time", Time, None))
            names["time"] = self.time
        # Nothing in a record can form a cycle: untracked, it costs the collector nothing.
        return msgspec.json.Decoder(msgspec.defstruct("Record", fields, rename=names, gc=False))


@dataclass(frozen=True)
class Mixed:
    """Reads id, time and values of records as they came, along paths into what is nested.

    Without an `id`, whoever reads has that from elsewhere.
    """

    id: str | None
    time: str | None
    names: Sequence[str]

    def decode(self, desk: Desk, messages: Sequence[Message], known: Known) -> Records:
        """Decode records, noting fields that are not `known`."""
        take, id_of = values_reader(self.names), _nothing if self.id is None else id_reader(self.id)
        kept, rows = desk.parse(
            msgspec.json.Decoder(dict[str, Any]).decode,
            lambda record: (id_of(record), record),
            {self.id or "id": "missing_id"},
        )
        return Records(
            ids=[str(id) for id, _ in rows],
            times=self._times(record for _, record in rows),
            X=np.empty((len(rows), 0), dtype=np.float32),
            messages=[messages[index] for index in kept],
            values=[take(record) for _, record in rows],
            unknown=known.unknown(record for _, record in rows),
        )

    def _times(self, records: Iterable[Mapping[str, Any]]) -> list[Time]:
        if self.time is None:
            return [None for _ in records]
        time = getter(self.time)
        return [time_of(time(record)) for record in records]


def _nothing(record: Mapping[str, Any]) -> Any:
    """Return None: the records are not to say."""
    return None
