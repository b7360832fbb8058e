"""``/api/v1``: everything a pipeline tells and takes, for programs."""

from fastapi import APIRouter, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from streamboost.pipelines.service import feeding, labelling_api, reading
from streamboost.pipelines.service.answers import described
from streamboost.pipelines.service.settings import Settings

__all__ = ["router"]


def router(settings: Settings) -> APIRouter:
    """Return the API; the guard has checked what its documentation says of tokens and cookies."""
    checked = [
        Security(HTTPBearer(auto_error=False, description="the token from its file")),
        Security(APIKeyCookie(name=settings.cookie, auto_error=False, description="a login")),
    ]
    api = APIRouter(prefix="/api/v1", dependencies=checked, responses=described())
    for part in (reading, feeding, labelling_api):
        api.include_router(part.router)
    return api
