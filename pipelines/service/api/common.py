"""What all operations share: whom they ask of what, and ``{"detail": ...}`` where it is wrong."""

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
from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.served import Served

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


# These wait for nothing, and are coroutines: FastAPI would have each function run by a thread.


async def _pipeline(
    request: Request, pipeline: Annotated[str, Path(description="the pipeline's name")]
) -> Served:
    served: dict[str, Served] = request.app.state.pipelines
    if pipeline not in served:
        raise HTTPException(404, "there is no pipeline of this name: see /api/v1/pipelines")
    return served[pipeline]


async def _asker(request: Request) -> Person:
    person: Person = request.state.person
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


ServedPipeline = Annotated[Served, Depends(_pipeline)]
Asker = Annotated[Person, Depends(_asker)]
FOR_OPERATORS = [Depends(_operator)]
"""Dependencies of what a labeller may not do."""
FOR_SCORERS = [Depends(_scorer)]
"""Those of what operators do, and programs that send the scorer's token."""


class ErrorAnswer(BaseModel):
    """What was wrong."""

    detail: str = Field(description="what was wrong, and how to mend it")


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what an operation's documentation says of `statuses` and those that all have."""
    return {
        status: {"model": ErrorAnswer, "description": _MEANINGS[status]}
        for status in sorted({400, 401, 429, *statuses})
    }


def answer_errors(app: FastAPI) -> None:
    """Have `app` answer our errors, which show no secrets."""
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
    # What was given may be quoted, and hold what JSON cannot.
    return JSONResponse({"detail": text.encode(errors="replace").decode()}, status)
