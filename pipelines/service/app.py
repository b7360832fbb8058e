"""The web application: the open paths, the API, and the guard before all of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from streamboost.errors import ConfigurationError
from streamboost.pipelines.service.access.guard import LOGIN, Guard
from streamboost.pipelines.service.access.people import SESSION_SECONDS, People
from streamboost.pipelines.service.access.settings import Settings
from streamboost.pipelines.service.api import labelling, read, write
from streamboost.pipelines.service.api.common import answer_errors, described
from streamboost.pipelines.service.labelling.served import Served

__all__ = ["create_app"]

_INTERVAL = 0.2
"""Seconds between two looks for labels that are due."""

# A cookie that only our own pages send does not come along where a link elsewhere led here: the
# next step has to be taken from a page of ours.
_ENTER = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>streamboost</title>
<meta http-equiv="refresh" content="0;url=/"></head>
<body><p>You are logged in. <a href="/">Go on</a></p></body></html>
"""


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
    answer_errors(app)
    app.include_router(_entrance(pipelines, people, settings))
    app.include_router(_api(settings))
    app.state.pipelines = dict(zip(names, pipelines, strict=True))
    app.state.people = people
    # Added last, so that it comes first; also before what is mounted later.
    app.add_middleware(Guard, settings=settings, people=people)
    return app


def _entrance(pipelines: Sequence[Served], people: People, settings: Settings) -> APIRouter:
    """Return the paths that need no token: alive, ready, and in by a login link."""
    entrance = APIRouter(include_in_schema=False)

    @entrance.api_route("/healthz", methods=["GET", "HEAD"])
    def is_alive() -> Response:
        return PlainTextResponse("yes\n")

    @entrance.api_route("/readyz", methods=["GET", "HEAD"])
    def is_ready() -> Response:
        ready = all(served.queue.trouble is None for served in pipelines)
        return PlainTextResponse("yes\n" if ready else "no\n", 200 if ready else 503)

    @entrance.get(LOGIN)
    def log_in(request: Request, key: str = "") -> Response:
        cookie = people.log_in(key)
        if cookie is None:
            text = (
                "this login link was used already, or is too old: `streamboost serve` prints "
                "another at its next start; where this browser is logged in, go to /\n"
            )
            return PlainTextResponse(text, 401)
        answer = HTMLResponse(_ENTER)
        answer.set_cookie(
            settings.cookie,
            cookie,
            max_age=SESSION_SECONDS,
            secure=settings.is_secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    return entrance


def _api(settings: Settings) -> APIRouter:
    """Return the API; the guard has checked what its documentation says of tokens and cookies."""
    checked = [
        Security(HTTPBearer(auto_error=False, description="the token from its file")),
        Security(APIKeyCookie(name=settings.cookie, auto_error=False, description="a login")),
    ]
    api = APIRouter(prefix="/api/v1", dependencies=checked, responses=described())
    for part in (read, write, labelling):
        api.include_router(part.router)
    return api


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
