"""Asking Label Studio's API: tokens, and what its refusals mean."""

import http.client
import urllib.error
import urllib.request
from typing import Any, NoReturn, TypeVar

import msgspec

from streamboost.errors import ConnectorError, UnavailableError

__all__ = ["Api", "RefusedError"]

_LONGEST = 100_000
"""Bytes of a refusal that are read: it repeats the tasks that it refuses."""

_PASSING = {408, 425, 429}
"""Refusals of the moment, like all from 500 on."""

Kind = TypeVar("Kind")


class Api:
    """A server, asked with somebody's token.

    Parameters
    ----------
    url
        Where it is.
    token
        A personal access token or a legacy one.
    where
        What errors call the place.
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

    def get(self, path: str, kind: type[Kind]) -> Kind:
        """Return what stands at `path`."""
        return self._decoded(self._ask("GET", path), kind)

    def find(self, path: str, kind: type[Kind]) -> Kind | None:
        """Return what stands at `path`, None where nothing does."""
        content = self._ask("GET", path, gone_is_well=True)
        return None if content is None else self._decoded(content, kind)

    def post(self, path: str, body: Any, kind: type[Kind]) -> Kind:
        """Send `body` as JSON, and return the answer."""
        return self._decoded(self._ask("POST", path, msgspec.json.encode(body)), kind)

    def delete(self, path: str) -> None:
        """Remove what stands at `path`, if it does."""
        self._ask("DELETE", path, gone_is_well=True)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, *, gone_is_well: bool = False
    ) -> bytes | None:
        """Return the answer; short-lived access that has run out is renewed once."""
        was_given = self._access is not None
        try:
            return self._answer(method, path, body, self._credentials())
        except _RefusalError as refused:
            if refused.status == 401 and was_given:
                self._access = None
                return self._ask(method, path, body, gone_is_well=gone_is_well)
            if refused.status == 404 and gone_is_well:
                return None
            raise RefusedError(f"{self._where}: {_told(refused)}", refused.status) from None

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

    def _decoded(self, content: bytes | None, kind: type[Kind]) -> Kind:
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
    """Follows none: the token is for the address it was given for."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request, so that the answer is the redirect itself."""


class RefusedError(ConnectorError):
    """Nothing was done, and the same will be refused again.

    Attributes
    ----------
    of_tasks
        Whether it is for what was sent, not for who sent it or where to.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.of_tasks = status in (400, 413)


class _RefusalError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


class _Told(msgspec.Struct):
    """A refusal as Label Studio words it."""

    detail: str = ""
    validation_errors: dict[str, list[Any]] = {}


def _reason(text: str) -> str:
    """Return what a refusal says is wrong, without the tasks that it repeats."""
    try:
        told = msgspec.json.decode(text, type=_Told)
    except msgspec.MsgspecError:
        return text[:200]
    found = [str(one) for errors in told.validation_errors.values() for one in errors if one]
    return (found[0].partition(" :: ")[0] if found else told.detail)[:500]


def _told(refused: _RefusalError) -> str:
    """Say what a refusal means, and what to do."""
    status = refused.status
    if status == 401:
        return (
            f"the token is refused (401), as {refused.text!r}: make a new one under Account & "
            "Settings, and see that tokens of its kind are enabled for the organization"
        )
    if status == 403:
        return "the token's user may not do this (403): give the token of one who may"
    if status == 404:
        return "it is not there, or the token's user cannot see it (404): mend project or url"
    if 300 <= status < 400:
        return f"it leads elsewhere ({status}), to {refused.text!r}: write that address into url"
    return (
        f"what is sent is refused ({status}): {refused.text}; see that the labelling interface "
        "fits the tasks"
    )
