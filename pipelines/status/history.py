"""Bounded history of a pipeline: chart points, chart events, predictions and dead letters."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from streamboost.pipelines.status.file import COUNTED, RATES, Row
from streamboost.pipelines.status.reader import StatusReader

MOST_POINTS = 2_000
MOST_MARKS = 1_000
MOST_PREDICTIONS = 500
MOST_DEAD_LETTERS = 200
MOST_PAYLOAD = 4_096
"""Maximum characters of a dead letter's payload; a multiple of four, as base64 needs."""

LONGEST_PREDICTION = 10_000
"""Size in bytes above which a prediction is kept without its copy of the record's fields."""

RECENT = 600_000
"""Age in milliseconds at which the distance of points is about twice that of the newest points."""

encode = msgspec.json.Encoder(enc_hook=lambda value: value.item()).encode


class HistoryBuffer:
    """Bounded buffer of chart points, chart events (marks), predictions and dead letters."""

    def __init__(self) -> None:
        self.points: dict[int, Row] = {}
        self.marks: dict[int, Row] = {}
        self.predictions: dict[int, Row] = {}
        self.dead_letters: dict[int, Row] = {}
        # Larger than the numbers of earlier runs, as no run uses a million numbers per second.
        self._next = time.time_ns() // 1_000
        self._values: dict[int, dict[str, Any]] = {}
        self._sizes: dict[int, int] = {}

    def restore(self, reader: StatusReader) -> None:
        """Load the history that an earlier run wrote to its status file."""
        for mark in reader.chart_marks():
            # Clients poll for the marks after the number of the last one they have seen.
            number = mark.pop("id")
            self.marks[number] = tuple(mark.values())
            self._next = max(self._next, number)
        for point in reader.chart_points():
            batch_time_ms, sequence = point.pop("time"), point.pop("sequence")
            self.add_point(
                batch_time_ms, sequence, {key: point[key] for key in point if key not in RATES}
            )
        self.add_predictions(
            [encode(one) for one in reversed(reader.predictions(MOST_PREDICTIONS))]
        )
        self.add_dead_letters(
            [encode(one) for one in reversed(reader.dead_letters(MOST_DEAD_LETTERS))]
        )

    def add_point(self, batch_time_ms: int, sequence: int, value: dict[str, Any]) -> None:
        """Add a chart point; if there are more than `MOST_POINTS`, merge two old points."""
        number = self._next_row_number()
        self.points[number] = (batch_time_ms, sequence, json_text(value))
        self._values[number] = value
        if len(self.points) > MOST_POINTS:
            self._merge_two_points(batch_time_ms)

    def add_chart_mark(
        self, batch_time_ms: int, sequence: int, kind: str, version: int | None, text: str
    ) -> None:
        """Add a chart event, such as a drift or a command; evict the oldest if full."""
        self.marks[self._next_row_number()] = (batch_time_ms, sequence, kind, version, text)
        _evict_oldest_rows(self.marks, MOST_MARKS)

    def add_predictions(self, messages: Iterable[bytes]) -> None:
        """Add the prediction messages of an interval, stored in one row.

        Large predictions are kept without their copy of the record's fields.
        """
        newest = [
            _remove_fields_of_long_prediction(message)
            for message in deque(messages, maxlen=MOST_PREDICTIONS)
        ]
        if not newest:
            return
        number = self._next_row_number()
        self.predictions[number] = (f"[{b','.join(newest).decode()}]",)
        self._sizes[number] = len(newest)
        shown = sum(self._sizes.values())
        for number, size in list(self._sizes.items()):
            shown -= size
            if shown < MOST_PREDICTIONS:
                break
            del self.predictions[number], self._sizes[number]

    def add_dead_letters(self, messages: Iterable[bytes]) -> None:
        """Add dead letter messages; payloads are truncated to `MOST_PAYLOAD` characters."""
        for message in deque(messages, maxlen=MOST_DEAD_LETTERS):
            self.dead_letters[self._next_row_number()] = (_truncate_payload(message).decode(),)
        _evict_oldest_rows(self.dead_letters, MOST_DEAD_LETTERS)

    def rows_by_table(self) -> dict[str, Mapping[int, Row]]:
        """Return copies of all rows, keyed by table name and row number."""
        return {
            "points": dict(self.points),
            "marks": dict(self.marks),
            "predictions": dict(self.predictions),
            "dead_letters": dict(self.dead_letters),
        }

    def _next_row_number(self) -> int:
        self._next += 1
        return self._next

    def _merge_two_points(self, now: int) -> None:
        """Merge one chart point into the next point, and add up their counts.

        The point with the smallest time between its neighbours, relative to its age, is merged.
        `now` is in milliseconds since the epoch.
        """
        numbers = list(self.points)
        times = np.array([self.points[number][0] for number in numbers], dtype=np.int64)
        spans = (times[2:] - times[:-2]) / (now - times[1:-1] + RECENT)
        least = 1 + int(spans.argmin())
        gone, kept = numbers[least], numbers[least + 1]
        self.points.pop(gone)
        before, after = self._values.pop(gone), self._values[kept]
        summed = {key: before.get(key, 0) + after.get(key, 0) for key in COUNTED}
        self._values[kept] = after | summed
        batch_time_ms, sequence, _ = self.points[kept]
        self.points[kept] = (batch_time_ms, sequence, json_text(self._values[kept]))


def json_text(value: Any) -> str:
    """Return `value` as JSON text; NumPy scalars are allowed."""
    return encode(value).decode()


def _truncate_payload(message: bytes) -> bytes:
    if len(message) <= MOST_PAYLOAD:
        return message
    letter = msgspec.json.decode(message)
    return encode(letter | {"payload": letter["payload"][:MOST_PAYLOAD]})


def _remove_fields_of_long_prediction(message: bytes) -> bytes:
    if len(message) <= LONGEST_PREDICTION:
        return message
    prediction = msgspec.json.decode(message, type=dict[str, msgspec.Raw])
    prediction.pop("fields", None)
    return msgspec.json.encode(prediction)


def _evict_oldest_rows(rows: dict[int, Row], max_rows: int) -> None:
    for number in list(rows)[: max(len(rows) - max_rows, 0)]:
        del rows[number]
