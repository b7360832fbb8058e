"""What answers a log with the labels of a file, each of them late."""

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence

import msgspec

from streamboost.connectors.answers.table import Answers
from streamboost.connectors.base import PARTITION, Message, Position, Source
from streamboost.connectors.messages.written import Time, milliseconds
from streamboost.errors import ConnectorError

__all__ = ["AnswersOracle", "Young"]

_PAGE = 1_000


class _Asked(msgspec.Struct):
    id: str
    time: Time = None


_decode = msgspec.json.Decoder(_Asked).decode


class Young:
    """The records that are too new to be answered, as told by the log of predictions.

    Parameters
    ----------
    predictions : the log, which nobody else may move
    records : a record is young until so many further ones have been predicted
    milliseconds : or until one has been predicted whose time is so much later than its own; a
        record without a time is taken to be as old as the newest one before it
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

    def catch_up(self) -> None:
        """Take in what has been predicted since."""
        if not self._has_begun:
            self._begin()
        while messages := self._predictions.poll(_PAGE):
            for message in messages:
                self._add(_decode(message.payload))

    def rest(self) -> None:
        """Have the log rest."""
        self._predictions.rest()

    def close(self) -> None:
        """Close the log."""
        self._predictions.close()

    def _begin(self) -> None:
        """Pass over what cannot be young any more; the time of a record alone does not tell."""
        there = self._predictions.lag() if self._records is not None else None
        if there is not None and self._records is not None:
            self._predictions.seek({PARTITION: max(there - self._records, 0)})
        self._has_begun = True

    def _add(self, record: _Asked) -> None:
        if self._records is None:
            time = milliseconds(record.time)
            self._newest = max(self._newest, time if time is not None else -math.inf)
        self._in_order.append((record.id, self._newest))
        self._ids[record.id] += 1
        while self._in_order and self._is_old(*self._in_order[0]):
            id, _ = self._in_order.popleft()
            self._ids[id] -= 1
            if not self._ids[id]:
                del self._ids[id]

    def _is_old(self, id: str, time: float) -> bool:
        if self._records is not None:
            return len(self._in_order) > self._records
        return time <= self._newest - self._milliseconds


class AnswersOracle(Source):
    """Answers what is asked in a log with the labels of a file, each so much later.

    Its messages are label messages in the order of the log, but for records whose label the file
    does not know. Its position is the position in that log, so whoever keeps that has kept all:
    which of the answers were due depends on the log of predictions alone, and those that are read
    again, as a replay does, are given whatever is young.

    Parameters
    ----------
    answers : the labels
    asked : the log of requests or, to have all labels, that of predictions; the oracle moves it,
        so nobody else may
    young : the records that are not answered yet; None: each is answered at once

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from streamboost.connectors.memory import MemoryLog, MemorySource
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("id,label\\n7,sky\\n8,grass\\n")
    >>> predictions = MemoryLog()
    >>> young = Young(MemorySource(predictions), records=1)
    >>> oracle = AnswersOracle(Answers(path), MemorySource(predictions), young)
    >>> predictions.append([b'{"id": "7"}'])
    >>> oracle.poll(10)
    []
    >>> predictions.append([b'{"id": "8"}'])
    >>> oracle.poll(10)[0].payload
    b'{"id":"7","label":"sky"}'
    """

    def __init__(self, answers: Answers, asked: Source, young: Young | None = None) -> None:
        self._answers = answers
        self._asked = asked
        self._young = young
        self._rereads = False

    def poll(self, limit: int) -> list[Message]:
        """Give at most `limit` answers, up to the first that is not due."""
        start = self._asked.position()
        answers: list[Message] = []
        try:
            while len(answers) < limit:
                before = self._asked.position()
                asked = self._asked.poll(limit - len(answers))
                passed = self._answer(asked, answers)
                if passed < len(asked):
                    # Only the log knows where its next message starts: its offsets may have gaps.
                    self._asked.seek(before)
                    self._asked.poll(passed)
                    break
                if not asked:
                    break
        except BaseException:
            self._asked.seek(start)
            raise
        return answers

    def _answer(self, asked: Sequence[Message], answers: list[Message]) -> int:
        """Add the answers that are known; return how many of `asked` are passed."""
        if self._young is not None and not self._rereads:
            self._young.catch_up()
        for passed, message in enumerate(asked):
            try:
                id = _decode(message.payload).id
            except (msgspec.MsgspecError, ValueError) as error:
                raise ConnectorError(
                    f"the message at offset {message.offset} of partition {message.partition!r} "
                    f"of what is to be answered names no record: {error}; let nobody but the "
                    "pipeline write there"
                ) from error
            if self._young is not None and not self._rereads and id in self._young:
                return passed
            if (payload := self._answers.message(id)) is not None:
                answers.append(Message(payload, message.partition, message.offset, len(payload)))
        return len(asked)

    def position(self) -> Position:
        """Return the position in the log of what is asked."""
        return self._asked.position()

    @property
    def bookmark(self) -> str | None:
        """The bookmark of the log of what is asked."""
        return self._asked.bookmark

    def expect(self, bookmark: str) -> None:
        """Read only the log that `bookmark` identifies."""
        self._asked.expect(bookmark)

    def seek(self, position: Position) -> None:
        """Go on from a position in the log of what is asked."""
        self._asked.seek(position)

    def reread(self, ranges: Mapping[str, tuple[int, int]], n: int) -> list[Message]:
        """Give `n` answers once more, which were due when they were given first."""
        self._rereads = True
        try:
            return super().reread(ranges, n)
        finally:
            self._rereads = False

    def rest(self) -> None:
        """Have the logs rest."""
        self._asked.rest()
        if self._young is not None:
            self._young.rest()

    def close(self) -> None:
        """Close the logs."""
        self._asked.close()
        if self._young is not None:
            self._young.close()
