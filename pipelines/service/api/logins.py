"""The API's logins: letting people in, seeing who is, and ending it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from streamboost.pipelines.service.access.guard import LOGIN
from streamboost.pipelines.service.access.names import LONGEST_NAME
from streamboost.pipelines.service.access.people import People
from streamboost.pipelines.service.access.sessions import Role
from streamboost.pipelines.service.api.common import FOR_OPERATORS, described

__all__ = ["router"]

router = APIRouter(prefix="/logins", dependencies=FOR_OPERATORS)

Invited = Literal["labeller", "operator"]
"""What people can be; programs that only have records predicted send a token."""

_WRITES = described(403, 409, 413, 422)


class LoginIn(BaseModel):
    """Whom a login link is for."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    role: Invited = Field("labeller", description="an operator may do all that the token may")


class Login(BaseModel):
    """A login link that works once, for a day."""

    path: str


class LoggedIn(BaseModel):
    """Somebody who is logged in with one browser."""

    name: str
    role: Role
    until: int = Field(description="milliseconds since 1970, UTC")


class Ended(BaseModel):
    """How many logins and login links are good for nothing now."""

    ended: int


@router.post("", status_code=201, responses=_WRITES)
def post_login(request: Request, given: LoginIn) -> Login:
    """Make a login link for somebody else."""
    return Login(path=f"{LOGIN}?key={_people(request).invite(given.name, given.role)}")


@router.get("", responses=described(403))
def logins(request: Request) -> list[LoggedIn]:
    """List who is logged in."""
    return [
        LoggedIn(name=one.name, role=one.role, until=int(1000 * one.until))
        for one in _people(request).logged_in()
    ]


@router.delete("/{name}", responses=described(403, 404, 409, 413, 422))
def end_logins(request: Request, name: Annotated[str, Path(max_length=LONGEST_NAME)]) -> Ended:
    """Log somebody out everywhere, and take their login links back."""
    return Ended(ended=_people(request).log_out_all(name))


def _people(request: Request) -> People:
    people: People = request.app.state.people
    return people
