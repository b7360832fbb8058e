"""API of writes: labels, records and commands for pipelines."""

from typing import Annotated, Any, Self

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator
from starlette.requests import Request

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import LONGEST_LABEL, label_as_text
from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import ConfigurationError
from streamboost.escaping import escaped
from streamboost.pipelines.service.api.common import (
    FOR_OPERATORS,
    Asker,
    ServedPipeline,
    described,
)
from streamboost.pipelines.service.auth.names import LONGEST_NAME, name_key
from streamboost.pipelines.service.auth.users import PROGRAM, User, Users
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
    """Base of request bodies: no unknown field, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LabelIn(_Given):
    """A label of a record."""

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
    label: LabelValue
    time: str | _Integer | FiniteFloat | None = None
    source: Annotated[str, Field(max_length=LONGEST_NAME)] | None = Field(
        None, description="who says so, where it is not who posts it; with the token alone"
    )


class LabelsIn(_Given):
    """Labels of any records, requested or not."""

    labels: Annotated[list[LabelIn], Field(min_length=1, max_length=_MOST)]


class RecordsIn(_Given):
    """Records, each with its id and features as the pipeline's schema names them."""

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST)]


class DecisionIn(_Given):
    """Decision rule: costs of errors, or thresholds by class; neither: no decision."""

    costs: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = {}
    threshold: dict[str, Annotated[float, Field(gt=0, le=1)]] = {}

    def checked(self) -> dict[str, Any]:
        """Return the given tables; raises ConfigurationError if they are no valid decision."""
        given = {name: table for name, table in self.model_dump().items() if table}
        if given:
            from streamboost.evaluation.decisions import Decisions

            Decisions(**given)
        return given


class CommandIn(_Given):
    """A command for the pipeline; some commands name a kept version, or classes."""

    command: Kind
    version: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    label: Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)] | None = None
    into: Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)] | None = None
    decision: DecisionIn | None = None
    new: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        try:
            self.order()
        except ConfigurationError as error:  # pydantic fails on half a surrogate pair
            raise ValueError(escaped(str(error))) from None
        return self

    def order(self) -> Command:
        """Return the command in the form that the pipeline reads."""
        decision = None if self.decision is None else self.decision.checked()
        return Command(self.command, self.version, self.label, self.into, decision, self.new)


class Written(BaseModel):
    """Number of messages written to the pipeline's source."""

    written: int


class Queued(BaseModel):
    """The command that the pipeline applies with its next batch."""

    queued: str


@router.post("/pipelines/{pipeline}/labels", status_code=201, responses=_WRITES)
def post_labels(request: Request, served: ServedPipeline, asker: Asker, given: LabelsIn) -> Written:
    """Write labels to the pipeline's labels source: all of them, or none."""
    people: Users = request.app.state.people
    names: dict[str | None, str] = {}
    labels = []
    for one in given.labels:
        key = None if one.source is None else name_key(one.source)
        if key not in names:
            names[key] = _source(people, asker, one.source)
        labels.append(Label(one.id, label_as_text(one.label), one.time, names[key]))
    served.queue.post(asker, labels)
    return Written(written=len(labels))


def _source(people: Users, asker: User, given: str | None) -> str:
    """Return the annotator of a label: the user, or the `source` that a program names."""
    if given is None or name_key(given) == name_key(asker.name):
        return asker.name
    if asker != PROGRAM:
        raise HTTPException(
            403, f"your labels are {asker.name}'s: leave `source` out, or send the token"
        )
    return people.known_spelling(given)


@router.post(
    "/pipelines/{pipeline}/records",
    status_code=201,
    responses=_WRITES,
    dependencies=FOR_OPERATORS,
)
def post_records(served: ServedPipeline, given: RecordsIn) -> Written:
    """Write records to the pipeline's source: all of them, or none."""
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

    A command with an unknown version or class is refused; `new` allows a new class as the target
    of a merge. Other commands that the pipeline cannot apply are refused in its log.
    """
    command = given.order()
    served.send_command(command)
    return Queued(queued=str(command))
