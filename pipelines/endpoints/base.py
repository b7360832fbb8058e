"""What the sections of all connectors have in common."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from streamboost.connectors.answers.table import AnswerFields
from streamboost.connectors.base import Sink, Source
from streamboost.errors import ConnectorError
from streamboost.pipelines.span import Span

__all__ = [
    "Connector",
    "Endpoint",
    "Expiring",
    "Input",
    "LabelNames",
    "Output",
    "Place",
    "Predicted",
    "Section",
    "SpanKey",
    "Surroundings",
    "Text",
    "resolve",
    "writable",
]


class Section(BaseModel):
    """Base of all sections: no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _check_span(value: Any) -> Any:
    Span.parse(value)
    return value


Text = Annotated[str, Field(min_length=1)]
SpanKey = Annotated[Any, PlainValidator(_check_span)]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a section needs, beside its own keys, to open what it names.

    Attributes
    ----------
    folder : where relative paths start
    log : the log in the state folder, for streams without a path
    max_bytes : what of a message is held in memory
    text : columns of a Parquet file whose values are given as text, as all cells of CSV are
    answer_fields : where labelled records have their id and their label
    on_gap : what is done where messages were deleted unread: "stop" or "continue"
    kafka : the section of the cluster; None without one
    registry : the section of the schema registry; None without one
    """

    folder: Path
    log: Path
    max_bytes: int
    text: frozenset[str]
    answer_fields: AnswerFields
    on_gap: str
    kafka: Section | None
    registry: Section | None = None

    def resolve(self, path: str) -> Path:
        """Return `path` as seen from the folder."""
        return resolve(self.folder, path)


class Place(NamedTuple):
    """A file or a system that holds messages, and of its streams the one; None: it is but one."""

    whole: str
    stream: str | None

    def overlaps(self, other: "Place") -> bool:
        """Tell whether a message in one may be one in the other."""
        is_one = self.stream == other.stream or None in (self.stream, other.stream)
        return is_one and self.whole == other.whole


class Endpoint(Section):
    """A section that names where messages lie."""

    connector: str

    def problems(self) -> Iterator[tuple[str, str]]:
        """Give the keys that are right one by one and wrong together, and what to do about it."""
        yield from ()

    @abstractmethod
    def place(self, around: Surroundings) -> Place | None:
        """Return where the messages lie; None: where nothing else can."""

    @abstractmethod
    def follower(self, around: Surroundings) -> Source:
        """Return what reads along while others write."""

    def sink(self, around: Surroundings) -> Sink:
        """Return what appends to it, unless that is closed; nothing is opened before it is used."""
        raise NotImplementedError


class LabelNames(Section):
    """[labels.fields]: what id and label are called in label messages."""

    id: Text | None = Field(None, description="the field that names the record")
    label: Text = Field("label", description="the field that holds the label")


class Input(Endpoint):
    """A section that is read.

    Attributes
    ----------
    changeable : keys that may change between two runs on one state
    """

    fields: LabelNames | None = Field(None, description="what id and label are called")
    on_conflict: Literal["last", "first", "vote"] = Field(
        "last", description="which of several labels of a record holds"
    )

    changeable: ClassVar[frozenset[str]] = frozenset()

    @property
    def listens_to(self) -> tuple[str, ...]:
        """The outputs it reads to give labels by itself; its position is one in the first."""
        return ()

    @property
    def unit(self) -> str | None:
        """What a position counts; None: messages."""
        return None

    @property
    def closed(self) -> str | None:
        """Why nothing can be appended to it while the pipeline reads; None: something can."""
        return "it is read alone"

    @abstractmethod
    def source(self, around: Surroundings) -> Source:
        """Return what reads it; nothing is opened before it is polled."""

    def answers(
        self, around: Surroundings, records: Source, outputs: Mapping[str, "Output"]
    ) -> Source:
        """Return what reads the labels, given what a connector needs that answers by itself."""
        return self.source(around)

    def tried(self, around: Surroundings) -> str | None:
        """Say what it will answer with, or raise StreamBoostError; None: reading it will tell."""
        return None

    def follower(self, around: Surroundings) -> Source:
        """Return what reads along while others write."""
        return self.source(around)


class Output(Endpoint):
    """A section that is written to."""

    @abstractmethod
    def tried(self, around: Surroundings) -> str:
        """Say that it can be written to, writing nothing; ConnectorError where it cannot."""


class Predicted(Output):
    """What [predictions] has beside where they go."""

    include: list[Text] = Field([], description="fields of a record that its prediction repeats")
    probabilities: bool = Field(False, description="whether predictions have those of all classes")


class Expiring(Output):
    """What [requests] has beside where they go."""

    expires_after: SpanKey = Field(100_000, description="how long an answer is waited for")


class Connector(NamedTuple):
    """The sections of one connector, by what it is used for; None where it cannot be."""

    input: type[Input] | None = None
    labels: type[Input] | None = None
    output: type[Output] | None = None
    requests: type[Expiring] | None = None
    predictions: type[Predicted] | None = None


def resolve(folder: Path, path: str) -> Path:
    """Return `path` as seen from `folder`."""
    return folder / os.path.expanduser(path)


def writable(path: Path) -> str:
    """Say that a file can be written; ConnectorError where it cannot."""
    # Unlike Path.exists, this does not raise within folders that may not be searched.
    found = next(place for place in (path, *path.absolute().parents) if os.path.exists(place))
    if found == path and not path.is_file():
        raise ConnectorError(f"{path} cannot be written: it is not a file; name one")
    if found != path and not found.is_dir():
        raise ConnectorError(f"{path} cannot be written: {found} is not a folder; mend the path")
    if not os.access(found, os.W_OK if found == path else os.W_OK | os.X_OK):
        raise ConnectorError(f"{path} cannot be written: {found} does not allow it")
    return f"{path} can be written"
