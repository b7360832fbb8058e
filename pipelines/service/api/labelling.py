"""API of labelling: one record at a time, for custom pages and programs."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import label_as_text
from streamboost.pipelines.service.api.common import Asker, ServedPipeline, described
from streamboost.pipelines.service.api.write import LabelValue
from streamboost.pipelines.service.labelling.store import Action, EntryStage, LabellingEntry

__all__ = ["router"]

router = APIRouter(prefix="/pipelines/{pipeline}/labelling")

_WRITES = described(403, 404, 409, 413, 422, 503)


class Before(BaseModel):
    """The request leased by the user; null if there is none left."""

    request: dict[str, Any] | None


class Done(BaseModel):
    """An action of an annotator on a record.

    A held label is written to the pipeline in a few seconds, and survives a crash until then.
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
    """The record of an action."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class Answer(About):
    """A label for the record."""

    label: LabelValue


@router.post("/next", responses=_WRITES)
def next_request(served: ServedPipeline, asker: Asker) -> Before:
    """Lease the free request with the largest utility, or renew the lease of the current one."""
    request = served.queue.next(asker)
    seen = [] if request is None else served.blind_mode.visible_records(asker, [request])
    return Before(request=next(iter(seen), None))


@router.post("/answer", responses=_WRITES)
def answer(served: ServedPipeline, asker: Asker, given: Answer) -> Done:
    """Hold a label for the record; it can be undone for a few seconds."""
    return _done(served.queue.answer(asker, given.id, label_as_text(given.label)))


@router.post("/skip", responses=_WRITES)
def skip(served: ServedPipeline, asker: Asker, given: About) -> Done:
    """Skip the record: it is offered again after all other requests."""
    return _done(served.queue.skip(asker, given.id))


@router.post("/not-sure", responses=_WRITES)
def not_sure(served: ServedPipeline, asker: Asker, given: About) -> Done:
    """Leave the record to other annotators."""
    return _done(served.queue.mark_unsure(asker, given.id))


@router.post("/undo", responses=_WRITES)
def undo(served: ServedPipeline, asker: Asker) -> Done:
    """Undo the last action, as long as its label was not written."""
    return _done(served.queue.undo(asker))


@router.get("/history", responses=described(404, 422, 503))
def history(
    served: ServedPipeline,
    asker: Asker,
    limit: Annotated[int, Query(ge=1, le=500, description="how many at most")] = 100,
    below: Annotated[int, Query(ge=0, le=2**53, description="only numbers under this")] = 2**53,
) -> list[Done]:
    """Return the actions of all annotators, the newest first.

    Where labelling is blind, an annotator does not see the labels of a record that is asked again.
    """
    found, blindfold = served.queue.history(limit, below), served.blind_mode
    return [
        _done(
            replace(entry, label=None)
            if entry.person != asker.name and blindfold.hides_labels(asker, entry.id)
            else entry
        )
        for entry in found
    ]


def _done(entry: LabellingEntry) -> Done:
    return Done.model_validate(entry)
