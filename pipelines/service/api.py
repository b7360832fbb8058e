"""``/api/v1``: what pipelines say of themselves, and what they can be told and given."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from fastapi.security import HTTPBearer
from starlette.requests import Request

from streamboost.pipelines.service import steering, tasks
from streamboost.pipelines.service.answers import described
from streamboost.pipelines.service.people import People
from streamboost.pipelines.service.served import Served

__all__ = ["router"]
