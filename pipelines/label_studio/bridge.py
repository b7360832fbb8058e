"""Carrying a pipeline's requests to a Label Studio project, and its answers back."""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streamboost.connectors.base import Sink, Source, write_outside
from streamboost.connectors.label_studio.project import KEY, Choices, LabelStudio, Task
from streamboost.connectors.messages.labels import as_text
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import Label
from streamboost.errors import ConfigurationError
from streamboost.pipelines.label_studio.tasks import Book, TaskEntry
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["Bridge", "whole_number"]

_log = logging.getLogger(__name__)

SOURCE = "label studio"
"""What its labels name as theirs."""

PATIENCE = 60.0
"""Seconds after which a task that was sent and cannot be found was not made."""

_TOGETHER = 100


class _Asked(msgspec.Struct):
    id: str
    features: dict[str, Any]
    label: str | int | bool | None
    probabilities: dict[str, float | None]
    utility: float
    sequence: int


_request = msgspec.json.Decoder(_Asked).decode


@dataclass(frozen=True, slots=True)
class _Standing:
    """The requests that were open, by their records' ids, after batch `sequence`.

    `fields` are the further fields that some record of a request has had.
    """

    sequence: int
    requests: Mapping[str, Mapping[str, Any]]
    fields: Collection[str]

    def knows(self, entry: TaskEntry) -> bool:
        """Tell whether it is from after the request was made."""
        return entry.sequence <= self.sequence


