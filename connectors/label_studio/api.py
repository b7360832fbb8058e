"""Label Studio's HTTP API: tokens, requests and the translation of errors."""

import http.client
import urllib.error
import urllib.request
from typing import Any, NoReturn, TypeVar

import msgspec

from streamboost.errors import ConnectorError, UnavailableError

__all__ = ["Api", "RefusedError"]

_LONGEST = 100_000
"""Limit of bytes read from an error response, which repeats the refused tasks."""

_PASSING = {408, 425, 429}
"""HTTP status codes of temporary errors, in addition to 500 and above."""

Response = TypeVar("Response")


class Api:
    """Client of a Label Studio server, authenticated by a user's token.

    Parameters
    ----------
    url
        Address of the server.
    token
        A personal access token or a legacy one.
    where
        Name of the server in errors.
    timeout
        Seconds to wait for an answer.
    """

    def __init__(self, url: str, token: str, where: str, timeout: float) -> None:
        self._url = url
        self._token = token
        self._where = where
        self._timeout = timeout
        # A personal access token is a JWT that buys short-lived ones; a legacy one has no dots.
        self._is_personal = token.count(".") == 2
        self._access: str | None = None
        self._opener = urllib.request.build_opener(_NoRedirects)

    def get(self, path: str, kind: type[Response]) -> Response:
        """Return the resource at `path`."""
        return self._decoded(self._ask("GET", path), kind)

    def find(self, path: str, kind: type[Response]) -> Response | None:
        """Return the resource at `path`, or None if there is none."""
        content = self._ask("GET", path, gone_is_well=True)
        return None if content is None else self._decoded(content, kind)

    def post(self, path: str, body: Any, kind: type[Response]) -> Response:
        """Send `body` as JSON, and return the response."""
        return self._decoded(self._ask("POST", path, msgspec.json.encode(body)), kind)

    def delete(self, path: str) -> None:
        """Delete the resource at `path`, if there is one."""
        self._ask("DELETE", path, gone_is_well=True)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, *, gone_is_well: bool = False
    ) -> bytes | None:
        """Return the response; an expired access token is renewed once."""
        was_given = self._access is not None
        try:
            return self._answer(method, path, body, self._credentials())
        except _RefusalError as refused:
            if refused.status == 401 and was_given:
                self._access = None
                return self._ask(method, path, body, gone_is_well=gone_is_well)
            if refused.status == 404 and gone_is_well:
                return None
            raise RefusedError(f"{self._where}: {_reason_of(refused)}", refused.status) from None

    def _credentials(self) -> str:
        if not self._is_personal:
            return f"Token {self._token}"
        if self._access is None:
            given = msgspec.json.encode({"refresh": self._token})
            content = self._answer("POST", "/api/token/refresh/", given, None)
            self._access = self._decoded(content, _Access).access
        return f"Bearer {self._access}"

    def _answer(
        self, method: str, path: str, body: bytes | None, authorization: str | None
    ) -> bytes:
        request = urllib.request.Request(self._url + path, body, method=method)
        request.add_header("Accept", "application/json")
        if authorization is not None:
            request.add_header("Authorization", authorization)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                self._fail(error)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise UnavailableError(
                f"{self._where} cannot be reached, or broke off: {reason!s}"
            ) from error
        return content

    def _fail(self, error: urllib.error.HTTPError) -> NoReturn:
        try:
            text = error.read(_LONGEST).decode(errors="replace")
        except (OSError, http.client.HTTPException):
            text = ""
        if error.code >= 500 or error.code in _PASSING:
            raise UnavailableError(f"{self._where} fails ({error.code}): {_reason(text)}") from None
        if 300 <= error.code < 400:
            text = str(error.headers.get("Location", ""))
        raise _RefusalError(error.code, _reason(text))

    def _decoded(self, content: bytes | None, kind: type[Response]) -> Response:
        try:
            return msgspec.json.decode(content or b"", type=kind)
        except msgspec.MsgspecError as error:
            raise ConnectorError(
                f"{self._where} did not answer as Label Studio does ({error}): see that url leads "
                "to it, and not to a page before it"
            ) from error


class _Access(msgspec.Struct):
    access: str


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token is for the configured address."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request, so that the redirect itself is the response."""


class RefusedError(ConnectorError):
    """The request was refused without any effect, and a retry would be refused, too.

    Attributes
    ----------
    of_tasks
        Whether the content was refused, not the user or the address.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.of_tasks = status in (400, 413)


class _RefusalError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


class _ErrorAnswer(msgspec.Struct):
    """Error response of Label Studio."""

    detail: str = ""
    validation_errors: dict[str, list[Any]] = {}


def _reason(text: str) -> str:
    """Return the reason in an error response, without the tasks that it repeats."""
    try:
        told = msgspec.json.decode(text, type=_ErrorAnswer)
    except msgspec.MsgspecError:
        return text[:200]
    found = [str(one) for errors in told.validation_errors.values() for one in errors if one]
    return (found[0].partition(" :: ")[0] if found else told.detail)[:500]


def _reason_of(refused: _RefusalError) -> str:
    """Return the meaning of a refusal, and the remedy."""
    status = refused.status
    if status == 401:
        return (
            f"the token is refused (401), as {refused.text!r}: make a new one under Account & "
            "Settings, and see that tokens of its kind are enabled for the organization"
        )
    if status == 403:
        return "the token's user may not do this (403): give the token of one who may"
    if status == 404:
        return "it is not there, or the token's user cannot see it (404): correct project or url"
    if 300 <= status < 400:
        return f"it leads elsewhere ({status}), to {refused.text!r}: write that address into url"
    return (
        f"what is sent is refused ({status}): {refused.text}; see that the labelling interface "
        "fits the tasks"
    )
