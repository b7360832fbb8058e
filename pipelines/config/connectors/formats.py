"""Message formats with a schema registry (Avro, JSON Schema), and section [schema_registry].

The registry's client library is imported only if a section uses such a format.
"""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from streamboost.pipelines.config.connectors.base import ConnectorContext, Section, Text

if TYPE_CHECKING:
    from streamboost.connectors.kafka.formats.registry import Registry

Format = Literal["json", "avro", "json-schema"]


def _check_url(value: str) -> str:
    for one in value.split(","):
        if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", one.strip()):
            raise ValueError(
                'must be an address such as "http://localhost:8081", without a user, or several '
                "of one registry, separated by commas"
            )
    return value


class SchemaRegistrySection(Section):
    """[schema_registry]: registry of the schemas of Avro and JSON Schema topics."""

    url: Annotated[Text, AfterValidator(_check_url)] = Field(
        description="URL of the registry's Confluent API"
    )
    username: Text | None = Field(
        None, description="user name of an account with access to the registry"
    )
    password: Text | None = Field(None, description="password of the account, as ${NAME}")
    ca: Text | None = Field(
        None, description="PEM file of trusted certificate authorities, for https"
    )


def open_schema_registry(context: ConnectorContext) -> "Registry":
    """Return the schema registry of [schema_registry]; AssertionError if the section is missing."""
    from streamboost.connectors.kafka.formats.registry import Registry

    section = context.registry
    assert isinstance(section, SchemaRegistrySection)
    ca = None if section.ca is None else str(context.resolve_path(section.ca))
    return Registry(section.url, section.username, section.password, ca)
