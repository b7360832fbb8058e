"""Command line: `streamboost demo | init | check | run | serve | label-studio | control | ...`.

Each command has its own module, and imports its implementation when called, so that `--help`
responds at once.
"""

import atexit
import gc
import io
import sys
import traceback
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.main import get_command

import streamboost
from streamboost.errors import StreamBoostError
from streamboost.pipelines.cli.backup import backup, restore
from streamboost.pipelines.cli.check import check
from streamboost.pipelines.cli.control import control
from streamboost.pipelines.cli.demo import demo
from streamboost.pipelines.cli.distributed import learn, score
from streamboost.pipelines.cli.export import export
from streamboost.pipelines.cli.init import init
from streamboost.pipelines.cli.inspect import inspect
from streamboost.pipelines.cli.label_studio import label_studio
from streamboost.pipelines.cli.options import exit_code, print_block, print_lines
from streamboost.pipelines.cli.run import run
from streamboost.pipelines.cli.serve import serve
from streamboost.pipelines.cli.warmup import warmup

_ClickException: Any = typer.BadParameter.__mro__[2]
"""Base class of usage errors, from Click or from the copy of Click in newer Typer releases."""

COMMANDS = (
    *(demo, init, check, run, learn, score, inspect, serve, control, label_studio),
    *(backup, restore, export, warmup),
)

app = typer.Typer(
    name="streamboost",
    help="Learn from a stream with few labels.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(command)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print_lines(f"streamboost {streamboost.__version__}")
        raise typer.Exit


@app.callback()
def _configure_logging(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    log_kafka: Annotated[
        bool, typer.Option("--log-kafka", help="Also log the messages of the Kafka client library.")
    ] = False,
) -> None:
    """Configure logging before a command runs."""
    import logging

    from streamboost.pipelines.monitoring.log_format import EscapingFormatter

    if logging.lastResort is not None:  # for commands that configure no logging
        logging.lastResort.setFormatter(EscapingFormatter())
    if not log_kafka:
        # Kafka's client logs each broken connection as an error, although it reconnects. The HTTP
        # clients of the schema registry log each request.
        for name in ("kafka", "httpx", "httpx2"):
            logging.getLogger(name).propagate = False
            logging.getLogger(name).addHandler(logging.NullHandler())


def _print_unexpected_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    print_block("".join(traceback.format_exception(error)).rstrip(), file=sys.stderr)


def main() -> None:
    """Run the command line and exit: with code 2 if a setting is wrong, 1 after other errors."""
    # Without a freeze, the collector searches the whole heap at exit, which takes a sixth of a
    # short run. The system frees the memory anyway.
    atexit.register(gc.freeze)
    sys.excepthook = _print_unexpected_error
    try:
        # Calling the app would replace the exception hook, and the standalone mode prints usage
        # errors without escaping.
        sys.exit(get_command(app)(sys.argv[1:] or ["--help"], standalone_mode=False) or 0)
    except typer.Abort:
        print_block("Aborted!", file=sys.stderr)
        sys.exit(1)
    except _ClickException as error:
        text = io.StringIO()
        error.show(text)
        print_block(text.getvalue().rstrip(), file=sys.stderr)
        sys.exit(error.exit_code)
    except StreamBoostError as error:
        print_block(f"streamboost: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


if __name__ == "__main__":
    main()
