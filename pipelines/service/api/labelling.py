"""API of labelling: one record at a time, for custom pages and programs."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import label_from_json
from streamboost.pipelines.service.api.common import (
    CurrentUser,
    PipelineParam,
    RequestBody,
    error_descriptions,
)
from streamboost.pipelines.service.api.write import LabelValue
from streamboost.pipelines.service.labelling.store import Action, EntryStage, LabellingEntry

router = APIRouter(prefix="/pipelines/{pipeline}/labelling")

_WRITES = error_descriptions(403, 404, 409, 413, 422, 503)


class LeasedRequest(BaseModel):
    """The request that the user has leased; null if no request is left."""

    request: dict[str, Any] | None


class RecordedAction(BaseModel):
    """A stored action of an annotator on a record: a label, a skip, or "not sure".

    A label is stored durably at once, and is written to the pipeline after the undo window.
    """

    model_config = ConfigDict(from_attributes=True)

    number: int
    time: int = Field(description="milliseconds since 1970, UTC")
    person: str
    id: str
    action: Action
    label: str | int | None
    stage: EntryStage


class RecordReference(RequestBody):
    """Request body that names the record of an action."""

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class LabelAnswer(RecordReference):
    """Request body with a label for a record."""

    label: LabelValue


@router.post("/next", responses=_WRITES)
def next_request(served: PipelineParam, user: CurrentUser) -> LeasedRequest:
    """Lease the free request with the largest utility, or renew the lease of the current one."""
    request = served.queue.lease_next(user)
    seen = [] if request is None else served.blind_mode.visible_records(user, [request])
    return LeasedRequest(request=next(iter(seen), None))


@router.post("/answer", responses=_WRITES)
def answer_request(served: PipelineParam, user: CurrentUser, body: LabelAnswer) -> RecordedAction:
    """Store a label of the record, which is written after an undo window of a few seconds."""
    return _to_recorded_action(served.queue.answer(user, body.id, label_from_json(body.label)))


@router.post("/skip", responses=_WRITES)
def skip_request(served: PipelineParam, user: CurrentUser, body: RecordReference) -> RecordedAction:
    """Skip the record: it is offered again after all other requests."""
    return _to_recorded_action(served.queue.skip(user, body.id))


@router.post("/not-sure", responses=_WRITES)
def mark_unsure(served: PipelineParam, user: CurrentUser, body: RecordReference) -> RecordedAction:
    """Mark the record as not sure: it is offered only to other annotators from now on."""
    return _to_recorded_action(served.queue.mark_unsure(user, body.id))


@router.post("/undo", responses=_WRITES)
def undo_last_action(served: PipelineParam, user: CurrentUser) -> RecordedAction:
    """Undo the last action of this session; fails if its label was written already."""
    return _to_recorded_action(served.queue.undo(user))


@router.get("/history", responses=error_descriptions(404, 422, 503))
def labelling_history(
    served: PipelineParam,
    user: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=500, description="maximum number of actions")] = 100,
    below: Annotated[
        int, Query(ge=0, le=2**53, description="only actions with a number below this")
    ] = 2**53,
) -> list[RecordedAction]:
    """Return the actions of all annotators with a number less than `below`, the newest first.

    With blind labelling, the labels that other annotators gave a requested record are hidden.
    """
    found, blindfold = served.queue.history(limit, below), served.blind_mode
    return [
        _to_recorded_action(
            replace(entry, label=None)
            if entry.person != user.name and blindfold.hides_labels(user, entry.id)
            else entry
        )
        for entry in found
    ]


def _to_recorded_action(entry: LabellingEntry) -> RecordedAction:
    return RecordedAction.model_validate(entry)
