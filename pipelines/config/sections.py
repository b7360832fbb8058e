"""Sections of a pipeline file and their keys, except those of the connectors."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from streamboost.connectors.messages.labels import LabelFields
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.oracle.table import AnswerFields
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    Input,
    Output,
    PredictionsSection,
    RequestsSection,
    Section,
    SpanKey,
    Text,
    resolve_path,
)
from streamboost.pipelines.config.connectors.files import FilesInput
from streamboost.pipelines.config.connectors.formats import SchemaRegistrySection
from streamboost.pipelines.config.connectors.inline import InlineLabels
from streamboost.pipelines.config.connectors.kafka import KafkaSection, add_default_topics
from streamboost.pipelines.config.connectors.registry import section_classes
from streamboost.pipelines.config.connectors.sqlite import (
    SqliteInput,
    SqliteOutput,
    SqlitePredictionsOutput,
    SqliteRequestsOutput,
)
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.state.folder import LOG


def _check_pipeline_name(value: str) -> str:
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


def _check_numeric_fields(value: Any) -> Any:
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


def _check_retention(value: Any) -> Any:
    if value != "none":
        try:
            WindowSize.parse(value)
        except ValueError as error:
            raise ValueError(f'{error}, or "none"') from None
    return value


class PipelineSection(Section):
    """[pipeline]: settings of the pipeline as a whole."""

    name: Annotated[Text, AfterValidator(_check_pipeline_name)] = Field(
        description="name of the pipeline"
    )
    scoring: Literal["local", "distributed"] = Field(
        "local",
        description="scoring process: the pipeline (local), or `score` processes (distributed)",
    )
    state: Text = Field("state", description="folder that stores the log and the state")
    seed: int = Field(0, ge=0, description="random seed of the learner")
    batch_records: int = Field(100, ge=1, description="maximum number of records in one batch")
    batch_labels: int = Field(500, ge=1, description="maximum number of labels in one batch")
    join_window: SpanKey = Field(
        10_000, description="time or number of records for which a record waits for its label"
    )
    poll_interval: float = Field(
        0.1, gt=0, le=86_400, allow_inf_nan=False, description="seconds to wait after an empty poll"
    )
    checkpoint_every: int = Field(
        100, ge=1, description="number of batches between two checkpoints"
    )
    checkpoint_copy: Text | None = Field(
        None,
        description="folder or URL, such as s3://..., that receives copies of the checkpoints",
        examples=["copies"],
    )
    retention: Annotated[Any, PlainValidator(_check_retention)] = Field(
        "30d",
        description="age, in time or records, at which messages and journal entries are deleted "
        "from the log in the state folder, or in time, at which entries of a journal in Kafka are "
        'deleted behind checkpoint_copy; "none": never',
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        "fail",
        description="reaction of a restart to messages that were deleted before their replay",
    )
    keep_versions: int = Field(
        10, ge=1, description="number of committee versions that are kept for a rollback"
    )
    encoder_threads: int = Field(
        0, ge=0, description="number of texts that are encoded at the same time; 0: one per core"
    )

    @property
    def retention_window(self) -> WindowSize | None:
        """The retention of the log; None: nothing is deleted."""
        return None if self.retention == "none" else WindowSize.parse(self.retention)


class SchemaSection(Section):
    """[schema]: structure of the records, and the labels."""

    id: Text = Field("id", description="field that holds the record id")
    time: Text | None = Field(None, description="field that holds the record's time")
    label: Literal["auto", "string", "integer", "boolean"] = Field(
        "auto", description="type of the labels"
    )
    classes: Annotated[list[Any], AfterValidator(_check_classes)] = Field(
        [], description="allowed labels; other labels are dead letters"
    )
    numeric: Annotated[Any, PlainValidator(_check_numeric_fields)] = Field(
        "auto", description="fields that are numeric features"
    )
    exclude: list[Text] = Field([], description="fields that are no features")
    fields: dict[str, Any] = Field({}, description="types of the fields")
    max_record_bytes: int = Field(
        1_000_000,
        ge=1,
        description="maximum size of a record in bytes; larger records are dead letters",
    )

    @property
    def declared_fields(self) -> dict[str, Any]:
        """The declarations of fields in [schema.fields], keyed by dotted path."""
        return dict(field_declarations(self.fields))


def field_declarations(table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield pairs of a field's dotted path and its declaration in [schema.fields].

    A nested table declares the fields of an object.
    """
    for name, given in table.items():
        if isinstance(given, dict) and not isinstance(given.get("type"), str):
            yield from ((f"{name}.{path}", inner) for path, inner in field_declarations(given))
        else:
            yield name, given


