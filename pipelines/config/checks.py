"""Validation across the sections of a pipeline file."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamboost.connectors.files.open import STDIN
from streamboost.errors import ConfigurationError
from streamboost.features.fields import as_field
from streamboost.pipelines.config.connectors.base import ConnectorContext, StreamLocation
from streamboost.pipelines.config.connectors.kafka import KafkaTopic
from streamboost.pipelines.config.connectors.oracle import OracleSection
from streamboost.pipelines.config.connectors.registry import ENDPOINTS, OUTPUTS
from streamboost.pipelines.config.problems import Problem
from streamboost.pipelines.config.sections import Sections
from streamboost.pipelines.config.variables import variable_names

_KEY_BYTES = 24
"""Minimum length of the key of [notify], by Standard Webhooks."""

_SECRETS = {
    "schema_registry": ("password",),
    "label_studio": ("token",),
    "notify": ("url", "secret"),
}
"""Keys of secrets; the address of a webhook is one, as it permits to post to its channel."""


def find_contradictions(
    sections: Sections, tables: Mapping[str, Any], folder: Path
) -> list[Problem]:
    """Return the problems of sections that are each valid, but do not fit together.

    `tables` are the sections as written in the file, before environment variables are substituted.
    """
    context = sections.connector_context(folder)
    return [
        *_check_pipeline_name(tables),
        *_check_schema_and_label_fields(sections),
        *_check_endpoint_locations(sections, context),
        *_check_location_of_checkpoint_copies(sections, context),
        *_check_retention_of_journal(sections),
        *_check_oracle_inputs_and_delay(sections),
        *_check_kafka_topics_and_options(sections),
        *_check_message_formats(sections),
        *_check_secrets(tables),
        *_check_notifications(sections),
        *_check_decision_parameters(sections),
        *_check_settings_of_external_models(sections, tables.get("query", {})),
        *_check_connector_sections(sections),
        *_check_initial_data(sections, context),
        *_check_monitor_encryption(sections),
    ]


def _check_monitor_encryption(sections: Sections) -> list[Problem]:
    section = sections.monitor
    if (section.certificate is None) != (section.key is None):
        return [Problem("monitor", "certificate", "needs key, and key needs it: set both or none")]
    is_open = section.certificate is None and not section.allow_insecure_http
    if is_open and section.host not in ("127.0.0.1", "::1", "localhost"):
        text = (
            f"other machines can reach {section.host}, and could read the token of /metrics "
            "without https: set certificate and key, or allow_insecure_http = true if the network "
            "is protected in another way"
        )
        return [Problem("monitor", "host", text)]
    return []


def _check_pipeline_name(tables: Mapping[str, Any]) -> list[Problem]:
    if variable_names(tables["pipeline"]["name"]):
        text = "must not depend on a variable, as the name identifies the state: write the name"
        return [Problem("pipeline", "name", text)]
    return []


def _check_schema_and_label_fields(sections: Sections) -> list[Problem]:
    problems = []
    for name, given in sections.schema_.declared_fields.items():
        try:
            as_field(name, given)
        except ConfigurationError as error:
            text = str(error).removeprefix(f"field {name!r}: ")
            problems.append(Problem("schema.fields", name, text))
    if sections.source.fields is not None:
        text = "is for labels: declare the fields of records in [schema.fields]"
        problems.append(Problem("source", "fields", text))
    if sections.source.on_conflict != "last":
        problems.append(Problem("source", "on_conflict", "is for labels: put it under [labels]"))
    if getattr(sections.labels, "id_from", "field") != "field":
        text = "is for records: delete it, as a label message names its record in a field"
        problems.append(Problem("labels", "id_from", text))
    try:
        sections.build_schema()
    except ConfigurationError as error:
        section, _, text = str(error).partition("] ")
        section = section.removeprefix("[")
        problems += [] if problems else [Problem(section, None, text)]
    return problems


def _check_endpoint_locations(sections: Sections, context: ConnectorContext) -> list[Problem]:
    """Return a problem for each section whose location another section has, or is a state file."""
    state, log = (os.path.realpath(path) for path in (context.log.parent, context.log))
    taken: list[tuple[StreamLocation, str]] = []
    problems = []
    for name in ENDPOINTS:
        place = getattr(sections, name).location(context)
        if place is None:
            continue
        other = next((other for there, other in taken if place.overlaps(there)), None)
        # A file of labelled records may be both the source of records and the oracle.
        if other is not None and not (name == "labels" and sections.labels.outputs_read_by_oracle):
            text = f"has the same location as [{other}]: set a separate location for each"
            if (name, other, sections.source.connector) == ("labels", "source", "files"):
                text += ', or let the records answer requests: connector = "oracle"'
            problems.append(Problem(name, None, text))
        taken.append((place, name))
        is_ours = Path(place.system).is_relative_to(state)
        if name in OUTPUTS and is_ours and (place.system != log or place.stream is None):
            text = "is in the state folder, which is reserved for the pipeline: set another path"
            problems.append(Problem(name, "path", text))
    return problems


def _check_location_of_checkpoint_copies(
    sections: Sections, context: ConnectorContext
) -> list[Problem]:
    copy = sections.pipeline.checkpoint_copy
    if copy is None or "://" in copy:
        return []
    place = os.path.realpath(context.resolve_path(copy))
    if not Path(place).is_relative_to(os.path.realpath(context.log.parent)):
        return []
    text = "is in the state folder, and would be lost with it: set another folder"
    return [Problem("pipeline", "checkpoint_copy", text)]


def _check_retention_of_journal(sections: Sections) -> list[Problem]:
    is_in_kafka = sections.kafka is not None and sections.kafka.transactions
    if not is_in_kafka or not isinstance(sections.pipeline.retention, int):
        return []
    text = 'must be a time if the journal is in Kafka: set a time such as "30d"'
    return [Problem("pipeline", "retention", text)]


def _check_oracle_inputs_and_delay(sections: Sections) -> list[Problem]:
    labels = sections.labels
    problems = [
        Problem(
            name,
            "connector",
            f'must be "sqlite": [labels] "{labels.connector}" reads the {name} from a log',
        )
        for name in labels.outputs_read_by_oracle
        if getattr(sections, name).connector != "sqlite"
    ]
    if isinstance(labels, OracleSection):
        problems += [
            Problem("labels", "delay", text) for text in _check_oracle_delay(sections, labels)
        ]
    elif labels.outputs_read_by_oracle and sections.source.position_unit is not None:
        text = (
            f'must not be "river" if [source] is "{sections.source.connector}": its delay counts '
            "records, but positions of this source are not numbers of records. Read the records "
            'from "river" or "sqlite"'
        )
        problems.append(Problem("labels", "connector", text))
    return problems


def _check_oracle_delay(sections: Sections, labels: OracleSection) -> Iterator[str]:
    """Yield a text if the oracle's delay cannot be measured, or its labels come too late."""
    if labels.is_delay_duration and sections.schema_.time is None:
        yield (
            f"is the duration {labels.delay!r}, which needs the time of each record: set [schema] "
            "time to the time field, or set delay to a number of records"
        )
    key, waits = "[pipeline] join_window", sections.pipeline.join_window
    if labels.answer == "requested":
        key, waits = "[requests] expires_after", sections.requests.expires_after
    if isinstance(waits, int) and isinstance(labels.delay, int) and labels.delay >= waits:
        yield (
            f"is {labels.delay} records, so every label arrives after {key} ({waits} records) has "
            f"ended: set {key} to more than {labels.delay}"
        )


