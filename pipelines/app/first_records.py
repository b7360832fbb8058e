"""Schema inference from the first records of a pipeline."""

import logging
import math
import time
from collections.abc import Sequence
from functools import partial

from streamboost.connectors.base import Message, Source
from streamboost.connectors.messages.schema import InferredSchema, Schema
from streamboost.errors import DataError
from streamboost.pipelines.app.factories import transform_messages
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.folder import State

_log = logging.getLogger(__name__)

INFERRED_FROM = 500
"""Number of records for schema inference."""

QUIET = 1.0
"""Seconds without a further record after which fewer records are used."""


def peek_messages(source: Source) -> list[Message]:
    """Return up to `INFERRED_FROM` next messages of a source, without changing its position."""
    position = source.position()
    messages = source.poll(INFERRED_FROM)
    source.seek(position)
    source.release_resources()
    return messages


def infer_schema(
    config: Config, state: State, records: Source, stop: StopToken, *, until_idle: bool
) -> Schema | None:
    """Return the schema with its features, from the state, from the file, or inferred from records.

    To infer features, the function waits for the first records. Returns None if no record arrived
    before a stop request or, with `until_idle`, before the end of the source.
    """
    known = state.schema()
    if known is not None:
        return known
    schema = config.sections.build_schema()
    if not schema.has_known_features:
        found = _infer_from_first_records(config, schema, records, stop, until_idle=until_idle)
        if found is None:
            return None
        schema, sentence = found
        _log.info("%s", sentence, extra={"event": "schema_inferred"})
    state.write_schema(schema)
    return schema


def _infer_from_first_records(
    config: Config, schema: Schema, records: Source, stop: StopToken, *, until_idle: bool
) -> InferredSchema | None:
    """Wait for the first records, and return the schema that is inferred from them.

    The function waits for `INFERRED_FROM` records. Fewer are used if no other record arrives for
    `QUIET` seconds, unless all of them are damaged. With `until_idle`, the function does not wait
    for more records of a source that is at its end. Returns None if no record arrived before the
    stop request.
    """

    def infer(messages: Sequence[Message]) -> InferredSchema:
        return schema.infer(transform_messages(config, schema, messages))

    poll_interval = config.sections.pipeline.poll_interval
    seen, since = 0, 0.0
    while not stop.requested:
        messages = stop.retry_until_success(partial(peek_messages, records), poll_interval)
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
                _log.warning(
                    "cannot infer the schema: %s. Inference is retried when more records arrive",
                    error,
                    extra={"event": "schema_inference_failed"},
                )
                since = math.inf
        stop.wait(poll_interval)
    return None
