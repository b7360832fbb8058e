"""Loader of pipeline files: one TOML file, validated as a whole.

Text of the form ``${NAME}`` takes the value of the environment variable NAME. Such values are
displayed and stored as ``${NAME}``, never in plain text. Relative paths start at the folder of the
file. All problems of a file are reported at once.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from streamboost.encoders import SentenceEncoders
from streamboost.errors import ConfigurationError
from streamboost.escaping import escape_line
from streamboost.pipelines.config import distributed, toml
from streamboost.pipelines.config.checks import find_contradictions
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    Input,
    LabelFieldNames,
    resolve_path,
)
from streamboost.pipelines.config.connectors.registry import ENDPOINTS
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.config.problems import Problem, convert_pydantic_error
from streamboost.pipelines.config.sections import Sections
from streamboost.pipelines.config.variables import EnvironmentVariables, variable_names

if TYPE_CHECKING:
    from streamboost.pipelines.config.learner import LearnerConfig

Tables = dict[str, dict[str, Any]]

LEARNER = ("committee", "working_set", "schedule", "query")
"""The sections that describe the learner."""

_UNSAID: tuple[tuple[str, str, Any], ...] = (
    ("schema", "fields", {}),
    ("schema", "exclude", []),
    ("schema", "classes", []),
    ("source", "fields", None),
    ("labels", "fields", None),
    ("source", "on_conflict", "last"),
    ("labels", "on_conflict", "last"),
    ("source", "id_from", "field"),
    ("labels", "id_from", "field"),
    *((name, "format", "json") for name in ENDPOINTS),
    ("initial_data", "committee", None),
    ("predictions", "include", []),
    ("predictions", "probabilities", False),
)
"""Keys that are omitted if they have their default: section, key, default."""


@dataclass(frozen=True)
class Config:
    """Validated configuration of a pipeline.

    `sections` are the settings of the pipeline and its connectors. `written` is the complete
    configuration including defaults, with environment values as ``${NAME}``.
    """

    sections: Sections
    _core: "LearnerConfig | None" = field(repr=False)
    folder: Path
    written: Tables = field(repr=False)
    variables: EnvironmentVariables = field(repr=False)

    @property
    def learner_config(self) -> "LearnerConfig":
        """The settings of the learner; AssertionError if the file was loaded without them."""
        assert self._core is not None, "the file was loaded without the learner's sections"
        return self._core

    @property
    def has_learner_config(self) -> bool:
        """Whether the learner's sections were loaded."""
        return self._core is not None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.sections.pipeline.name

    @property
    def state(self) -> Path:
        """The folder of the pipeline's state."""
        return self.resolve_path(self.sections.pipeline.state)

    @property
    def commits_to_kafka(self) -> bool:
        """Whether journal and positions are stored in Kafka, not in the log in the state folder."""
        return self.sections.kafka is not None and self.sections.kafka.transactions

    @property
    def is_distributed(self) -> bool:
        """Whether scoring is distributed: scorers of a consumer group predict, a learner trains."""
        return self.sections.pipeline.scoring == "distributed"

    @property
    def connector_context(self) -> ConnectorContext:
        """The context (paths, limits, [kafka]) with which sections open sources and sinks."""
        return self.sections.connector_context(self.folder)

    @property
    def encoders(self) -> SentenceEncoders:
        """The loader of the fields' sentence encoders."""
        threads = self.sections.pipeline.encoder_threads
        return SentenceEncoders(self.folder, threads or core_count())

    def resolve_path(self, path: str) -> Path:
        """Resolve `path` relative to the folder of the pipeline file."""
        return resolve_path(self.folder, path)

    def mask(self, text: str) -> str:
        """Replace environment values in `text` by ``${NAME}``."""
        return self.variables.mask(text)

    def to_toml(self) -> str:
        """Return the whole configuration, defaults included and secrets masked."""
        return toml.format_sections(self.written)

    def tables_with_defaults(self) -> Tables:
        """Return all sections, with the defaults of missing keys and the values of variables."""
        return _tables_with_defaults(self.sections, self._core)


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load(path: str | os.PathLike[str], *, learner: bool = True) -> Config:
    """Load and validate a pipeline file; ConfigurationError lists all problems of an invalid file.

    Without `learner`, the sections of the learner are skipped. This saves about a second.
    """
    path = Path(path)
    try:
        # Opening a pipe would wait for its writer; a folder is reported below.
        if not path.is_file() and not path.is_dir() and path.exists():
            raise ConfigurationError(f"{path}: is not a regular file; give the pipeline file")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: there is no such file; create a pipeline file with `streamboost init {path}`"
        ) from None
    except IsADirectoryError:
        raise ConfigurationError(f"{path}: is a folder; give the pipeline file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read as text: {error}") from error
    try:
        tables, mended = toml.parse_allowing_unquoted_words(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    if mended:  # without the value, which may be a secret
        raise ConfigurationError(
            _format_problems(
                str(path),
                [
                    f'line {line}: the text that {key} is set to has no quotes: write {key} = "..."'
                    for line, key in mended.items()
                ],
            )
        )
    return parse(tables, path.parent.resolve(), name=str(path), learner=learner)


def parse(
    tables: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "the configuration",
    environment: Mapping[str, str] = os.environ,
    learner: bool = True,
) -> Config:
    """Validate `tables`, the sections of a pipeline file in `folder`; return the configuration.

    `name` is the name of the file in errors. Without `learner`, the sections of the learner are
    skipped. Raises ConfigurationError with all problems.
    """
    problems: list[Problem] = []
    variables = EnvironmentVariables(environment, folder)
    values = {
        section: _substitute_variables(table, section, None, variables, problems)
        for section, table in tables.items()
    }
    values = distributed.add_distributed_defaults(values)
    sections = _validate_sections(values, tables, problems)
    core = _build_learner_settings(values, sections, problems) if learner else None
    if sections is not None:
        problems += find_contradictions(sections, tables, folder)
        problems += distributed.unsupported_settings(sections)
    if sections is None or problems:
        masked = [Problem(p.section, p.key, variables.mask(p.text)) for p in problems]
        raise ConfigurationError(_format_problems(name, masked))
    written = _restore_variable_names(_tables_with_defaults(sections, core), tables)
    return Config(sections, core, folder, written, variables)


def _build_learner_settings(
    values: Mapping[str, Any], sections: Sections | None, problems: list[Problem]
) -> "LearnerConfig | None":
    """Build the settings of the learner; if invalid, return None and append to `problems`."""
    from streamboost.pipelines.config.learner import (
        LearnerConfig,
        build_learner_config,
        check_pool_window,
    )

    tables = {section: values.get(section, {}) for section in LEARNER}
    if not all(isinstance(table, dict) for table in tables.values()):
        return None
    begun = values.get("initial_data", {})
    has_committee = isinstance(begun, dict) and "committee" in begun
    built = build_learner_config(tables, has_initial_committee=has_committee)
    if not isinstance(built, LearnerConfig):
        problems += built
        return None
    if sections is not None:
        problems += check_pool_window(built.query, WindowSize.parse(sections.pipeline.join_window))
        problems += distributed.unsupported_learner_settings(sections, built.settings)
    return built


def _substitute_variables(
    value: Any,
    section: str,
    key: str | None,
    variables: EnvironmentVariables,
    problems: list[Problem],
) -> Any:
    """Replace environment variables, also in nested values; a missing one is a problem."""
    if isinstance(value, dict):
        return {
            name: _substitute_variables(inner, section, name, variables, problems)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_substitute_variables(inner, section, key, variables, problems) for inner in value]
    if not isinstance(value, str):
        return value
    try:
        return variables.substitute(value)
    except KeyError as error:
        text = f"the environment variable {error.args[0]} is not set: set it before starting"
        problems.append(Problem(section, key, text))
        return value


def _validate_sections(
    values: Mapping[str, Any], tables: Mapping[str, Any], problems: list[Problem]
) -> Sections | None:
    try:
        return Sections.model_validate(values)
    except ValidationError as error:
        known = [field.alias or name for name, field in Sections.model_fields.items()]
        for entry in error.errors(include_url=False, include_input=False):
            section, *rest = entry["loc"]
            given = tables.get(str(section))
            model = _section_class(str(section), given)
            if "fields" in rest[:-1] and issubclass(model, Input):
                given, model = tables[str(section)]["fields"], LabelFieldNames
                entry |= {"loc": (f"{section}.fields", rest[-1])}
            for key in rest[-1:]:
                given = given.get(key) if isinstance(given, dict) else None
            if entry["type"] == "union_tag_invalid":
                given = tables[str(section)]["connector"]
            problems.append(convert_pydantic_error(entry, given, known, model))
        return None


def _section_class(section: str, table: Any) -> type[BaseModel]:
    for name, info in Sections.model_fields.items():
        if (info.alias or name) == section:
            for model in (info.annotation, *get_args(info.annotation)):
                if not (isinstance(model, type) and issubclass(model, BaseModel)):
                    continue
                tag = model.model_fields.get("connector")
                connector = table.get("connector") if isinstance(table, dict) else None
                if tag is None or connector in get_args(tag.annotation):
                    return model
    return Sections


def _tables_with_defaults(sections: Sections, core: "LearnerConfig | None") -> Tables:
    """Return all sections, with the default of each missing key.

    Newer keys (`_UNSAID`) are left out if they have their default. Thus the result for a file is
    the same as in older releases.
    """
    tables = sections.model_dump(by_alias=True) | (core.settings if core else {})
    for section, key, nothing in _UNSAID:
        if tables[section].get(key, nothing) == nothing:
            tables[section].pop(key, None)
    return {section: values for section, values in tables.items() if values is not None}


def _restore_variable_names(resolved: Tables, tables: Mapping[str, Any]) -> Tables:
    """Return the sections `resolved` with ``${NAME}`` where the file's `tables` have variables."""
    return {
        section: {
            key: tables[section][key] if _has_variable(tables, section, key) else value
            for key, value in values.items()
        }
        for section, values in resolved.items()
    }


def _has_variable(tables: Mapping[str, Any], section: str, key: str) -> bool:
    return bool(variable_names(json.dumps(tables.get(section, {}).get(key, ""))))


def _format_problems(name: str, problems: Sequence[Problem | str]) -> str:
    lines = [escape_line(str(problem)) for problem in dict.fromkeys(problems)]
    if len(lines) == 1:
        return f"{name}: {lines[0]}"
    return f"{name} has {len(lines)} problems:" + "".join(f"\n  {line}" for line in lines)
