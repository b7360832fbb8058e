"""Routes for health checks, login by a link, and logout."""

from collections.abc import Callable
from html import escape
from math import ceil
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from streamboost.pipelines.service.auth.guard import LOGIN
from streamboost.pipelines.service.auth.pages import html_page
from streamboost.pipelines.service.auth.sessions import SESSION_SECONDS
from streamboost.pipelines.service.auth.settings import (
    AuthSettings,
    RateLimiter,
    client_address_key,
)
from streamboost.pipelines.service.auth.users import Users

LOGOUT = "/logout"

_USED = (
    "this login link was used already, or has expired: restart `streamboost serve` or ask an "
    "operator for a new link; if you are logged in, open /\n"
)
# A link may be opened by another page, or by a program that scans messages. The link therefore logs
# in only after a confirmation. The key is in the address, so that the form needs no body.
_ASK = """<p>{now} Role after login: {role}.</p>
<form method="post" action="{login}?key={key}"><button autofocus>Log in as
<bdi>{name}</bdi></button></form>"""
_ROLES = {
    "annotator": "annotator (reads and labels)",
    "operator": "operator (all rights)",
}


def login_router(
    people: Users, settings: AuthSettings, failures: RateLimiter, is_ready: Callable[[], bool]
) -> APIRouter:
    """Create the router of the health checks, login and logout."""
    router = APIRouter(include_in_schema=False)
    _add_health_checks(router, is_ready)

    @router.get(LOGIN)
    async def show_confirmation(request: Request, key: str = "") -> Response:
        invited = people.find_pending_login(key)
        return (
            _invalid_key_response(request, failures)
            if invited is None
            else _confirmation_page(request, key, *invited)
        )

    @router.post(LOGIN)
    async def log_in(request: Request, key: str = "") -> Response:
        cookie = await run_in_threadpool(people.log_in, key)
        if cookie is None:
            return _invalid_key_response(request, failures)
        people.log_out(request.cookies.get(settings.cookie_name, ""))
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            settings.cookie_name,
            cookie,
            max_age=SESSION_SECONDS,
            httponly=True,
            **_cookie_attributes(request),
        )
        return answer

    @router.post(LOGOUT)
    async def log_out(request: Request) -> Response:
        people.log_out(request.cookies.get(settings.cookie_name, ""))
        content = "<p>To log in again, open a new login link.</p>"
        answer = html_page(request.scope, "Logged out", content)
        answer.delete_cookie(settings.cookie_name, **_cookie_attributes(request))
        return answer

    return router


def _add_health_checks(router: APIRouter, is_ready: Callable[[], bool]) -> None:
    @router.api_route("/healthz", methods=["GET", "HEAD"])
    async def liveness_response() -> Response:
        return PlainTextResponse("yes\n")

    @router.api_route("/readyz", methods=["GET", "HEAD"])
    async def readiness_response() -> Response:
        ready = is_ready()
        return PlainTextResponse("yes\n" if ready else "no\n", 200 if ready else 503)


def _invalid_key_response(request: Request, failures: RateLimiter) -> Response:
    if wait := failures.take_token(client_address_key(request.scope.get("client"))):
        text = "too many invalid login links\n"
        return PlainTextResponse(text, 429, {"Retry-After": str(ceil(wait))})
    return PlainTextResponse(_USED, 401)


def _confirmation_page(request: Request, key: str, name: str, role: str) -> Response:
    person = request.state.person
    now = f"This browser is logged in as <bdi>{escape(person.name)}</bdi>." if person else ""
    content = _ASK.format(
        now=now, role=_ROLES[role], login=LOGIN, key=escape(key), name=escape(name)
    )
    return html_page(request.scope, f"Log in as {name}?", content)


def _cookie_attributes(request: Request) -> dict[str, Any]:
    return {"secure": request.url.scheme == "https", "samesite": "strict"}
