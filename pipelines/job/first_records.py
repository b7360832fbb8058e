"""What a pipeline's first records are looked at for: what their fields hold."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from streamboost.connectors.base import Message, Source
from streamboost.connectors.messages.schema import Inferred, Schema
from streamboost.errors import DataError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.job.factories import made_of
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.stop import Stop

__all__ = ["INFERRED_FROM", "first_messages", "settle_schema"]

_log = logging.getLogger(__name__)

INFERRED_FROM = 500
"""Records looked at to find what their fields hold."""

QUIET = 1.0
"""Seconds without a further record after which fewer must do."""


def first_messages(source: Source, most: int = INFERRED_FROM) -> list[Message]:
    """Return what the source begins with, leaving it where it was."""
    position = source.position()
    messages = source.poll(most)
    source.seek(position)
    source.rest()
    return messages


def settle_schema(
    config: Config, state: State, records: Source, stop: Stop, *, until_idle: bool
) -> Schema | None:
    """Return the schema with its features, waiting for the first records if they must be seen.

    None says that no record came before it was time to stop.
    """
    known = state.schema()
    if known is not None:
        return known
    schema = config.sections.build_schema()
    if not schema.resolved:
        interval = config.sections.pipeline.poll_interval
        infer = partial(_infer_made, config, schema)
        if (found := _infer(infer, records, stop, interval, until_idle)) is None:
            return None
        schema, sentence = found
        _log.info("%s", sentence)
    state.keep_schema(schema)
    return schema


def _infer_made(config: Config, schema: Schema, messages: Sequence[Message]) -> Inferred:
    """Find the fields of records, or of what a transformer makes of them."""
    return schema.infer(made_of(config, schema, messages))


def _infer(
    infer: Callable[[Sequence[Message]], Inferred],
    records: Source,
    stop: Stop,
    interval: float,
    until_idle: bool,
) -> Inferred | None:
    """Find the features once enough records are there, or no more come for a while.

    Damaged messages are waited out, unless they are all that enough of them hold. With
    `until_idle`, what is there must do, unless more is on its way.
    """
    seen, since = 0, 0.0
    while not stop.requested:
        messages = stop.patiently(partial(first_messages, records), interval)
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
        stop.rest(interval)
    return None
