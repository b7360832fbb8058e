"""The sections of a pipeline file and their keys."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    model_validator,
)

from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.span import Span

__all__ = [
    "BootstrapSection",
    "FilesInput",
    "FilesOutput",
    "KafkaInput",
    "KafkaSection",
    "KafkaTopic",
    "LabelStudioSection",
    "RiverInput",
    "RiverOracle",
    "Sections",
    "SqliteInput",
]


class Section(BaseModel):
    """Base of all sections: no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise ValueError("must be letters, digits, dots, dashes and underscores")
    return value


def _check_topic(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value):
        raise ValueError("must be at most 249 letters, digits, dots, dashes and underscores")
    return value


def _check_span(value: Any) -> Any:
    Span.parse(value)
    return value


def _check_numeric(value: Any) -> Any:
    names = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
    if value != "auto" and not names:
        raise ValueError('must be "auto" or a list of field names')
    return value


def _check_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value):
        raise ValueError('must be an address such as "http://localhost:8080", without a user')
    return value


Text = Annotated[str, Field(min_length=1)]
SpanKey = Annotated[Any, PlainValidator(_check_span)]


class PipelineSection(Section):
    """[pipeline]: the job as a whole."""

    name: Annotated[Text, AfterValidator(_check_name)] = Field(description="what the job is called")
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
        None, description="folder, or address such as s3://..., for copies of the checkpoints"
    )
    on_gap: Literal["stop", "continue"] = Field(
        "stop", description="what a restart does when a part of what it would replay is gone"
    )
    keep_versions: int = Field(10, ge=1, description="committees kept to roll back to")


class SchemaSection(Section):
    """[schema]: what the records look like."""

    id: Text = Field("id", description="the field that names a record")
    time: Text | None = Field(None, description="the field with the record's time")
    label: Literal["string", "integer"] = Field("string", description="what a label is")
    numeric: Annotated[Any, PlainValidator(_check_numeric)] = Field(
        "auto", description="the features"
    )
    max_record_bytes: int = Field(1_000_000, ge=1, description="larger ones are dead letters")

    def build(self) -> Schema:
        """Return the schema, its features perhaps not known yet."""
        return Schema(self.id, self.time, self.label, self.numeric, self.max_record_bytes)


class SqliteInput(Section):
    """A stream of a SQLite log; without `path`, of the log in the state folder."""

    connector: Literal["sqlite"]
    stream: Text = Field(description="the name of the stream")
    path: Text | None = Field(None, description="the log's file")


class FilesInput(Section):
    """A file of JSON Lines, CSV (.csv) or Parquet (.parquet, .pq); "-" is standard input."""

    connector: Literal["files"]
    path: Text = Field(description="the file to read")
    follow: bool = Field(False, description="whether lines are still being added")


class RiverInput(Section):
    """The records of a dataset that comes with River."""

    connector: Literal["river"]
    dataset: Text = Field(description="the dataset's class in river.datasets")


class RiverOracle(RiverInput):
    """Answers every request with the dataset's label, `delay` records later."""

    delay: int = Field(0, ge=0, description="records that pass before a label comes")


class SqliteOutput(SqliteInput):
    """A stream of a SQLite log; without `path`, part of the pipeline's own transactions."""


class FilesOutput(Section):
    """A JSON Lines file that is appended to."""

    connector: Literal["files"]
    path: Text = Field(description="the file to append to")


class KafkaSection(Section):
    """[kafka]: the cluster; all other keys are options of kafka-python's clients."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    bootstrap_servers: Text = Field(description="some of the brokers, as host:port,host:port")
    transactions: bool = Field(
        True, description="whether journal and positions are kept there, in one transaction"
    )


class KafkaTopic(Section):
    """A topic of the cluster that [kafka] names; without `topic`, named after the pipeline."""

    connector: Literal["kafka"]
    topic: Annotated[Text, AfterValidator(_check_topic)] = Field(description="the topic")


class KafkaInput(KafkaTopic):
    """A topic of the cluster that [kafka] names; without `topic`, named after the pipeline."""

    on_corrupt: Literal["stop", "skip"] = Field(
        "stop", description="what is done about messages that do not match their checksum"
    )


class KafkaOutput(KafkaTopic):
    """A topic of the cluster that [kafka] names, part of the pipeline's transactions there."""


class BootstrapSection(Section):
    """[bootstrap]: records whose labels are known beforehand."""

    path: Text | None = Field(
        None, description="their file, in JSON Lines, CSV (.csv) or Parquet (.parquet, .pq)"
    )


class MonitorSection(Section):
    """[monitor]: what the pipeline tells those who watch it, on this machine only."""

    port: int = Field(
        0, ge=0, le=65_535, description="of /healthz, /readyz and /metrics; 0 serves none"
    )
    publish_every: float = Field(
        1.0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="seconds from one status in status.db to the next; 0 writes none",
    )


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


class Expiring(Section):
    """What requests have beside where they go."""

    expires_after: SpanKey = Field(100_000, description="how long an answer is waited for")


class SqliteRequests(Expiring, SqliteOutput):
    """[requests] into a SQLite log."""


class FilesRequests(Expiring, FilesOutput):
    """[requests] into a JSON Lines file."""


class KafkaRequests(Expiring, KafkaOutput):
    """[requests] into a topic."""


_TAG = Field(discriminator="connector")
Input = Annotated[SqliteInput | FilesInput | KafkaInput | RiverInput, _TAG]
LabelInput = Annotated[SqliteInput | FilesInput | KafkaInput | RiverOracle, _TAG]
Output = Annotated[SqliteOutput | FilesOutput | KafkaOutput, _TAG]
RequestOutput = Annotated[SqliteRequests | FilesRequests | KafkaRequests, _TAG]

_TOPICS = {
    "source": "records",
    "labels": "labels",
    "predictions": "predictions",
    "requests": "requests",
    "dead_letters": "dead_letters",
}
"""What the topic of a section is called after the pipeline's name."""


class Sections(Section):
    """A whole pipeline file.

    The keys of [committee], [working_set], [schedule] and [query] are the parameters of the
    classes they configure, which check them.
    """

    pipeline: PipelineSection
    kafka: KafkaSection | None = None
    schema_: SchemaSection = Field(SchemaSection(), alias="schema")
    source: Input
    labels: LabelInput = SqliteInput(connector="sqlite", stream="labels")
    bootstrap: BootstrapSection = BootstrapSection(path=None)
    predictions: Output = SqliteOutput(connector="sqlite", stream="predictions")
    requests: RequestOutput = SqliteRequests(connector="sqlite", stream="requests")
    dead_letters: Output = SqliteOutput(connector="sqlite", stream="dead_letters")
    committee: dict[str, Any] = {}
    working_set: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    query: dict[str, Any] = {}
    monitor: MonitorSection = MonitorSection()
    label_studio: LabelStudioSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_topics(cls, tables: Any) -> Any:
        """Name the topics that are not, and put all beside the records where those are in one."""
        if not isinstance(tables, dict):
            return tables
        filled = dict(tables)
        if _is_topic(tables.get("source")):
            filled = {section: {"connector": "kafka"} for section in _TOPICS} | filled
        pipeline = filled.get("pipeline")
        name = pipeline.get("name") if isinstance(pipeline, dict) else None
        for section, suffix in _TOPICS.items():
            if _is_topic(filled.get(section)):
                filled[section] = {"topic": f"{name}.{suffix}"} | filled[section]
        return filled


def _is_topic(table: Any) -> bool:
    return isinstance(table, dict) and table.get("connector") == "kafka"
