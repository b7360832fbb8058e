"""`streamboost label-studio`: people answer in Label Studio."""

from typing import Annotated

import typer

from streamboost.pipelines.cli.options import DEFAULT_FILE, LogJson, PipelineFile, stop_on_signals

__all__ = ["label_studio"]


def label_studio(
    path: PipelineFile = DEFAULT_FILE,
    once: Annotated[bool, typer.Option("--once", help="Carry what there is now, and end.")] = False,
    log_json: LogJson = False,
) -> None:
    """Let people answer in Label Studio.

    Requests become tasks of the project that [label_studio] names, and finished annotations labels.
    It runs beside the pipeline, and goes on where it was stopped.
    """
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import masking
    from streamboost.pipelines.label_studio import run as bridge
    from streamboost.pipelines.monitoring import logs

    logs.begin(as_json=log_json)
    config = load(path)
    with masking(config.mask):
        bridge.run(config, stop_on_signals(b""), once=once)
