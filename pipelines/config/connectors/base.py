"""Base classes of the connector sections: endpoints, inputs, outputs and their context."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.oracle.table import AnswerFields
from streamboost.errors import ConnectorError
from streamboost.pipelines.config.durations import WindowSize


class Section(BaseModel):
    """Base class of all sections; rejects unknown keys and implicit conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_window_size(value: Any) -> Any:
    WindowSize.parse(value)
    return value


Text = Annotated[str, Field(min_length=1)]
SpanKey = Annotated[Any, PlainValidator(_check_window_size)]


@dataclass(frozen=True, slots=True)
class ConnectorContext:
    """Settings from other sections with which a section opens its source or sink.

    Attributes
    ----------
    folder : base folder of relative paths
    log : log in the state folder, for streams without a path
    max_bytes : maximum number of bytes of a message that are held in memory
    text : columns of a Parquet file whose values are read as text, like all cells of CSV
    answer_fields : fields with the id and the label of labelled records
    on_data_loss : reaction to messages that were deleted unread: "fail" or "continue"
    kafka : section [kafka], or None
    registry : section [schema_registry], or None
    """

    folder: Path
    log: Path
    max_bytes: int
    text: frozenset[str]
    answer_fields: AnswerFields
    on_data_loss: str
    kafka: Section | None
    registry: Section | None = None

    def resolve_path(self, path: str) -> Path:
        """Return `path` as a Path; a relative path starts at `folder`."""
        return resolve_path(self.folder, path)


class StreamLocation(NamedTuple):
    """Location of messages: a file or a Kafka cluster (`system`), and a stream or topic in it.

    `stream` is None if the file has only one stream.
    """

    system: str
    stream: str | None

    def overlaps(self, other: "StreamLocation") -> bool:
        """Return whether both locations may be the same stream.

        This requires the same system, and equal streams or a stream None.
        """
        is_one = self.stream == other.stream or None in (self.stream, other.stream)
        return is_one and self.system == other.system


class Endpoint(Section):
    """Base class of sections that name the location of messages: inputs and outputs."""

    connector: str

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of key and error text for keys that are valid separately but not together."""
        yield from ()

    @abstractmethod
    def location(self, context: ConnectorContext) -> StreamLocation | None:
        """Return the location of the messages; None if no other section can have this location."""

    @abstractmethod
    def create_tailing_source(self, context: ConnectorContext) -> Source:
        """Return a source that also reads messages appended later, by other processes."""

    def create_sink(self, context: ConnectorContext) -> Sink:
        """Return a sink that appends to the location; the sink opens files at its first use."""
        raise NotImplementedError


class LabelFieldNames(Section):
    """[labels.fields]: names of the id and label fields in label messages."""

    id: Text | None = Field(None, description="field that holds the record id")
    label: Text = Field("label", description="field that holds the label")


class Input(Endpoint):
    """Base class of the sections of inputs: records and labels.

    Attributes
    ----------
    changeable : keys that may change between two runs on one state
    """

    fields: LabelFieldNames | None = Field(None, description="names of the id and label fields")
    on_conflict: Literal["last", "first", "vote"] = Field(
        "last", description="rule for several labels of one record"
    )

    changeable: ClassVar[frozenset[str]] = frozenset()

    @property
    def outputs_read_by_oracle(self) -> tuple[str, ...]:
        """Names of the outputs that an oracle reads; empty if the section is no oracle.

        The oracle's position counts the messages that it has read from the first of these outputs.
        """
        return ()

    @property
    def position_unit(self) -> str | None:
        """Unit of the source's positions, such as "bytes"; None: messages."""
        return None

    @property
    def read_only_reason(self) -> str | None:
        """Reason why no message can be appended to the input; None: messages can be appended."""
        return "this connector only reads"

    @abstractmethod
    def create_source(self, context: ConnectorContext) -> Source:
        """Return the source, which opens files and connections at its first poll."""

    def create_label_source(
        self, context: ConnectorContext, records: Source, outputs: Mapping[str, "Output"]
    ) -> Source:
        """Return the source of labels.

        An oracle returns labels for the messages of `outputs`, and may delay them until later
        messages of `records` are read."""
        return self.create_source(context)

    def oracle_summary(self, context: ConnectorContext) -> str | None:
        """Return a text about the labels of an oracle, or None if the section is no oracle.

        Raises StreamBoostError if the labels cannot be read.
        """
        return None

    def create_tailing_source(self, context: ConnectorContext) -> Source:
        """Return a source that also reads messages appended later, by other processes."""
        return self.create_source(context)


class Output(Endpoint):
    """Base class of the sections of outputs: predictions, requests and dead letters."""

    @abstractmethod
    def check_access(self, context: ConnectorContext) -> str:
        """Check write access without writing.

        Returns a text for `check`, such as "x.db can be written". Raises ConnectorError if the
        output cannot be written.
        """


class PredictionsSection(Output):
    """Keys of [predictions] in addition to its location."""

    include: list[Text] = Field(
        [], description="fields of a record that are copied to its prediction"
    )
    probabilities: bool = Field(
        False, description="whether predictions include the probabilities of all classes"
    )


class RequestsSection(Output):
    """Keys of [requests] in addition to its location."""

    expires_after: SpanKey = Field(
        100_000, description="time or number of records after which a request expires"
    )


class ConnectorSections(NamedTuple):
    """Section classes of one connector: one for each role, such as input or output.

    A class is None if the connector does not support the role.
    """

    input: type[Input] | None = None
    labels: type[Input] | None = None
    output: type[Output] | None = None
    requests: type[RequestsSection] | None = None
    predictions: type[PredictionsSection] | None = None


def resolve_path(folder: Path, path: str) -> Path:
    """Resolve `path` relative to `folder`, with ``~`` expanded."""
    return folder / os.path.expanduser(path)


def check_writable(path: Path) -> str:
    """Return the text "PATH can be written"; raise ConnectorError if it cannot, nor be created."""
    # Unlike Path.exists, this does not raise within folders that may not be searched.
    found = next(place for place in (path, *path.absolute().parents) if os.path.exists(place))
    if found == path and not path.is_file():
        raise ConnectorError(f"{path} cannot be written: it is not a file; name one")
    if found != path and not found.is_dir():
        raise ConnectorError(f"{path} cannot be written: {found} is not a folder; fix the path")
    if not os.access(found, os.W_OK if found == path else os.W_OK | os.X_OK):
        raise ConnectorError(f"{path} cannot be written: {found} does not allow it")
    return f"{path} can be written"
