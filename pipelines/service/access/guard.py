"""What stands before everything `serve` answers: pages, static files, the API and websockets.

Each request passes, in this order: is it for one of our names, is it small enough, who asks, do
they ask too often, and, where it could change something or open a websocket, does it come from one
of our own pages. Nothing behind this is asked before all of it holds, but for the paths that say
nothing. What somebody may do who is in, each operation says itself (`api/common`).
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

from streamboost.pipelines.service.access.people import PROGRAM, SCORER, People, Person
from streamboost.pipelines.service.access.settings import Rate, Settings, address_of

__all__ = ["LOGIN", "Guard"]

_log = logging.getLogger(__name__)

LOGIN = "/login"
OPEN = frozenset({"/healthz", "/readyz", LOGIN})
"""The paths that ask for no token: two that say yes or no, and the one that asks for its own."""

_READING = ("GET", "HEAD")

_ASKING = re.compile(r"/api/v1/pipelines/[^/]+/(predict|explain)")
"""The paths on which records are predicted: much is asked there, and nothing written."""

_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_PAGE_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; "
    "img-src 'self'{images}; font-src 'self'; connect-src 'self'"
)
"""For pages alone, whose own scripts and styles know the nonce of the answer they stand in."""

_OF_RECORDS = frozenset({"/label", "/record"})
"""The pages that show records, which may hold images."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Of our own pages; "no-referrer" would also take the Origin away that is asked for below.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TOKEN_HINT = (
    "open the login link that `streamboost serve` printed, or send `Authorization: Bearer TOKEN` "
    "with the token from its file"
)


