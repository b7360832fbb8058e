"""Answers from a file: labels that are known already, given late, as a person would give them."""

import logging
import math
import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from streamboost.connectors.base import PARTITION, Message, Position, Source
from streamboost.connectors.files.open import file_source
from streamboost.connectors.messages.decoded import explain
from streamboost.connectors.messages.inference import absent
from streamboost.connectors.messages.written import Time, milliseconds
from streamboost.errors import ConnectorError, DataError

__all__ = ["Answers", "AnswersOracle", "LabelFields", "Young", "as_text"]

_log = logging.getLogger(__name__)

_PAGE = 1_000
_SAMPLE = 200
"""Lines kept to say of a file that answers nothing what is in it."""


class LabelFields(NamedTuple):
    """Where labelled records have their id and their label, and whether every label is text."""

    id: str = "id"
    label: str = "label"
    as_text: bool = True


class Answers:
    """The labels that a file holds, by the ids of their records; read when they are first wanted.

    Records without a label are no answers. Of two records of one id the later one holds.

    Parameters
    ----------
    path : path to labelled records, or to label messages, as `file_source` reads them
    fields : where id and label stand in them
    max_bytes : longer records are left out

    Raises
    ------
    ConnectorError
        On the first use, when the file cannot be read.
    DataError
        On the first use, when not one record in it has an id and a label.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> _ = path.write_bytes(b'{"id": 7, "a": 1.5, "fraud": true}\\n{"id": 8, "fraud": null}\\n')
    >>> answers = Answers(path, LabelFields(label="fraud"))
    >>> answers.message("7"), answers.message("8")
    (b'{"id":"7","label":"true"}', None)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: LabelFields = LabelFields(),  # noqa: B008 - it cannot change
        max_bytes: int = 1_000_000,
    ) -> None:
        self._path = os.fspath(path)
        self._fields = fields
        self._max_bytes = max_bytes
        self._left_out = Counter[str]()

    def message(self, id: str) -> bytes | None:
        """Return the label message of a record; None where nobody knows its label."""
        label = self._labels.get(id)
        return None if label is None else b'{"id":%b,"label":%b}' % (msgspec.json.encode(id), label)

    def __str__(self) -> str:
        """Say how many answers there are, and how many records are none."""
        return self._sentence(self._labels)

    def _sentence(self, labels: Mapping[str, bytes]) -> str:
        said = f"{len(labels):,} answers, {len(set(labels.values())):,} labels, in {self._path}"
        return f"{said}; left out: {self._faults}" if self._left_out else said

    @property
    def _faults(self) -> str:
        return ", ".join(f"{n:,} {fault}" for fault, n in self._left_out.items())

    @cached_property
    def _labels(self) -> dict[str, bytes]:
        """The labels as they stand in JSON."""
        found = self._read()
        _log.log(logging.WARNING if self._left_out else logging.INFO, "%s", self._sentence(found))
        return found

    def _read(self) -> dict[str, bytes]:
        """Read the file; each label is kept once, however often it is given."""
        row = _row(self._fields)
        text = {self._fields.id} | ({self._fields.label} if self._fields.as_text else set())
        found: dict[str, bytes] = {}
        kept: dict[bytes, bytes] = {}
        sample: list[bytes] = []
        with closing(file_source(self._path, text, self._max_bytes)) as source:
            while messages := source.poll(_PAGE):
                sample += [message.payload for message in messages[: _SAMPLE - len(sample)]]
                for message in messages:
                    id, label, fault = self._parsed(row, message)
                    if fault:
                        self._left_out[fault] += 1
                    else:
                        found[id] = kept.setdefault(label, label)
        if not found:
            raise self._useless(sample)
        return found

    def _parsed(
        self, row: "msgspec.json.Decoder[Any]", message: Message
    ) -> tuple[str, bytes, str | None]:
        """Return id and label of a record, or why it is left out."""
        if message.size > len(message.payload):
            return "", b"", "too large"
        try:
            parsed = row.decode(message.payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            reason, _ = explain(message.payload, error)
            return "", b"", reason.replace("_", " ")
        label = bytes(parsed.label)
        if parsed.id is None or parsed.id == "":
            return "", b"", "without an id"
        if label in (b"null", b'""'):
            return "", b"", "without a label"
        if label[:1] in (b"{", b"["):
            return "", b"", "whose label is nested"
        return str(parsed.id), as_text(label) if self._fields.as_text else label, None

    def _useless(self, sample: Sequence[bytes]) -> DataError:
        """Return the error of a file without one answer."""
        names = (self._fields.id, self._fields.label)
        why = absent(sample, names) or self._faults
        return DataError(
            f"{self._path} holds no answer: {why or 'it is empty'}. Its records must have their id "
            f"as {names[0]!r} and their label as {names[1]!r}; name others in [labels.fields]"
        )


def as_text(label: bytes) -> bytes:
    """Return a label in JSON as text in JSON.

    >>> as_text(b'"sky"'), as_text(b"true"), as_text(b"3")
    (b'"sky"', b'"true"', b'"3"')
    """
    return label if label.startswith(b'"') else msgspec.json.encode(label.decode())


def _row(fields: LabelFields) -> "msgspec.json.Decoder[Any]":
    nothing = msgspec.Raw(b"null")
    wanted = [("id", str | int | None, None), ("label", msgspec.Raw, nothing)]
    struct = msgspec.defstruct("Row", wanted, rename={"id": fields.id, "label": fields.label})
    return msgspec.json.Decoder(struct)


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

    def close(self) -> None:
        """Close the logs."""
        self._asked.close()
        if self._young is not None:
            self._young.close()
