"""Bridge between a pipeline and a Label Studio project: requests to tasks, answers to labels."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from streamboost.connectors.base import Sink, Source, write_directly
from streamboost.connectors.label_studio.api import RefusedError
from streamboost.connectors.label_studio.project import Choices, LabelStudio, LabelStudioTask
from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError
from streamboost.pipelines.label_studio.requests import RequestState, lacking, read_request, task_of
from streamboost.pipelines.label_studio.tasks import TaskEntry, TaskStore
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["Bridge", "whole_number"]

_log = logging.getLogger(__name__)

SOURCE = "label studio"
"""Source of the labels that the bridge writes."""

PATIENCE = 60.0
"""Seconds after which a sent task that cannot be found counts as not created."""

_TOGETHER = 100


class Bridge:
    """Bridge between a pipeline's requests and labels, and a Label Studio project.

    Parameters
    ----------
    name
        The pipeline's name.
    studio
        The Label Studio project.
    find_choices
        Returns the current tag of the labelling interface that takes the answers.
    book
        Store of the tasks.
    requests, labels
        Sources of the pipeline's requests and labels.
    answers
        Sink for new labels.
    status
        Reader of the pipeline's status; None if the pipeline publishes none. Tasks then have no
        further fields, and stay when their requests expire.
    schema
        Schema of label messages.
    """

    def __init__(
        self,
        name: str,
        studio: LabelStudio,
        find_choices: Callable[[], Choices],
        book: TaskStore,
        requests: Source,
        labels: Source,
        answers: Sink,
        status: StatusReader | None,
        schema: Schema,
    ) -> None:
        self._name = name
        self._project = studio
        self._find_choices = find_choices
        self._choices: Choices = find_choices()
        self._task_store = book
        self._requests = requests
        self._labels = labels
        self._answers = answers
        self._status = status
        self._schema = schema
        self._logged: set[str] = set()
        self._key_prefix = book.key_prefix(name)
        book.mark_unsent(book.entries("refused"))
        book.resume("requests", requests)
        book.resume("labels", labels)

    def run_once(self) -> None:
        """Process all new requests, labels and annotations once; may be repeated after an error."""
        self._load_interface()
        self._read_requests()
        self._read_labels()
        standing = None if self._status is None else RequestState.read(self._status)
        self._find_sent()
        self._drop_closed(standing)
        self._send_new(standing)
        self._collect()

    def _load_interface(self) -> None:
        """Load the labelling interface; if it has changed, retry the rejected tasks.

        An unsuitable interface, for example while it is being edited, is ignored with a warning.
        """
        try:
            choices = self._find_choices()
        except ConfigurationError as error:
            self._warn_once(f"{error}. Until then it is taken to be as it was")
            return
        if choices != self._choices:
            self._choices = choices
            self._task_store.mark_unsent(self._task_store.entries("refused"))

    def _read_requests(self) -> None:
        while messages := self._requests.poll(_TOGETHER):
            entries = [entry for message in messages for entry in self._entry_of(message.payload)]
            source = self._requests
            self._task_store.add("requests", source.position(), entries, source.bookmark)
        self._requests.release_resources()

    def _entry_of(self, payload: bytes) -> Iterator[TaskEntry]:
        try:
            request = read_request(payload)
        except msgspec.MsgspecError as error:
            _log.warning("a request is passed over, as it cannot be read: %s", error)
            return
        key = f"{self._key_prefix}/{request.sequence}/{request.id}"
        yield TaskEntry(key, request.id, request.sequence, payload)

    def _read_labels(self) -> None:
        while messages := self._labels.poll(_TOGETHER):
            ids = self._schema.decode_labels(messages).labels.ids
            source = self._labels
            self._task_store.mark_answered("labels", source.position(), ids, source.bookmark)
        self._labels.release_resources()

    def _find_sent(self) -> None:
        """Find the tasks of requests that were sent and not confirmed."""
        sent = self._task_store.entries("sent")
        if not sent:
            return
        found: dict[str, list[LabelStudioTask]] = {}
        for task in self._project.tasks(self._choices).values():
            if task.key is not None:
                found.setdefault(task.key, []).append(task)
        made = {
            entry.key: self._deduplicate(found[entry.key]) for entry in sent if entry.key in found
        }
        self._task_store.mark_open(made)
        overdue = time.time() - PATIENCE
        self._task_store.mark_unsent(
            entry for entry in sent if entry.key not in made and (entry.sent or 0.0) <= overdue
        )

    def _deduplicate(self, tasks: list[LabelStudioTask]) -> int:
        """Return the task to keep among duplicates, and delete the untouched others.

        Duplicates occur if the server created a task after the bridge's timeout.
        """
        first, *others = sorted(tasks, key=lambda task: (not task.is_touched, task.id))
        for task in others:
            if not task.is_touched:
                self._project.delete_task(task.id)
        return first.id

    def _drop_closed(self, requests: RequestState | None) -> None:
        """Close requests that need no answer any more, and delete their untouched tasks."""

        def has_expired(entry: TaskEntry) -> bool:
            return requests is not None and requests.has_closed(entry)

        waiting = self._task_store.entries("new") + self._task_store.entries("refused")
        self._task_store.mark_done([one for one in waiting if one.answered or has_expired(one)])
        closed = [
            one for one in self._task_store.entries("open") if one.answered or has_expired(one)
        ]
        closed += [one for one in self._task_store.entries("expired") if one.answered]
        begun = set()
        for entry, task in self._tasks_of(closed):
            if not task.is_touched:
                self._project.delete_task(task.id)
            elif not entry.answered:
                begun.add(entry.key)
        self._task_store.mark_expired(one for one in closed if one.key in begun)
        self._task_store.mark_done([one for one in closed if one.key not in begun])

    def _tasks_of(self, entries: Sequence[TaskEntry]) -> list[tuple[TaskEntry, LabelStudioTask]]:
        """Return the entries whose tasks still exist, each with its task."""
        known = {entry.key: entry for entry in entries}
        numbers = {entry.task for entry in entries if entry.task is not None}
        found = self._project.tasks(self._choices, numbers).values()
        pairs = [(known[task.key], task) for task in found if task.key in known]
        return [(entry, task) for entry, task in pairs if entry.task == task.id]

    def _send_new(self, standing: RequestState | None) -> None:
        """Create tasks for new requests; with a status, only for requests that it covers."""
        new = self._task_store.entries("new")
        if self._status is not None:
            new = [entry for entry in new if standing is not None and standing.covers(entry)]
        if new:
            self._warn_of_missing_fields(standing)
        for start in range(0, len(new), _TOGETHER):
            self._send(new[start : start + _TOGETHER], standing)

    def _send(self, entries: list[TaskEntry], standing: RequestState | None) -> None:
        """Create tasks for `entries`; rejected ones are found by bisection and set aside."""
        known = standing.requests if standing else {}
        fields = [known[entry.id].get("fields", {}) if standing else {} for entry in entries]
        tasks = [
            task_of(entry, self._name, self._choices, further)
            for entry, further in zip(entries, fields, strict=True)
        ]
        self._task_store.mark_sent(entries, time.time())
        try:
            numbers = self._project.create_tasks(tasks)
        except RefusedError as error:
            self._task_store.mark_unsent(entries)
            if not error.of_tasks:
                raise
            if len(entries) == 1:
                self._set_aside(entries[0], error)
            else:
                middle = len(entries) // 2
                self._send(entries[:middle], standing)
                self._send(entries[middle:], standing)
            return
        made = self._project.tasks(self._choices, numbers).values()
        keys = {entry.key for entry in entries}
        self._task_store.mark_open({task.key: task.id for task in made if task.key in keys})

    def _set_aside(self, entry: TaskEntry, error: RefusedError) -> None:
        self._task_store.mark_refused(entry, str(error))
        _log.warning(
            "the request for record %r is set aside until the labelling interface is another, or "
            "`streamboost label-studio` is restarted: %s",
            entry.id,
            error,
        )

    def _warn_of_missing_fields(self, standing: RequestState | None) -> None:
        for name in lacking(self._choices, standing.fields if standing else ()):
            self._warn_once(
                f"{self._project.where}: its labelling interface shows ${name}, which no record "
                "has had: it is empty"
            )

    def _warn_once(self, warning: str) -> None:
        """Log a warning once, although its cause persists."""
        if warning not in self._logged:
            self._logged.add(warning)
            _log.warning("%s", warning)

    def _collect(self) -> None:
        """Write the labels of finished tasks, closing each request right after its label."""
        entries = self._task_store.entries("open") + self._task_store.entries("expired")
        found = self._tasks_of(entries)
        there = {entry.key for entry, _ in found}
        if gone := [entry for entry in entries if entry.key not in there]:
            self._task_store.mark_done(gone)
            _log.warning(
                "%s: the tasks of %d requests are gone, which nobody will answer there; so far %d",
                self._project.where,
                len(gone),
                self._task_store.count("gone", len(gone)),
            )
        done = [(entry, task) for entry, task in found if task.label is not None]
        for entry, task in done:
            label = self._label(task.label or "")
            answer = Label(entry.id, label, task.time, SOURCE)
            write_directly(self._answers, [self._schema.encode_label(answer)])
            self._task_store.mark_done([entry])
        if done:
            _log.info("%d answers from %s", len(done), self._project.where)
        if late := sum(entry.stage == "expired" for entry, _ in done):
            _log.warning(
                "%d of them came too late, as their requests had expired: the pipeline counts them "
                "and learns nothing of them; so far %d",
                late,
                self._task_store.count("expired", late),
            )

    def _label(self, text: str) -> str | int:
        return whole_number(text, self._project.where) if self._schema.label == "integer" else text


def whole_number(choice: str, where: str) -> int:
    """Convert a choice to an integer label; raises ConfigurationError if it is no integer."""
    try:
        return int(choice)
    except ValueError:
        raise ConfigurationError(
            f"{where}: the choice {choice!r} is not a whole number, which labels are by [schema] "
            'label = "integer": correct the labelling interface'
        ) from None
