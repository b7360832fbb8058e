"""The open paths: alive, ready, and in by a login link."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from streamboost.pipelines.service.access.guard import LOGIN
from streamboost.pipelines.service.access.people import SESSION_SECONDS, People
from streamboost.pipelines.service.access.settings import Settings
from streamboost.pipelines.service.labelling.served import Served

__all__ = ["router"]

# A cookie that only our own pages send does not come along where a link elsewhere led here: the
# next step has to be taken from a page of ours.
_ENTER = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>streamboost</title>
<meta http-equiv="refresh" content="0;url=/"></head>
<body><p>You are logged in. <a href="/">Go on</a></p></body></html>
"""


def router(pipelines: Sequence[Served], people: People, settings: Settings) -> APIRouter:
    """Return the paths that need no token."""
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
