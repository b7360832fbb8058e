"""Guard of all requests to `serve`: pages, static files, the API and websockets.

Each request is checked in this order:

1. the Host header is an allowed name,
2. the body is small enough,
3. the user is authenticated by a token or a cookie,
4. the user's rate limit is not exceeded,
5. a request that could change something, or open a websocket, has the Origin of our own pages.

Only the paths in `OPEN` skip the authentication. The permissions of an authenticated user are
checked by each operation (`api/common`).
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import ceil
from secrets import token_urlsafe
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamboost.pipelines.service.auth.pages import html_page
from streamboost.pipelines.service.auth.settings import (
    AuthSettings,
    RateLimiter,
    client_address_key,
)
from streamboost.pipelines.service.auth.users import PROGRAM, SCORER, User, Users

_log = logging.getLogger(__name__)

LOGIN = "/login"
OPEN = frozenset({"/healthz", "/readyz", LOGIN})
"""Paths without authentication: two health checks, and the login with its own key."""

_READING = ("GET", "HEAD")

_ASKING = re.compile(r"/api/v1/pipelines/[^/]+/(predict|explain)")
"""Paths of predictions: they have a higher rate limit, as they write nothing."""

_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; "
    "img-src 'self'{images}; font-src 'self'; connect-src 'self'"
)
"""Content security policy of pages, whose scripts and styles have the nonce of the response."""

_OF_RECORDS = frozenset({"/label", "/record"})
"""Pages that show records, which may contain ``data:`` images."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # For our own pages; "no-referrer" would also remove the Origin header that is checked below.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TOKEN_HINT = (
    "open the login link that `streamboost serve` printed, or send `Authorization: Bearer TOKEN` "
    "with the token from the file that `streamboost serve` names"
)
_LOGIN_HINT = (
    "<p>These pages need a login. Open a login link: <code>streamboost serve</code> prints one for "
    "each user when it starts. Each link works once. For a new link, ask an operator, or restart "
    "<code>streamboost serve</code>.</p>"
)


