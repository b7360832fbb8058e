"""What no section of a pipeline file can know alone: whether they fit each other."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.problems import Problem
from streamboost.pipelines.config.sections import KafkaTopic, RiverInput, RiverOracle, Sections
from streamboost.pipelines.config.variables import names_in

__all__ = ["LOG", "contradictions", "resolve"]

LOG = "log.db"
"""The log's file, within the state folder."""

_SECRET = 'is a secret: write it as "${NAME}" and set the environment variable NAME'
_OUTPUTS = ("predictions", "requests", "dead_letters")


def resolve(folder: Path, path: str) -> Path:
    """Return `path` as seen from `folder`."""
    return folder / os.path.expanduser(path)


def contradictions(sections: Sections, tables: Mapping[str, Any], folder: Path) -> list[Problem]:
    """Return what is wrong with sections that are right one by one; `tables` are as written."""
    return [
        *_check_name(tables),
        *_check_schema(sections),
        *_check_places(sections, folder),
        *_check_copy(sections, folder),
        *_check_oracle(sections),
        *_check_kafka(sections, tables),
        *_check_label_studio(tables),
    ]


def _check_name(tables: Mapping[str, Any]) -> list[Problem]:
    if names_in(tables["pipeline"]["name"]):
        text = "is what the state is found by: write it out, without a variable"
        return [Problem("pipeline", "name", text)]
    return []


def _check_schema(sections: Sections) -> list[Problem]:
    try:
        sections.schema_.build()
    except ConfigurationError as error:
        return [Problem("schema", None, str(error).removeprefix("[schema] "))]
    return []


def _check_places(sections: Sections, folder: Path) -> list[Problem]:
    """See that no stream or file is used twice, and that none is one of the state's own files."""
    state = resolve(folder, sections.pipeline.state)
    log = os.path.realpath(state / LOG)
    taken: list[tuple[str, str | None, str]] = []
    stream: str | None
    problems = []
    for name in ("source", "labels", *_OUTPUTS):
        section = getattr(sections, name)
        if isinstance(section, RiverInput):
            continue
        if isinstance(section, KafkaTopic):
            place, stream = "the Kafka cluster", section.topic
        else:
            path = section.path
            place = log if path is None else os.path.realpath(resolve(folder, path))
            stream = getattr(section, "stream", None)
        for other_place, other_stream, other in taken:
            # A file of lines has no streams: nothing else can be there.
            if place == other_place and (stream == other_stream or None in (stream, other_stream)):
                text = f"this is also the place of [{other}]: give each its own"
                problems.append(Problem(name, None, text))
                break
        taken.append((place, stream, name))
        within = Path(place).is_relative_to(os.path.realpath(state))
        if name in _OUTPUTS and within and (place != log or stream is None):
            text = "lies in the state folder, whose files are the pipeline's own: name another"
            problems.append(Problem(name, "path", text))
    return problems


def _check_copy(sections: Sections, folder: Path) -> list[Problem]:
    """See that copies of checkpoints are not lost with the state folder."""
    copy, state = sections.pipeline.checkpoint_copy, resolve(folder, sections.pipeline.state)
    if copy is None or "://" in copy:
        return []
    place = os.path.realpath(resolve(folder, copy))
    if not Path(place).is_relative_to(os.path.realpath(state)):
        return []
    text = "lies in the state folder, with which it would be lost: name another"
    return [Problem("pipeline", "checkpoint_copy", text)]


def _check_oracle(sections: Sections) -> list[Problem]:
    """See that a dataset that gives labels can read the requests and count the records."""
    if not isinstance(sections.labels, RiverOracle):
        return []
    problems = []
    if sections.requests.connector != "sqlite":
        text = 'must be "sqlite": [labels] "river" reads the requests from a log'
        problems.append(Problem("requests", "connector", text))
    if sections.source.connector in ("files", "kafka"):
        text = (
            f'must not be "river" while [source] is "{sections.source.connector}": its delay '
            "counts records, and the position there counts something else; read the records from "
            '"river" or "sqlite"'
        )
        problems.append(Problem("labels", "connector", text))
    return problems


def _check_kafka(sections: Sections, tables: Mapping[str, Any]) -> list[Problem]:
    """See that a cluster is named where there are topics, and that its options are known."""
    topics = [
        getattr(sections, name).topic
        for name in ("source", "labels", *_OUTPUTS)
        if isinstance(getattr(sections, name), KafkaTopic)
    ]
    if sections.kafka is None:
        text = 'this section is missing; write [kafka] and bootstrap_servers = "host:port"'
        return [Problem("kafka", None, text)] if topics else []
    # The client library is loaded for those alone who use it.
    from streamboost.pipelines.job import topics as kafka

    if not topics:
        return [Problem("kafka", None, 'no section has connector = "kafka": leave this one out')]
    problems = [Problem("kafka", key, text) for key, text in kafka.refused(sections.kafka)]
    if f"{sections.pipeline.name}.journal" in topics:
        text = "is the topic of the pipeline's own journal: name another"
        problems.append(Problem("kafka", None, text))
    for key, value in tables["kafka"].items():
        if key.endswith("password") and not names_in(str(value)):
            problems.append(Problem("kafka", key, _SECRET))
    return problems


def _check_label_studio(tables: Mapping[str, Any]) -> list[Problem]:
    token = tables.get("label_studio", {}).get("token", "")
    return [Problem("label_studio", "token", _SECRET)] if token and not names_in(token) else []
