"""Command `streamboost run`: runs a pipeline until it is stopped."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamboost.errors import ConfigurationError, DataError, StreamBoostError
from streamboost.pipelines.cli.options import (
    DEFAULT_FILE,
    LogJson,
    PipelineFile,
    Rebuild,
    UntilIdle,
    Upgrade,
    exit_code,
    stop_on_signals,
)

if TYPE_CHECKING:
    from streamboost.pipelines.config.file import Config

STOPPING = b"stopping after this batch\n"


def run(
    path: PipelineFile = DEFAULT_FILE,
    until_idle: UntilIdle = False,
    upgrade: Upgrade = False,
    rebuild: Rebuild = False,
    workers: Annotated[
        int, typer.Option("--workers", min=0, help="Set the number of scorer processes.")
    ] = 0,
    log_json: LogJson = False,
) -> None:
    """Run a pipeline until it is stopped.

    Ctrl-C or SIGTERM stops the pipeline after the current batch; the next run continues from there.
    On a terminal, a status line shows its progress.
    """
    from streamboost.pipelines.app.distributed import (
        require_distributed_scoring,
        require_local_scoring,
    )
    from streamboost.pipelines.config.file import load

    if not workers:
        require_local_scoring(load(path, learner=False))
        run_pipeline(path, until_idle, upgrade, rebuild, log_json=log_json)
        return
    require_distributed_scoring(load(path))
    if until_idle or upgrade or rebuild:
        raise ConfigurationError(
            "--until-idle, --upgrade and --rebuild are options of `streamboost learn`: run it with "
            "them first, and then `streamboost run --workers`"
        )
    from streamboost.pipelines.app.workers import run_workers
    from streamboost.pipelines.monitoring import log_format

    log_format.configure_logging(as_json=log_json)
    options = ["--log-json"] if log_json else []
    stop = stop_on_signals(b"" if log_json else STOPPING)
    if code := run_workers(path, workers, options, stop):
        raise typer.Exit(code)


def run_pipeline(
    path: Path, until_idle: bool, upgrade: bool, rebuild: bool, *, log_json: bool, child: str = ""
) -> None:
    """Run a pipeline in this process; if scoring is distributed, run only its learner.

    `child` is the name of this process in log lines, if several processes share a terminal.
    """
    import logging
    from functools import partial

    from streamboost.pipelines.app import live
    from streamboost.pipelines.app import run as assembly
    from streamboost.pipelines.app.warmup import warm_up
    from streamboost.pipelines.cli.heap import freeze_gc_after_recovery
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log
    from streamboost.pipelines.monitoring import log_format
    from streamboost.pipelines.monitoring.run_log import RunLog
    from streamboost.pipelines.shutdown import Interrupted

    handler = log_format.configure_logging(as_json=log_json, process_name=child)
    _log, report = logging.getLogger(__name__), RunLog()
    try:
        config = load(path)
        report.quiet = not child and _can_show_status_line(config, log_json)
        said = live.ERASE.encode() * report.quiet + STOPPING
        stop = stop_on_signals(b"" if log_json or child else said)
        with stop.interruptible():
            loading = partial(_log.info, extra={"event": "kernels_loading"})
            warm_up(loading, [str(config.learner_config.settings["committee"]["estimator"])])
        line = live.show_status_line(config.state, handler) if report.quiet else nullcontext()
        with (
            mask_secrets_in_errors_and_log(config.mask),
            line,
            freeze_gc_after_recovery() as freezer,
        ):
            sequence = assembly.run(
                config,
                until_idle=until_idle,
                upgrade=upgrade,
                rebuild=rebuild,
                stop=stop,
                observers=[report, freezer],
            )
        with log_format.add_sequence_to_log(lambda: sequence):
            report.close(sequence)
            if why := report.unusable_input_warning(is_complete=until_idle):
                raise DataError(why)
    except Interrupted:
        report.log_interruption()
    except StreamBoostError as error:
        if not (log_json or child):
            raise
        _log.error("%s", error, extra={"event": "run_failed"})
        raise typer.Exit(exit_code(error)) from None


def _can_show_status_line(config: "Config", log_json: bool) -> bool:
    return sys.stderr.isatty() and not log_json and config.sections.monitor.publish_every > 0
