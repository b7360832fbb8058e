"""Oracle: answers label requests from a file of labels, with a delay."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence

import msgspec

from streamboost.connectors.base import PARTITION, Message, Source
from streamboost.connectors.messages.outgoing import Time, parse_time_ms
from streamboost.connectors.oracle.table import OracleLabels
from streamboost.connectors.request_log import RequestAnsweringSource
from streamboost.errors import ConnectorError

_PAGE = 1_000


class _PredictedRecord(msgspec.Struct):
    id: str
    time: Time = None


_decode = msgspec.json.Decoder(_PredictedRecord).decode


class DelayedAnswerIds:
    """Set of the ids of predicted records whose answers are not due yet, because of the delay.

    The set is updated from the log of predictions.

    Parameters
    ----------
    predictions : the log of predictions, for the exclusive use of this object
    records : delay of an answer, as a number of records that are predicted after the record
    milliseconds : delay of an answer, measured by the records' times, used if `records` is None; a
        record without a time has the largest time of earlier records
    """

    def __init__(
        self, predictions: Source, records: int | None = None, milliseconds: int | None = None
    ) -> None:
        self._predictions = predictions
        self._records = records
        self._milliseconds = milliseconds or 0
        self._in_order = deque[tuple[str, float]]()
        self._ids = Counter[str]()
        self._newest = -math.inf
        self._has_begun = False

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def read_new_predictions(self) -> None:
        """Read the predictions written since the last call, and update the set."""
        if not self._has_begun:
            self._skip_due_records()
        while messages := self._predictions.poll(_PAGE):
            for message in messages:
                self._add_predicted_record(_decode(message.payload))

    def release_resources(self) -> None:
        """Release the resources of the log; the next read acquires them again."""
        self._predictions.release_resources()

    def close(self) -> None:
        """Close the log."""
        self._predictions.close()

    def _skip_due_records(self) -> None:
        """Skip predictions of records that are due already, if the delay is a number of records."""
        there = self._predictions.lag() if self._records is not None else None
        if there is not None and self._records is not None:
            self._predictions.seek({PARTITION: max(there - self._records, 0)})
        self._has_begun = True

    def _add_predicted_record(self, record: _PredictedRecord) -> None:
        if self._records is None:
            time = parse_time_ms(record.time)
            self._newest = max(self._newest, time if time is not None else -math.inf)
        self._in_order.append((record.id, self._newest))
        self._ids[record.id] += 1
        while self._in_order and self._is_answer_due(*self._in_order[0]):
            id, _ = self._in_order.popleft()
            self._ids[id] -= 1
            if not self._ids[id]:
                del self._ids[id]

    def _is_answer_due(self, id: str, time: float) -> bool:
        if self._records is not None:
            return len(self._in_order) > self._records
        return time <= self._newest - self._milliseconds


class AnswersOracle(RequestAnsweringSource):
    """Source of labels for requested records, taken from a file, with a delay.

    Records whose label is not in the file are left out. There is no state except the position,
    because the log of predictions determines which answers are due. A replay ignores the delay.

    Parameters
    ----------
    answers : the labels of all records
    requests : the log of requests or, to answer all records, the log of predictions; for the
        exclusive use of the oracle
    not_yet_due : the records that are not answered yet; None for no delay

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from streamboost.connectors.memory import MemoryLog, MemorySource
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("id,label\\n7,sky\\n8,grass\\n")
    >>> predictions = MemoryLog()
    >>> young = DelayedAnswerIds(MemorySource(predictions), records=1)
    >>> oracle = AnswersOracle(OracleLabels(path), MemorySource(predictions), young)
    >>> predictions.append([b'{"id": "7"}'])
    >>> oracle.poll(10)
    []
    >>> predictions.append([b'{"id": "8"}'])
    >>> oracle.poll(10)[0].payload
    b'{"id":"7","label":"sky"}'
    """

    def __init__(
        self, answers: OracleLabels, requests: Source, not_yet_due: DelayedAnswerIds | None = None
    ) -> None:
        super().__init__(requests)
        self._answers = answers
        self._not_yet_due = not_yet_due
        self._rereads = False

    def _append_due_answers(self, requests: Sequence[Message], answers: list[Message]) -> int:
        if self._not_yet_due is not None and not self._rereads:
            self._not_yet_due.read_new_predictions()
        for passed, message in enumerate(requests):
            try:
                id = _decode(message.payload).id
            except (msgspec.MsgspecError, ValueError) as error:
                raise ConnectorError(
                    f"the message at offset {message.offset} of partition {message.partition!r} "
                    f"of what is to be answered names no record: {error}; let nobody but the "
                    "pipeline write there"
                ) from error
            if self._not_yet_due is not None and not self._rereads and id in self._not_yet_due:
                return passed
            if (payload := self._answers.label_message(id)) is not None:
                answers.append(Message(payload, message.partition, message.offset, len(payload)))
        return len(requests)

    def read_range(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Return `n` answers again, for a replay, regardless of the delay."""
        self._rereads = True
        try:
            return super().read_range(ranges, n)
        finally:
            self._rereads = False

    def release_resources(self) -> None:
        """Release the resources of the logs; the next read acquires them again."""
        super().release_resources()
        if self._not_yet_due is not None:
            self._not_yet_due.release_resources()

    def close(self) -> None:
        """Close the logs."""
        super().close()
        if self._not_yet_due is not None:
            self._not_yet_due.close()
