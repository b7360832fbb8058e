"""Bridge between a pipeline and a Label Studio project: requests to tasks, answers to labels."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from streamboost.connectors.base import Sink, Source, write_and_flush
from streamboost.connectors.label_studio.api import RequestRefusedError
from streamboost.connectors.label_studio.project import (
    ChoicesTag,
    LabelStudioAnswer,
    LabelStudioProject,
    LabelStudioTask,
)
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError
from streamboost.pipelines.label_studio.answers import build_labels
from streamboost.pipelines.label_studio.requests import (
    RequestState,
    build_task,
    missing_variables,
    read_request,
)
from streamboost.pipelines.label_studio.tasks import TaskEntry, TaskStore
from streamboost.pipelines.status.reader import StatusReader

_log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds after which a sent task that cannot be found counts as not created."""

_TOGETHER = 100


class Bridge:
    """Bridge between a pipeline's requests and labels, and a Label Studio project.

    Parameters
    ----------
    name : the pipeline's name
    project : the Label Studio project
    find_choices : returns the Choices tag of the current labelling interface, in which annotators
        answer
    task_store : store of the tasks
    requests, labels : sources of the pipeline's requests and labels
    answers : sink for new labels
    status : reader of the pipeline's status; None if the pipeline publishes none. Tasks then have
        no further fields, and stay when their requests expire.
    schema : schema of label messages
    on_conflict : rule by which the pipeline chooses between several labels of a record
    blind : whether tasks have no prediction
    """

    def __init__(
        self,
        name: str,
        project: LabelStudioProject,
        find_choices: Callable[[], ChoicesTag],
        task_store: TaskStore,
        requests: Source,
        labels: Source,
        answers: Sink,
        status: StatusReader | None,
        schema: Schema,
        on_conflict: str,
        *,
        blind: bool,
    ) -> None:
        self._name = name
        self._project = project
        self._find_choices = find_choices
        self._choices: ChoicesTag = find_choices()
        self._task_store = task_store
        self._requests = requests
        self._labels = labels
        self._answers = answers
        self._status = status
        self._schema = schema
        self._on_conflict = on_conflict
        self._blind = blind
        self._logged: set[str] = set()
        self._key_prefix = task_store.key_prefix(name)
        task_store.mark_unsent(task_store.entries_at_stage("refused"))
        task_store.seek_to_stored_position("requests", requests)
        task_store.seek_to_stored_position("labels", labels)

    def run_once(self) -> None:
        """Process all new requests, labels and annotations; after an error, it can be repeated."""
        self._reload_labelling_interface()
        self._read_requests()
        self._read_labels()
        request_state = None if self._status is None else RequestState.read(self._status)
        self._find_unconfirmed_tasks()
        self._close_requests(request_state)
        self._send_new_requests(request_state)
        self._write_new_labels()

    def _reload_labelling_interface(self) -> None:
        """Load the labelling interface again; if it has changed, retry the rejected tasks.

        An unsuitable interface, for example while it is being edited, is ignored with a warning.
        """
        try:
            choices = self._find_choices()
        except ConfigurationError as error:
            self._warn_once(f"{error}. Until then, the previous interface is used")
            return
        if choices != self._choices:
            self._choices = choices
            self._task_store.mark_unsent(self._task_store.entries_at_stage("refused"))

    def _read_requests(self) -> None:
        while messages := self._requests.poll(_TOGETHER):
            entries = [
                entry for message in messages for entry in self._decode_request(message.payload)
            ]
            source = self._requests
            self._task_store.add_requests(
                "requests", source.position(), entries, source.content_fingerprint
            )
        self._requests.release_resources()

    def _decode_request(self, payload: bytes) -> Iterator[TaskEntry]:
        try:
            request = read_request(payload)
        except msgspec.MsgspecError as error:
            _log.warning(
                "an unreadable request is skipped: %s",
                error,
                extra={"event": "request_unreadable"},
            )
            return
        key = f"{self._key_prefix}/{request.sequence}/{request.id}"
        yield TaskEntry(key, request.id, request.sequence, payload)

    def _read_labels(self) -> None:
        while messages := self._labels.poll(_TOGETHER):
            labels = self._schema.decode_labels(messages).labels
            annotators: dict[str, list[str | None]] = {}
            for id, annotator in zip(labels.ids, labels.sources, strict=True):
                annotators.setdefault(id, []).append(annotator)
            answered = {
                entry.key: {
                    *entry.answered_by,
                    *filter(read_request(entry.request).is_answered_by, annotators[entry.id]),
                }
                for entry in self._task_store.entries_for_records(labels.ids)
            }
            source = self._labels
            self._task_store.mark_answered(
                "labels", source.position(), answered, source.content_fingerprint
            )
        self._labels.release_resources()

    def _find_unconfirmed_tasks(self) -> None:
        """Search for tasks whose creation was not confirmed; mark requests of found tasks as open.

        If a task is not found within `PATIENCE` seconds, its request is marked as new.
        """
        sent = self._task_store.entries_at_stage("sent")
        if not sent:
            return
        found: dict[str, list[LabelStudioTask]] = {}
        for task in self._project.fetch_tasks(self._choices).values():
            if task.key is not None:
                found.setdefault(task.key, []).append(task)
        made = {
            entry.key: self._delete_duplicate_tasks(found[entry.key])
            for entry in sent
            if entry.key in found
        }
        self._task_store.mark_open(made)
        overdue = time.time() - PATIENCE
        self._task_store.mark_unsent(
            entry for entry in sent if entry.key not in made and (entry.sent or 0.0) <= overdue
        )

    def _delete_duplicate_tasks(self, tasks: list[LabelStudioTask]) -> int:
        """Return the id of the task to keep; delete its untouched duplicates."""
        first, *others = sorted(tasks, key=lambda task: (not task.is_touched, task.id))
        for task in others:
            if not task.is_touched:
                self._project.delete_task(task.id)
        return first.id

    def _close_requests(self, request_state: RequestState | None) -> None:
        """Close answered and expired requests, and delete their tasks that were not started.

        A request whose task was started stays at the stage "expired" until the task is finished. A
        task that was only skipped is deleted, as Label Studio would offer it again and again. If
        `request_state` is None, no request counts as expired.
        """

        def has_expired(entry: TaskEntry) -> bool:
            return request_state is not None and request_state.is_closed(entry)

        waiting = self._task_store.entries_at_stage("new", "refused")
        self._task_store.mark_done([one for one in waiting if one.answered_by or has_expired(one)])
        closed = [
            one
            for one in self._task_store.entries_at_stage("open")
            if one.answered_by or has_expired(one)
        ]
        begun = set()
        for entry, task in self._existing_tasks(closed):
            if not task.is_begun:
                self._project.delete_task(task.id)
            else:
                begun.add(entry.key)
        self._task_store.mark_expired(one for one in closed if one.key in begun)
        self._task_store.mark_done([one for one in closed if one.key not in begun])

    def _existing_tasks(
        self, entries: Sequence[TaskEntry]
    ) -> list[tuple[TaskEntry, LabelStudioTask]]:
        """Return pairs (entry, task) for the entries whose tasks exist in Label Studio."""
        known = {entry.key: entry for entry in entries}
        numbers = {entry.task for entry in entries if entry.task is not None}
        found = self._project.fetch_tasks(self._choices, numbers).values()
        pairs = [(known[task.key], task) for task in found if task.key in known]
        return [(entry, task) for entry, task in pairs if entry.task == task.id]

    def _send_new_requests(self, request_state: RequestState | None) -> None:
        """Create tasks for new requests, in batches.

        If the pipeline publishes a status, requests newer than the status are left for later.
        """
        new = self._task_store.entries_at_stage("new")
        if self._status is not None:
            new = [
                entry
                for entry in new
                if request_state is not None and request_state.includes_request(entry)
            ]
        if new:
            self._warn_of_missing_interface_fields(request_state)
        for start in range(0, len(new), _TOGETHER):
            self._create_tasks(new[start : start + _TOGETHER], request_state)

    def _create_tasks(self, entries: list[TaskEntry], request_state: RequestState | None) -> None:
        """Create tasks for `entries`; rejected tasks are found by bisection, and marked."""
        known = request_state.requests if request_state else {}
        fields = [known[entry.id].get("fields", {}) if request_state else {} for entry in entries]
        tasks = [
            build_task(entry, self._name, self._choices, further, blind=self._blind)
            for entry, further in zip(entries, fields, strict=True)
        ]
        self._task_store.mark_sent(entries, time.time())
        try:
            numbers = self._project.create_tasks(tasks)
        except RequestRefusedError as error:
            self._task_store.mark_unsent(entries)
            if not error.of_tasks:
                raise
            if len(entries) == 1:
                self._mark_request_refused(entries[0], error)
            else:
                middle = len(entries) // 2
                self._create_tasks(entries[:middle], request_state)
                self._create_tasks(entries[middle:], request_state)
            return
        made = self._project.fetch_tasks(self._choices, numbers).values()
        keys = {entry.key for entry in entries}
        self._task_store.mark_open({task.key: task.id for task in made if task.key in keys})

    def _mark_request_refused(self, entry: TaskEntry, error: RequestRefusedError) -> None:
        self._task_store.mark_refused(entry, str(error))
        _log.warning(
            "the request for record %r is refused, and is retried when the labelling interface "
            "changes or `streamboost label-studio` restarts: %s",
            entry.id,
            error,
            extra={"event": "task_rejected"},
        )

    def _warn_of_missing_interface_fields(self, request_state: RequestState | None) -> None:
        for name in missing_variables(self._choices, request_state.fields if request_state else ()):
            self._warn_once(
                f"{self._project.where}: the labelling interface shows ${name}, which no record "
                "has: it stays empty. Correct the interface"
            )

    def _warn_once(self, warning: str) -> None:
        if warning not in self._logged:
            self._logged.add(warning)
            _log.warning("%s", warning, extra={"event": "labelling_interface_incomplete"})

    def _write_new_labels(self) -> None:
        """Write the labels of finished tasks; each request is closed directly after its labels."""
        entries = self._task_store.entries_at_stage("open", "expired")
        found = self._existing_tasks(entries)
        there = {entry.key for entry, _ in found}
        if gone := [entry for entry in entries if entry.key not in there]:
            self._task_store.mark_done(gone)
            _log.warning(
                "%s: the tasks of %d requests were deleted, so these stay unanswered; so far %d",
                self._project.where,
                len(gone),
                self._task_store.add_to_counter("gone", len(gone)),
                extra={"event": "tasks_missing"},
            )
        self._delete_skipped_tasks(found)
        done = [(entry, self._usable_answers(entry, task)) for entry, task in found if task.answers]
        done = [(entry, answers) for entry, answers in done if answers]
        for entry, answers in done:
            labels = build_labels(
                entry.id,
                answers,
                is_integer=self._schema.label == "integer",
                on_conflict=self._on_conflict,
                where=self._project.where,
            )
            labels = [
                one
                for one in labels
                if one.source not in entry.answered_by  # else written before a kill
            ]
            write_and_flush(self._answers, [self._schema.encode_label(label) for label in labels])
            self._task_store.mark_done([entry])
        if done:
            _log.info(
                "%d answers from %s",
                len(done),
                self._project.where,
                extra={"event": "answers_received"},
            )
        if late := sum(entry.stage == "expired" and not entry.answered_by for entry, _ in done):
            _log.warning(
                "%d answers arrived after their requests expired: the pipeline counts them, and "
                "does not learn them; so far %d",
                late,
                self._task_store.add_to_counter("expired", late),
                extra={"event": "answers_late"},
            )

    def _delete_skipped_tasks(self, found: Sequence[tuple[TaskEntry, LabelStudioTask]]) -> None:
        skipped = [
            (entry, task) for entry, task in found if entry.stage == "expired" and not task.is_begun
        ]
        for entry, task in skipped:
            self._project.delete_task(task.id)
            self._task_store.mark_done([entry])

    def _usable_answers(self, entry: TaskEntry, task: LabelStudioTask) -> list[LabelStudioAnswer]:
        """Return the answers that may answer the request; without one, the task stays open."""
        request = read_request(entry.request)
        usable = [one for one in task.answers if request.is_answered_by(one.annotator)]
        if not usable:
            self._warn_once(
                f"{self._project.where}: task {task.id} is answered only by annotators who must "
                "not answer, which is not written; let another annotator open it in the Data "
                f"Manager, but none of {', '.join(request.excluded_annotators or ())}"
            )
        return usable
