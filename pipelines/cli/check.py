"""`streamboost check`: is a pipeline file right, and what does it promise?"""

from typing import TYPE_CHECKING, Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import DEFAULT_FILE, PipelineFile

if TYPE_CHECKING:
    from streamboost.pipelines.config.file import Config

__all__ = ["check"]


def check(
    path: PipelineFile = DEFAULT_FILE,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="First create the Kafka topics it lacks.")
    ] = False,
) -> None:
    """Check a pipeline file.

    It is shown with all defaults, its connectors are tried, and what it guarantees is said.
    """
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import masking

    config = load(path)
    from streamboost.pipelines.job import check as checking

    print(f"# {path}, all defaults filled in; relative paths start at {config.folder}\n")
    print(config.to_toml())
    failed = 0
    with masking(config.mask):
        if create_topics:
            _create_topics(config)
        for finding in checking.check(config):
            print(f"{finding.part:<13} {'ok    ' if finding.ok else 'FAILED'}  {finding.text}")
            failed += not finding.ok
        if not failed:
            print(f"{'guarantee':<13} {checking.guarantee(config)}")
    if failed:
        raise typer.Exit(1)


def _create_topics(config: "Config") -> None:
    if config.sections.kafka is None:
        raise ConfigurationError("--create-topics: the pipeline file has no section [kafka]")
    from streamboost.pipelines.job.connect import create_topics

    created = create_topics(config)
    print(f"{'topics':<13} ok      {'created ' + ', '.join(created) if created else 'all there'}")
