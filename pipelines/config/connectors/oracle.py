"""Section of the oracle connector, which answers requests with labels from a file after a delay."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator

from streamboost.connectors.base import Source
from streamboost.connectors.files.open import STDIN, file_source
from streamboost.connectors.oracle.oracle import AnswersOracle, DelayedAnswerIds
from streamboost.connectors.oracle.table import OracleLabels
from streamboost.errors import StreamBoostError
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    ConnectorSections,
    Input,
    Output,
    StreamLocation,
    Text,
)
from streamboost.pipelines.config.durations import WindowSize

_WHOLE = 1_000_000_000
"""Maximum message size in bytes, SQLite's limit: messages of the pipeline are read completely."""


def _check_delay(value: Any) -> Any:
    if value != 0 or isinstance(value, bool):
        WindowSize.parse(value)
    return value


class OracleSection(Input):
    """Oracle that answers requests, or labels every record, from a file.

    The file has labelled records or label messages, as JSON Lines, CSV (.csv), either of them
    compressed (.gz), or Parquet (.parquet, .pq).
    """

    connector: Literal["oracle"]
    path: Text = Field(description="file of labelled records")
    answer: Literal["requested", "all"] = Field(
        "requested", description="records whose labels are returned"
    )
    delay: Annotated[Any, PlainValidator(_check_delay)] = Field(
        0,
        description="delay of a label: a number of records, or a span of record time",
    )

    read_only_reason: ClassVar[str] = "its labels come from a file of labelled records"

    @property
    def outputs_read_by_oracle(self) -> tuple[str, ...]:
        """Names of the outputs that the oracle reads.

        Each message of the first output gets a label.
        """
        if self.answer == "all":
            return ("predictions",)
        return ("requests", "predictions") if self.delay else ("requests",)

    @property
    def position_unit(self) -> str:
        """Output whose messages the oracle's positions count: "requests" or "predictions"."""
        return self.outputs_read_by_oracle[0]

    @property
    def is_delay_duration(self) -> bool:
        """Whether the delay is a duration in record time, not a number of records."""
        return isinstance(self.delay, str)

    def location(self, context: ConnectorContext) -> StreamLocation:
        """Return the location of the messages: the resolved path of the file."""
        return StreamLocation(os.path.realpath(context.resolve_path(self.path)), None)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield a problem if the path is standard input, or has an unsupported format."""
        if self.path == STDIN:
            yield "path", "must be a file, not standard input, which a restart cannot read again"
            return
        try:
            file_source(self.path)
        except StreamBoostError as error:
            yield "path", str(error)

    def create_source(self, context: ConnectorContext) -> Source:
        """Return a source of all labels in the file, without waiting for requests."""
        return file_source(context.resolve_path(self.path), context.text, context.max_bytes)

    def create_label_source(
        self, context: ConnectorContext, records: Source, outputs: Mapping[str, Output]
    ) -> Source:
        """Return the oracle: a source with a label for each message of the answered output."""
        whole = replace(context, max_bytes=_WHOLE)
        asked = outputs[self.outputs_read_by_oracle[0]].create_tailing_source(whole)
        young = None
        if self.delay:
            span = WindowSize.parse(self.delay)
            predictions = outputs["predictions"].create_tailing_source(whole)
            young = DelayedAnswerIds(predictions, span.records, span.milliseconds)
        return AnswersOracle(self._open_labels(context), asked, young)

    def oracle_summary(self, context: ConnectorContext) -> str:
        """Return a text with the number of labels in the file; StreamBoostError if unreadable."""
        return f"{self._open_labels(context)}, given for {self.outputs_read_by_oracle[0]}"

    def _open_labels(self, context: ConnectorContext) -> OracleLabels:
        return OracleLabels(
            context.resolve_path(self.path), context.answer_fields, context.max_bytes
        )


CONNECTOR = ConnectorSections(labels=OracleSection)
