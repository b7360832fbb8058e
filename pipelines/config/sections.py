"""Sections of a pipeline file and their keys, except those of the connectors."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.oracle.table import AnswerFields
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    Expiring,
    Input,
    Output,
    PredictionsSection,
    Section,
    SpanKey,
    Text,
    resolve,
)
from streamboost.pipelines.config.connectors.files import FilesInput
from streamboost.pipelines.config.connectors.formats import SchemaRegistrySection
from streamboost.pipelines.config.connectors.inline import InlineLabels
from streamboost.pipelines.config.connectors.kafka import KafkaSection, name_topics
from streamboost.pipelines.config.connectors.registry import sections_for
from streamboost.pipelines.config.connectors.sqlite import (
    SqliteInput,
    SqliteOutput,
    SqlitePredictions,
    SqliteRequests,
)
from streamboost.pipelines.state.folder import LOG

__all__ = ["Sections", "paths_of"]


def _check_name(value: str) -> str:
    # A topic has at most 249 characters, and topics of the pipeline begin with its name.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{,199}", value):
        raise ValueError(
            "must be at most 200 letters, digits, dots, dashes and underscores, the first a letter "
            "or a digit"
        )
    return value


def _check_model_name(value: str) -> str:
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
    """[pipeline]: settings of the pipeline as a whole."""

    name: Annotated[Text, AfterValidator(_check_name)] = Field(description="what the job is called")
    scoring: Literal["local", "distributed"] = Field(
        "local", description="distributed: `score` processes predict, and `learn` learns"
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
    on_data_loss: Literal["fail", "continue"] = Field(
        "fail", description="what a restart does when a part of what it would replay is gone"
    )
    keep_versions: int = Field(10, ge=1, description="committees kept to roll back to")


class SchemaSection(Section):
    """[schema]: structure of the records, and the labels."""

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
        """The declarations of fields, by dotted path."""
        return dict(paths_of(self.fields))


def paths_of(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted paths and declarations of fields; nested tables are fields of an object."""
    for name, given in table.items():
        if isinstance(given, dict) and not isinstance(given.get("type"), str):
            yield from ((f"{name}.{path}", inner) for path, inner in paths_of(given))
        else:
            yield name, given


class InitialDataSection(Section):
    """[initial_data]: labelled records, or a trained committee, to begin with."""

    path: Text | None = Field(
        None, description="their file, in JSON Lines, CSV (.csv) or Parquet (.parquet, .pq)"
    )
    committee: Text | None = Field(
        None, description="file of a committee to begin with, as `committee_.save` wrote it"
    )

    @property
    def file(self) -> FilesInput | None:
        """The section of the file of labelled records, or None."""
        return None if self.path is None else FilesInput(connector="files", path=self.path)


class MonitorSection(Section):
    """[monitor]: HTTP endpoints for monitoring, by default on this machine, and status documents.

    The status documents are written to status.db in the state folder.
    """

    port: int = Field(
        0, ge=0, le=65_535, description="of /healthz, /readyz and /metrics; 0 serves none"
    )
    host: Text = Field("127.0.0.1", description="address to listen on")
    allowed_hosts: list[Text] = Field(
        [], description="further host names by which /metrics is reached"
    )
    certificate: Text | None = Field(
        None, description="for https, a file in PEM; with key", examples=["cert.pem"]
    )
    key: Text | None = Field(
        None, description="the certificate's key, a file in PEM", examples=["key.pem"]
    )
    allow_insecure_http: bool = Field(
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
    """[decision]: decisions by costs or thresholds, in addition to the predicted label."""

    costs: dict[str, Any] = Field({}, description="by true class, what each decision costs")
    threshold: dict[str, Any] = Field({}, description="how sure to be of a class to decide on it")


class ServeSection(Section):
    """[serve]: settings of labelling in `streamboost serve`."""

    blind: bool = Field(False, description="whether the guess is hidden until one has answered")


class ModelSection(Section):
    """[model] and [shadow_models.NAME]: a River classifier, or an object with the same methods."""

    river: Text = Field(description='what makes it, as "module:function"')


class FeaturesSection(Section):
    """[features]: a River transformer that makes the fields, or an object with the same methods."""

    river: Text = Field(description='what makes it, as "module:function"')


class LabelStudioSection(Section):
    """[label_studio]: Label Studio project for annotators; `streamboost label-studio` serves it."""

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
    AnyPredictions = PredictionsSection
    AnyRequests = Expiring
else:
    AnyInput, AnyLabels, AnyOutput, AnyPredictions, AnyRequests = (
        Annotated[Union[sections_for(use)], Field(discriminator="connector")]  # noqa: UP007
        for use in ("input", "labels", "output", "predictions", "requests")
    )


class Sections(Section):
    """All sections of a pipeline file.

    The keys of [committee], [working_set], [schedule] and [query] are the parameters of the
    classes that they configure, which validate them.
    """

    pipeline: PipelineSection
    kafka: KafkaSection | None = None
    schema_registry: SchemaRegistrySection | None = None
    schema_: SchemaSection = Field(SchemaSection(), alias="schema")
    source: AnyInput
    labels: AnyLabels = SqliteInput(connector="sqlite", stream="labels")
    initial_data: InitialDataSection = InitialDataSection(path=None)
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
    shadow_models: dict[Annotated[str, AfterValidator(_check_model_name)], ModelSection] | None = (
        None
    )

    @model_validator(mode="before")
    @classmethod
    def _name_topics(cls, tables: Any) -> Any:
        """Fill in default topics; if [source] is a topic, missing sections become topics too."""
        return name_topics(tables) if isinstance(tables, dict) else tables

    @property
    def decided_by(self) -> dict[str, Any]:
        """The parameters of decisions; empty: no decisions are made."""
        given = {} if self.decision is None else self.decision.model_dump()
        return {name: table for name, table in given.items() if table}

    def build_schema(self) -> Schema:
        """Return the schema of the file; its features may be inferred later."""
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
            inline_labels=isinstance(self.labels, InlineLabels),
            include=self.predictions.include,
            probabilities=self.predictions.probabilities,
        )

    def surroundings(self, folder: Path) -> ConnectorContext:
        """Return the context in which sections of a file in `folder` open sources and sinks."""
        schema, names = self.schema_, self.labels.fields
        text = {schema.id, "id", "source"} | ({names.id} if names and names.id else set())
        if schema.label in ("auto", "string"):
            text |= {"label"} | ({names.label} if names else set())
        return ConnectorContext(
            folder,
            resolve(folder, self.pipeline.state) / LOG,
            schema.max_record_bytes,
            frozenset(text),
            self._answer_fields(),
            self.pipeline.on_data_loss,
            self.kafka,
            self.schema_registry,
        )

    def _answer_fields(self) -> AnswerFields:
        """Return the fields with the id and the label of labelled records."""
        names, schema = self.labels.fields, self.schema_
        id = (names.id if names else None) or schema.id
        label = names.label if names else "label"
        is_number = schema.label in ("integer", "boolean")
        return AnswerFields(id, label, schema.label == "string", is_number)
