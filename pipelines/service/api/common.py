"""Common parts of the API: FastAPI dependencies (pipeline, user), and JSON error responses."""

import logging
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse

from streamboost.errors import (
    ConfigurationError,
    ConnectorError,
    DataError,
    StateError,
    StreamBoostError,
)
from streamboost.pipelines.service.auth.names import LONGEST_NAME
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.served import ServedPipeline

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
    403: "Only operators may do this, or the request has a cookie but not this server's Origin.",
    404: "There is no such pipeline.",
    409: "The state or configuration of the pipeline does not allow it.",
    413: "The body is too large.",
    422: "A value is invalid.",
    429: "Too many requests.",
    503: "The write failed; try again.",
}


# These are coroutines although they do not await: FastAPI runs plain functions in threads.


async def _requested_pipeline(
    request: Request, pipeline: Annotated[str, Path(description="the pipeline's name")]
) -> ServedPipeline:
    served: dict[str, ServedPipeline] = request.app.state.pipelines
    if pipeline not in served:
        raise HTTPException(404, "there is no pipeline of this name: see /api/v1/pipelines")
    return served[pipeline]


async def _current_user(request: Request) -> User:
    person: User = request.state.person
    return person


async def _require_operator(request: Request) -> None:
    if request.state.person.role != "operator":
        raise HTTPException(
            403,
            "only operators may do this: `streamboost serve --operator NAME` prints a login link "
            "for an operator",
        )


async def _require_scorer(request: Request) -> None:
    if not request.state.person.may_score:
        await _require_operator(request)


PipelineParam = Annotated[ServedPipeline, Depends(_requested_pipeline)]
CurrentUser = Annotated[User, Depends(_current_user)]
FOR_OPERATORS = [Depends(_require_operator)]
"""Dependencies of operations for operators only."""
FOR_SCORERS = [Depends(_require_scorer)]
"""Dependencies of operations for operators, and for programs with the scorer's token."""


class RequestBody(BaseModel):
    """Base class of request bodies; rejects unknown fields, and values of a wrong type."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_field(cls, body: Any) -> Any:
        # Pydantic collects an error for each unknown field, which takes seconds if there are many.
        for name in body if isinstance(body, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"unknown field {name[:LONGEST_NAME]!r}: leave it out")
        return body


class ErrorResponse(BaseModel):
    """Body of an error response; `detail` is the error text."""

    detail: str = Field(description="what failed, and how to fix it")


def error_descriptions(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI descriptions of the given HTTP error statuses, and of 400, 401 and 429."""
    return {
        status: {"model": ErrorResponse, "description": _MEANINGS[status]}
        for status in sorted({400, 401, 429, *statuses})
    }


def register_error_handlers(app: FastAPI) -> None:
    """Register handlers that return library errors and validation errors as JSON responses."""
    app.add_exception_handler(StreamBoostError, _streamboost_error_response)
    app.add_exception_handler(RequestValidationError, _validation_error_response)


def _streamboost_error_response(request: Request, error: Exception) -> JSONResponse:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    if status >= 500:
        _log.warning("%s", error, extra={"event": "request_failed"})
    return _error_response(str(error), status)


def _validation_error_response(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5]]
    return _error_response("; ".join(found), 422)


def _error_response(text: str, status: int) -> JSONResponse:
    # The message may quote input with surrogates, which JSON cannot encode.
    return JSONResponse({"detail": text.encode(errors="replace").decode()}, status)