def _check_kafka_topics_and_options(sections: Sections) -> list[Problem]:
    topics = [
        getattr(sections, name).topic
        for name in ENDPOINTS
        if isinstance(getattr(sections, name), KafkaTopic)
    ]
    if sections.kafka is None:
        text = 'this section is missing: add [kafka] with bootstrap_servers = "host:port"'
        return [Problem("kafka", None, text)] if topics else []
    if not topics:
        return [Problem("kafka", None, 'no section has connector = "kafka": delete [kafka]')]
    problems = [Problem("kafka", key, text) for key, text in sections.kafka.rejected_options()]
    if f"{sections.pipeline.name}.journal" in topics:
        text = "has an input or output in the topic of the pipeline's journal: set another topic"
        problems.append(Problem("kafka", None, text))
    return problems


def _check_message_formats(sections: Sections) -> Iterator[Problem]:
    found = {name: getattr(getattr(sections, name), "format", "json") for name in ENDPOINTS}
    registry = sections.schema_registry
    if registry is None:
        for name in (name for name, format in found.items() if format != "json"):
            text = "needs a schema registry: add [schema_registry] with its url"
            yield Problem(name, "format", text)
        return
    if set(found.values()) == {"json"}:
        text = 'no section has format = "avro" or "json-schema": delete [schema_registry]'
        yield Problem("schema_registry", None, text)
    if (registry.username is None) != (registry.password is None):
        text = "needs password, and password needs it: set both or none"
        yield Problem("schema_registry", "username", text)


