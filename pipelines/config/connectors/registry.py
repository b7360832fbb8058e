"""Registry of connectors, and sinks that append to the inputs of a pipeline."""

from collections.abc import Mapping
from typing import Any, get_args

from streamboost.connectors.base import Sink
from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.connectors import files, inline, kafka, oracle, river, sqlite
from streamboost.pipelines.config.connectors.base import ConnectorContext, Input

OUTPUTS = ("predictions", "requests", "dead_letters")
ENDPOINTS = ("source", "labels", *OUTPUTS)
"""Names of the sections with a connector."""

CONNECTORS = (
    sqlite.CONNECTOR,
    files.CONNECTOR,
    kafka.CONNECTOR,
    river.CONNECTOR,
    oracle.CONNECTOR,
    inline.CONNECTOR,
)


def section_classes(role: str) -> tuple[Any, ...]:
    """Return the section classes of all connectors for a role, a field of `ConnectorSections`.

    Roles are "input", "labels", "output", "predictions" and "requests".
    """
    found = (getattr(connector, role) for connector in CONNECTORS)
    return tuple(section for section in found if section is not None)


def build_unvalidated_section(role: str, table: Mapping[str, Any]) -> Any:
    """Return the section object of a TOML table for a role such as "input", unvalidated."""
    models = {get_args(m.model_fields["connector"].annotation)[0]: m for m in section_classes(role)}
    return models[table["connector"]].model_construct(**table)


def open_append_sink(section: Input, name: str, context: ConnectorContext) -> Sink:
    """Return a sink that appends to the input of `section`; `name` is its name in errors.

    Raises ConfigurationError if no message can be appended while the pipeline reads.
    """
    refuse_unwritable_input(section, name)
    return section.create_sink(context)


def refuse_unwritable_input(section: Input, name: str) -> None:
    """Raise ConfigurationError if no message can be appended to the input of `section`."""
    format = getattr(section, "format", "json")
    if name == "source" and format != "json":
        raise ConfigurationError(
            f'[{name}] cannot be written to: format = "{format}" needs the record schema of the '
            "producers. Write records with these producers"
        )
    if section.read_only_reason is not None:
        raise ConfigurationError(
            f"[{name}] cannot be written to: {section.read_only_reason}; use SQLite, Kafka, "
            "or a JSON Lines file with follow = true"
        )
