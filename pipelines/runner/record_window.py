"""Sliding window of the newest records of a stream, stored in arrays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamboost.checks import Label, pad_missing_columns
from streamboost.connectors.base import MessageMetadata
from streamboost.connectors.messages.outgoing import Time
from streamboost.pipelines.config.durations import RecordCountAndBatchTime, WindowSize

__all__ = [
    "HeldRecord",
    "Label",
    "RecordWindow",
    "metadata_from_json",
    "metadata_to_json",
]


_NOTHING_CARRIED = MessageMetadata()


class HeldRecord(NamedTuple):
    """Record as it arrived, with the prediction made on arrival and the record's timestamp."""

    x: np.ndarray
    arrival_time: RecordCountAndBatchTime
    predicted_label: Label | None
    time: Time = None
    values: bytes | None = None
    """Original field values (`encode_values`), if the schema has fields of several types. If a
    transformer made the values, its input record follows on a separate line
    (`encode_original_record`)."""
    metadata: MessageMetadata = _NOTHING_CARRIED
    """Metadata of the record's message, if its label may be requested later."""


def metadata_to_json(metadata: Mapping[str, MessageMetadata]) -> dict[str, Any]:
    """Return message metadata, keyed by record id, as JSON values for `metadata_from_json`."""
    return {
        id: [
            _bytes_to_text(one.key),
            [[name, _bytes_to_text(held)] for name, held in one.headers],
            one.time,
        ]
        for id, one in metadata.items()
    }


def metadata_from_json(state: Mapping[str, Any]) -> dict[str, MessageMetadata]:
    """Return the message metadata, keyed by record id, that `metadata_to_json` encoded."""
    return {
        id: MessageMetadata(
            _text_to_bytes(key),
            tuple((name, _text_to_bytes(held) or b"") for name, held in h),
            time,
        )
        for id, (key, h, time) in state.items()
    }


def _bytes_to_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _text_to_bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")


