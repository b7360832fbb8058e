"""Comparison of the fields of a pipeline file with the schema of an existing state."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streamboost.connectors.messages.schema import Schema
from streamboost.features.fields import Field, as_field
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.config.sections import field_declarations


def added_fields(config: Config, state_schema: Schema) -> dict[str, Field]:
    """Return the fields in the pipeline file that the schema of an existing state lacks."""
    named = config.sections.build_schema().named
    return {name: field for name, field in named.items() if name not in state_schema.features}


def configured_changeable_settings(config: Config, state_schema: Schema) -> dict[str, Any]:
    """Return the pipeline file's settings of labels and predictions that may change.

    Raises ConfigurationError if the classes in the file do not match the label type of
    `state_schema`.
    """
    classes, shown = config.sections.schema_.classes, config.sections.predictions
    told = replace(state_schema, include=shown.include, probabilities=shown.probabilities)
    return replace(told, classes=classes).changeable_settings


def forbidden_field_changes(
    config: Config, state_schema: Schema | None, stored_config: Mapping[str, Any]
) -> list[str]:
    """Return a text for each change of [schema.fields] that an existing state does not allow.

    `state_schema` is None before the first records. `stored_config` is the stored configuration of
    the state, as sections.
    """
    if state_schema is None:
        return []
    changes = []
    named = config.sections.build_schema().named
    if isinstance(state_schema.fields, str):
        if named:
            numbers = "the number fields of the first records"
            changes.append(f"[schema.fields] is new, and this state reads only {numbers}")
        return changes
    before = dict(field_declarations(stored_config.get("schema", {}).get("fields", {})))
    for name, given in before.items():
        if name not in named:
            was = toml.format_value(as_field(name, given).to_config())
            changes.append(f"[schema.fields] {toml.format_key(name)} was {was} and is not set")
    for name, field in named.items():
        held = state_schema.fields.get(name, as_field(name, before.get(name, field)))
        if held != field:
            was, now = toml.format_value(held.to_config()), toml.format_value(field.to_config())
            found = "" if name in before else " (found in the first records)"
            changes.append(f"[schema.fields] {toml.format_key(name)} was {was}{found} and is {now}")
    return changes
