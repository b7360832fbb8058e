"""The command line: `streamboost demo | init | check | run | serve | tell | inspect | warmup`.

Each command imports what it needs when it is called, so that `--help` answers at once.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import streamboost
from streamboost.errors import ConfigurationError, StreamBoostError

if TYPE_CHECKING:
    from streamboost.pipelines.config import Config
    from streamboost.pipelines.runtime import Stop

__all__ = ["main"]

app = typer.Typer(
    name="streamboost",
    help="Learn from a stream with few labels.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline file.", show_default=True)]
DEFAULT_FILE = Path("pipeline.toml")
STOPPING = b"stopping after this batch\n"


class Strategy(StrEnum):
    """The rows of the demo's table."""

    margin = "margin"
    random = "random"
    repeat_last = "repeat_last"
    all = "all"


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


@app.command()
def demo(
    strategy: Annotated[Strategy | None, typer.Option(help="Run this row alone.")] = None,
    budget: Annotated[float, typer.Option(help="Share of labels that may be bought.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Drives the learner, never the order.")] = 0,
    state: Annotated[
        Path | None, typer.Option(help="Keep log and state in this folder.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object per row.")] = False,
) -> None:
    """Show the pipeline at work on real records."""
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from streamboost.pipelines import demo, screen
    from streamboost.pipelines.warmup import warm_up

    strategies = demo.STRATEGIES if strategy is None else (strategy.value,)
    messages = Console(stderr=True, highlight=False)
    stop = _stop_on_signals(b"")
    warm_up(messages.print, ["sketch"])
    with TemporaryDirectory() as temporary, screen.following(messages) as show:
        folder = state or Path(temporary)
        rows = list(demo.play(strategies, folder, seed=seed, budget=budget, stop=stop, show=show))
    if as_json:
        for row in rows:
            print(json.dumps(asdict(row)))
    elif rows:
        Console(highlight=False).print(screen.table(rows))
    if stop.requested:
        messages.print("interrupted")
        raise typer.Exit(130)


@app.command()
def init(
    path: PipelineFile = DEFAULT_FILE,
    kafka: Annotated[bool, typer.Option("--kafka", help="For topics of a Kafka cluster.")] = False,
) -> None:
    """Write a pipeline file to start from."""
    from streamboost.pipelines.template import render

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
    from streamboost.pipelines import checking
    from streamboost.pipelines.config import load

    config = load(path)
    print(f"# {path}, all defaults filled in; relative paths start at {config.folder}\n")
    print(config.to_toml())
    failed = 0
    with _masking(config):
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
    from streamboost.pipelines import topics

    created = topics.create(config)
    print(f"{'topics':<13} ok      {'created ' + ', '.join(created) if created else 'all there'}")


@app.command()
def run(
    path: PipelineFile = DEFAULT_FILE,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when the sources have nothing more.")
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object a line.")
    ] = False,
) -> None:
    """Run a pipeline until it is stopped.

    Ctrl-C or SIGTERM stops it after the batch at hand; the next run goes on from there.
    """
    import logging

    from streamboost.pipelines import assembly, logs
    from streamboost.pipelines.config import load
    from streamboost.pipelines.reporting import Report
    from streamboost.pipelines.warmup import warm_up

    logs.begin(as_json=log_json)
    log = logging.getLogger(__name__)
    try:
        config = load(path)
        stop = _stop_on_signals(b"" if log_json else STOPPING)
        warm_up(log.info, [str(config.core.settings["committee"]["estimator"])])
        report = Report()
        with _masking(config):
            sequence = assembly.run(config, until_idle=until_idle, stop=stop, observer=report)
        with logs.stamped(lambda: sequence):
            report.close(sequence)
    except StreamBoostError as error:
        if not log_json:
            raise
        log.error("%s", error)
        raise typer.Exit(_code(error)) from None


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
    from streamboost.pipelines import inspection
    from streamboost.pipelines.config import load

    if verify:
        from streamboost.pipelines.verification import verify as replay

        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder: --verify needs the pipeline file")
        config = load(path)
        with _masking(config):
            print(replay(config))
        return
    if path.is_dir():
        found = inspection.describe(path)
    else:
        config = load(path)
        with _masking(config):
            found = inspection.describe(config.state, config)
    print(json.dumps(found, indent=2) if as_json else inspection.in_words(found))


@app.command()
def serve(
    paths: Annotated[
        list[Path], typer.Argument(help="Pipeline files, or folders of their states.")
    ],
    person: Annotated[
        list[str] | None, typer.Option(help="Print a login link for this name; repeatable.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8765,
    address: Annotated[str, typer.Option(help="Of this machine.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name it is reached by; repeatable.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="For https, with --key.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The certificate's key.", show_default=False)
    ] = None,
    allow_plain: Annotated[
        bool, typer.Option("--allow-plain", help="Another address without https.")
    ] = False,
) -> None:
    """Show pipelines in a browser, and take labels there.

    It is a process of its own: whatever happens to it, the pipelines go on.
    """
    import signal

    from streamboost.pipelines import logs

    try:
        from streamboost.pipelines.service import served, server
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"serve needs {error.name}: install it with `pip install 'streamboost[serve]'`"
        ) from None
    logs.begin(as_json=False)
    place = server.Place(address, port, certificate, key, allow_plain, tuple(allow_host or ()))
    # While it serves, the server takes them, and hands them on when it has ended.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    configs = [served.find(path) for path in paths]
    with ExitStack() as masking:
        for config in configs:
            masking.enter_context(_masking(config))
        server.serve(configs, place, person or (), partial(print, flush=True))


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
    from streamboost.pipelines.commands import Command, queue_command
    from streamboost.pipelines.config import load
    from streamboost.pipelines.state import State

    config = load(path)
    if State(config.state).name() is None:
        raise ConfigurationError(f"{config.state} holds no state: run the pipeline first")
    order = Command(command.value, version)
    queue_command(config.state, order)
    print(f"{order}: {config.name} does so with its next batch, running or when it next runs")


@app.command()
def warmup() -> None:
    """Compile ahead of the first run."""
    from streamboost.pipelines.warmup import warm_up

    seconds = warm_up(partial(print, file=sys.stderr, flush=True))
    print(f"all kernels are compiled and kept; it took {seconds:.1f} s")


@contextmanager
def _masking(config: "Config") -> Iterator[None]:
    """Keep the environment's values out of the errors and the log."""
    import logging

    def mask(record: logging.LogRecord) -> bool:
        record.msg, record.args = config.mask(record.getMessage()), ()
        return True

    handlers = logging.getLogger().handlers[:]
    for handler in handlers:
        handler.addFilter(mask)
    try:
        yield
    except StreamBoostError as error:
        raise type(error)(config.mask(str(error))) from None
    finally:
        for handler in handlers:
            handler.removeFilter(mask)


def _stop_on_signals(said: bytes) -> "Stop":
    """Return a stop that SIGINT and SIGTERM ask for, which are ignored from then on.

    `said` is written to standard error when they do.
    """
    import signal
    from types import FrameType

    from streamboost.pipelines.runtime import Stop

    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Past Python's buffers, which the interrupted line may be writing to.
        os.write(2, said)
        stop.request()

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    return stop


def _code(error: StreamBoostError) -> int:
    return 2 if isinstance(error, ConfigurationError) else 1


def main() -> None:
    """Run the command line: exit code 2 where a setting is wrong, 1 where something failed."""
    try:
        app()
    except StreamBoostError as error:
        print(f"streamboost: {error}", file=sys.stderr)
        sys.exit(_code(error))


if __name__ == "__main__":
    main()
