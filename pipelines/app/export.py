"""Export of a pipeline's committee to a file, for `streamboost export`."""

from pathlib import Path

from streamboost.errors import StateError
from streamboost.pipelines.config.compatibility import pipeline_name, refuse_other_pipeline
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.models.export import ExportFormat, export_committee
from streamboost.pipelines.state.folder import State
from streamboost.storage import write_bytes


def export(
    config: Config, format: ExportFormat, version: int | None = None, output: Path | None = None
) -> list[str]:
    """Write the active committee, or `version`, to the file `output`; return lines about the file.

    By default, the file is `NAME-VERSION.SUFFIX` in the current folder. Raises the errors of
    `export_committee`, and ModelFileError if the file cannot be written.
    """
    state = State(config.state)
    if pipeline_name(state) is None:
        raise StateError(
            f"{config.state}: pipeline {config.name} has not run yet: start `streamboost run`"
        )
    refuse_other_pipeline(config, state)
    found = export_committee(state, format, version, config.encoders)
    path = output or Path(f"{config.name}-{found.version}{found.suffix}")
    write_bytes(path, found.content)
    return [f"{path}: {len(found.content):,} bytes", *found.notices]
