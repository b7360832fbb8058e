"""The sections of a pipeline file and their keys, but for those of the connectors."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from streamboost.connectors.answers.table import AnswerFields
from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.endpoints.base import (
    Expiring,
    Input,
    Output,
    Predicted,
    Section,
    SpanKey,
    Surroundings,
    Text,
    resolve,
)
from streamboost.pipelines.endpoints.files import FilesInput
from streamboost.pipelines.endpoints.formats import SchemaRegistrySection
from streamboost.pipelines.endpoints.kafka import KafkaSection, name_topics
from streamboost.pipelines.endpoints.registry import sections_for
from streamboost.pipelines.endpoints.sqlite import (
    SqliteInput,
    SqliteOutput,
    SqlitePredictions,
    SqliteRequests,
)
from streamboost.pipelines.endpoints.within import LabelsWithin
from streamboost.pipelines.state.folder import LOG

__all__ = ["Sections", "paths_of"]


def _check_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise ValueError("must be letters, digits, dots, dashes and underscores")
    return value


def _check_rival(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", value):
        raise ValueError("must be letters, digits, dashes and underscores")
    return value


def _check_numeric(value: Any) -> Any:
    names = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    if value != "auto" and not names:
        raise ValueError('must be "auto" or a list of field names')
    return value


def _check_classes(value: list[Any]) -> list[Any]:
    if not all(isinstance(one, str | int) for one in value):
        raise ValueError("must be a list of texts, whole numbers, or true and false")
    return value


def _check_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value):
        raise ValueError('must be an address such as "http://localhost:8080", without a user')
    return value


class PipelineSection(Section):
    """[pipeline]: the job as a whole."""

    name: Annotated[Text, AfterValidator(_check_name)] = Field(description="what the job is called")
    scoring: Literal["here", "apart"] = Field(
        "here", description="whether `score` processes predict, apart from `learn`"
    )
    state: Text = Field("state", description="folder of the log and the state")
    seed: int = Field(0, ge=0, description="all random choices of the learner follow from it")
    batch_records: int = Field(100, ge=1, description="most records in one batch")
    batch_labels: int = Field(500, ge=1, description="most labels in one batch")
    join_window: SpanKey = Field(10_000, description="how long a record waits for its label")
    poll_interval: float = Field(
        0.1, gt=0, le=86_400, allow_inf_nan=False, description="seconds to rest when nothing came"
    )
    checkpoint_every: int = Field(100, ge=1, description="batches from one checkpoint to the next")
    checkpoint_copy: Text | None = Field(
        None,
        description="folder, or address such as s3://..., for copies of the checkpoints",
        examples=["copies"],
    )
    on_gap: Literal["stop", "continue"] = Field(
        "stop", description="what a restart does when a part of what it would replay is gone"
    )
    keep_versions: int = Field(10, ge=1, description="committees kept to roll back to")


class SchemaSection(Section):
    """[schema]: what the records look like."""

    id: Text = Field("id", description="the field that names a record")
    time: Text | None = Field(None, description="the field with the record's time")
    label: Literal["auto", "string", "integer", "boolean"] = Field(
        "auto", description="what a label is"
    )
    classes: Annotated[list[Any], AfterValidator(_check_classes)] = Field(
        [], description="the labels there are; others are dead letters"
    )
    numeric: Annotated[Any, PlainValidator(_check_numeric)] = Field(
        "auto", description="the features"
    )
    exclude: list[Text] = Field([], description="fields to leave out")
    fields: dict[str, Any] = Field({}, description="what the fields of records hold")
    max_record_bytes: int = Field(1_000_000, ge=1, description="larger ones are dead letters")

    @property
    def named(self) -> dict[str, Any]:
        """What is said of each field, by its dotted path."""
        return dict(paths_of(self.fields))


def paths_of(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give the fields of a table in which those of an object may stand in a table of their own."""
    for name, given in table.items():
        if isinstance(given, dict) and not isinstance(given.get("type"), str):
            yield from ((f"{name}.{path}", inner) for path, inner in paths_of(given))
        else:
            yield name, given


class BootstrapSection(Section):
    """[bootstrap]: records whose labels are known beforehand, or what was learned of some."""

    path: Text | None = Field(
        None, description="their file, in JSON Lines, CSV (.csv) or Parquet (.parquet, .pq)"
    )
    committee: Text | None = Field(
        None, description="file of a committee to begin with, as `committee_.save` wrote it"
    )

    @property
    def file(self) -> FilesInput | None:
        """The file as one that is read."""
        return None if self.path is None else FilesInput(connector="files", path=self.path)


class MonitorSection(Section):
    """[monitor]: what the pipeline tells those who watch it, on this machine unless told so."""

    port: int = Field(
        0, ge=0, le=65_535, description="of /healthz, /readyz and /metrics; 0 serves none"
    )
    address: Text = Field("127.0.0.1", description="of this machine, where they are served")
    names: list[Text] = Field([], description="further host names that /metrics is reached by")
    certificate: Text | None = Field(
        None, description="for https, a file in PEM; with key", examples=["cert.pem"]
    )
    key: Text | None = Field(
        None, description="the certificate's key, a file in PEM", examples=["key.pem"]
    )
    allow_plain: bool = Field(
        False, description="whether an address others reach may do without https"
    )
    publish_every: float = Field(
        1.0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="seconds from one status in status.db to the next; 0 writes none",
    )


