"""Label Studio's HTTP API: tokens, requests and the translation of errors."""

import http.client
import urllib.error
import urllib.request
from typing import Any, NoReturn, TypeVar

import msgspec

from streamboost.errors import ConnectorError, UnavailableError

_LONGEST = 100_000
"""Limit of bytes read from an error response, which repeats the refused tasks."""

_PASSING = {408, 425, 429}
"""HTTP status codes of temporary errors, in addition to 500 and above."""

Response = TypeVar("Response")


class ApiClient:
    """Client of a Label Studio server, authenticated by a user's token.

    Parameters
    ----------
    url : address of the server
    token : A personal access token or a legacy one
    where : description of the server in error messages
    timeout : seconds to wait for an answer
    """

    def __init__(self, url: str, token: str, where: str, timeout: float) -> None:
        self._url = url
        self._token = token
        self._where = where
        self._timeout = timeout
        # A personal access token is a JWT (two dots), which is exchanged for short-lived tokens.
        self._is_personal = token.count(".") == 2
        self._access: str | None = None
        self._opener = urllib.request.build_opener(_NoRedirectHandler)

    def get(self, path: str, response_type: type[Response]) -> Response:
        """Return the resource at `path`, decoded as `response_type`."""
        return self._decode_response(self._request_resource("GET", path), response_type)

    def get_or_none(self, path: str, response_type: type[Response]) -> Response | None:
        """Return the resource at `path` as `response_type`, or None if it does not exist."""
        content = self._request_resource("GET", path, allow_missing=True)
        return None if content is None else self._decode_response(content, response_type)

    def post(self, path: str, body: Any, response_type: type[Response]) -> Response:
        """Send `body` as JSON with POST, and return the response as `response_type`."""
        content = self._request_resource("POST", path, msgspec.json.encode(body))
        return self._decode_response(content, response_type)

    def patch(self, path: str, body: Any, response_type: type[Response]) -> Response:
        """Change the resource at `path` with PATCH, and return it as `response_type`."""
        content = self._request_resource("PATCH", path, msgspec.json.encode(body))
        return self._decode_response(content, response_type)

    def delete(self, path: str) -> None:
        """Delete the resource at `path`, if it exists."""
        self._request_resource("DELETE", path, allow_missing=True)

    def _request_resource(
        self, method: str, path: str, body: bytes | None = None, *, allow_missing: bool = False
    ) -> bytes | None:
        """Send a request, and return the body of the response.

        An expired access token is renewed once. With `allow_missing`, the result is None for a
        missing resource (status 404). Raises RequestRefusedError if the server refuses the request.
        """
        was_given = self._access is not None
        try:
            return self._send_request(method, path, body, self._authorization_header())
        except RequestRefusedError as refused:
            if refused.status == 401 and was_given:
                self._access = None
                return self._request_resource(method, path, body, allow_missing=allow_missing)
            if refused.status == 404 and allow_missing:
                return None
            raise

    def _authorization_header(self) -> str:
        if not self._is_personal:
            return f"Token {self._token}"
        if self._access is None:
            given = msgspec.json.encode({"refresh": self._token})
            content = self._send_request("POST", "/api/token/refresh/", given, None)
            self._access = self._decode_response(content, _AccessToken).access
        return f"Bearer {self._access}"

    def _send_request(
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
                self._raise_http_error(error)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise UnavailableError(
                f"{self._where} cannot be reached, or broke off: {reason!s}"
            ) from error
        return content

    def _raise_http_error(self, error: urllib.error.HTTPError) -> NoReturn:
        try:
            text = error.read(_LONGEST).decode(errors="replace")
        except (OSError, http.client.HTTPException):
            text = ""
        if error.code >= 500 or error.code in _PASSING:
            raise UnavailableError(
                f"{self._where} fails ({error.code}): {_reason_in_error_response(text)}"
            ) from None
        if 300 <= error.code < 400:
            text = str(error.headers.get("Location", ""))
        reason = _refusal_text(error.code, _reason_in_error_response(text))
        raise RequestRefusedError(f"{self._where}: {reason}", error.code) from None

    def _decode_response(self, content: bytes | None, response_type: type[Response]) -> Response:
        try:
            return msgspec.json.decode(content or b"", type=response_type)
        except msgspec.MsgspecError as error:
            raise ConnectorError(
                f"{self._where} did not answer as Label Studio does ({error}): see that url leads "
                "to it, and not to a page before it"
            ) from error


class _AccessToken(msgspec.Struct):
    access: str


class _NoRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirects: the token must be sent only to the configured address."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that the redirect is not followed and raises an HTTPError."""


class RequestRefusedError(ConnectorError):
    """Raised if the server refuses a request; the request had no effect, and a retry cannot help.

    `status` is the HTTP status of the response.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def of_tasks(self) -> bool:
        """Whether the server refused the tasks in the request, not the user or the address."""
        return self.status in (400, 413)


class _ErrorResponse(msgspec.Struct):
    detail: str = ""
    validation_errors: dict[str, list[Any]] = {}


def _reason_in_error_response(body_text: str) -> str:
    """Return the reason in the body of an error response, without the tasks that it repeats."""
    try:
        told = msgspec.json.decode(body_text, type=_ErrorResponse)
    except msgspec.MsgspecError:
        return body_text[:200]
    found = [str(one) for errors in told.validation_errors.values() for one in errors if one]
    return (found[0].partition(" :: ")[0] if found else told.detail)[:500]


def _refusal_text(status: int, reason: str) -> str:
    if status == 401:
        return (
            f"the token is refused (401), as {reason!r}: make a new one under Account & "
            "Settings, and see that tokens of its kind are enabled for the organization"
        )
    if status == 403:
        return "the token's user may not do this (403): give the token of one who may"
    if status == 404:
        return "it is not there, or the token's user cannot see it (404): correct project or url"
    if 300 <= status < 400:
        return f"it leads elsewhere ({status}), to {reason!r}: write that address into url"
    return (
        f"what is sent is refused ({status}): {reason}; see that the labelling interface "
        "fits the tasks"
    )
