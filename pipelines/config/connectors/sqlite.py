"""Sections of the sqlite connector: streams of SQLite logs."""

import os
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from streamboost.connectors.base import Sink, Source
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
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


class SqliteStream(Endpoint):
    """A stream of a SQLite log."""

    connector: Literal["sqlite"]
    stream: Text = Field(description="name of the stream")
    path: Text | None = Field(
        None, description="SQLite file of the stream; default: the log in the state folder"
    )

    def location(self, context: ConnectorContext) -> StreamLocation:
        """Return the location of the messages: the resolved path of the log, and the stream."""
        return StreamLocation(os.path.realpath(self.log_path(context)), self.stream)

    def create_tailing_source(self, context: ConnectorContext) -> Source:
        """Return a source that reads the stream of the log."""
        return SqliteSource(
            self.log_path(context), self.stream, context.max_bytes, context.on_data_loss
        )

    def create_sink(self, context: ConnectorContext) -> Sink:
        """Return a sink that appends messages to the stream of the log."""
        return SqliteSink(self.log_path(context), self.stream)

    def log_path(self, context: ConnectorContext) -> Path:
        """Return the path of the SQLite file: `path`, or the log in the state folder."""
        return context.log if self.path is None else context.resolve_path(self.path).absolute()


class SqliteInput(SqliteStream, Input):
    """A stream of a SQLite log; without `path`, a stream of the log in the state folder."""

    read_only_reason: ClassVar[None] = None

    def create_source(self, context: ConnectorContext) -> Source:
        """Return a source that reads the stream of the log."""
        return self.create_tailing_source(context)


class SqliteOutput(SqliteStream, Output):
    """A stream of a SQLite log.

    Without `path`, the stream is in the log of the state folder, and is written in the pipeline's
    own transactions."""

    def check_access(self, context: ConnectorContext) -> str:
        """Return a text such as "x.db can be written"; raise ConnectorError if it cannot."""
        return check_writable(self.log_path(context))


class SqliteRequestsOutput(SqliteOutput, RequestsSection):
    """[requests]: output of label requests to a SQLite log."""


class SqlitePredictionsOutput(SqliteOutput, PredictionsSection):
    """[predictions]: output of predictions to a SQLite log."""


CONNECTOR = ConnectorSections(
    SqliteInput, SqliteInput, SqliteOutput, SqliteRequestsOutput, SqlitePredictionsOutput
)
