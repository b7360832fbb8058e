"""The API's writing half: labels, records and commands for pipelines."""

from typing import Annotated, Any, Self

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from starlette.requests import Request

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import LONGEST_LABEL, as_text
from streamboost.connectors.messages.written import Label
from streamboost.pipelines.service.access.names import LONGEST_NAME, name_key
from streamboost.pipelines.service.access.people import PROGRAM, People, Person
from streamboost.pipelines.service.api.common import (
    FOR_OPERATORS,
    Asker,
    ServedPipeline,
    described,
)
from streamboost.pipelines.state.commands import Command, Kind

__all__ = ["LabelValue", "router"]

router = APIRouter()

_MOST = 1_000
_WRITES = described(404, 403, 409, 413, 422, 503)

_Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
LabelValue = Annotated[
    str | bool | _Integer,
    Field(description="text, a whole number, or true or false, as the pipeline's labels are"),
]


class _Given(BaseModel):
    """Base of what is posted: no unknown field, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LabelIn(_Given):
    """What a record turned out to be."""

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
    label: LabelValue
    time: str | _Integer | FiniteFloat | None = None
    source: Annotated[str, Field(max_length=LONGEST_NAME)] | None = Field(
        None, description="who says so, where it is not who posts it; with the token alone"
    )


class LabelsIn(_Given):
    """Labels of any records, asked for or not."""

    labels: Annotated[list[LabelIn], Field(min_length=1, max_length=_MOST)]


class RecordsIn(_Given):
    """Records, each with its id and features as the pipeline's schema names them."""

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST)]


class DecisionIn(_Given):
    """What is decided on: what errors cost, or how sure to be of a class; neither: nothing."""

    costs: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = {}
    threshold: dict[str, Annotated[float, Field(gt=0, le=1)]] = {}

    def checked(self) -> dict[str, Any]:
        """Return what there is of it; ConfigurationError where nothing can be decided by that."""
        given = {name: table for name, table in self.model_dump().items() if table}
        if given:
            from streamboost.stream.evaluation.decisions import Decisions

            Decisions(**given)
        return given


class CommandIn(_Given):
    """What the pipeline is to do; some commands name a kept version, or classes."""

    command: Kind
    version: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    label: Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)] | None = None
    into: Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)] | None = None
    decision: DecisionIn | None = None
    new: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        self.order()
        return self

    def order(self) -> Command:
        """Return it as the pipeline reads it."""
        decision = None if self.decision is None else self.decision.checked()
        return Command(self.command, self.version, self.label, self.into, decision, self.new)


class Written(BaseModel):
    """How many are where the pipeline reads them, and as durable as that place makes them."""

    written: int


class Queued(BaseModel):
    """What the pipeline obeys with its next batch."""

    queued: str


@router.post("/pipelines/{pipeline}/labels", status_code=201, responses=_WRITES)
def post_labels(request: Request, served: ServedPipeline, asker: Asker, given: LabelsIn) -> Written:
    """Write labels to where the pipeline reads them: all of them, or none."""
    people: People = request.app.state.people
    names: dict[str | None, str] = {}
    labels = []
    for one in given.labels:
        key = None if one.source is None else name_key(one.source)
        if key not in names:
            names[key] = _source(people, asker, one.source)
        labels.append(Label(one.id, as_text(one.label), one.time, names[key]))
    served.queue.post(asker, labels)
    return Written(written=len(labels))


def _source(people: People, asker: Person, given: str | None) -> str:
    """Return who gives a label: whoever asks, or whom a program names."""
    if given is None or name_key(given) == name_key(asker.name):
        return asker.name
    if asker != PROGRAM:
        raise HTTPException(
            403, f"your labels are {asker.name}'s: leave `source` out, or send the token"
        )
    return people.spelled(given)


@router.post(
    "/pipelines/{pipeline}/records",
    status_code=201,
    responses=_WRITES,
    dependencies=FOR_OPERATORS,
)
def post_records(served: ServedPipeline, given: RecordsIn) -> Written:
    """Write records to where the pipeline reads them: all of them, or none."""
    served.records.write(given.records)
    return Written(written=len(given.records))


@router.post(
    "/pipelines/{pipeline}/commands",
    status_code=202,
    responses=_WRITES,
    dependencies=FOR_OPERATORS,
)
def post_command(served: ServedPipeline, given: CommandIn) -> Queued:
    """Queue a command.

    One that names a version or a class that is not there is refused, unless `new` confirms the
    class that another is merged into; what else the pipeline cannot obey it refuses in its log.
    """
    command = given.order()
    served.tell(command)
    return Queued(queued=str(command))
