"""The command line: `streamboost demo | init | check | run | serve | label-studio | tell | ...`.

Each command stands in a file of its own and imports its work when it is called, so that `--help`
answers at once.
"""

import atexit
import gc
import sys
import traceback
from types import TracebackType
from typing import Annotated

import typer
from typer.main import get_command

import streamboost
from streamboost.errors import StreamBoostError
from streamboost.pipelines.cli.apart import learn, score
from streamboost.pipelines.cli.check import check
from streamboost.pipelines.cli.demo import demo
from streamboost.pipelines.cli.init import init
from streamboost.pipelines.cli.inspect import inspect
from streamboost.pipelines.cli.label_studio import label_studio
from streamboost.pipelines.cli.options import exit_code, say, say_block
from streamboost.pipelines.cli.run import run
from streamboost.pipelines.cli.serve import serve
from streamboost.pipelines.cli.tell import tell
from streamboost.pipelines.cli.warmup import warmup

__all__ = ["main"]

COMMANDS = (demo, init, check, run, learn, score, inspect, serve, tell, label_studio, warmup)

app = typer.Typer(
    name="streamboost",
    help="Learn from a stream with few labels.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(command)


def _say_version(asked: bool) -> None:
    if asked:
        say(f"streamboost {streamboost.__version__}")
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
    import logging

    from streamboost.pipelines.monitoring.logs import Escaping

    if logging.lastResort is not None:  # for commands that begin no log of their own
        logging.lastResort.setFormatter(Escaping())
    if not log_kafka:
        # It reports every broken connection as an error, and goes on by itself; what a schema
        # registry is asked by reports every question.
        for name in ("kafka", "httpx", "httpx2"):
            logging.getLogger(name).propagate = False
            logging.getLogger(name).addHandler(logging.NullHandler())


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error, what comes from outside escaped in it."""
    say_block("".join(traceback.format_exception(error)).rstrip(), file=sys.stderr)


def main() -> None:
    """Run the command line: exit code 2 where a setting is wrong, 1 where something failed."""
    # A process that ends looks through all it holds for circles, a sixth of a short run's time,
    # and what it frees is the system's anyway.
    atexit.register(gc.freeze)
    sys.excepthook = _report
    try:
        # Not by calling the app, which would set a hook of its own.
        get_command(app)()
    except StreamBoostError as error:
        say_block(f"streamboost: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
