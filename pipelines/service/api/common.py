"""Which pipeline is asked of, and by whom."""

from typing import Annotated

from fastapi import Depends, HTTPException, Path
from starlette.requests import Request

from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.served import Served

__all__ = ["Asker", "Pipeline"]


def _pipeline(
    request: Request, pipeline: Annotated[str, Path(description="the pipeline's name")]
) -> Served:
    served: dict[str, Served] = request.app.state.pipelines
    if pipeline not in served:
        raise HTTPException(404, "there is no pipeline of this name: see /api/v1/pipelines")
    return served[pipeline]


def _asker(request: Request) -> Person:
    person: Person = request.state.person
    return person


Pipeline = Annotated[Served, Depends(_pipeline)]
Asker = Annotated[Person, Depends(_asker)]
