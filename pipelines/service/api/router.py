"""``/api/v1``: everything a pipeline tells and takes, for programs."""

from fastapi import APIRouter, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from streamboost.pipelines.service.access.settings import Settings
from streamboost.pipelines.service.api import labelling, read, write
from streamboost.pipelines.service.api.answers import described

__all__ = ["router"]


def router(settings: Settings) -> APIRouter:
    """Return the API; the guard has checked what its documentation says of tokens and cookies."""
    checked = [
        Security(HTTPBearer(auto_error=False, description="the token from its file")),
        Security(APIKeyCookie(name=settings.cookie, auto_error=False, description="a login")),
    ]
    api = APIRouter(prefix="/api/v1", dependencies=checked, responses=described())
    for part in (read, write, labelling):
        api.include_router(part.router)
    return api
