"""The connectors a pipeline file can name, and writing to what one of them reads."""

from collections.abc import Mapping
from typing import Any, get_args

from streamboost.connectors.base import Sink
from streamboost.errors import ConfigurationError
from streamboost.pipelines.endpoints import answers, files, kafka, river, sqlite, within
from streamboost.pipelines.endpoints.base import Input, Surroundings

__all__ = [
    "CONNECTORS",
    "ENDPOINTS",
    "OUTPUTS",
    "as_written",
    "feeder",
    "refuse_unwritable",
    "sections_for",
]

OUTPUTS = ("predictions", "requests", "dead_letters")
ENDPOINTS = ("source", "labels", *OUTPUTS)
"""The sections that name where messages lie."""

CONNECTORS = (
    sqlite.CONNECTOR,
    files.CONNECTOR,
    kafka.CONNECTOR,
    river.CONNECTOR,
    answers.CONNECTOR,
    within.CONNECTOR,
)


def sections_for(use: str) -> tuple[Any, ...]:
    """Return the connectors' sections for a `use`, one of the fields of `Connector`."""
    found = (getattr(connector, use) for connector in CONNECTORS)
    return tuple(section for section in found if section is not None)


def as_written(use: str, table: Mapping[str, Any]) -> Any:
    """Return the section for a `use` that `table` writes, unchecked."""
    models = {get_args(m.model_fields["connector"].annotation)[0]: m for m in sections_for(use)}
    return models[table["connector"]].model_construct(**table)


def feeder(section: Input, name: str, around: Surroundings) -> Sink:
    """Return what appends to the source of `section`, which errors call `name`.

    Raises ConfigurationError where nothing can be appended to it while the pipeline reads.
    """
    refuse_unwritable(section, name)
    return section.sink(around)


def refuse_unwritable(section: Input, name: str) -> None:
    """Raise ConfigurationError where nothing can be appended to the source of `section`."""
    format = getattr(section, "format", "json")
    if name == "source" and format != "json":
        raise ConfigurationError(
            f'[{name}] cannot be written to: the schema of its records, in format = "{format}", is '
            "their producers' own: let those write"
        )
    if section.closed is not None:
        raise ConfigurationError(
            f"[{name}] cannot be written to: {section.closed}; use SQLite, Kafka, or a JSON Lines "
            "file with follow = true"
        )
