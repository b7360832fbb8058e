"""Commands `streamboost learn` and `streamboost score`, for distributed scoring."""

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
    exit_code,
    exit_when_stdin_closes,
    stop_on_signals,
)
from streamboost.pipelines.cli.run import STOPPING, run_pipeline


def learn(
    path: PipelineFile = DEFAULT_FILE,
    until_idle: UntilIdle = False,
    upgrade: Upgrade = False,
    rebuild: Rebuild = False,
    log_json: LogJson = False,
    child: Child = "",
) -> None:
    """Train on the labels that `score` requests.

    Unrequested labels are learned too if they contain their record. Only one process learns: if a
    second process starts, the first one stops, as with `run`.
    """
    if child:
        exit_when_stdin_closes()
    from streamboost.pipelines.app.distributed import require_distributed_scoring
    from streamboost.pipelines.config.file import load

    require_distributed_scoring(load(path, learner=False))
    run_pipeline(path, until_idle, upgrade, rebuild, log_json=log_json, child=child)


def score(path: PipelineFile = DEFAULT_FILE, log_json: LogJson = False, child: Child = "") -> None:
    """Score records as one of several processes.

    There may be as many processes as the records topic has partitions, on any machines. They need
    no state folder.
    """
    if child:
        exit_when_stdin_closes()
    import logging
    from functools import partial

    from streamboost.pipelines.app.score import run_scorer
    from streamboost.pipelines.app.warmup import warm_up
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log
    from streamboost.pipelines.monitoring import log_format
    from streamboost.pipelines.shutdown import Interrupted

    log_format.configure_logging(as_json=log_json, process_name=child)
    _log = logging.getLogger(__name__)
    try:
        config = load(path)
        stop = stop_on_signals(b"" if log_json or child else STOPPING)
        with stop.interruptible():
            loading = partial(_log.info, extra={"event": "kernels_loading"})
            warm_up(loading, [str(config.learner_config.settings["committee"]["estimator"])])
        with mask_secrets_in_errors_and_log(config.mask):
            _log.info(
                "%d records predicted", run_scorer(config, stop), extra={"event": "run_stopped"}
            )
    except Interrupted:
        _log.warning(
            "stopped while waiting: other scorers continue",
            extra={"event": "stopped_while_waiting"},
        )
    except StreamBoostError as error:
        if not (log_json or child):
            raise
        _log.error("%s", error, extra={"event": "run_failed"})
        raise typer.Exit(exit_code(error)) from None
