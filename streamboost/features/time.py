"""Time encoder: hour, weekday, day of the year, and the time since the preceding record."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Any

import numpy as np

from streamboost.features.fields import as_zone
from streamboost.features.layout import ColumnEncoder, ColumnLayout, Values, is_missing
from streamboost.features.values import is_plain_number
from streamboost.storage import Arrays

_MILLISECONDS = 1e11
"""Least number that is read as milliseconds since the epoch; as seconds, it is the year 5138."""


def as_datetime(value: Any, zone: tzinfo) -> datetime | None:
    """Convert `value` to a time in `zone`; return None if it is not a time.

    >>> from zoneinfo import ZoneInfo
    >>> as_datetime("2026-03-01T07:30:00Z", ZoneInfo("Europe/Berlin")).isoformat()
    '2026-03-01T08:30:00+01:00'
    >>> as_datetime(1772350200000, UTC).isoformat()
    '2026-03-01T07:30:00+00:00'
    """
    try:
        if is_missing(value) or isinstance(value, bool):
            return None
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, date):
            moment = datetime(value.year, value.month, value.day)
        elif isinstance(value, str) and not _is_decimal(value):
            moment = datetime.fromisoformat(value.strip())
        else:
            seconds = float(value)
            seconds = seconds / 1000.0 if abs(seconds) >= _MILLISECONDS else seconds
            moment = datetime.fromtimestamp(seconds, UTC)
        return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _is_decimal(text: str) -> bool:
    """Return True if `text` is a number, and not an ISO 8601 date of eight digits."""
    bare = text.strip().removeprefix("-")
    is_number = bare.replace(".", "", 1).isdecimal() or is_plain_number(bare)
    return is_number and not (bare.isdecimal() and len(bare) == 8)


class TimeEncoder(ColumnEncoder):
    """Encoder of a time field: hour, weekday, day of the year, seconds since the preceding record.

    `zone` is the time zone of the first three columns, and of times without an offset.
    """

    is_stateful = True

    def __init__(self, layout: ColumnLayout, name: Hashable, value_index: int, zone: str) -> None:
        self._name = name
        self._value_index = value_index
        self._zone = as_zone(zone)
        parts = ("hour", "weekday", "day of the year", "seconds since the record before")
        self.columns = [layout.add_column(f"{name}: {part}") for part in parts]
        self._newest = math.nan  # seconds since the epoch

    def observe(self, values: Values) -> None:
        """Update the state with an arriving record, whose columns are computed already."""
        moment = as_datetime(values[self._value_index], self._zone)
        if moment is not None:
            self._newest = moment.timestamp()

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write n records into `X` (n, D); return each field's number of unreadable values."""
        unreadable: Counter[Hashable] = Counter()
        for value, row in zip(values, X, strict=True):
            given = value[self._value_index]
            moment = as_datetime(given, self._zone)
            if moment is None:
                unreadable[self._name] += not is_missing(given)
                continue
            hour = moment.hour + moment.minute / 60.0
            since = moment.timestamp() - self._newest
            row[self.columns] = (hour, moment.weekday(), moment.timetuple().tm_yday, since)
        return +unreadable

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name."""
        return {"columns": self.columns, "newest": self._newest}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        self.columns = list(state["columns"])
        self._newest = state["newest"]