def _check_secrets(tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each secret that is not the value of an environment variable."""
    for section, table in tables.items():
        keys = _SECRETS.get(section, ())
        for key, value in table.items():
            is_secret = key in keys or (section == "kafka" and key.endswith("password"))
            if is_secret and not variable_names(str(value)):
                text = 'is a secret: write it as "${NAME}" and set the environment variable NAME'
                yield Problem(section, key, text)


def _check_notifications(sections: Sections) -> Iterator[Problem]:
    """Yield a problem for an invalid URL or secret of [notify], without its text."""
    section = sections.notify
    if section is None:
        return
    if not _is_webhook_url(section.url):
        text = "must be an http or https address without a user"
        yield Problem("notify", "url", text)
    if section.key is not None and len(section.key) < _KEY_BYTES:
        text = "must be base64 of at least 24 bytes: create it with `openssl rand -base64 32`"
        yield Problem("notify", "secret", text)


def _is_webhook_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    is_clean = url.isascii() and url.isprintable() and " " not in url
    return is_clean and has_host and parts.scheme in ("http", "https") and "@" not in parts.netloc


def _check_decision_parameters(sections: Sections) -> Iterator[Problem]:
    if not sections.decision_parameters:
        return
    from streamboost.evaluation.decisions import (
        Decisions,
    )  # imported here, as the import takes longer than validating most files

    try:
        Decisions(**sections.decision_parameters)
    except ConfigurationError as error:
        yield Problem("decision", None, str(error))


def _check_settings_of_external_models(
    sections: Sections, query: Mapping[str, Any]
) -> Iterator[Problem]:
    for name in ("model", "shadow_models", "features"):
        if not getattr(sections, name):
            continue
        if sections.schema_.numeric != "auto":
            text = "reads all fields: delete [schema] numeric, or declare [schema.fields] instead"
            yield Problem(name, None, text)
        is_pool = isinstance(query, dict) and query.get("mode") == "pool"
        if is_pool and name != "features":
            yield Problem("query", "mode", f'must be "stream" with [{name}]')
    if (model := sections.model) is not None:
        if (model.river is None) == (model.prediction_field is None):
            yield Problem("model", None, "needs one of river and prediction_field: write one")
        if model.prediction_field is not None and not sections.schema_.classes:
            text = "needs the classes of the labels: list them in [schema] classes"
            yield Problem("model", "prediction_field", text)
        if model.prediction_field in sections.schema_.declared_fields:
            text = "is a feature in [schema.fields]: delete it there, or name another field"
            yield Problem("model", "prediction_field", text)
        if model.prediction_field is not None and sections.decision_parameters:
            text = "is refused with [model] prediction_field: that system decides; leave it out"
            yield Problem("decision", None, text)
        if model.river and isinstance(query, dict) and query.get("strategy") == "vote_entropy":
            text = "needs votes, which a River classifier does not return: set another strategy"
            yield Problem("query", "strategy", text)


def _check_connector_sections(sections: Sections) -> list[Problem]:
    problems = {name: getattr(sections, name).problems() for name in ENDPOINTS}
    return [Problem(name, key, text) for name, found in problems.items() for key, text in found]


def _check_initial_data(sections: Sections, context: ConnectorContext) -> list[Problem]:
    """Return problems if [initial_data] cannot be read again, or an output writes to its file.

    A committee in [initial_data] is also a problem if River models or transformers are configured.
    """
    reasons = {
        "model": "it replaces the committee",
        "features": "its columns are unknown",
    }
    for name, why in reasons.items():
        if sections.initial_data.committee is not None and getattr(sections, name):
            text = f"cannot be combined with River's [{name}], as {why}: delete one of them"
            return [Problem("initial_data", "committee", text)]
    known = sections.initial_data.file_input
    if known is None:
        return []
    if known.path == STDIN:
        text = "must be a file, not standard input, which a replay cannot read again"
        return [Problem("initial_data", "path", text)]
    text = "has the same location as [initial_data]: set a separate location for each"
    places = {name: getattr(sections, name).location(context) for name in OUTPUTS}
    return [
        Problem(name, None, text)
        for name, place in places.items()
        if place is not None and place.overlaps(known.location(context))
    ]
