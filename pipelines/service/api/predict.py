"""API of on-demand predictions and explanations, by the pipeline's newest checkpoint."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from streamboost.pipelines.service.api.common import FOR_SCORERS, ServedPipeline, described
from streamboost.pipelines.service.api.write import LabelValue

__all__ = ["MOST", "answer", "router"]

router = APIRouter()

MOST, _MOST_EXPLAINED = 1_000, 100
_ANSWERS = described(404, 403, 409, 413, 422)


class RecordsAsked(BaseModel):
    """Records to predict, as the pipeline reads them; an id may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST)]


class RecordsToExplain(RecordsAsked):
    """Records to explain, as the pipeline reads them; an id may be left out."""

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST_EXPLAINED)]


class Predicted(BaseModel):
    """Prediction of a record."""

    id: str | None = Field(description="the record's; null: it has none")
    label: LabelValue | None = Field(description="null while no label is known")
    probability: float | None = Field(description="of the label")
    probabilities: dict[str, float] = Field(description="of all classes")
    margin: float | None = Field(description="the largest score less the second largest")
    version: int = Field(description="of the committee; 0 before the first")
    decision: LabelValue | None = Field(None, description="where there are decisions to make")


class Predictions(BaseModel):
    """Predictions in the order of the records, and the batch sequence of the checkpoint."""

    sequence: int
    predictions: list[Predicted]


class Shares(BaseModel):
    """SHAP values of a class: expected score of any record, and the features' contributions."""

    score: float = Field(description="`expected` and all of `features`")
    expected: float
    features: dict[str, float]


class Explained(BaseModel):
    """Explanation of the committee's scores of a record, before other experts and calibration."""

    id: str | None
    classes: dict[str, Shares]


class Explanations(BaseModel):
    """Exact SHAP values of the committee's scores, in the order of the records."""

    sequence: int
    version: int
    explanations: list[Explained]


@router.post(
    "/pipelines/{pipeline}/predict",
    response_model=Predictions,
    responses=_ANSWERS,
    dependencies=FOR_SCORERS,
)
def predict(served: ServedPipeline, given: RecordsAsked) -> Response:
    """Predict records by the newest checkpoint; nothing is logged, requested or learned."""
    return answer(served.scoring.predict(given.records))


@router.post(
    "/pipelines/{pipeline}/explain",
    response_model=Explanations,
    responses=_ANSWERS,
    dependencies=FOR_SCORERS,
)
def explain(served: ServedPipeline, given: RecordsToExplain) -> Response:
    """Return each feature's contribution (SHAP values) to the committee's scores of records."""
    return answer(served.scoring.explain(given.records))


def answer(document: dict[str, Any]) -> Response:
    """Encode a document as a JSON response; numbers that are not finite become null."""
    return Response(msgspec.json.encode(document), media_type="application/json")
