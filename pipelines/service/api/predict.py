"""API of on-demand predictions and explanations by the model in a pipeline's newest checkpoint."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from streamboost.pipelines.service.api.common import (
    FOR_SCORERS,
    PipelineParam,
    RequestBody,
    error_descriptions,
)
from streamboost.pipelines.service.api.write import LabelValue

__all__ = ["MOST", "json_response", "router"]

router = APIRouter()

MOST, _MOST_EXPLAINED = 1_000, 100
_ANSWERS = error_descriptions(404, 403, 409, 413, 422)


class RecordsToPredict(RequestBody):
    """Records to predict, in the format of the pipeline's source; the id is optional."""

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST)]


class RecordsToExplain(RecordsToPredict):
    """Records to explain, in the format of the pipeline's source; the id is optional."""

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST_EXPLAINED)]


class Prediction(BaseModel):
    """Prediction of one record: label, class probabilities, margin and model version."""

    id: str | None = Field(description="id of the record; null: no id")
    label: LabelValue | None = Field(description="null while no label is known")
    probability: float | None = Field(description="probability of the label")
    probabilities: dict[str, float] = Field(description="probabilities of all classes")
    margin: float | None = Field(description="difference of the two largest scores")
    version: int = Field(description="version of the committee; 0 before the first")
    decision: LabelValue | None = Field(
        None, description="decided class, if [decision] is configured"
    )


class Predictions(BaseModel):
    """Predictions in the order of the records, and the batch sequence of the checkpoint."""

    sequence: int
    predictions: list[Prediction]


class ClassContributions(BaseModel):
    """SHAP values of a class: the score of an average record, and each feature's contribution."""

    score: float = Field(description="sum of `expected` and of all `features`")
    expected: float
    features: dict[str, float]


class Explanation(BaseModel):
    """SHAP values of a record, for each class: they explain the committee's uncalibrated scores."""

    id: str | None
    classes: dict[str, ClassContributions]


class Explanations(BaseModel):
    """Exact SHAP values of the committee's scores, in the order of the records."""

    sequence: int
    version: int
    explanations: list[Explanation]


@router.post(
    "/pipelines/{pipeline}/predict",
    response_model=Predictions,
    responses=_ANSWERS,
    dependencies=FOR_SCORERS,
)
def predict(served: PipelineParam, body: RecordsToPredict) -> Response:
    """Predict records with the newest checkpoint, without logging, requesting or learning."""
    return json_response(served.scoring.predict(body.records))


@router.post(
    "/pipelines/{pipeline}/explain",
    response_model=Explanations,
    responses=_ANSWERS,
    dependencies=FOR_SCORERS,
)
def explain(served: PipelineParam, body: RecordsToExplain) -> Response:
    """Return each feature's contribution (SHAP values) to the committee's scores of records."""
    return json_response(served.scoring.explain(body.records))


def json_response(document: dict[str, Any]) -> Response:
    """Return a document as a JSON response; NaN and infinite numbers become null."""
    return Response(msgspec.json.encode(document), media_type="application/json")
