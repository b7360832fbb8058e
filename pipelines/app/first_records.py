"""Schema inference from the first records of a pipeline."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from streamboost.connectors.base import Message, Source
from streamboost.connectors.messages.schema import InferredSchema, Schema
from streamboost.errors import DataError
from streamboost.pipelines.app.factories import transform_messages
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.folder import State

__all__ = ["INFERRED_FROM", "infer_schema", "peek_messages"]

_log = logging.getLogger(__name__)

INFERRED_FROM = 500
"""Number of records for schema inference."""

QUIET = 1.0
"""Seconds without a further record after which fewer records are used."""


def peek_messages(source: Source, limit: int = INFERRED_FROM) -> list[Message]:
    """Return up to `limit` next messages of a source, without changing its position."""
    position = source.position()
    messages = source.poll(limit)
    source.seek(position)
    source.release_resources()
    return messages


def infer_schema(
    config: Config, state: State, records: Source, stop: StopToken, *, until_idle: bool
) -> Schema | None:
    """Return the schema with its features; wait for the first records if inference needs them.

    Returns None if no record arrived before the stop request.
    """
    known = state.schema()
    if known is not None:
        return known
    schema = config.sections.build_schema()
    if not schema.has_known_features:
        interval = config.sections.pipeline.poll_interval
        infer = partial(_transform_and_infer, config, schema)
        if (found := _infer_from_first_records(infer, records, stop, interval, until_idle)) is None:
            return None
        schema, sentence = found
        _log.info("%s", sentence)
    state.write_schema(schema)
    return schema


def _transform_and_infer(
    config: Config, schema: Schema, messages: Sequence[Message]
) -> InferredSchema:
    """Apply the transformer, if the pipeline has one, and infer the fields of the records."""
    return schema.infer(transform_messages(config, schema, messages))


def _infer_from_first_records(
    infer: Callable[[Sequence[Message]], InferredSchema],
    records: Source,
    stop: StopToken,
    interval: float,
    until_idle: bool,
) -> InferredSchema | None:
    """Call `infer` with `INFERRED_FROM` records, or with fewer after `QUIET` seconds.

    Returns None if no record arrived before the stop request.

    If few messages are there and all are damaged, the function waits for more records. With
    `until_idle`, the available records are used, unless the source is open.
    """
    seen, since = 0, 0.0
    while not stop.requested:
        messages = stop.retry_until_success(partial(peek_messages, records), interval)
        if len(messages) > seen:
            seen, since = len(messages), time.monotonic()
        if until_idle and not records.is_open:
            return infer(messages) if messages else None
        if seen >= INFERRED_FROM:
            return infer(messages)
        if seen and time.monotonic() - since >= QUIET:
            try:
                return infer(messages)
            except DataError as error:
                _log.warning("%s. It is tried again when more records come", error)
                since = math.inf
        stop.wait(interval)
    return None
