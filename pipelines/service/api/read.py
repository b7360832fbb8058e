"""API of reads: the published status of pipelines."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from streamboost.pipelines.service.api.common import CurrentUser, PipelineParam, error_descriptions
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.status.record_filter import RecordFilter

router = APIRouter()

Document = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=500, description="maximum number of items")]
Since = Annotated[int, Query(ge=0, le=2**53, description="only items after this time or id")]

Class = Annotated[
    str | None, Query(description="only records with this label, or this predicted label")
]

_NAMED = error_descriptions(404, 422)


class PipelineSummary(BaseModel):
    """A pipeline, and whether it accepts labels and records."""

    name: str
    state: str | None = Field(
        description="state, such as running; null: no status is published yet"
    )
    labels_refused: str | None = Field(
        description="reason why labels cannot be posted; null: labels can be posted"
    )
    records_refused: str | None = Field(
        description="reason why records cannot be posted; null: records can be posted"
    )
    trouble: str | None = Field(
        description="reason why labels are not written yet; null: no labels wait"
    )


class CommitteeVersion(BaseModel):
    """A stored model version, the target of a rollback or a promotion."""

    version: int
    kind: str | None
    time: int | None = Field(description="milliseconds since 1970, UTC")
    trees: int | None
    rounds: int | None


@router.get("/pipelines", responses=error_descriptions())
def list_pipelines(request: Request) -> list[PipelineSummary]:
    """Return name, state and accepted inputs of each served pipeline."""
    return [_to_pipeline_summary(served) for served in request.app.state.pipelines.values()]


@router.get("/pipelines/{pipeline}/status", responses=_NAMED)
def status_documents(served: PipelineParam, user: CurrentUser) -> dict[str, Document]:
    """Return the status documents by name; blind annotators get only those without class counts."""
    return served.blind_mode.visible_documents(user, served.status.documents())


@router.get("/pipelines/{pipeline}/points", responses=_NAMED)
def chart_points(served: PipelineParam, user: CurrentUser, since: Since = 0) -> list[Document]:
    """Return the points of the time charts later than `since` (ms since 1970), the oldest first."""
    return served.blind_mode.visible_points(user, served.status.chart_points(since))


@router.get("/pipelines/{pipeline}/marks", responses=_NAMED)
def chart_marks(served: PipelineParam, since: Since = 0) -> list[Document]:
    """Return the chart events (promotion, drift, command) with an id above `since`, in order."""
    return served.status.chart_marks(since)


@router.get("/pipelines/{pipeline}/predictions", responses=_NAMED)
def newest_predictions(
    served: PipelineParam, user: CurrentUser, limit: Limit = 100
) -> list[Document]:
    """Return the newest predictions, the newest first; blind annotators see those they answered."""
    found = served.status.predictions(limit)
    return served.blind_mode.visible_records(user, found, selected_by_prediction=True)


@router.get("/pipelines/{pipeline}/dead_letters", responses=_NAMED)
def newest_dead_letters(
    served: PipelineParam, user: CurrentUser, limit: Limit = 100
) -> list[Document]:
    """Return the newest dead letters, the newest first.

    If labelling is blind, annotators see neither payload nor detail of a dead letter.
    """
    return served.blind_mode.visible_dead_letters(user, served.status.dead_letters(limit))


@router.get("/pipelines/{pipeline}/judged", responses=_NAMED)
def labelled_records(
    served: PipelineParam,
    user: CurrentUser,
    true: Class = None,
    predicted: Class = None,
    limit: Limit = 100,
) -> list[Document]:
    """Return the stored labelled records, the newest first, filtered by true or predicted class.

    If labelling is blind, annotators see no record with a relabel request.
    """
    return served.labelled_records(user, RecordFilter(true, predicted), limit)


# The id is a query parameter, not part of the path: an id may contain slashes, or be two dots.
@router.get("/pipelines/{pipeline}/record", responses=_NAMED)
def record_details(
    served: PipelineParam,
    user: CurrentUser,
    id: Annotated[str, Query(description="id of the record")],
) -> Document:
    """Return the data of a requested or labelled record, with its explanation.

    If labelling is blind, annotators see the prediction only after they have labelled the record.
    They never see other annotators' labels of a requested record.
    """
    found = served.status.labelled_record(id)
    if found is None:
        raise HTTPException(
            404, "this record is no longer stored, or was never requested or labelled"
        )
    (seen,) = served.blind_mode.visible_records(user, [found])
    return seen


@router.get("/pipelines/{pipeline}/served_versions", responses=_NAMED)
def active_and_earlier_versions(served: PipelineParam, user: CurrentUser) -> list[Document]:
    """Return the active and earlier models, oldest first, each with its number of predictions.

    If labelling is blind, the list is empty for annotators.
    """
    return [] if served.blind_mode.is_blind(user) else served.status.versions()


@router.get("/pipelines/{pipeline}/requests", responses=_NAMED)
def open_requests(served: PipelineParam, user: CurrentUser, limit: Limit = 100) -> list[Document]:
    """Return the open requests, the largest utility first; blind annotators see no predictions."""
    return served.blind_mode.visible_records(user, served.status.requests(limit))


@router.get("/pipelines/{pipeline}/versions", responses=_NAMED)
def retained_versions(served: PipelineParam) -> list[CommitteeVersion]:
    """Return the stored model versions, the oldest first."""
    kept = (served.status.document("learner") or {}).get("versions", [])
    names = CommitteeVersion.model_fields
    return [CommitteeVersion(**{name: one.get(name) for name in names}) for one in kept]


def _to_pipeline_summary(served: ServedPipeline) -> PipelineSummary:
    published = served.status.document("pipeline")
    return PipelineSummary(
        name=served.name,
        state=None if published is None else published.get("state"),
        labels_refused=served.labels.configuration_error,
        records_refused=served.records.configuration_error,
        trouble=served.queue.write_error,
    )