class InitialDataSection(Section):
    """[initial_data]: labelled records, or a trained committee, to begin with."""

    path: Text | None = Field(
        None,
        description="file of labelled records: JSON Lines, CSV (.csv) or Parquet (.parquet, .pq)",
    )
    committee: Text | None = Field(
        None, description="file of the initial committee, written by `committee_.save`"
    )

    @property
    def file_input(self) -> FilesInput | None:
        """The input section of the file of labelled records, or None without `path`."""
        return None if self.path is None else FilesInput(connector="files", path=self.path)


class MonitorSection(Section):
    """[monitor]: HTTP endpoints for monitoring, on localhost by default, and updates of status.db.

    status.db, in the state folder, is the source of the dashboard.
    """

    port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="port of /healthz, /readyz and /metrics; 0 turns the server off",
    )
    host: Text = Field("127.0.0.1", description="address to listen on")
    allowed_hosts: list[Text] = Field([], description="additional host names that /metrics accepts")
    certificate: Text | None = Field(
        None,
        description="TLS certificate for https, a PEM file; requires key",
        examples=["cert.pem"],
    )
    key: Text | None = Field(
        None, description="private key of the certificate, a PEM file", examples=["key.pem"]
    )
    allow_insecure_http: bool = Field(
        False, description="whether http is allowed on an address that other machines can reach"
    )
    publish_every: float = Field(
        1.0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="seconds between two updates of status.db; 0 writes no status",
    )


NotificationEvent = Literal["requests", "regression", "drift", "budget", "down", "up"]


class NotifySection(Section):
    """[notify]: webhook that receives events of the pipeline, such as Slack's."""

    url: Text = Field(description="http or https address that receives the messages, as ${NAME}")
    secret: Text | None = Field(
        None,
        description="key of the signatures, as ${NAME}: base64 of at least 24 bytes",
        examples=["${NOTIFY_SECRET}"],
    )
    events: list[NotificationEvent] = Field(
        list(get_args(NotificationEvent)),
        description="events to send: labels requested, a class or the accuracy worse, the stream "
        "changed, the budget used up, the pipeline down, the pipeline up again",
    )
    every: float = Field(
        60.0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="minimum number of seconds between two messages; events are merged meanwhile",
    )

    @property
    def key(self) -> bytes | None:
        """The decoded key of the signatures, empty if it is not base64; None without `secret`."""
        if self.secret is None:
            return None
        try:
            return base64.b64decode(self.secret.removeprefix("whsec_"), validate=True)
        except ValueError:
            return b""


class DecisionSection(Section):
    """[decision]: decisions by costs or thresholds, in addition to the predicted label."""

    costs: dict[str, Any] = Field({}, description="cost of each decision, by true class")
    threshold: dict[str, Any] = Field(
        {}, description="minimum probability of a class for a decision"
    )


class ServeSection(Section):
    """[serve]: settings of labelling in `streamboost serve`."""

    blind: bool = Field(
        False, description="whether predictions are hidden until the annotator has answered"
    )


class ModelSection(Section):
    """[model]: a River classifier, or the predictions that each record carries."""

    river: Text | None = Field(
        None, description='factory of the River object, as "module:function"'
    )
    prediction_field: Text | None = Field(
        None,
        description="field with the prediction of another system: a label, or a map or list of "
        "class probabilities; needs [schema] classes and excludes river",
    )


class ShadowModelSection(Section):
    """[shadow_models.NAME]: a River classifier, or an object with the same methods."""

    river: Text = Field(description='factory of the River object, as "module:function"')


class FeaturesSection(Section):
    """[features]: a River transformer that computes fields, or an object with the same methods."""

    river: Text = Field(description='factory of the River object, as "module:function"')


