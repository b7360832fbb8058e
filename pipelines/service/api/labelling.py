"""The API's labelling: one record at a time, for pages and programs of one's own."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import as_text
from streamboost.pipelines.service.api.common import Asker, ServedPipeline, described
from streamboost.pipelines.service.api.write import LabelValue
from streamboost.pipelines.service.labelling.store import Action, EntryStage, LabellingEntry

__all__ = ["router"]

router = APIRouter(prefix="/pipelines/{pipeline}/labelling")

_WRITES = described(403, 404, 409, 413, 422, 503)


class Before(BaseModel):
    """The request that is before whoever asks, null where nothing is left for them."""

    request: dict[str, Any] | None


class Done(BaseModel):
    """What somebody did with a record.

    A label that is held goes to the pipeline in a few seconds, and survives a crash until then.
    """

    model_config = ConfigDict(from_attributes=True)

    number: int
    time: int = Field(description="milliseconds since 1970, UTC")
    person: str
    id: str
    action: Action
    label: str | int | None
    stage: EntryStage


class About(BaseModel):
    """The record that is meant."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class Answer(About):
    """A label for it."""

    label: LabelValue


@router.post("/next", responses=_WRITES)
def next_request(served: ServedPipeline, asker: Asker) -> Before:
    """Put the most useful request that is free before whoever asks, or keep the one that is."""
    request = served.queue.next(asker)
    seen = [] if request is None else served.blindfold.seen_by(asker, [request])
    return Before(request=next(iter(seen), None))


@router.post("/answer", responses=_WRITES)
def answer(served: ServedPipeline, asker: Asker, given: Answer) -> Done:
    """Hold a label for the record; it can be undone for a few seconds."""
    return _done(served.queue.answer(asker, given.id, as_text(given.label)))


@router.post("/skip", responses=_WRITES)
def skip(served: ServedPipeline, asker: Asker, given: About) -> Done:
    """Have the record come again after everything else."""
    return _done(served.queue.skip(asker, given.id))


@router.post("/not-sure", responses=_WRITES)
def not_sure(served: ServedPipeline, asker: Asker, given: About) -> Done:
    """Leave the record to others."""
    return _done(served.queue.not_sure(asker, given.id))


@router.post("/undo", responses=_WRITES)
def undo(served: ServedPipeline, asker: Asker) -> Done:
    """Take back what was done last, as long as no label of it was written."""
    return _done(served.queue.undo(asker))


@router.get("/history", responses=described(404, 422, 503))
def history(
    served: ServedPipeline,
    limit: Annotated[int, Query(ge=1, le=500, description="how many at most")] = 100,
    below: Annotated[int, Query(ge=0, le=2**53, description="only numbers under this")] = 2**53,
) -> list[Done]:
    """Return who did what and when, the newest first."""
    return [_done(entry) for entry in served.queue.history(limit, below)]


def _done(entry: LabellingEntry) -> Done:
    return Done.model_validate(entry)
