"""The web application: the API, the login, and the guard before all of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from streamboost.errors import ConfigurationError
from streamboost.pipelines.service import entrance
from streamboost.pipelines.service.access.guard import Guard
from streamboost.pipelines.service.access.people import People
from streamboost.pipelines.service.access.settings import Settings
from streamboost.pipelines.service.api import answers
from streamboost.pipelines.service.api.router import router
from streamboost.pipelines.service.labelling.served import Served

__all__ = ["create_app"]

_INTERVAL = 0.2
"""Seconds between two looks for labels that are due."""


def create_app(
    pipelines: Sequence[Served], settings: Settings, people: People | None = None
) -> FastAPI:
    """Return the application over `pipelines`, without pages.

    While it runs, it writes the labels whose time to be undone is over, and closes `pipelines` when
    it ends. `people` makes login links; without it nobody but who has the token can come in.

    Raises ConfigurationError where two pipelines have one name.
    """
    names = [served.name for served in pipelines]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(
            f"two pipelines are called {double!r}: serve them by two processes, on ports of "
            "their own"
        )
    people = people or People(settings.token)
    app = FastAPI(
        title="streamboost",
        version="1",
        description="Pipelines that learn from a stream with few labels: see, label, steer.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # they would load their scripts from elsewhere
        redoc_url=None,
        lifespan=lambda _: _writing(pipelines),
    )
    answers.add_to(app)
    app.include_router(entrance.router(pipelines, people, settings))
    app.include_router(router(settings))
    app.state.pipelines = dict(zip(names, pipelines, strict=True))
    app.state.people = people
    # Added last, so that it comes first; also before what is mounted later.
    app.add_middleware(Guard, settings=settings, people=people)
    return app


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
