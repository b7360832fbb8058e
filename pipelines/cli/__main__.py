"""The command line: `streamboost demo | init | check | run | serve | label-studio | tell | ...`.

Each command imports what it needs when it is called, so that `--help` answers at once.
"""

import json
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import streamboost
from streamboost.errors import ConfigurationError, StreamBoostError
from streamboost.pipelines.cli.demo import demo
from streamboost.pipelines.cli.options import (
    DEFAULT_FILE,
    PipelineFile,
    exit_code,
    masking,
    stop_on_signals,
)
from streamboost.pipelines.cli.people import label_studio, serve

if TYPE_CHECKING:
    from streamboost.pipelines.config.file import Config

__all__ = ["main"]

app = typer.Typer(
    name="streamboost",
    help="Learn from a stream with few labels.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

STOPPING = b"stopping after this batch\n"


class Tell(StrEnum):
    """What a pipeline can be told to do."""

    promote = "promote"
    rollback = "rollback"
    pause = "pause"
    resume = "resume"
    retrain = "retrain"


def _say_version(asked: bool) -> None:
    if asked:
        print(f"streamboost {streamboost.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version."),
    ] = False,
    log_kafka: Annotated[
        bool, typer.Option("--log-kafka", help="Show what Kafka's client library logs.")
    ] = False,
) -> None:
    """Learn from a stream with few labels."""
    if not log_kafka:
        import logging

        # It reports every broken connection as an error, and goes on by itself.
        logging.getLogger("kafka").propagate = False
        logging.getLogger("kafka").addHandler(logging.NullHandler())


app.command()(demo)


@app.command()
def init(
    path: PipelineFile = DEFAULT_FILE,
    kafka: Annotated[bool, typer.Option("--kafka", help="For topics of a Kafka cluster.")] = False,
) -> None:
    """Write a pipeline file to start from."""
    from streamboost.pipelines.config.template import render

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(render(kafka=kafka))
    except FileExistsError:
        raise ConfigurationError(
            f"{path} is there already and is left as it is: name another file, or move it away"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    print(f"wrote {path}; see `streamboost check {path}`, then `streamboost run {path}`")


@app.command()
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
    from streamboost.pipelines.job import check as checking

    config = load(path)
    print(f"# {path}, all defaults filled in; relative paths start at {config.folder}\n")
    print(config.to_toml())
    failed = 0
    with masking(config):
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
    from streamboost.pipelines.job import topics

    created = topics.create(config)
    print(f"{'topics':<13} ok      {'created ' + ', '.join(created) if created else 'all there'}")


@app.command()
def run(
    path: PipelineFile = DEFAULT_FILE,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when the sources have nothing more.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Replay what another release made, not comparing.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make a lost state folder again: see the README.")
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object a line.")
    ] = False,
) -> None:
    """Run a pipeline until it is stopped.

    Ctrl-C or SIGTERM stops it after the batch at hand; the next run goes on from there.
    """
    import logging

    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.job import run as assembly
    from streamboost.pipelines.job.warmup import warm_up
    from streamboost.pipelines.monitoring import logs
    from streamboost.pipelines.monitoring.log import RunLog
    from streamboost.pipelines.stop import Interrupted

    logs.begin(as_json=log_json)
    log, report = logging.getLogger(__name__), RunLog()
    try:
        config = load(path)
        stop = stop_on_signals(b"" if log_json else STOPPING)
        with stop.interruptible():
            warm_up(log.info, [str(config.core.settings["committee"]["estimator"])])
        with masking(config):
            sequence = assembly.run(
                config,
                until_idle=until_idle,
                upgrade=upgrade,
                rebuild=rebuild,
                stop=stop,
                watchers=[report],
            )
        with logs.stamped(lambda: sequence):
            report.close(sequence)
    except Interrupted:
        log.warning("stopped while it waited to begin: nothing has changed")
    except StreamBoostError as error:
        if not log_json:
            raise
        log.error("%s", error)
        raise typer.Exit(exit_code(error)) from None


@app.command()
def inspect(
    path: Annotated[
        Path, typer.Argument(help="The pipeline file, or the folder of its state.")
    ] = DEFAULT_FILE,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Replay the journal; compare with the checkpoint.")
    ] = False,
) -> None:
    """Show how far a pipeline has come.

    And what it has asked for and learned.
    """
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.job import inspect as inspection

    if verify:
        from streamboost.pipelines.job.verify import verify as replay

        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder: --verify needs the pipeline file")
        config = load(path)
        with masking(config):
            print(replay(config))
        return
    if path.is_dir():
        found = inspection.describe(path)
    else:
        config = load(path)
        with masking(config):
            found = inspection.describe(config.state, config)
    print(json.dumps(found, indent=2) if as_json else inspection.in_words(found))


app.command()(serve)


@app.command()
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
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.state.commands import Command, queue_command
    from streamboost.pipelines.state.folder import State

    config = load(path)
    if State(config.state).name() is None:
        raise ConfigurationError(f"{config.state} holds no state: run the pipeline first")
    order = Command(command.value, version)
    queue_command(config.state, order)
    print(f"{order}: {config.name} does so with its next batch, running or when it next runs")


app.command("label-studio")(label_studio)


@app.command()
def warmup() -> None:
    """Compile ahead of the first run."""
    from streamboost.pipelines.job.warmup import warm_up

    seconds = warm_up(partial(print, file=sys.stderr, flush=True))
    print(f"all kernels are compiled and kept; it took {seconds:.1f} s")


def main() -> None:
    """Run the command line: exit code 2 where a setting is wrong, 1 where something failed."""
    try:
        app()
    except StreamBoostError as error:
        print(f"streamboost: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