class Guard:
    """Middleware that authenticates requests, limits their rate, and passes them to `app`.

    The user is stored as ``scope["state"]["person"]``. `failures` limits the rate of wrong tokens
    and cookies from one address. Correct ones are accepted even if the limit is exceeded.
    """

    def __init__(
        self, app: ASGIApp, settings: AuthSettings, people: Users, failures: RateLimiter
    ) -> None:
        self.app = app
        self._settings = settings
        self._people = people
        self._failures = failures
        self._reads = RateLimiter(*settings.reads)
        self._writes = RateLimiter(*settings.writes)
        self._asks = RateLimiter(*settings.scoring_requests)
        self._messages = RateLimiter(*settings.messages)
        self._bodies = RateLimiter(*settings.bodies)
        self._at_once = Counter[str]()
        self._body_bytes = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, or pass it to `app`."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["csp_nonce"] = token_urlsafe(16)
        connection = HTTPConnection(scope)
        rejection = self._rejection_response(connection)
        if rejection is not None:
            await self._send_rejection(rejection, scope, receive, send)
            return
        person: User | None = scope["state"]["person"]
        if person is None:
            await self._forward_request(scope, receive, _with_security_headers(scope, send))
            return
        scope["state"].pop("proven", _do_nothing)()
        self._at_once[person.seat] += 1
        try:
            if scope["type"] == "http":
                await self._forward_request(scope, receive, _with_security_headers(scope, send))
            else:
                websocket = SessionBoundWebSocket(
                    send, lambda: self._authenticate(connection)[0] == person
                )
                await self.app(
                    scope,
                    websocket.receive_with_disconnect(self._rate_limited_receive(person, receive)),
                    websocket,
                )
        finally:
            self._at_once[person.seat] -= 1
            if not self._at_once[person.seat]:
                del self._at_once[person.seat]

    async def _send_rejection(
        self, rejection: Response, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await rejection(scope, receive, _with_security_headers(scope, send))

    async def _forward_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        person: User | None = scope["state"]["person"]
        seat, received, begun = "" if person is None else person.seat, 0, False

        async def receive_within_limits() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            received += size
            self._body_bytes[seat] += size
            if received > self._settings.max_body:
                raise HTTPException(413, self._body_limit_text, {"Connection": "close"})
            if self._body_bytes[seat] > self._settings.max_concurrent_body:
                headers = {"Connection": "close", "Retry-After": "1"}
                raise HTTPException(429, "too many large requests at the same time", headers)
            if person not in (None, PROGRAM, SCORER):
                while wait := self._bodies.take_token(seat, size):
                    await asyncio.sleep(wait)
            return message

        async def send_and_record_start(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive_within_limits, send_and_record_start)
        except HTTPException as error:
            # Applications without a handler for this exception let it pass to here.
            if begun:
                raise
            response = _error_response(scope, error.status_code, error.detail, error.headers)
            await response(scope, receive, send)
        except asyncio.CancelledError:
            # The server is stopping before the response is complete.
            if not begun:
                await _error_response(scope, 503, "the server is stopping")(scope, receive, send)
        finally:
            self._body_bytes[seat] -= received
            if not self._body_bytes[seat]:
                del self._body_bytes[seat]

    def _rate_limited_receive(self, person: User, receive: Receive) -> Receive:
        async def receive_at_limited_rate() -> Message:
            message = await receive()
            while message["type"] == "websocket.receive" and (
                wait := self._messages.take_token(person.seat)
            ):
                await asyncio.sleep(wait)
            return message

        return receive_at_limited_rate

    def _rejection_response(self, connection: HTTPConnection) -> Response | None:
        """Return the error response to a request that is rejected; None if it may pass."""
        scope, headers = connection.scope, connection.headers
        if _hostname(headers.get("host", "")) not in self._settings.hosts:
            return _error_response(
                scope, 400, "this host name is not allowed: start serve with --allow-host NAME"
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:19]) > self._settings.max_body:
            # The rest of the body is not read: the connection is closed after the response.
            return _error_response(scope, 413, self._body_limit_text, {"Connection": "close"})
        person, is_wrong = self._authenticate(connection)
        scope["state"]["person"] = person
        is_open = scope["type"] == "http" and scope["path"] in OPEN
        is_reading = scope["type"] == "http" and scope["method"] in _READING
        is_asking = scope["type"] == "http" and bool(_ASKING.fullmatch(scope["path"]))
        if not (is_open and is_reading):
            rate = self._asks if is_asking else self._reads if is_reading else self._writes
            if person is not None and (wait := self._seconds_until_allowed(person, rate)):
                _log.warning(
                    "%s exceeds the rate limit of requests",
                    person.name,
                    extra={"event": "rate_limited"},
                )
                return _error_response(
                    scope, 429, "too many requests", {"Retry-After": str(ceil(wait))}
                )
            if person is None and not (is_open and scope["path"] == LOGIN):
                return self._unauthenticated_response(scope, is_wrong=is_wrong)
        if person == SCORER and not is_asking:
            return _error_response(scope, 403, "this token is only valid for predict and explain")
        # For read requests, a browser sends an Origin only if a script of another site asks.
        is_plain_number = is_reading and ("origin" not in headers or person is None)
        if (
            person not in (PROGRAM, SCORER)
            and not is_plain_number
            and not _has_own_origin(scope, headers)
        ):
            text = "cross-site request refused: send it from one of this server's own pages"
            return _error_response(scope, 403, text)
        return None

    def _unauthenticated_response(self, scope: Scope, *, is_wrong: bool) -> Response:
        if is_wrong and (
            wait := self._failures.take_token(client_address_key(scope.get("client")))
        ):
            _log.warning("too many invalid tokens", extra={"event": "invalid_tokens"})
            text = "too many invalid tokens"
            return _error_response(scope, 429, text, {"Retry-After": str(ceil(wait))})
        challenge = {"WWW-Authenticate": "Bearer"}
        is_browser = "text/html" in Headers(scope=scope).get("accept", "")
        if is_browser and not scope["path"].startswith("/api/"):
            return html_page(scope, "Login required", _LOGIN_HINT, 401, challenge)
        return _error_response(scope, 401, _TOKEN_HINT, challenge)

    def _authenticate(self, connection: HTTPConnection) -> tuple[User | None, bool]:
        """Return (user, has wrong token or cookie); the user is None if unauthenticated."""
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        if is_bearer and (program := self._people.authenticate_token(given.strip())):
            return program, False
        cookie = connection.cookies.get(self._settings.cookie_name, "")
        person = self._people.authenticate_cookie(cookie) if cookie else None
        return person, person is None and bool(cookie or is_bearer)

    def _seconds_until_allowed(self, person: User, rate: RateLimiter) -> float:
        """Return the seconds until `rate` allows a request of `person`; 0 if it is allowed now."""
        if self._at_once[person.seat] >= self._settings.max_concurrent:
            return 1.0
        return rate.take_token(person.seat)

    @property
    def _body_limit_text(self) -> str:
        return f"the request is too large: send at most {self._settings.max_body:,} bytes"


