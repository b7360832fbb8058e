"""API of logins: create login links, list sessions, and end them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.requests import Request

from streamboost.pipelines.service.api.common import FOR_OPERATORS, RequestBody, error_descriptions
from streamboost.pipelines.service.auth.guard import LOGIN
from streamboost.pipelines.service.auth.names import LONGEST_NAME
from streamboost.pipelines.service.auth.sessions import Role
from streamboost.pipelines.service.auth.users import Users

router = APIRouter(prefix="/logins", dependencies=FOR_OPERATORS)

Invited = Literal["annotator", "operator"]
"""Roles of people; programs that only request predictions use a token."""

_WRITES = error_descriptions(403, 409, 413, 422)


class LoginLinkIn(RequestBody):
    """Name and role for a login link."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    role: Invited = Field(
        "annotator", description="role of the user; an operator has all rights of the token"
    )


class LoginLink(BaseModel):
    """A one-time login link, valid for a day."""

    path: str


class LoginSession(BaseModel):
    """A login session of one browser."""

    name: str
    role: Role
    until: int = Field(description="milliseconds since 1970, UTC")


class EndedLogins(BaseModel):
    """Number of login sessions and unused login links that were ended."""

    ended: int


@router.post("", status_code=201, responses=_WRITES)
def create_login_link(request: Request, body: LoginLinkIn) -> LoginLink:
    """Create a login link for another person."""
    return LoginLink(
        path=f"{LOGIN}?key={_user_store(request).create_login_link(body.name, body.role)}"
    )


@router.get("", responses=error_descriptions(403))
def list_sessions(request: Request) -> list[LoginSession]:
    """Return the valid login sessions of all users."""
    return [
        LoginSession(name=one.name, role=one.role, until=int(1000 * one.until))
        for one in _user_store(request).valid_sessions()
    ]


@router.delete("/{name:path}", responses=error_descriptions(403, 404, 409, 413, 422))
def log_out_user(
    request: Request, name: Annotated[str, Path(max_length=LONGEST_NAME)]
) -> EndedLogins:
    """End all sessions and unused login links of a user; return their number."""
    return EndedLogins(ended=_user_store(request).log_out_user(name))


def _user_store(request: Request) -> Users:
    people: Users = request.app.state.people
    return people
