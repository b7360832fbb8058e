"""API of reads: the published status of pipelines."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from streamboost.pipelines.service.api.common import Asker, ServedPipeline, described
from streamboost.pipelines.service.labelling.served import ServedState
from streamboost.pipelines.status.record_filter import RecordFilter

__all__ = ["router"]

router = APIRouter()

Document = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=500, description="how many at most")]
Since = Annotated[int, Query(ge=0, le=2**53, description="only what came after this")]

Class = Annotated[str | None, Query(description="only those that are, or were predicted, this")]

_NAMED = described(404, 422)


class Summary(BaseModel):
    """A pipeline, and whether it accepts labels and records."""

    name: str
    state: str | None = Field(description="what it does; null: it has published nothing yet")
    labels_refused: str | None = Field(description="why labels cannot be posted; null: they can")
    records_refused: str | None = Field(description="why records cannot be posted; null: they can")
    trouble: str | None = Field(description="why labels wait to be written; null: none do")


class Version(BaseModel):
    """A kept committee, which can be rolled back to or promoted."""

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
def status(served: ServedPipeline, asker: Asker) -> dict[str, Document]:
    """Return all documents of the status, by name; to blind annotators, those without classes."""
    return served.blind_mode.visible_documents(asker, served.status.documents())


@router.get("/pipelines/{pipeline}/points", responses=_NAMED)
def points(served: ServedPipeline, asker: Asker, since: Since = 0) -> list[Document]:
    """Return the points of the curves over time, the oldest first; `since` is a point's time."""
    return served.blind_mode.visible_points(asker, served.status.points(since))


@router.get("/pipelines/{pipeline}/marks", responses=_NAMED)
def marks(served: ServedPipeline, since: Since = 0) -> list[Document]:
    """Return the marks (promotions, drifts, commands), the oldest first; `since` is a mark's id."""
    return served.status.marks(since)


@router.get("/pipelines/{pipeline}/predictions", responses=_NAMED)
def predictions(served: ServedPipeline, asker: Asker, limit: Limit = 100) -> list[Document]:
    """Return the newest predictions, the newest first; blind annotators see those they answered."""
    found = served.status.predictions(limit)
    return served.blind_mode.visible_records(asker, found, chosen=True)


@router.get("/pipelines/{pipeline}/dead_letters", responses=_NAMED)
def dead_letters(served: ServedPipeline, asker: Asker, limit: Limit = 100) -> list[Document]:
    """Return the newest dead letters, the newest first.

    Where labelling is blind, an annotator sees neither their payload nor their detail.
    """
    return served.blind_mode.visible_dead_letters(asker, served.status.dead_letters(limit))


@router.get("/pipelines/{pipeline}/judged", responses=_NAMED)
def judged(
    served: ServedPipeline,
    asker: Asker,
    true: Class = None,
    predicted: Class = None,
    limit: Limit = 100,
) -> list[Document]:
    """Return the kept labelled records, the newest first: all, or those of one class.

    Where labelling is blind, an annotator sees no record with a relabel request.
    """
    return served.labelled_records(asker, RecordFilter(true, predicted), limit)


# The id is a query parameter, not part of the path: an id may contain slashes, or be two dots.
@router.get("/pipelines/{pipeline}/record", responses=_NAMED)
def judged_record(
    served: ServedPipeline, asker: Asker, id: Annotated[str, Query(description="the record's")]
) -> Document:
    """Return the data of a requested or labelled record, with its explanation.

    Where labelling is blind, an annotator who has not answered does not see the prediction, and no
    annotator sees others' labels of a requested record.
    """
    found = served.status.labelled_record(id)
    if found is None:
        raise HTTPException(404, "that record is no longer kept, or was never asked about")
    (seen,) = served.blind_mode.visible_records(asker, [found])
    return seen


@router.get("/pipelines/{pipeline}/served_versions", responses=_NAMED)
def served_versions(served: ServedPipeline, asker: Asker) -> list[Document]:
    """Return active and earlier committees, the oldest first, with their number of predictions.

    Where labelling is blind, an annotator sees none of them.
    """
    return [] if served.blind_mode.is_blind(asker) else served.status.versions()


@router.get("/pipelines/{pipeline}/requests", responses=_NAMED)
def requests(served: ServedPipeline, asker: Asker, limit: Limit = 100) -> list[Document]:
    """Return the open requests, the largest utility first; blind annotators see no predictions."""
    return served.blind_mode.visible_records(asker, served.status.requests(limit))


@router.get("/pipelines/{pipeline}/versions", responses=_NAMED)
def versions(served: ServedPipeline) -> list[Version]:
    """Return the kept committees, the oldest first."""
    learner = served.status.document("learner") or {}
    return [_version(kept) for kept in learner.get("versions", [])]


def _summary(served: ServedState) -> Summary:
    published = served.status.document("pipeline")
    return Summary(
        name=served.name,
        state=None if published is None else published.get("state"),
        labels_refused=served.labels.refusal,
        records_refused=served.records.refusal,
        trouble=served.queue.write_error,
    )


def _version(kept: Document) -> Version:
    return Version(**{name: kept.get(name) for name in Version.model_fields})