class DecisionSection(Section):
    """[decision]: what is decided on beside the predicted label."""

    costs: dict[str, Any] = Field({}, description="by true class, what each decision costs")
    threshold: dict[str, Any] = Field({}, description="how sure to be of a class to decide on it")


class ServeSection(Section):
    """[serve]: how `streamboost serve` has people label."""

    blind: bool = Field(False, description="whether the guess is hidden until one has answered")


class ModelSection(Section):
    """[model] and [rivals.NAME]: a classifier of River's, or with its methods."""

    river: Text = Field(description='what makes it, as "module:function"')


class FeaturesSection(Section):
    """[features]: a transformer of River's before the fields, or one with its methods."""

    river: Text = Field(description='what makes it, as "module:function"')


class LabelStudioSection(Section):
    """[label_studio]: the project in which people answer; `streamboost label-studio` serves it."""

    url: Annotated[Text, AfterValidator(_check_url)] = Field(description="the server's address")
    project: int = Field(ge=1, description="the project's number")
    token: Text = Field(description="of a user who may change the project, as ${NAME}")
    choices: Text | None = Field(
        None, description="the interface's Choices tag, where it has several"
    )
    poll_interval: float = Field(
        5.0, gt=0, le=86_400, allow_inf_nan=False, description="seconds from one look to the next"
    )


if TYPE_CHECKING:
    AnyInput = Input
    AnyLabels = Input
    AnyOutput = Output
    AnyPredictions = Predicted
    AnyRequests = Expiring
else:
    AnyInput, AnyLabels, AnyOutput, AnyPredictions, AnyRequests = (
        Annotated[Union[sections_for(use)], Field(discriminator="connector")]  # noqa: UP007
        for use in ("input", "labels", "output", "predictions", "requests")
    )


class Sections(Section):
    """A whole pipeline file.

    The keys of [committee], [working_set], [schedule] and [query] are the parameters of the
    classes they configure, which check them.
    """

    pipeline: PipelineSection
    kafka: KafkaSection | None = None
    schema_registry: SchemaRegistrySection | None = None
    schema_: SchemaSection = Field(SchemaSection(), alias="schema")
    source: AnyInput
    labels: AnyLabels = SqliteInput(connector="sqlite", stream="labels")
    bootstrap: BootstrapSection = BootstrapSection(path=None)
    predictions: AnyPredictions = SqlitePredictions(connector="sqlite", stream="predictions")
    requests: AnyRequests = SqliteRequests(connector="sqlite", stream="requests")
    dead_letters: AnyOutput = SqliteOutput(connector="sqlite", stream="dead_letters")
    committee: dict[str, Any] = Field({})
    working_set: dict[str, Any] = Field({})
    schedule: dict[str, Any] = Field({})
    query: dict[str, Any] = Field({})
    monitor: MonitorSection = MonitorSection()
    serve: ServeSection = ServeSection()
    label_studio: LabelStudioSection | None = None
    decision: DecisionSection | None = None
    model: ModelSection | None = None
    features: FeaturesSection | None = None
    rivals: dict[Annotated[str, AfterValidator(_check_rival)], ModelSection] | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_topics(cls, tables: Any) -> Any:
        """Name the topics that are not, and put all beside the records where those are in one."""
        return name_topics(tables) if isinstance(tables, dict) else tables

    @property
    def decided_by(self) -> dict[str, Any]:
        """What decisions are made of; empty: there are none to make."""
        given = {} if self.decision is None else self.decision.model_dump()
        return {name: table for name, table in given.items() if table}

    def build_schema(self) -> Schema:
        """Return the schema, its features perhaps not known yet."""
        section, names = self.schema_, self.labels.fields
        return Schema(
            section.id,
            section.time,
            section.label,
            section.numeric,
            section.max_record_bytes,
            named=section.named,
            exclude=section.exclude,
            classes=section.classes,
            label_fields=LabelFields() if names is None else LabelFields(names.id, names.label),
            id_from=getattr(self.source, "id_from", "field"),
            labels_within=isinstance(self.labels, LabelsWithin),
            include=self.predictions.include,
            probabilities=self.predictions.probabilities,
        )

    def surroundings(self, folder: Path) -> Surroundings:
        """Return what the sections of a file in `folder` need to open what they name."""
        schema, names = self.schema_, self.labels.fields
        text = {schema.id, "id", "source"} | ({names.id} if names and names.id else set())
        if schema.label in ("auto", "string"):
            text |= {"label"} | ({names.label} if names else set())
        return Surroundings(
            folder,
            resolve(folder, self.pipeline.state) / LOG,
            schema.max_record_bytes,
            frozenset(text),
            self._answer_fields(),
            self.pipeline.on_gap,
            self.kafka,
            self.schema_registry,
        )

    def _answer_fields(self) -> AnswerFields:
        """Return where labelled records have their id and their label."""
        names, schema = self.labels.fields, self.schema_
        id = (names.id if names else None) or schema.id
        label = names.label if names else "label"
        is_number = schema.label in ("integer", "boolean")
        return AnswerFields(id, label, schema.label == "string", is_number)
