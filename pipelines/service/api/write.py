"""API of writes: labels, records and commands for pipelines."""

from typing import Annotated, Any, Self

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field, FiniteFloat, model_validator
from starlette.requests import Request

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import LONGEST_LABEL, label_from_json
from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import ConfigurationError
from streamboost.escaping import escape_line
from streamboost.pipelines.service.api.common import (
    FOR_OPERATORS,
    CurrentUser,
    PipelineParam,
    RequestBody,
    error_descriptions,
)
from streamboost.pipelines.service.auth.names import LONGEST_NAME, comparison_key
from streamboost.pipelines.service.auth.users import PROGRAM, User, Users
from streamboost.pipelines.state.commands import Command, Kind

router = APIRouter()

_MOST = 1_000
_WRITES = error_descriptions(404, 403, 409, 413, 422, 503)

_Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
LabelValue = Annotated[
    str | bool | _Integer,
    Field(description="text, a whole number, or a boolean: the type of the pipeline's labels"),
]


class LabelIn(RequestBody):
    """A label of a record, with optional time and annotator (`source`)."""

    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
    label: LabelValue
    time: str | _Integer | FiniteFloat | None = None
    source: Annotated[str, Field(max_length=LONGEST_NAME)] | None = Field(
        None, description="annotator, if not the user who posts the label; only with the token"
    )


class LabelsIn(RequestBody):
    """Labels of records; a record does not need an open label request."""

    labels: Annotated[list[LabelIn], Field(min_length=1, max_length=_MOST)]


class RecordsIn(RequestBody):
    """Records, each with its id and features as the pipeline's schema names them."""

    records: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST)]


class DecisionIn(RequestBody):
    """Decision rule: costs of errors or thresholds by class; empty: no decision rule."""

    costs: dict[str, dict[str, Annotated[float, Field(ge=0)]]] = Field({})
    threshold: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field({})

    def validated_tables(self) -> dict[str, Any]:
        """Return the tables that are not empty; raises ConfigurationError if they are invalid."""
        given = {name: table for name, table in self.model_dump().items() if table}
        if given:
            from streamboost.evaluation.decisions import Decisions

            Decisions(**given)
        return given


class CommandIn(RequestBody):
    """A command for the pipeline, with the model version or classes that it applies to."""

    command: Kind
    version: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    label: Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)] | None = None
    into: Annotated[str, Field(min_length=1, max_length=LONGEST_LABEL)] | None = None
    decision: DecisionIn | None = None
    new: bool = False
    annotator: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None

    @model_validator(mode="after")
    def _validate_command_arguments(self) -> Self:
        try:
            self.to_command()
        except ConfigurationError as error:  # pydantic fails on half a surrogate pair
            raise ValueError(escape_line(str(error))) from None
        return self

    def to_command(self) -> Command:
        """Return the command in the form that the pipeline reads."""
        decision = None if self.decision is None else self.decision.validated_tables()
        return Command(
            self.command, self.version, self.label, self.into, decision, self.new, self.annotator
        )


class WrittenCount(BaseModel):
    """Number of messages written to the pipeline's source."""

    written: int


class QueuedCommand(BaseModel):
    """Text of the queued command, which the pipeline applies with its next batch."""

    queued: str


@router.post("/pipelines/{pipeline}/labels", status_code=201, responses=_WRITES)
def post_labels(
    request: Request, served: PipelineParam, user: CurrentUser, body: LabelsIn
) -> WrittenCount:
    """Write labels to the pipeline's labels source: all of them, or none."""
    people: Users = request.app.state.people
    names: dict[str | None, str] = {}
    labels = []
    for one in body.labels:
        key = None if one.source is None else comparison_key(one.source)
        if key not in names:
            names[key] = _annotator_name(people, user, one.source)
        labels.append(Label(one.id, label_from_json(one.label), one.time, names[key]))
    served.queue.post_labels(user, labels)
    return WrittenCount(written=len(labels))


def _annotator_name(people: Users, user: User, source: str | None) -> str:
    """Return the annotator of a label: the user, or the `source` that a program names."""
    if source is None or comparison_key(source) == comparison_key(user.name):
        return user.name
    if user != PROGRAM:
        raise HTTPException(
            403, f"you may only post labels of {user.name}: leave `source` out, or send the token"
        )
    return people.canonical_name(source)


@router.post(
    "/pipelines/{pipeline}/records",
    status_code=201,
    responses=_WRITES,
    dependencies=FOR_OPERATORS,
)
def post_records(served: PipelineParam, body: RecordsIn) -> WrittenCount:
    """Write records to the pipeline's source: all of them, or none."""
    served.records.write(body.records)
    return WrittenCount(written=len(body.records))


@router.post(
    "/pipelines/{pipeline}/commands",
    status_code=202,
    responses=_WRITES,
    dependencies=FOR_OPERATORS,
)
def post_command(served: PipelineParam, body: CommandIn) -> QueuedCommand:
    """Queue a command, which the pipeline applies with its next batch.

    A command with an unknown version or class is refused; `new` allows a new class as the target
    of a merge. Other commands that the pipeline cannot apply are refused in its log.
    """
    command = body.to_command()
    served.send_command(command)
    return QueuedCommand(queued=str(command))
