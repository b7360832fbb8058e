"""Sentence encoders of a pipeline's text fields: their files, and a measurement of their speed."""

import time
from collections.abc import Mapping, Sequence

from streamboost.connectors.base import Message
from streamboost.connectors.messages.schema import Schema
from streamboost.features import Features
from streamboost.features.fields import Field
from streamboost.features.layout import Values
from streamboost.pipelines.app.factories import transform_messages
from streamboost.pipelines.config.field_changes import added_fields
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.runner.replay import ENCODER

_CHUNK = 8
"""Number of records between two readings of the clock."""

_PATIENCE = 1.0
"""Seconds after which a measurement ends."""


def encoder_fields(config: Config, schema: Schema) -> dict[str, list[str]]:
    """Return a mapping from each sentence encoder's name to the fields that use this encoder.

    The fields are those of `schema`, and those that the pipeline file adds.
    """
    known: Mapping[str, Field] = {} if isinstance(schema.fields, str) else schema.fields
    added = added_fields(config, schema) if schema.has_known_features else schema.named
    found: dict[str, list[str]] = {}
    for name, field in {**known, **added}.items():
        if field.encoder is not None:
            found.setdefault(field.encoder, []).append(name)
    return found


def encoder_digests(config: Config, schema: Schema) -> dict[str, str]:
    """Map each sentence encoder's name, with the prefix ENCODER, to the SHA-256 of its files."""
    found = {name: config.encoders.load(name).digest for name in encoder_fields(config, schema)}
    return {f"{ENCODER}{name}": digest for name, digest in found.items() if digest is not None}


def describe_encoders(config: Config, schema: Schema, messages: Sequence[Message]) -> str:
    """Return a text with the size, speed and SHA-256 of each sentence encoder.

    The speed is measured with the texts of `messages`, the first records, for about one second.
    Raises ConfigurationError if an encoder cannot be loaded, or fails on a text.
    """
    made = transform_messages(config, schema, messages) if schema.has_known_features else []
    values = schema.decode(made).records.values or []
    descriptions = []
    for name, fields in encoder_fields(config, schema).items():
        encoder = config.encoders.load(name)
        places = [schema.features.index(field) for field in fields if field in schema.features]
        rows = dict.fromkeys(
            tuple([one[place] if isinstance(one[place], str) else "" for place in places])
            for one in values
        )
        features = Features(
            {place: Field("text", encoder=name, text=False) for place in places},
            encoders=config.encoders,
        )
        digest = "" if encoder.digest is None else f", SHA-256 {encoder.digest}"
        descriptions.append(
            f"{name} for {', '.join(fields)}: {encoder.size} numbers, "
            f"{_measure_speed(features, [row for row in rows if any(row)])}{digest}"
        )
    return "; ".join(descriptions)


def _measure_speed(features: Features, rows: Sequence[Values]) -> str:
    """Return a text with the number of records a second; a row has the texts of a record."""
    n, start = 0, time.perf_counter()
    while n < len(rows) and time.perf_counter() - start < _PATIENCE:
        n += len(features.encode(rows[n : n + _CHUNK]))
    seconds = time.perf_counter() - start
    return f"{n / seconds:,.0f} records a second" if n else "speed not measured without texts"
