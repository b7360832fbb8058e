"""The API's reading half: what pipelines have published."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from streamboost.pipelines.service.api.common import Asker, ServedPipeline, described
from streamboost.pipelines.service.labelling.served import Served

__all__ = ["router"]

router = APIRouter()

Document = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=500, description="how many at most")]
Since = Annotated[int, Query(ge=0, le=2**53, description="only what came after this")]

Class = Annotated[str | None, Query(description="only those that are, or were predicted, this")]

_NAMED = described(404, 422)


class Summary(BaseModel):
    """A pipeline, and what it takes from here."""

    name: str
    state: str | None = Field(description="what it does; null: it has published nothing yet")
    labels_refused: str | None = Field(description="why labels cannot be posted; null: they can")
    records_refused: str | None = Field(description="why records cannot be posted; null: they can")
    trouble: str | None = Field(description="why labels wait to be written; null: none do")


class Version(BaseModel):
    """A committee that was kept, and can be rolled back to or promoted."""

    version: int
    kind: str | None
    time: int | None = Field(description="milliseconds since 1970, UTC")
    trees: int | None
    rounds: int | None


@router.get("/pipelines", responses=described())
def pipelines(request: Request) -> list[Summary]:
    """List the pipelines that are served."""
    return [_summary(served) for served in request.app.state.pipelines.values()]


@router.get("/pipelines/{pipeline}/status", responses=_NAMED)
def status(served: ServedPipeline) -> dict[str, Document]:
    """Return every document of the status, by name."""
    return served.status.documents()


@router.get("/pipelines/{pipeline}/points", responses=_NAMED)
def points(served: ServedPipeline, since: Since = 0) -> list[Document]:
    """Return the course of the run, the oldest point first; `since` is a point's time."""
    return served.status.points(since)


@router.get("/pipelines/{pipeline}/marks", responses=_NAMED)
def marks(served: ServedPipeline, since: Since = 0) -> list[Document]:
    """Return what happened to the committee, the oldest first; `since` is a mark's id."""
    return served.status.marks(since)


@router.get("/pipelines/{pipeline}/predictions", responses=_NAMED)
def predictions(served: ServedPipeline, asker: Asker, limit: Limit = 100) -> list[Document]:
    """Return the newest predictions, the newest first; blind labellers see those they answered."""
    found = served.status.predictions(limit)
    return served.blindfold.seen_by(asker, found, chosen=True)


@router.get("/pipelines/{pipeline}/dead_letters", responses=_NAMED)
def dead_letters(served: ServedPipeline, limit: Limit = 100) -> list[Document]:
    """Return the newest messages that could not be used, the newest first."""
    return served.status.dead_letters(limit)


@router.get("/pipelines/{pipeline}/judged", responses=_NAMED)
def judged(
    served: ServedPipeline,
    asker: Asker,
    true: Class = None,
    predicted: Class = None,
    limit: Limit = 100,
) -> list[Document]:
    """Return labelled records that are kept, the newest first: all, or those of one class."""
    found = served.status.confused(true, predicted, limit)
    return served.blindfold.seen_by(asker, found, chosen=predicted is not None)


# Asked after, not part of the path: an id may hold slashes, or be two dots.
@router.get("/pipelines/{pipeline}/record", responses=_NAMED)
def judged_record(
    served: ServedPipeline, asker: Asker, id: Annotated[str, Query(description="the record's")]
) -> Document:
    """Return what is known of a record that was asked about or labelled, with its reasons.

    Where labelling is blind, a labeller who has not answered sees nothing of the guess.
    """
    found = served.status.judged(id)
    if found is None:
        raise HTTPException(404, "that record is no longer kept, or was never asked about")
    (seen,) = served.blindfold.seen_by(asker, [found])
    return seen


@router.get("/pipelines/{pipeline}/served_versions", responses=_NAMED)
def served_versions(served: ServedPipeline) -> list[Document]:
    """Return the committees that served, the oldest first, and how much each predicted."""
    return served.status.versions()


@router.get("/pipelines/{pipeline}/requests", responses=_NAMED)
def requests(served: ServedPipeline, asker: Asker, limit: Limit = 100) -> list[Document]:
    """Return the open requests, the most useful answer first; to blind labellers, as questions."""
    return served.blindfold.seen_by(asker, served.status.requests(limit))


@router.get("/pipelines/{pipeline}/versions", responses=_NAMED)
def versions(served: ServedPipeline) -> list[Version]:
    """Return the committees that are kept, the oldest first."""
    learner = served.status.document("learner") or {}
    return [_version(kept) for kept in learner.get("versions", [])]


def _summary(served: Served) -> Summary:
    published = served.status.document("pipeline")
    return Summary(
        name=served.name,
        state=None if published is None else published.get("state"),
        labels_refused=served.labels.refusal,
        records_refused=served.records.refusal,
        trouble=served.queue.trouble,
    )


def _version(kept: Document) -> Version:
    return Version(**{name: kept.get(name) for name in Version.model_fields})
