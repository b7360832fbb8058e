"""Web application of `serve`: login, API, and the guard (authentication, rate limits)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.concurrency import run_in_threadpool

from streamboost.errors import ConfigurationError, ConnectorError, StateError
from streamboost.pipelines.service.api import export, labelling, logins, predict, read, write
from streamboost.pipelines.service.api.common import error_descriptions, register_error_handlers
from streamboost.pipelines.service.api.shortcut import PredictFastPath
from streamboost.pipelines.service.auth.guard import Guard
from streamboost.pipelines.service.auth.login import login_router
from streamboost.pipelines.service.auth.settings import AuthSettings, RateLimiter
from streamboost.pipelines.service.auth.users import Users
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.service.outages import outage_notifiers

_INTERVAL = 0.2
"""Seconds between two checks for labels that are due to be written."""

_OUTAGE_INTERVAL = 2.0
"""Seconds between two checks whether a pipeline is down."""


def create_app(
    pipelines: Sequence[ServedPipeline], settings: AuthSettings, people: Users
) -> FastAPI:
    """Create the FastAPI application with login and API, without the dashboard pages.

    While the application runs, it writes labels whose undo window has ended, and reports outages
    of the pipelines by [notify]. At its end, it writes all held labels and closes `pipelines`.
    `people` is the store of users and their sessions.

    Raises ConfigurationError if two pipelines have the same name.
    """
    names = [served.name for served in pipelines]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(
            f"two pipelines have the name {double!r}: serve them by two processes, on different "
            "ports"
        )

    def is_ready() -> bool:
        return all(served.queue.write_error is None for served in pipelines)

    failures = RateLimiter(*settings.failures)
    app = FastAPI(
        title="streamboost",
        version="1",
        description="Pipelines that learn from a stream with few labels: see, label, steer.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # the documentation pages would load scripts from another server
        redoc_url=None,
        lifespan=lambda _: _background_tasks_lifespan(pipelines),
    )
    register_error_handlers(app)
    app.include_router(login_router(people, settings, failures, is_ready))
    app.include_router(_api_router(settings))
    app.state.pipelines = dict(zip(names, pipelines, strict=True))
    app.state.people = people
    people.annotators = lambda: _annotator_names(pipelines)
    app.add_middleware(PredictFastPath, pipelines=app.state.pipelines)
    # The middleware added last is the outermost, also for routes that are mounted later.
    app.add_middleware(Guard, settings=settings, people=people, failures=failures)
    return app


def _annotator_names(pipelines: Sequence[ServedPipeline]) -> Iterator[str]:
    for served in pipelines:
        with suppress(StateError, ConnectorError):
            yield from served.queue.annotator_names()


_TOKEN = (
    "token for programs, from the file serve.token (or predict.token, for predict and explain "
    "only) in the state folder of the first pipeline"
)


def _api_router(settings: AuthSettings) -> APIRouter:
    """Create the API's router; its security schemes document the checks of the guard."""
    checked = [
        Security(HTTPBearer(auto_error=False, description=_TOKEN)),
        Security(
            APIKeyCookie(
                name=settings.cookie_name, auto_error=False, description="cookie of a login"
            )
        ),
    ]
    api = APIRouter(prefix="/api/v1", dependencies=checked, responses=error_descriptions())
    for part in (
        predict,
        read,
        write,
        labelling,
        logins,
        export,
    ):  # the most frequent requests first
        api.include_router(part.router)
    return api


@asynccontextmanager
async def _background_tasks_lifespan(pipelines: Sequence[ServedPipeline]) -> AsyncIterator[None]:
    notifiers = list(outage_notifiers(pipelines))
    calls = [
        *(_call_periodically(served.queue.write_due_labels, _INTERVAL) for served in pipelines),
        *(_call_periodically(notifier.check, _OUTAGE_INTERVAL) for notifier in notifiers),
    ]
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for served in pipelines:
            await run_in_threadpool(served.queue.write_due_labels, at_once=True)
            await run_in_threadpool(served.close)
        for notifier in notifiers:
            await run_in_threadpool(notifier.webhook.close)


async def _call_periodically(call: Callable[[], object], seconds: float) -> None:
    """Call a blocking function in a thread, again and again, `seconds` after the last call."""
    while True:
        await run_in_threadpool(call)
        await asyncio.sleep(seconds)
