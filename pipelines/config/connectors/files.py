"""Sections of the files connector: JSON Lines, CSV and Parquet."""

import os
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.files.json_lines_sink import JsonLinesSink
from streamboost.connectors.files.open import (
    STDIN,
    file_source,
    is_compressed,
    is_json_lines,
    is_parquet,
    position_unit,
)
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    ConnectorSections,
    Endpoint,
    Input,
    Output,
    PredictionsSection,
    RequestsSection,
    StreamLocation,
    Text,
    check_writable,
)


class FileEndpoint(Endpoint):
    """Base class of sections that name a file."""

    connector: Literal["files"]
    path: Text

    def location(self, context: ConnectorContext) -> StreamLocation:
        """Return the location of the messages: the resolved path of the file."""
        return StreamLocation(os.path.realpath(context.resolve_path(self.path)), None)

    def create_tailing_source(self, context: ConnectorContext) -> Source:
        """Return a source that also reads lines appended later, by other processes."""
        return file_source(context.resolve_path(self.path), follow=True)

    def create_sink(self, context: ConnectorContext) -> Sink:
        """Return a sink that appends lines to the file."""
        return JsonLinesSink(context.resolve_path(self.path))


class FilesInput(FileEndpoint, Input):
    """A file of JSON Lines, CSV (.csv) or Parquet (.parquet, .pq); "-" is standard input.

    The first two may be compressed (.jsonl.gz, .csv.gz).
    """

    path: Text = Field(description="file to read")
    follow: bool = Field(False, description="whether the file still grows")

    changeable = frozenset({"follow"})

    @property
    def position_unit(self) -> str:
        """Unit of the source's positions: "lines" of standard input, Parquet "rows", or "bytes"."""
        return position_unit(self.path)

    @property
    def read_only_reason(self) -> str | None:
        """Reason why no line can be appended to the file; None: lines can be appended."""
        if self.path == STDIN:
            return "only the pipeline's own process reads its standard input"
        if not is_json_lines(self.path) or is_compressed(self.path):
            return "only files of plain JSON Lines can be appended to"
        return None if self.follow else "its file is complete (follow = false)"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield a problem if `follow` is set for a file to which nothing can be appended."""
        if is_parquet(self.path) and is_compressed(self.path):
            yield "path", "a Parquet file is compressed internally: unpack the .gz file"
        elif self.follow and (is_parquet(self.path) or is_compressed(self.path)):
            kind = "Parquet" if is_parquet(self.path) else "compressed"
            text = f"a {kind} file cannot grow: delete this key"
            yield "follow", text

    def create_source(self, context: ConnectorContext) -> Source:
        """Return a source of the file. In CSV and Parquet, ids and text labels are read as text."""
        path = self.path if self.path == STDIN else context.resolve_path(self.path)
        return file_source(
            path, context.text, context.max_bytes, self.follow, on_data_loss=context.on_data_loss
        )


class FilesOutput(FileEndpoint, Output):
    """A JSON Lines file that is appended to."""

    path: Text = Field(description="file to append to")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield a problem if the path is standard input or compressed."""
        if self.path == STDIN:
            yield "path", 'must be a file, not "-"'
        elif is_compressed(self.path):
            yield "path", "must not end in .gz, as lines are appended without compression"

    def check_access(self, context: ConnectorContext) -> str:
        """Return a text such as "x.jsonl can be written"; raise ConnectorError if it cannot."""
        return check_writable(context.resolve_path(self.path))


class FilesRequestsOutput(FilesOutput, RequestsSection):
    """[requests]: output of label requests to a JSON Lines file."""


class FilesPredictionsOutput(FilesOutput, PredictionsSection):
    """[predictions]: output of predictions to a JSON Lines file."""


CONNECTOR = ConnectorSections(
    FilesInput, FilesInput, FilesOutput, FilesRequestsOutput, FilesPredictionsOutput
)
