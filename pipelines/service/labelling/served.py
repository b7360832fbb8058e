"""One pipeline, as `serve` sees it from outside."""

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamboost.connectors.base import Sink
from streamboost.connectors.files.open import STDIN
from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.config.binding import verify
from streamboost.pipelines.config.file import Config, load, parse
from streamboost.pipelines.config.masking import masked
from streamboost.pipelines.endpoints.base import Input
from streamboost.pipelines.endpoints.registry import feeder
from streamboost.pipelines.service.labelling.blind import Blindfold
from streamboost.pipelines.service.labelling.queue import LabelQueue
from streamboost.pipelines.service.labelling.store import FILE
from streamboost.pipelines.service.labelling.writers import LabelWriter, RecordWriter
from streamboost.pipelines.service.scoring import Scoring
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.naming import refuse_unknown
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["Served", "find"]


@dataclass(frozen=True)
class Served:
    """What is read of a pipeline, and what is written to it.

    It neither holds nor waits for the pipeline, which may run, rest or not have begun.
    """

    config: Config
    status: StatusReader
    queue: LabelQueue
    labels: LabelWriter
    records: RecordWriter
    scoring: Scoring

    @classmethod
    def of(cls, config: Config) -> "Served":
        """Return the pipeline of `config`; nothing is opened before it is used."""
        state, mask = State(config.state), config.mask
        told = config.sections.build_schema()
        # A state may be older than what labels have to obey, and than the classes in the file.
        schema = replace(state.schema() or told, **told.rules)
        status = StatusReader(state.path)
        answers = _feeder(config, "labels", config.sections.labels)
        labels = LabelWriter(answers, schema, mask, lambda: _kind(status))
        records = RecordWriter(_feeder(config, "source", config.sections.source), schema, mask)
        corrects = config.sections.labels.on_conflict != "first"
        blind = config.sections.serve.blind
        queue = LabelQueue(
            state.path / FILE, status, labels, mask=mask, corrects=corrects, blind=blind
        )
        return cls(config, status, queue, labels, records, Scoring(state))

    @property
    def blindfold(self) -> Blindfold:
        """What hides the committee's guess, where labelling is blind."""
        return Blindfold(self.queue, self.config.sections.serve.blind)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.config.name

    def runs(self) -> bool:
        """Tell whether there is a process of the pipeline now."""
        with suppress(StateError):  # of a folder that cannot be read nobody knows
            return State(self.config.state).is_running()
        return False

    def tell(self, command: Command) -> None:
        """Have the pipeline obey `command` with its next batch.

        StateError where it names a version or a class that is not there.
        """
        with masked(self.config.mask):
            refuse_unknown(self.config.state, command, self.status.documents())
            queue_command(self.config.state, command)

    def close(self) -> None:
        """Let go of all files and connections."""
        for part in (self.queue, self.labels, self.records, self.status):
            part.close()


def find(path: Path) -> Config:
    """Return the configuration in a pipeline file, or in the state folder of a pipeline.

    What it says of the learner is left out, which takes a second to load, and matters to no label.

    Raises ConfigurationError where it is neither, and StateError where the file was changed since
    the pipeline began, so that labels would go astray.
    """
    config = _read(path, learner=False)
    state = State(config.state)
    if state.fingerprint():
        try:
            verify(config, state, begun=True)
        except StateError:
            verify(_read(path, learner=True), state, begun=True)  # which can tell what has changed
    return config


def _read(path: Path, *, learner: bool) -> Config:
    return _from_state(path, learner) if path.is_dir() else load(path, learner=learner)


def _from_state(path: Path, learner: bool) -> Config:
    """Return the configuration that a state folder keeps.

    Its relative paths start where the pipeline file was, which the folder's own path tells as
    long as it stands where it stood.
    """
    folder = state = path.resolve()
    try:
        tables = tomllib.loads((state / "config.toml").read_text(encoding="utf-8"))
        written = Path(str(tables["pipeline"]["state"])).expanduser()
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{path} is not the state folder of a pipeline that has run ({error}): name the folder "
            "that [pipeline] state of its file names, or the file"
        ) from None
    for _ in () if written.is_absolute() else written.parts:
        folder = folder.parent
    if (folder / written).resolve() != state or (written.is_absolute() and _has_relative(tables)):
        raise ConfigurationError(
            f"{path} does not tell where the pipeline file's relative paths start (state = "
            f"{str(written)!r}): name the pipeline file"
        )
    return parse(tables, folder, name=str(state / "config.toml"), learner=learner)


def _has_relative(tables: Mapping[str, Any]) -> bool:
    paths = [table["path"] for table in tables.values() if "path" in table]
    return any(path != STDIN and not Path(path).expanduser().is_absolute() for path in paths)


def _kind(status: StatusReader) -> Any:
    """Return what labels are by now, as the status tells."""
    return (status.document("pipeline") or {}).get("label_type")


def _feeder(config: Config, name: str, section: Input) -> Sink | ConfigurationError:
    try:
        return feeder(section, name, config.surroundings)
    except ConfigurationError as error:
        return error