class Bridge:
    """Carries requests to a project and answers back.

    Parameters
    ----------
    name
        The pipeline's.
    studio, choices
        The project, and the tag that takes the answers.
    book
        What is known of its tasks.
    requests, labels
        What the pipeline has asked, and the labels that have come.
    answers
        Where labels are written.
    status
        What the pipeline says of itself; None where it says nothing. Tasks then have no further
        fields, and stay when their requests expire.
    schema
        What messages of labels look like.
    """

    def __init__(
        self,
        name: str,
        studio: LabelStudio,
        choices: Choices,
        book: Book,
        requests: Source,
        labels: Source,
        answers: Sink,
        status: StatusReader | None,
        schema: Schema,
    ) -> None:
        self._name = name
        self._studio = studio
        self._choices = choices
        self._book = book
        self._requests = requests
        self._labels = labels
        self._answers = answers
        self._status = status
        self._schema = schema
        requests.seek(book.position("requests"))
        labels.seek(book.position("labels"))

    def turn(self) -> None:
        """Carry over what there is now; after an error, call it again."""
        self._read_requests()
        self._read_labels()
        standing = self._standing()
        self._find_sent()
        self._drop_closed(standing)
        self._send_new(standing)
        self._collect()

    def _read_requests(self) -> None:
        while messages := self._requests.poll(_TOGETHER):
            entries = [entry for message in messages for entry in self._entry_of(message.payload)]
            self._book.take("requests", self._requests.position(), entries)

    def _entry_of(self, payload: bytes) -> Iterator[TaskEntry]:
        try:
            request = _request(payload)
        except msgspec.MsgspecError as error:
            _log.warning("a request is passed over, as it cannot be read: %s", error)
            return
        key = f"{self._name}/{request.sequence}/{request.id}"
        yield TaskEntry(key, request.id, request.sequence, payload)

    def _read_labels(self) -> None:
        while messages := self._labels.poll(_TOGETHER):
            ids = self._schema.decode_labels(messages).labels.ids
            self._book.answered("labels", self._labels.position(), ids)

    def _standing(self) -> _Standing | None:
        """Return which requests are open, None while that cannot be told."""
        if self._status is None:
            return None
        before = self._status.stamp()
        told = self._status.document("pipeline")
        found = {one["id"]: one for one in self._status.requests()}
        # What could not be read looks as if there were nothing: the stamp gives it away.
        if told is None or not before or self._status.stamp() != before:
            return None
        return _Standing(told["sequence"], found, told.get("fields", {}))

    def _find_sent(self) -> None:
        """Find the tasks of requests that were sent and not confirmed."""
        sent = self._book.entries("sent")
        if not sent:
            return
        found: dict[str, list[Task]] = {}
        for task in self._studio.tasks(self._choices).values():
            if task.key is not None:
                found.setdefault(task.key, []).append(task)
        made = {entry.key: self._only(found[entry.key]) for entry in sent if entry.key in found}
        self._book.open(made)
        overdue = time.time() - PATIENCE
        self._book.recall(
            entry for entry in sent if entry.key not in made and (entry.sent or 0.0) <= overdue
        )

    def _only(self, tasks: list[Task]) -> int:
        """Return the one of these that stays, and remove the others that nobody has worked on.

        There are several where the server made one long after it was given up.
        """
        first, *others = sorted(tasks, key=lambda task: (not task.is_touched, task.id))
        for task in others:
            if not task.is_touched:
                self._studio.delete(task.id)
        return first.id

    def _drop_closed(self, standing: _Standing | None) -> None:
        """Let go of requests that want no answer, and remove their tasks if nobody began them."""

        def is_closed(entry: TaskEntry) -> bool:
            gone = (
                standing is not None and standing.knows(entry) and entry.id not in standing.requests
            )
            return entry.answered or gone

        self._book.close([entry for entry in self._book.entries("new") if is_closed(entry)])
        closed = [entry for entry in self._book.entries("open") if is_closed(entry)]
        tasks = self._studio.tasks(self._choices, [entry.task for entry in closed if entry.task])
        for task in tasks.values():
            if not task.is_touched:
                self._studio.delete(task.id)
        self._book.close(closed)

    def _send_new(self, standing: _Standing | None) -> None:
        """Make tasks of new requests; where there is a status, once it knows them."""
        new = self._book.entries("new")
        if self._status is not None:
            new = [entry for entry in new if standing is not None and standing.knows(entry)]
        for start in range(0, len(new), _TOGETHER):
            entries = new[start : start + _TOGETHER]
            tasks = [self._task(entry, standing) for entry in entries]
            self._book.send(entries, time.time())
            numbers = self._studio.create(tasks)
            made = self._studio.tasks(self._choices, numbers)
            self._book.open({task.key: task.id for task in made.values() if task.key})

    def _task(self, entry: TaskEntry, standing: _Standing | None) -> dict[str, Any]:
        """Return a request as a task, with what the committee said as its prediction."""
        request = _request(entry.request)
        known = standing.requests[entry.id] if standing else {}
        guess = None if request.label is None else str(as_text(request.label))
        sure = request.probabilities.get(guess) if guess is not None else None
        data = {
            **known.get("fields", {}),
            "id": request.id,
            "features": request.features,
            "guess": guess or "nothing yet",
            "probability": sure,
            "utility": request.utility,
            KEY: entry.key,
        }
        data |= self._absent(data, standing)
        if guess not in self._choices.labels:
            return {"data": data}
        prediction = {
            "model_version": f"{self._name} batch {request.sequence}",
            "score": sure,
            "result": self._choices.result(guess),
        }
        return {"data": data, "predictions": [prediction]}

    def _absent(self, data: Mapping[str, Any], standing: _Standing | None) -> dict[str, str]:
        """Return what the project shows and this record lacks, empty, as other records have it."""
        absent = self._choices.variables - data.keys()
        unknown = sorted(absent.difference(standing.fields if standing else ()))
        if unknown:
            raise ConfigurationError(
                f"{self._studio.where}: its labelling interface shows ${unknown[0]}, which no "
                f"record has had; a task has {', '.join(f'${name}' for name in data)}"
            )
        return dict.fromkeys(absent, "")

    def _collect(self) -> None:
        """Write the labels of finished tasks, each in a breath with the note that it is written."""
        entries = {
            entry.task: entry for entry in self._book.entries("open") if entry.task is not None
        }
        if not entries:
            return
        tasks = self._studio.tasks(self._choices, entries)
        self._book.close([entry for number, entry in entries.items() if number not in tasks])
        done = [task for task in tasks.values() if task.label is not None and task.id in entries]
        for task in done:
            entry = entries[task.id]
            label = self._label(task.label or "")
            answer = Label(entry.id, label, task.time, SOURCE)
            write_outside(self._answers, [self._schema.encode_label(answer)])
            self._book.close([entry])
        if done:
            _log.info("%d answers from %s", len(done), self._studio.where)

    def _label(self, text: str) -> str | int:
        return whole_number(text, self._studio.where) if self._schema.label == "integer" else text


def whole_number(choice: str, where: str) -> int:
    """Return the label that `choice` is; ConfigurationError where it is no whole number."""
    try:
        return int(choice)
    except ValueError:
        raise ConfigurationError(
            f"{where}: the choice {choice!r} is not a whole number, which labels are by [schema] "
            'label = "integer": mend the labelling interface'
        ) from None