class Guard:
    """Lets through to `app` what may pass, with who asks as ``scope["state"]["person"]``.

    Whoever proves who they are is let in whatever others tried from their address: `failures`
    counts, by address, the secrets that were none, and nothing else.
    """

    def __init__(self, app: ASGIApp, settings: Settings, people: People, failures: Rate) -> None:
        self.app = app
        self._settings = settings
        self._people = people
        self._failures = failures
        self._reads = Rate(*settings.reads)
        self._writes = Rate(*settings.writes)
        self._asks = Rate(*settings.asks)
        self._messages = Rate(*settings.messages)
        self._at_once = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refusal, or have `app` answer."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        refusal = self._refusal(connection)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, send)
            return
        person: Person | None = scope["state"]["person"]
        if person is None:
            await self._pass(scope, receive, _dressed(scope, send))
            return
        scope["state"].pop("proven", _nothing)()
        self._at_once[person.seat] += 1
        try:
            if scope["type"] == "http":
                await self._pass(scope, receive, _dressed(scope, send))
            else:
                watched = Watched(send, lambda: self._who(connection)[0] == person)
                await self.app(scope, watched.receiving(self._paced(person, receive)), watched)
        finally:
            self._at_once[person.seat] -= 1
            if not self._at_once[person.seat]:
                del self._at_once[person.seat]

    async def _refuse(self, refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, _dressed(scope, send))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have `app` answer, unless the body turns out larger than it said."""
        left = self._settings.max_body
        begun = False

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, self._too_large_text, {"Connection": "close"})
            return message

        async def noticed(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, counted, noticed)
        except HTTPException:
            # Only what does not answer such errors itself lets it come here.
            if begun:
                raise
            await self._too_large(scope)(scope, receive, send)
        except asyncio.CancelledError:
            # The server ends before this does.
            if not begun:
                await _refused(scope, 503, "the server is stopping")(scope, receive, send)

    def _paced(self, person: Person, receive: Receive) -> Receive:
        """Return `receive` for a websocket whose messages wait where they come too often."""

        async def paced() -> Message:
            message = await receive()
            while message["type"] == "websocket.receive" and (
                wait := self._messages.wait(person.seat)
            ):
                await asyncio.sleep(wait)
            return message

        return paced

    def _refusal(self, connection: HTTPConnection) -> Response | None:
        """Return what is answered to a request that may not pass."""
        scope, headers = connection.scope, connection.headers
        if _host_of(headers.get("host", "")) not in self._settings.hosts:
            return _refused(scope, 400, "this host name is not one of those allowed (--allow-host)")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:19]) > self._settings.max_body:
            return self._too_large(scope)
        person, is_wrong = self._who(connection)
        scope.setdefault("state", {})["person"] = person
        is_open = scope["type"] == "http" and scope["path"] in OPEN
        is_reading = scope["type"] == "http" and scope["method"] in _READING
        is_asking = scope["type"] == "http" and bool(_ASKING.fullmatch(scope["path"]))
        if not (is_open and is_reading):
            rate = self._asks if is_asking else self._reads if is_reading else self._writes
            if person is not None and (wait := self._wait(person, rate)):
                _log.warning("%s asks too often", person.name)
                return _refused(scope, 429, "too many requests", {"Retry-After": str(ceil(wait))})
            if person is None and not (is_open and scope["path"] == LOGIN):
                return self._stranger(scope, is_wrong=is_wrong)
        if person == SCORER and not is_asking:
            return _refused(scope, 403, "this token is for predict and explain alone")
        # Of what is only read, a browser says where it comes from if a script elsewhere asks.
        is_plain = is_reading and ("origin" not in headers or person is None)
        if person not in (PROGRAM, SCORER) and not is_plain and not _is_own(scope, headers):
            return _refused(scope, 403, "this must come from one of this server's own pages")
        return None

    def _stranger(self, scope: Scope, *, is_wrong: bool) -> Response:
        """Return what is answered to somebody who has shown nothing, or a secret that is none."""
        if is_wrong and (wait := self._failures.wait(address_of(scope.get("client")))):
            _log.warning("somebody tries secrets that are none")
            text = "too many secrets that are none"
            return _refused(scope, 429, text, {"Retry-After": str(ceil(wait))})
        return _refused(scope, 401, _TOKEN_HINT, {"WWW-Authenticate": "Bearer"})

    def _who(self, connection: HTTPConnection) -> tuple[Person | None, bool]:
        """Return who asks, None for a stranger, and whether a secret was given that is none."""
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        if is_bearer and (program := self._people.by_token(given.strip())):
            return program, False
        cookie = connection.cookies.get(self._settings.cookie, "")
        person = self._people.by_cookie(cookie) if cookie else None
        return person, person is None and bool(cookie or is_bearer)

    def _wait(self, person: Person, rate: Rate) -> float:
        """Return the seconds after which `person` may ask, 0: now."""
        if self._at_once[person.seat] >= self._settings.at_once:
            return 1.0
        return rate.wait(person.seat)

    @property
    def _too_large_text(self) -> str:
        return f"a request may have {self._settings.max_body:,} bytes"

    def _too_large(self, scope: Scope) -> Response:
        # What is left of the body is not read: the connection ends with the answer.
        return _refused(scope, 413, self._too_large_text, {"Connection": "close"})


def _nothing() -> None:
    """Tell nobody: there is no door before this."""


def _host_of(value: str) -> str:
    """Return the host of `host[:port]`, in small letters and without brackets."""
    try:
        parts = urlsplit(f"//{value}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        return ""
    return host if host is not None and parts.netloc == value and "@" not in value else ""


def _is_own(scope: Scope, headers: Headers) -> bool:
    """Tell whether the Origin is the one that the page itself came from."""
    is_secure = scope["scheme"] in ("https", "wss")
    own = f"{'https' if is_secure else 'http'}://{headers.get('host', '')}"
    return headers.getlist("origin") == [own]


def _refused(
    scope: Scope, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"detail": detail}, status, headers)
    return PlainTextResponse(f"{status} {HTTPStatus(status).phrase}: {detail}\n", status, headers)


def _dressed(scope: Scope, send: Send) -> Send:
    """Return `send` with the headers that tell a browser what it may do with the answer.

    Pages find the nonce they are to bear as ``scope["state"]["csp_nonce"]``.
    """
    nonce = scope.setdefault("state", {})["csp_nonce"] = token_urlsafe(16)
    # A body that does not say its length may never end, and what is not asked for is read all
    # the same, until the connection ends.
    is_endless = "transfer-encoding" in Headers(scope=scope)

    async def with_headers(message: Message) -> None:
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

    return with_headers


class Watched:
    """A websocket that ends with the login of whoever opened it.

    Parameters
    ----------
    send : sends to the browser
    is_in : tells whether the login is still good
    """

    def __init__(self, send: Send, is_in: Callable[[], bool]) -> None:
        self._send = send
        self._is_in = is_in
        self._is_over = False

    def receiving(self, receive: Receive) -> Receive:
        """Return `receive` that says it has ended when the login has."""

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and not await self._goes_on():
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        return watched

    async def __call__(self, message: Message) -> None:
        """Send `message`, unless the login has ended."""
        if await self._goes_on():
            await self._send(message)

    async def _goes_on(self) -> bool:
        if not self._is_over and not self._is_in():
            self._is_over = True
            await self._send({"type": "websocket.close", "code": 1008})
        return not self._is_over
