"""Command `streamboost label-studio`: bridge to Label Studio."""

from typing import Annotated

import typer

from streamboost.pipelines.cli.options import (
    DEFAULT_FILE,
    LogJson,
    PipelineFile,
    print_lines,
    stop_on_signals,
)


def label_studio(
    path: PipelineFile = DEFAULT_FILE,
    once: Annotated[
        bool,
        typer.Option("--once", help="Exchange the available requests and answers once, and exit."),
    ] = False,
    import_tasks: Annotated[
        bool,
        typer.Option(
            "--import", help="Import the tasks of the project as records, rank them, and exit."
        ),
    ] = False,
    log_json: LogJson = False,
) -> None:
    """Send requests to annotators in Label Studio.

    The bridge copies requests to tasks of the project in [label_studio], and annotations to labels.
    It is a separate process from the pipeline, and continues where it was stopped.

    With --import, the tasks of the project are the records of the pipeline, and their annotations
    are labels. The command prints the accuracy, and marks in Label Studio the tasks to label next
    and the labels that look wrong. Repeat it after annotations: nothing is imported twice.
    """
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log
    from streamboost.pipelines.label_studio import run as bridge
    from streamboost.pipelines.monitoring import log_format

    log_format.configure_logging(as_json=log_json)
    config = load(path)
    with mask_secrets_in_errors_and_log(config.mask):
        if import_tasks:
            print_lines(*bridge.import_tasks(config, stop_on_signals(b"")))
        else:
            bridge.run(config, stop_on_signals(b""), once=once)
