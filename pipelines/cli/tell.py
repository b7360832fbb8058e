"""`streamboost tell`: what a pipeline is to do."""

from enum import StrEnum
from typing import Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import PipelineFile

__all__ = ["tell"]


class Tell(StrEnum):
    """What a pipeline can be told to do."""

    promote = "promote"
    rollback = "rollback"
    pause = "pause"
    resume = "resume"
    retrain = "retrain"


def tell(
    path: PipelineFile,
    command: Annotated[Tell, typer.Argument(help="What it is to do.")],
    version: Annotated[
        int | None, typer.Argument(help="The kept version to roll back to.", show_default=False)
    ] = None,
) -> None:
    """Tell a pipeline what to do, with its next batch.

    promote lets the challenger serve at once, before the labels have decided. rollback VERSION
    lets a kept version serve (inspect names them), until a training replaces it: pause first to
    hold it. pause starts no training and keeps the committee; predictions, requests
    and the collecting of labels go on. resume ends that. retrain trains anew now.
    """
    from streamboost.pipelines.config.binding import name_of
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.state.commands import Command, queue_command
    from streamboost.pipelines.state.folder import State

    config = load(path, learner=False)
    if name_of(State(config.state)) is None:
        raise ConfigurationError(f"{config.state} holds no state: run the pipeline first")
    order = Command(command.value, version)
    queue_command(config.state, order)
    print(f"{order}: {config.name} does so with its next batch, running or when it next runs")
