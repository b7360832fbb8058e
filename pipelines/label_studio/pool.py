"""`streamboost label-studio --import`: the tasks of a project are the records of a pipeline.

Each task becomes a record whose id is the task's number, and each finished annotation a label.
Until the first run of the pipeline, annotated tasks are written to the file in [initial_data].

What was written is read back from the sources of the pipeline, and stored in ``label_studio.db``.
Therefore, an import that was interrupted or is repeated writes nothing twice.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from streamboost.connectors.base import (
    ForwardedPayloads,
    MessageMetadata,
    Sink,
    Source,
    write_and_flush,
)
from streamboost.connectors.files.open import is_compressed, is_json_lines
from streamboost.connectors.label_studio.project import (
    ChoicesTag,
    LabelStudioProject,
    LabelStudioTask,
)
from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import ConfigurationError, ConnectorError
from streamboost.features.paths import path_getter
from streamboost.pipelines.config.compatibility import pipeline_name
from streamboost.pipelines.config.connectors.registry import open_append_sink
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.label_studio.answers import build_labels
from streamboost.pipelines.label_studio.ranking import as_messages, publish_ranking
from streamboost.pipelines.label_studio.tasks import LABELS, RECORDS, TaskStore
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.formatting import count_text
from streamboost.storage import write_bytes

_TOGETHER = 1_000


class ProjectImport:
    """Import of the tasks and annotations of a project.

    Parameters
    ----------
    config : configuration of the pipeline
    project : the Label Studio project
    choices : the tag in which annotators answer
    task_store : store of the imported records and labels, which must be locked
    """

    def __init__(
        self,
        config: Config,
        project: LabelStudioProject,
        choices: ChoicesTag,
        task_store: TaskStore,
    ) -> None:
        self._config = config
        self._project = project
        self._choices = choices
        self._task_store = task_store
        self._schema = config.sections.build_schema()

    def run(self) -> list[str]:
        """Import new tasks and annotations, and publish the ranking of the tasks.

        Returns a summary as lines of text. Raises ConnectorError if the project has no tasks, and
        ConfigurationError if the pipeline cannot hold or read them.
        """
        sections, context = self._config.sections, self._config.connector_context
        with (
            closing(open_append_sink(sections.source, "source", context)) as record_sink,
            closing(open_append_sink(sections.labels, "labels", context)) as label_sink,
            closing(sections.source.create_tailing_source(context)) as records,
            closing(sections.labels.create_tailing_source(context)) as labels,
        ):
            found = self._project.fetch_tasks(self._choices).values()
            own = [task for task in found if task.key is None]  # others are requests of a pipeline
            if not own:
                raise ConnectorError(
                    f"{self._project.where} has no tasks: import data into the project"
                )
            tasks = [task for task in own if self._has_content(task)]
            self._check_join_window(len(tasks))
            payloads = {task.id: self._encode_record(task) for task in tasks}
            n_initial = self._import_initial_data(tasks, payloads, records, labels)
            imported = self._task_store.imported()
            known = [imported.get((str(task.id), "")) for task in tasks]
            unchanged = [
                task
                for task, digest in zip(tasks, known, strict=True)
                if digest in (None, _digest(payloads[task.id]))
            ]
            new_labels = self._new_labels(unchanged, imported)
            new = [task for task, digest in zip(tasks, known, strict=True) if digest is None]
            new.sort(key=lambda task: not task.answers)
            # A label waits in the join until its record arrives.
            _write(label_sink, new_labels)
            _write(record_sink, [payloads[task.id] for task in new], [str(task.id) for task in new])
            self._read_sources(records, labels)
        rankable = {task.id: payloads[task.id] for task in unchanged}
        return [
            f"{self._project.where}: {count_text(len(own), 'task')}; imported: "
            f"{count_text(len(new), 'record')}, {count_text(len(new_labels), 'label')}, "
            f"{count_text(n_initial, 'record')} of the initial data",
            *_left_out_lines(len(own) - len(tasks), len(tasks) - len(unchanged)),
            *publish_ranking(self._config, self._project, self._choices, own, rankable),
        ]

    def _has_content(self, task: LabelStudioTask) -> bool:
        """Return whether the labelling interface shows anything of a task; blanks do not count."""
        paths = [variable.path for variable in self._choices.variables]
        shown = [path_getter(path)(task.data) for path in paths] or task.data.values()
        return any(
            bool(value.strip()) if isinstance(value, str) else value not in (None, [], {})
            for value in shown
        )

    def _check_join_window(self, n_tasks: int) -> None:
        window = WindowSize.parse(self._config.sections.pipeline.join_window)
        if window.records is not None and window.records < n_tasks:
            raise ConfigurationError(
                f"[pipeline] join_window is {window.records}, and {self._project.where} has "
                f"{n_tasks} tasks: labels of the oldest would be dropped. Set join_window to at "
                "least the number of tasks that the project will have"
            )

    def _encode_record(self, task: LabelStudioTask) -> bytes:
        """Return the record of a task: its data, with the task's number as record id."""
        return msgspec.json.encode({**task.data, self._schema.id: str(task.id)}, order="sorted")

    def _import_initial_data(
        self,
        tasks: Sequence[LabelStudioTask],
        payloads: Mapping[int, bytes],
        records: Source,
        labels: Source,
    ) -> int:
        """Store what was imported before; write the initial data if the pipeline has not begun.

        The initial data are the annotated tasks that are not records yet. Returns their number.
        """
        path = self._initial_data_path()
        is_written = path is not None and pipeline_name(State(self._config.state)) is None
        if is_written:
            self._task_store.forget_imported()
        self._read_sources(records, labels)
        if path is None:
            return 0
        imported = self._task_store.imported()
        initial = [task for task in tasks if (str(task.id), "") not in imported]
        if is_written:
            initial = [task for task in initial if task.answers]
            lines = [self._encode_labelled_record(task, payloads[task.id]) for task in initial]
            write_bytes(path, b"".join(line + b"\n" for line in lines))
        else:  # an import may have been interrupted after it wrote the file
            lines = path.read_bytes().splitlines() if path.exists() else []
            written = _record_ids(lines, self._schema.id)
            initial = [task for task in initial if str(task.id) in written]
        self._task_store.add_imported(
            "initial data",
            {},
            [
                row
                for task in initial
                for row in (
                    (str(task.id), "", _digest(payloads[task.id])),
                    *((one.id, one.source or "", str(one.label)) for one in self._labels_of(task)),
                )
            ],
        )
        return len(initial) if is_written else 0

    def _initial_data_path(self) -> Path | None:
        """Return the file of [initial_data] or None; ConfigurationError if it cannot be written."""
        path = self._config.sections.initial_data.path
        if path is None:
            return None
        if not is_json_lines(path) or is_compressed(path):
            raise ConfigurationError(
                f"[initial_data] path is {path!r}, and an import writes JSON Lines: name a file "
                "such as labelled.jsonl"
            )
        return self._config.resolve_path(path)

    def _read_sources(self, records: Source, labels: Source) -> None:
        """Store what the sources of the pipeline have in addition to what was read before.

        The row of a record has a digest of its payload in place of a label.
        """
        store = self._task_store
        store.seek_to_stored_position(RECORDS, records)
        while messages := records.poll(_TOGETHER):
            read = _record_ids([message.payload for message in messages], self._schema.id)
            rows = [(id, "", _digest(payload)) for id, payload in read.items()]
            store.add_imported(RECORDS, records.position(), rows, records.content_fingerprint)
        store.seek_to_stored_position(LABELS, labels)
        while messages := labels.poll(_TOGETHER):
            found = self._schema.decode_labels(messages).labels
            votes = zip(found.ids, found.sources, found.labels, strict=True)
            rows = [(id, source, str(label)) for id, source, label in votes if source]
            store.add_imported(LABELS, labels.position(), rows, labels.content_fingerprint)

    def _new_labels(
        self, tasks: Sequence[LabelStudioTask], imported: Mapping[tuple[str, str], str]
    ) -> list[bytes]:
        return [
            self._schema.encode_label(label)
            for task in tasks
            for label in self._labels_of(task)
            if imported.get((label.id, label.source or "")) != str(label.label)
        ]

    def _labels_of(self, task: LabelStudioTask) -> list[Label]:
        """Return the labels of a task as the pipeline reads them, ordered as by `build_labels`."""
        if not task.answers:
            return []
        labels = build_labels(
            str(task.id),
            task.answers,
            is_integer=self._schema.label == "integer",
            on_conflict=self._config.sections.labels.on_conflict,
            where=self._project.where,
        )
        read, refused = self._schema.decode_labels(
            as_messages(self._schema.encode_label(label) for label in labels)
        )
        if refused:
            raise ConfigurationError(
                f"{self._project.where}: the annotation of task {task.id} cannot be a label "
                f"({refused[0].reason}): {refused[0].detail}. Correct the annotation, or label and "
                "classes in [schema]"
            )
        return [
            Label(label.id, value, label.time, label.source)
            for label, value in zip(labels, read.labels, strict=True)
        ]

    def _encode_labelled_record(self, task: LabelStudioTask, payload: bytes) -> bytes:
        first = self._config.sections.labels.on_conflict != "last"
        label = self._labels_of(task)[0 if first else -1]
        message = self._schema.encode_label(Label(label.id, label.label, None, None))
        return msgspec.json.encode(msgspec.json.decode(payload) | msgspec.json.decode(message))


def _left_out_lines(n_empty: int, n_changed: int) -> Iterator[str]:
    if n_empty:
        yield f"left out: {count_text(n_empty, 'task')} without content in the fields shown"
    if n_changed:
        yield (
            f"left out: {count_text(n_changed, 'task')} with other data than when imported; import "
            "changed data as new tasks"
        )


def _record_ids(payloads: Sequence[bytes], id_field: str) -> dict[str, bytes]:
    """Return the payloads that are JSON objects with an id, keyed by id."""
    read_id, found = path_getter(id_field), {}
    for payload in payloads:
        try:
            id = read_id(msgspec.json.decode(payload, type=dict[str, Any]))
        except msgspec.MsgspecError:
            continue
        if id is not None:
            found[str(id)] = payload
    return found


def _digest(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def _write(sink: Sink, payloads: Sequence[bytes], keys: Sequence[str] | None = None) -> None:
    """Append `payloads`, in parts; `keys` are their keys in Kafka."""
    for start in range(0, len(payloads), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        if keys is None:
            write_and_flush(sink, payloads[part])
        else:
            about = [MessageMetadata(key.encode()) for key in keys[part]]
            write_and_flush(sink, ForwardedPayloads(payloads[part], about))
