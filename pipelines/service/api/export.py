"""API of exports: the committee of a pipeline as a file for other programs."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import Response

from streamboost.pipelines.models.export import ExportFormat
from streamboost.pipelines.service.api.common import (
    FOR_OPERATORS,
    PipelineParam,
    error_descriptions,
)

router = APIRouter()

_BYTES = "application/octet-stream"


@router.get(
    "/pipelines/{pipeline}/export",
    response_class=Response,
    responses={
        200: {
            "content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}},
            "description": "The file.",
        },
        **error_descriptions(403, 404, 409, 422),
    },
    dependencies=FOR_OPERATORS,
)
def export(
    served: PipelineParam,
    format: Annotated[ExportFormat, Query(description="the format of the file")],
    version: Annotated[
        int | None, Query(ge=0, le=2**53, description="a kept version; null: the active version")
    ] = None,
) -> Response:
    """Return the committee in the newest checkpoint as a file, with the layout of its fields."""
    found = served.export_committee(format, version)
    name = f"{served.name}-{found.version}{found.suffix}"
    return Response(
        found.content,
        media_type=_BYTES,
        headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
    )
