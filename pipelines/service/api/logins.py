"""API of logins: create login links, list sessions, and end them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from streamboost.pipelines.service.api.common import FOR_OPERATORS, described
from streamboost.pipelines.service.auth.guard import LOGIN
from streamboost.pipelines.service.auth.names import LONGEST_NAME
from streamboost.pipelines.service.auth.sessions import Role
from streamboost.pipelines.service.auth.users import Users

__all__ = ["router"]

router = APIRouter(prefix="/logins", dependencies=FOR_OPERATORS)

Invited = Literal["annotator", "operator"]
"""Roles of people; programs that only request predictions use a token."""

_WRITES = described(403, 409, 413, 422)


class LoginIn(BaseModel):
    """Name and role for a login link."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    role: Invited = Field("annotator", description="an operator may do all that the token may")


class Login(BaseModel):
    """A one-time login link, valid for a day."""

    path: str


class LoggedIn(BaseModel):
    """A login session of one browser."""

    name: str
    role: Role
    until: int = Field(description="milliseconds since 1970, UTC")


class Ended(BaseModel):
    """Number of sessions and login links that were ended."""

    ended: int


@router.post("", status_code=201, responses=_WRITES)
def post_login(request: Request, given: LoginIn) -> Login:
    """Create a login link for another person."""
    return Login(path=f"{LOGIN}?key={_people(request).invite(given.name, given.role)}")


@router.get("", responses=described(403))
def logins(request: Request) -> list[LoggedIn]:
    """List the login sessions."""
    return [
        LoggedIn(name=one.name, role=one.role, until=int(1000 * one.until))
        for one in _people(request).logged_in()
    ]


@router.delete("/{name}", responses=described(403, 404, 409, 413, 422))
def end_logins(request: Request, name: Annotated[str, Path(max_length=LONGEST_NAME)]) -> Ended:
    """End all sessions and login links of a person."""
    return Ended(ended=_people(request).log_out_all(name))


def _people(request: Request) -> Users:
    people: Users = request.app.state.people
    return people
