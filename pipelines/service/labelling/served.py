"""Files and connections of one pipeline that `streamboost serve` reads and writes."""

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Sink
from streamboost.connectors.files.open import STDIN
from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.config.compatibility import verify_compatibility
from streamboost.pipelines.config.connectors.base import Input
from streamboost.pipelines.config.connectors.registry import open_append_sink
from streamboost.pipelines.config.file import Config, load, parse
from streamboost.pipelines.config.masking import mask_secrets_in_errors
from streamboost.pipelines.models.export import (
    ExportedCommittee,
    ExportFormat,
    export_committee,
)
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.blind import BlindMode
from streamboost.pipelines.service.labelling.queue import LabelQueue, OpenRequest
from streamboost.pipelines.service.labelling.store import FILE
from streamboost.pipelines.service.labelling.writers import LabelWriter, RecordWriter
from streamboost.pipelines.service.scoring import CheckpointScorer
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.naming import refuse_unknown_names
from streamboost.pipelines.status.reader import Status, StatusReader
from streamboost.pipelines.status.record_filter import RecordFilter

SIMILAR = 12
"""Maximum number of similar requests, with the request to which they are similar."""

COMPARED = 300
"""Number of open requests that are compared, those of the largest utility."""


@dataclass(frozen=True)
class ServedPipeline:
    """Status, label queue and writers of one pipeline.

    The pipeline may be running, stopped or not started yet: no lock is taken.
    """

    config: Config
    status: StatusReader
    queue: LabelQueue
    labels: LabelWriter
    records: RecordWriter
    scoring: CheckpointScorer

    @classmethod
    def from_config(cls, config: Config) -> "ServedPipeline":
        """Return the state of the pipeline of `config`; files are opened at their first use."""
        state, mask = State(config.state), config.mask
        told = config.sections.build_schema()
        # The state may be older than the label rules and the classes in the file.
        schema = replace(state.schema() or told, **told.changeable_settings)
        status = StatusReader(state.path)
        answers = _sink_or_error(config, "labels", config.sections.labels)
        labels = LabelWriter(
            answers,
            schema,
            mask,
            kind=lambda: (status.document("pipeline") or {}).get("label_type"),
            dropped=lambda: (status.document("learner") or {}).get("dropped_classes", ()),
        )
        records = RecordWriter(
            _sink_or_error(config, "source", config.sections.source), schema, mask
        )
        corrects = config.sections.labels.on_conflict != "first"
        blind = config.sections.serve.blind
        queue = LabelQueue(
            state.path / FILE, status, labels, mask=mask, corrects=corrects, blind=blind
        )
        return cls(config, status, queue, labels, records, CheckpointScorer(state, config.encoders))

    @property
    def blind_mode(self) -> BlindMode:
        """Blind mode, which hides predictions from annotators if it is configured."""
        return BlindMode(self.queue, self.config.sections.serve.blind)

    @property
    def name(self) -> str:
        """Name of the pipeline, from its configuration."""
        return self.config.name

    def labelled_records(
        self, person: User, record_filter: RecordFilter, limit: int, offset: int = 0
    ) -> list[Status]:
        """Return the labelled records that match a filter and `person` may see, the newest first.

        Blind annotators see no record whose label is requested. If the filter depends on
        predictions, they see only the records that they answered, so that neither `limit` nor
        `offset` reveals the predictions of other records.
        """
        see, status = self.blind_mode.visible_records, self.status
        if not self.blind_mode.is_blind(person):
            return status.labelled_records(record_filter, limit, offset)
        record_filter = replace(record_filter, closed=True)
        if not record_filter.depends_on_prediction:
            return see(person, status.labelled_records(record_filter, limit, offset))
        return see(person, status.labelled_records(record_filter, -1), selected_by_prediction=True)[
            offset : offset + limit
        ]

    def similar_requests(self, person: User, id: str) -> list[OpenRequest]:
        """Return the request for record `id`, then the most similar requests, at most `SIMILAR`.

        All are requests that `person` may answer now. The list is empty without such requests, and
        for blind annotators: records are similar to the committee, so that the prediction of one
        would reveal those of the others. Raises the errors of `CheckpointScorer.similarities`.
        """
        if self.blind_mode.is_blind(person):
            return []
        others = [one["id"] for one in self.status.requests(COMPARED) if one["id"] != id]
        free = self.queue.answerable_requests(person, [id, *others])
        if len(free) < 2 or free[0]["id"] != id:
            return []
        similarities = self.scoring.similarities([one["features"] for one in free])
        order = sorted(range(1, len(free)), key=lambda place: -similarities[place])
        return [free[place] for place in (0, *order[: SIMILAR - 1])]

    def is_running(self) -> bool:
        """Return whether a process of the pipeline exists now; False if the state is unreadable."""
        with suppress(StateError):  # the folder cannot be read
            return State(self.config.state).is_running()
        return False

    def export_committee(self, format: ExportFormat, version: int | None) -> ExportedCommittee:
        """Return the committee in the newest checkpoint, or a kept `version`, as a file.

        Raises the errors of `streamboost.pipelines.models.export.export_committee`.
        """
        with mask_secrets_in_errors(self.config.mask):
            state = State(self.config.state)
            return export_committee(state, format, version, self.config.encoders)

    def send_command(self, command: Command) -> None:
        """Queue `command`, which the pipeline applies with its next batch.

        Raises StateError if the command names an unknown version or class.
        """
        with mask_secrets_in_errors(self.config.mask):
            refuse_unknown_names(self.config.state, command, self.status.documents())
            queue_command(self.config.state, command)

    def close(self) -> None:
        """Close all files and connections."""
        for part in (self.queue, self.labels, self.records, self.status):
            part.close()