class LabelStudioSection(Section):
    """[label_studio]: Label Studio project for annotators; `streamboost label-studio` serves it."""

    url: Annotated[Text, AfterValidator(_check_url)] = Field(description="URL of the server")
    project: int = Field(ge=1, description="id of the project")
    token: Text = Field(description="access token of a user who may change the project, as ${NAME}")
    choices: Text | None = Field(
        None, description="name of the Choices tag, if the interface has several"
    )
    poll_interval: float = Field(
        5.0, gt=0, le=86_400, allow_inf_nan=False, description="seconds between two polls"
    )


if TYPE_CHECKING:
    AnyInput = Input
    AnyLabels = Input
    AnyOutput = Output
    AnyPredictions = PredictionsSection
    AnyRequests = RequestsSection
else:
    AnyInput, AnyLabels, AnyOutput, AnyPredictions, AnyRequests = (
        Annotated[Union[section_classes(role)], Field(discriminator="connector")]  # noqa: UP007
        for role in ("input", "labels", "output", "predictions", "requests")
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
    predictions: AnyPredictions = SqlitePredictionsOutput(connector="sqlite", stream="predictions")
    requests: AnyRequests = SqliteRequestsOutput(connector="sqlite", stream="requests")
    dead_letters: AnyOutput = SqliteOutput(connector="sqlite", stream="dead_letters")
    committee: dict[str, Any] = Field({})
    working_set: dict[str, Any] = Field({})
    schedule: dict[str, Any] = Field({})
    query: dict[str, Any] = Field({})
    monitor: MonitorSection = MonitorSection()
    notify: NotifySection | None = None
    serve: ServeSection = ServeSection()
    label_studio: LabelStudioSection | None = None
    decision: DecisionSection | None = None
    model: ModelSection | None = None
    features: FeaturesSection | None = None
    shadow_models: (
        dict[Annotated[str, AfterValidator(_check_model_name)], ShadowModelSection] | None
    ) = None

    @model_validator(mode="before")
    @classmethod
    def _add_default_topics(cls, tables: Any) -> Any:
        return add_default_topics(tables) if isinstance(tables, dict) else tables

    @property
    def decision_parameters(self) -> dict[str, Any]:
        """The parameters of [decision], keyed by name; empty: no decisions are made."""
        given = {} if self.decision is None else self.decision.model_dump()
        return {name: table for name, table in given.items() if table}

    @property
    def prediction_field(self) -> str | None:
        """The field with the prediction of another system, which is no feature; None: no field."""
        return None if self.model is None else self.model.prediction_field

    def build_schema(self) -> Schema:
        """Return the schema of records and labels; its features may be inferred later."""
        section, names = self.schema_, self.labels.fields
        # With numeric, or a field of that name, the checks of [model] name the remedy.
        is_excluded = (
            section.numeric == "auto" and self.prediction_field not in section.declared_fields
        )
        recorded = [self.prediction_field] if self.prediction_field and is_excluded else []
        return Schema(
            section.id,
            section.time,
            section.label,
            section.numeric,
            section.max_record_bytes,
            named=section.declared_fields,
            exclude=[*section.exclude, *recorded],
            classes=section.classes,
            label_fields=LabelFields() if names is None else LabelFields(names.id, names.label),
            id_from=getattr(self.source, "id_from", "field"),
            inline_labels=isinstance(self.labels, InlineLabels),
            include=self.predictions.include,
            probabilities=self.predictions.probabilities,
        )

    def connector_context(self, folder: Path) -> ConnectorContext:
        """Return the context with which sections open sources and sinks.

        `folder` is the folder of the pipeline file.
        """
        schema, names = self.schema_, self.labels.fields
        text = {schema.id, "id", "source"} | ({names.id} if names and names.id else set())
        if schema.label in ("auto", "string"):
            text |= {"label"} | ({names.label} if names else set())
        return ConnectorContext(
            folder,
            resolve_path(folder, self.pipeline.state) / LOG,
            schema.max_record_bytes,
            frozenset(text),
            self._labelled_record_fields(),
            self.pipeline.on_data_loss,
            self.kafka,
            self.schema_registry,
        )

    def _labelled_record_fields(self) -> AnswerFields:
        names, schema = self.labels.fields, self.schema_
        id = (names.id if names else None) or schema.id
        label = names.label if names else "label"
        is_number = schema.label in ("integer", "boolean")
        return AnswerFields(id, label, schema.label == "string", is_number)
