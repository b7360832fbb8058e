"""The web application: the way in, the API, and the guard before all of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.concurrency import run_in_threadpool

from streamboost.errors import ConfigurationError, ConnectorError, StateError
from streamboost.pipelines.service.access.entrance import entrance
from streamboost.pipelines.service.access.guard import Guard
from streamboost.pipelines.service.access.people import People
from streamboost.pipelines.service.access.settings import Rate, Settings
from streamboost.pipelines.service.api import labelling, logins, predict, read, write
from streamboost.pipelines.service.api.common import answer_errors, described
from streamboost.pipelines.service.api.shortcut import Shortcut
from streamboost.pipelines.service.labelling.served import Served

__all__ = ["create_app"]

_INTERVAL = 0.2
"""Seconds between two looks for labels that are due."""


def create_app(pipelines: Sequence[Served], settings: Settings, people: People) -> FastAPI:
    """Return the application over `pipelines`, without pages.

    While it runs, it writes the labels whose time to be undone is over, and closes `pipelines` when
    it ends. `people` makes login links.

    Raises ConfigurationError where two pipelines have one name.
    """
    names = [served.name for served in pipelines]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(
            f"two pipelines are called {double!r}: serve them by two processes, on ports of "
            "their own"
        )
    failures = Rate(*settings.failures)
    app = FastAPI(
        title="streamboost",
        version="1",
        description="Pipelines that learn from a stream with few labels: see, label, steer.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # they would load their scripts from elsewhere
        redoc_url=None,
        lifespan=lambda _: _writing(pipelines),
    )
    answer_errors(app)
    app.include_router(entrance(people, settings, failures, lambda: _is_ready(pipelines)))
    app.include_router(_api(settings))
    app.state.pipelines = dict(zip(names, pipelines, strict=True))
    app.state.people = people
    people.labellers = lambda: _labellers(pipelines)
    app.add_middleware(Shortcut, pipelines=app.state.pipelines)
    # Added last, so that it comes first; also before what is mounted later.
    app.add_middleware(Guard, settings=settings, people=people, failures=failures)
    return app


def _labellers(pipelines: Sequence[Served]) -> Iterator[str]:
    """Give the names under which anybody labelled, as far as they can be read."""
    for served in pipelines:
        with suppress(StateError, ConnectorError):
            yield from served.queue.labellers()


def _api(settings: Settings) -> APIRouter:
    """Return the API; the guard has checked what its documentation says of tokens and cookies."""
    checked = [
        Security(HTTPBearer(auto_error=False, description="the token from its file")),
        Security(APIKeyCookie(name=settings.cookie, auto_error=False, description="a login")),
    ]
    api = APIRouter(prefix="/api/v1", dependencies=checked, responses=described())
    for part in (predict, read, write, labelling, logins):  # the most asked first
        api.include_router(part.router)
    return api


def _is_ready(pipelines: Sequence[Served]) -> bool:
    return all(served.queue.trouble is None for served in pipelines)


@asynccontextmanager
async def _writing(pipelines: Sequence[Served]) -> AsyncIterator[None]:
    """Write labels that are due, until the application ends."""
    tasks = [asyncio.create_task(_write_on(served)) for served in pipelines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for served in pipelines:
            await run_in_threadpool(served.queue.write_due, at_once=True)
            await run_in_threadpool(served.close)


async def _write_on(served: Served) -> None:
    while True:
        await run_in_threadpool(served.queue.write_due)
        await asyncio.sleep(_INTERVAL)
