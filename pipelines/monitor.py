"""Watching a running pipeline from outside, as [monitor] says."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager

from streamboost.pipelines.config import Config
from streamboost.pipelines.runtime import Pipeline
from streamboost.pipelines.state import State

__all__ = ["monitored"]

_log = logging.getLogger(__name__)


@contextmanager
def monitored(config: Config, state: State, pipeline: Pipeline) -> Iterator[None]:
    """Serve /healthz, /readyz and /metrics meanwhile, if [monitor] has a port."""
    port = config.sections.monitor.port
    if not port:
        yield
        return
    from streamboost.pipelines.health import HealthServer, kept_token
    from streamboost.pipelines.metrics import Metrics

    metrics = Metrics(pipeline)
    token = kept_token(state.token)
    server = HealthServer(port, token, lambda: pipeline.is_ready, metrics.expose)
    pipeline.observers.append(metrics)
    with closing(server):
        _log.info(
            "http://127.0.0.1:%d has /healthz, /readyz and /metrics, whose token is in %s",
            server.port,
            state.token,
        )
        yield
