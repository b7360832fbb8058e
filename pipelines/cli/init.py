"""`streamboost init`: a pipeline file to start from."""

from typing import Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import DEFAULT_FILE, PipelineFile, say

__all__ = ["init"]


def init(
    path: PipelineFile = DEFAULT_FILE,
    kafka: Annotated[bool, typer.Option("--kafka", help="For topics of a Kafka cluster.")] = False,
    every: Annotated[bool, typer.Option("--all", help="With every key there is.")] = False,
) -> None:
    """Write a pipeline file to start from."""
    from streamboost.pipelines.config.templates import brief
    from streamboost.pipelines.config.templates import every as full

    template = full if every else brief
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template.render(kafka=kafka))
    except FileExistsError:
        raise ConfigurationError(
            f"{path} is there already and is left as it is: name another file, or move it away"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    say(f"wrote {path}; see `streamboost check {path}`, then `streamboost run {path}`")
