"""A file of labels that are known already, which answers late, as a person would."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from streamboost.connectors.answers.oracle import AnswersOracle, Young
from streamboost.connectors.answers.table import Answers
from streamboost.connectors.base import Source
from streamboost.connectors.files.open import STDIN, file_source
from streamboost.errors import StreamBoostError
from streamboost.pipelines.endpoints.base import (
    Connector,
    Input,
    Output,
    Place,
    Surroundings,
    Text,
)
from streamboost.pipelines.span import Span

__all__ = ["CONNECTOR", "AnswersLabels"]

_WHOLE = 1_000_000_000
"""Bytes, of which SQLite holds no more: what the pipeline wrote itself is read whole."""


def _check_delay(value: Any) -> Any:
    if value != 0 or isinstance(value, bool):
        Span.parse(value)
    return value


class AnswersLabels(Input):
    """Answers requests, or every record, with the labels of a file.

    The file holds labelled records or label messages, as JSON Lines, CSV (.csv), either of them
    compressed (.gz), or Parquet (.parquet, .pq).
    """

    connector: Literal["answers"]
    path: Text = Field(description="the file of labelled records")
    of: Literal["requests", "all"] = Field("requests", description="what is answered")
    delay: Annotated[Any, PlainValidator(_check_delay)] = Field(
        0, description="what passes before a label comes: records, or time by the records' own"
    )

    @property
    def listens_to(self) -> tuple[str, ...]:
        """The outputs it reads: the first is what it answers."""
        if self.of == "all":
            return ("predictions",)
        return ("requests", "predictions") if self.delay else ("requests",)

    @property
    def unit(self) -> str:
        """What a position counts."""
        return self.listens_to[0]

    @property
    def closed(self) -> str:
        """Why nothing can be appended to it."""
        return "a file answers in its place"

    @property
    def time_between(self) -> bool:
        """Whether the delay is a time, which the records must tell."""
        return isinstance(self.delay, str)

    def place(self, around: Surroundings) -> Place:
        """Return the file."""
        return Place(os.path.realpath(around.resolve(self.path)), None)

    def problems(self) -> Iterator[tuple[str, str]]:
        """See that the file can be read as often as it is wanted."""
        if self.path == STDIN:
            yield "path", "must be a file, which a restart can read again, and is standard input"
            return
        try:
            file_source(self.path)
        except StreamBoostError as error:
            yield "path", str(error)

    def source(self, around: Surroundings) -> Source:
        """Return what reads the file as it stands."""
        return file_source(around.resolve(self.path), around.text, around.max_bytes)

    def answers(
        self, around: Surroundings, records: Source, outputs: Mapping[str, Output]
    ) -> Source:
        """Return what answers as `outputs` go on."""
        whole = replace(around, max_bytes=_WHOLE)
        asked = outputs[self.listens_to[0]].follower(whole)
        young = None
        if self.delay:
            span = Span.parse(self.delay)
            predictions = outputs["predictions"].follower(whole)
            young = Young(predictions, span.records, span.milliseconds)
        return AnswersOracle(self._known(around), asked, young)

    def tried(self, around: Surroundings) -> str:
        """Say how many answers there are; StreamBoostError where they cannot be read."""
        return f"{self._known(around)}, given for {self.listens_to[0]}"

    def _known(self, around: Surroundings) -> Answers:
        return Answers(around.resolve(self.path), around.answer_fields, around.max_bytes)


CONNECTOR = Connector(labels=AnswersLabels)
