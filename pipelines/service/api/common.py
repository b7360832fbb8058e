"""Common parts of the API: dependencies for pipeline and user, and JSON error responses."""

import logging
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from streamboost.errors import (
    ConfigurationError,
    ConnectorError,
    DataError,
    StateError,
    StreamBoostError,
)
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.served import ServedState

__all__ = [
    "FOR_OPERATORS",
    "FOR_SCORERS",
    "Asker",
    "ErrorAnswer",
    "ServedPipeline",
    "answer_errors",
    "described",
]

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[StreamBoostError], int], ...] = (
    (DataError, 422),
    (ConfigurationError, 409),
    (StateError, 409),
    (ConnectorError, 503),
)
_MEANINGS = {
    400: "The request cannot be read, or is for another host.",
    401: "Neither a token nor a login.",
    403: "It is an operator's to do, or has a cookie and is from no page of this server.",
    404: "There is no such pipeline.",
    409: "It cannot be done as things are.",
    413: "The body is too large.",
    422: "A value cannot be used.",
    429: "Too many requests.",
    503: "It could not be written, and may be tried again.",
}


# These are coroutines although they do not await: FastAPI runs plain functions in threads.


async def _pipeline(
    request: Request, pipeline: Annotated[str, Path(description="the pipeline's name")]
) -> ServedState:
    served: dict[str, ServedState] = request.app.state.pipelines
    if pipeline not in served:
        raise HTTPException(404, "there is no pipeline of this name: see /api/v1/pipelines")
    return served[pipeline]


async def _asker(request: Request) -> User:
    person: User = request.state.person
    return person


async def _operator(request: Request) -> None:
    if request.state.person.role != "operator":
        raise HTTPException(
            403,
            "this is an operator's to do: `streamboost serve --operator NAME` prints a login link "
            "for one",
        )


async def _scorer(request: Request) -> None:
    if not request.state.person.may_score:
        await _operator(request)


ServedPipeline = Annotated[ServedState, Depends(_pipeline)]
Asker = Annotated[User, Depends(_asker)]
FOR_OPERATORS = [Depends(_operator)]
"""Dependencies of operations for operators only."""
FOR_SCORERS = [Depends(_scorer)]
"""Dependencies of operations for operators, and for programs with the scorer's token."""


class ErrorAnswer(BaseModel):
    """Error response."""

    detail: str = Field(description="what failed, and how to fix it")


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of an operation's error `statuses`, with the common ones."""
    return {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]}
        for status in sorted({400, 401, 429, *statuses})
    }


def answer_errors(app: FastAPI) -> None:
    """Register handlers that turn our errors, which contain no secrets, into JSON responses."""
    app.add_exception_handler(StreamBoostError, _answer_ours)
    app.add_exception_handler(RequestValidationError, _answer_invalid)


def _answer_ours(request: Request, error: Exception) -> JSONResponse:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    if status >= 500:
        _log.warning("%s", error)
    return _answer(str(error), status)


def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5]]
    return _answer("; ".join(found), 422)


def _answer(text: str, status: int) -> JSONResponse:
    # The message may quote input with surrogates, which JSON cannot encode.
    return JSONResponse({"detail": text.encode(errors="replace").decode()}, status)
