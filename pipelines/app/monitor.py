"""Monitoring of a running pipeline: HTTP endpoints and status documents, by [monitor]."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from streamboost.pipelines.config.file import Config
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.state.folder import State, read_or_create_token

__all__ = ["monitored"]

_log = logging.getLogger(__name__)


@contextmanager
def monitored(config: Config, state: State, loop: Runner) -> Iterator[None]:
    """Publish the status and serve /healthz, /readyz and /metrics in this context."""
    with ExitStack() as stack:
        if config.sections.monitor.port:
            stack.enter_context(_served(config, state, loop))
        if config.sections.monitor.publish_every:
            stack.enter_context(_published(config, state, loop))
        yield


@contextmanager
def _served(config: Config, state: State, loop: Runner) -> Iterator[None]:
    from streamboost.pipelines.monitoring.http import HealthAddress, HealthServer
    from streamboost.pipelines.monitoring.metrics import Metrics

    section, metrics = config.sections.monitor, Metrics(loop)
    certificate, key = (
        None if file is None else config.resolve(file)
        for file in (section.certificate, section.key)
    )
    place = HealthAddress(section.port, section.host, section.allowed_hosts, certificate, key)
    token = read_or_create_token(state.token)
    server = HealthServer(place, token, lambda: loop.is_ready, metrics.expose)
    loop.observers.append(metrics)
    with closing(server):
        _log.info(
            "%s:%d has /healthz, /readyz and /metrics, whose token is in %s",
            place.url,
            server.port,
            state.token,
        )
        yield


@contextmanager
def _published(config: Config, state: State, loop: Runner) -> Iterator[None]:
    from streamboost.pipelines.status.documents import pipeline_document
    from streamboost.pipelines.status.publisher import Publisher

    every = config.sections.monitor.publish_every
    same = pipeline_document(config, loop.pipeline)
    publisher = Publisher(loop, state.path, same, every=every, mask=config.mask)
    loop.observers.append(publisher)
    with closing(publisher):
        publisher.between_batches()
        try:
            yield
        except Exception as error:
            publisher.on_error(str(error) or type(error).__name__)
            raise