class RecordWindow:
    """Sliding window of records in order of arrival, with lookup by id.

    Records are appended at the end and evicted at the front. The live rows are `[_start, _end)` of
    arrays with free capacity at the end. If the capacity is exhausted, the live rows move to the
    front. If they fill half of the arrays, the arrays are doubled. The amortized cost per record
    is constant.
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self._start = 0
        self._end = 0
        self._base = 0  # number of the record in row 0
        self._number: dict[str, int] = {}
        self._ids: list[str] = []
        self._predicted: list[Label | None] = []
        self._times: list[Time] = []
        self._values: list[bytes | None] = []
        self._metadata: dict[str, MessageMetadata] = {}
        self._X = np.empty((256, n_features), dtype=np.float32)
        self._records = np.empty(256, dtype=np.int64)
        self._batch_times = np.empty(256, dtype=np.int64)

    def __len__(self) -> int:
        return self._end - self._start

    def __contains__(self, id: str) -> bool:
        return id in self._number

    def __getitem__(self, id: str) -> HeldRecord:
        return self._record_in_row(self._number[id] - self._base)

    def add(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        predicted_labels: Sequence[Label | None],
        now: RecordCountAndBatchTime,
        times: Sequence[Time] | None = None,
        values: Sequence[bytes | None] | None = None,
    ) -> None:
        """Append records in order of arrival; `now` is the time before these records.

        `times` and `values` are the timestamps and encoded field values of the records.
        """
        records = np.arange(now.records, now.records + len(ids)) + 1
        batch_times = np.full(len(ids), now.batch_time_ms)
        none = [None] * len(ids)
        self._append_records(
            ids, X, predicted_labels, times or none, values or none, records, batch_times
        )

    def add_metadata(self, metadata: Mapping[str, MessageMetadata]) -> None:
        """Store the metadata of messages, keyed by record id."""
        self._metadata |= metadata

    def evict(self, max_age: WindowSize, now: RecordCountAndBatchTime) -> Iterator[str]:
        """Evict the records that are as old as `max_age`, oldest first; yield their ids.

        A record is removed after the caller has processed its id.
        """
        for id in self._ids[self._start : self._start + self._count_expired_records(max_age, now)]:
            yield id
            del self._number[id]
            self._metadata.pop(id, None)
            self._start += 1

    def _count_expired_records(self, max_age: WindowSize, now: RecordCountAndBatchTime) -> int:
        """Return the number of records that are as old as `max_age`; these are the oldest."""
        live = slice(self._start, self._end)
        began, end = self._batch_times[live], now.batch_time_ms - (max_age.milliseconds or 0)
        if max_age.records is not None:
            began, end = self._records[live], now.records - max_age.records
        return int(np.searchsorted(began, end, side="right"))

    def has_any(self, ids: Iterable[str]) -> bool:
        """Return whether the window holds at least one of the ids."""
        return not self._number.keys().isdisjoint(ids)

    def feature_rows(self) -> np.ndarray:
        """Return the features of the records in the window, float32 (n, n_features)."""
        return self._X[self._start : self._end].copy()

    def field_values(self) -> list[bytes | None]:
        """Return each record's original field values as bytes, oldest record first.

        None for a record that was added without values; the format is that of `HeldRecord.values`.
        """
        return self._values[self._start : self._end]

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values, without the features and values, for `restore`."""
        live = slice(self._start, self._end)
        return {
            "ids": self._ids[live],
            "predicted": self._predicted[live],
            "times": self._times[live],
            "records": self._records[live].tolist(),
            "ticks": self._batch_times[live].tolist(),
            "carried": metadata_to_json(self._metadata),
        }

    @classmethod
    def restore(
        cls, state: dict[str, Any], X: np.ndarray, values: Sequence[bytes | None]
    ) -> "RecordWindow":
        """Return a window with the state from `to_json`, `feature_rows` and `field_values`."""
        window = cls(X.shape[1])
        window._append_records(
            state["ids"],
            X,
            state["predicted"],
            state["times"],
            values,
            state["records"],
            state["ticks"],
        )
        window.add_metadata(metadata_from_json(state["carried"]))
        return window

    def _record_in_row(self, row: int) -> HeldRecord:
        x, values = self._X[row].copy(), self._values[row]
        arrived = RecordCountAndBatchTime(int(self._records[row]), int(self._batch_times[row]))
        carried = self._metadata.get(self._ids[row], _NOTHING_CARRIED)
        return HeldRecord(x, arrived, self._predicted[row], self._times[row], values, carried)

    def _append_records(
        self,
        ids: Sequence[str],
        X: np.ndarray,
        predicted_labels: Sequence[Label | None],
        times: Sequence[Time],
        values: Sequence[bytes | None],
        record_numbers: Any,
        arrival_times_ms: Any,
    ) -> None:
        self._widen_feature_rows(X.shape[1])
        self._reserve_row_capacity(len(ids))
        rows = slice(self._end, self._end + len(ids))
        first = self._base + self._end
        X = pad_missing_columns(X, self.n_features)
        self._X[rows], self._records[rows], self._batch_times[rows] = (
            X,
            record_numbers,
            arrival_times_ms,
        )
        self._ids += ids
        self._predicted += predicted_labels
        self._times += times
        self._values += values
        self._number.update(zip(ids, range(first, first + len(ids)), strict=True))
        self._end = rows.stop

    def _widen_feature_rows(self, n_features: int) -> None:
        """Add columns of NaN to the stored feature rows, up to `n_features` columns."""
        if n_features > self.n_features:
            self._X = pad_missing_columns(self._X, n_features)
            self.n_features = n_features

    def _reserve_row_capacity(self, n_rows: int) -> None:
        if self._end + n_rows <= len(self._X):
            return
        live = slice(self._start, self._end)
        needed = len(self) + n_rows
        capacity = len(self._X)
        while capacity < 2 * needed:
            capacity *= 2
        for name in ("_X", "_records", "_batch_times"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: len(self)] = old[live]
            setattr(self, name, new)
        for held in (self._ids, self._predicted, self._times, self._values):
            del held[: self._start]
        self._base += self._start
        self._start, self._end = 0, live.stop - live.start