def _do_nothing() -> None:
    """Do nothing: the default callback of a connection without a limit."""


def _hostname(value: str) -> str:
    """Return the host of `host[:port]`, in lower case and without brackets."""
    try:
        parts = urlsplit(f"//{value}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        return ""
    return host if host is not None and parts.netloc == value and "@" not in value else ""


def _has_own_origin(scope: Scope, headers: Headers) -> bool:
    is_secure = scope["scheme"] in ("https", "wss")
    own = f"{'https' if is_secure else 'http'}://{headers.get('host', '')}"
    return headers.getlist("origin") == [own]


def _error_response(
    scope: Scope, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"detail": detail}, status, headers)
    return PlainTextResponse(f"{status} {HTTPStatus(status).phrase}: {detail}\n", status, headers)


def _with_security_headers(scope: Scope, send: Send) -> Send:
    """Return `send` with security headers added to the response.

    The nonce for the scripts and styles of a page is ``scope["state"]["csp_nonce"]``.
    """
    nonce = scope["state"]["csp_nonce"]
    # A chunked body may never end, and the server would read an unused body to its end: therefore
    # the connection is closed after the response.
    is_endless = "transfer-encoding" in Headers(scope=scope)

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            is_page = headers.get("content-type", "").startswith("text/html")
            images = " data:" if scope["path"] in _OF_RECORDS else ""
            policy = _PAGE_POLICY.format(nonce=nonce, images=images) if is_page else _POLICY
            headers.setdefault("Content-Security-Policy", policy)
            if is_endless:
                headers["Connection"] = "close"
        await send(message)

    return send_with_headers


class SessionBoundWebSocket:
    """Websocket that is closed when the login session of its user ends.

    Parameters
    ----------
    send : sends a message to the browser
    is_session_valid : returns whether the session is still valid
    """

    def __init__(self, send: Send, is_session_valid: Callable[[], bool]) -> None:
        self._send = send
        self._is_session_valid = is_session_valid
        self._is_over = False

    def receive_with_disconnect(self, receive: Receive) -> Receive:
        """Return a `receive` that returns a disconnect message once the login session has ended."""

        async def receive_while_session_open() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not await self._is_session_open():
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        return receive_while_session_open

    async def __call__(self, message: Message) -> None:
        """Send `message`, unless the session has ended."""
        if await self._is_session_open():
            await self._send(message)

    async def _is_session_open(self) -> bool:
        if not self._is_over and not self._is_session_valid():
            self._is_over = True
            await self._send({"type": "websocket.close", "code": 1008})
        return not self._is_over
