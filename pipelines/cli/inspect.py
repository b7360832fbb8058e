"""Command `streamboost inspect`: shows the state of a pipeline, or verifies its checkpoint."""

import json
from pathlib import Path
from typing import Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import DEFAULT_FILE, print_lines


def inspect(
    path: Annotated[
        Path, typer.Argument(help="The pipeline file, or its state folder.")
    ] = DEFAULT_FILE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Replay the journal and compare the result with the checkpoint."
        ),
    ] = False,
) -> None:
    """Show the progress of a pipeline.

    This includes positions, lag, requests, labels, metrics and the newest error.
    """
    from streamboost.pipelines.app import inspect as inspection
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log

    if verify:
        from streamboost.pipelines.app.verify import verify_replay as replay

        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder: --verify needs the pipeline file")
        config = load(path)
        with mask_secrets_in_errors_and_log(config.mask):
            print_lines(replay(config))
        return
    if path.is_dir():
        found = inspection.describe_pipeline(path)
    else:
        config = load(path, learner=False)
        with mask_secrets_in_errors_and_log(config.mask):
            found = inspection.describe_pipeline(config.state, config)
    said = json.dumps(found, indent=2) if as_json else inspection.format_description(found)
    print_lines(*said.split("\n"))