def find_config(path: Path) -> Config:
    """Return the configuration of a pipeline file, or of a pipeline's state folder.

    The sections of the learner are left out, as loading them takes a second.

    Raises ConfigurationError if `path` is neither of them, and StateError if the file no longer
    matches the state of the pipeline.
    """
    config = _load_config(path, learner=False)
    state = State(config.state)
    if state.fingerprint():
        try:
            verify_compatibility(config, state, state_has_begun=True)
        except StateError:
            # names the changed keys
            verify_compatibility(_load_config(path, learner=True), state, state_has_begun=True)
    return config


def _load_config(path: Path, *, learner: bool) -> Config:
    return _config_of_state_folder(path, learner) if path.is_dir() else load(path, learner=learner)


def _config_of_state_folder(path: Path, learner: bool) -> Config:
    """Return the configuration that is stored in a state folder.

    If `learner` is false, the learner's sections are skipped, as in `load`. Relative paths start in
    the folder of the pipeline file, which is found by removing the configured state path from the
    end of `path`. Raises ConfigurationError if this fails, as after the state folder was moved.
    """
    folder = state = path.resolve()
    try:
        tables = tomllib.loads((state / "config.toml").read_text(encoding="utf-8"))
        written = Path(str(tables["pipeline"]["state"])).expanduser()
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{path} is not the state folder of a pipeline that has run ({error}): give the folder "
            "in [pipeline] state, or the pipeline file"
        ) from None
    for _ in () if written.is_absolute() else written.parts:
        folder = folder.parent
    if (folder / written).resolve() != state or (
        written.is_absolute() and _has_relative_paths(tables)
    ):
        raise ConfigurationError(
            f"relative paths of the pipeline file cannot be resolved from {path} (state = "
            f"{str(written)!r}): give the pipeline file"
        )
    return parse(tables, folder, name=str(state / "config.toml"), learner=learner)


def _has_relative_paths(tables: Mapping[str, Any]) -> bool:
    paths = [table["path"] for table in tables.values() if "path" in table]
    return any(path != STDIN and not Path(path).expanduser().is_absolute() for path in paths)


def _sink_or_error(config: Config, name: str, section: Input) -> Sink | ConfigurationError:
    try:
        return open_append_sink(section, name, config.connector_context)
    except ConfigurationError as error:
        return error
