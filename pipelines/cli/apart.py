"""`streamboost learn` and `streamboost score`: a pipeline in several processes."""

import typer

from streamboost.errors import StreamBoostError
from streamboost.pipelines.cli.options import (
    DEFAULT_FILE,
    Child,
    LogJson,
    PipelineFile,
    Rebuild,
    UntilIdle,
    Upgrade,
    end_with_stdin,
    exit_code,
    stop_on_signals,
)
from streamboost.pipelines.cli.run import STOPPING, run_pipeline

__all__ = ["learn", "score"]


def learn(
    path: PipelineFile = DEFAULT_FILE,
    until_idle: UntilIdle = False,
    upgrade: Upgrade = False,
    rebuild: Rebuild = False,
    log_json: LogJson = False,
    child: Child = "",
) -> None:
    """Learn from what `score` processes ask.

    One process; a second takes over, as with `run`.
    """
    if child:
        end_with_stdin()
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.job.apart import refuse_here

    refuse_here(load(path, learner=False))
    run_pipeline(path, until_idle, upgrade, rebuild, log_json=log_json, child=child)


def score(path: PipelineFile = DEFAULT_FILE, log_json: LogJson = False, child: Child = "") -> None:
    """Score records as one of several processes, on any machine.

    Up to one for each partition of the records; none keeps anything in a folder.
    """
    if child:
        end_with_stdin()
    import logging

    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import masking
    from streamboost.pipelines.job.score import score as run_scorer
    from streamboost.pipelines.job.warmup import warm_up
    from streamboost.pipelines.monitoring import logs
    from streamboost.pipelines.stop import Interrupted

    logs.begin(as_json=log_json, called=child)
    log = logging.getLogger(__name__)
    try:
        config = load(path)
        stop = stop_on_signals(b"" if log_json or child else STOPPING)
        with stop.interruptible():
            warm_up(log.info, [str(config.core.settings["committee"]["estimator"])])
        with masking(config.mask):
            log.info("%d records predicted", run_scorer(config, stop))
    except Interrupted:
        log.warning("stopped while it waited: others go on")
    except StreamBoostError as error:
        if not (log_json or child):
            raise
        log.error("%s", error)
        raise typer.Exit(exit_code(error)) from None
