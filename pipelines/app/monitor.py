"""Monitoring of a running pipeline: HTTP endpoints and status documents, by [monitor]."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from streamboost.pipelines.config.file import Config
from streamboost.pipelines.monitoring.last_error import LastErrorFile, read_last_error
from streamboost.pipelines.runner.runner import Runner
from streamboost.pipelines.state.folder import State, read_or_create_token

if TYPE_CHECKING:
    from streamboost.pipelines.monitoring.notifier import Notifier

_log = logging.getLogger(__name__)


@contextmanager
def open_notifier(
    config: Config, state: State, last_error: LastErrorFile
) -> "Iterator[Notifier | None]":
    """Send notifications in this context, also of an error; yield None without [notify]."""
    section = config.sections.notify
    if section is None:
        yield None
        return
    from streamboost.pipelines.monitoring.notifier import Notifier

    notifier = Notifier(section, config.name, config.mask)
    read = partial(read_last_error, state.last_error)
    with notifier.notify_failure(lambda: last_error.sequence(), read):
        yield notifier


@contextmanager
def monitor_runner(
    config: Config, state: State, runner: Runner, notifier: "Notifier | None" = None
) -> Iterator[None]:
    """Context manager that publishes the status, serves the HTTP endpoints, and notifies."""
    with ExitStack() as stack:
        if notifier is not None:
            notifier.watch(runner)
        if config.sections.monitor.port:
            stack.enter_context(_serve_health_endpoints(config, state, runner, notifier))
        if config.sections.monitor.publish_every:
            stack.enter_context(_publish_status(config, state, runner))
        yield


@contextmanager
def _serve_health_endpoints(
    config: Config, state: State, runner: Runner, notifier: "Notifier | None"
) -> Iterator[None]:
    from streamboost.pipelines.monitoring.http import HealthServer, HealthServerAddress
    from streamboost.pipelines.monitoring.metrics import Metrics

    section, metrics = config.sections.monitor, Metrics(runner)
    certificate, key = (
        None if file is None else config.resolve_path(file)
        for file in (section.certificate, section.key)
    )
    place = HealthServerAddress(section.port, section.host, section.allowed_hosts, certificate, key)
    token = read_or_create_token(state.token)
    server = HealthServer(place, token, lambda: runner.is_ready, metrics.expose)
    runner.observers.append(metrics)
    if notifier is not None:
        notifier.webhook.on_result = metrics.count_notification
    with closing(server):
        _log.info(
            "%s:%d serves /healthz, /readyz and /metrics; the token of /metrics is in %s",
            place.url,
            server.port,
            state.token,
            extra={"event": "health_server_started"},
        )
        yield


@contextmanager
def _publish_status(config: Config, state: State, runner: Runner) -> Iterator[None]:
    from streamboost.pipelines.status.documents import pipeline_document
    from streamboost.pipelines.status.publisher import Publisher

    every = config.sections.monitor.publish_every
    same = pipeline_document(config, runner.pipeline)
    publisher = Publisher(runner, state.path, same, every=every, mask=config.mask)
    runner.observers.append(publisher)
    with closing(publisher):
        publisher.between_batches()
        try:
            yield
        except Exception as error:
            publisher.on_error(str(error) or type(error).__name__)
            raise
