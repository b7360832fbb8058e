"""Reading a pipeline file: one TOML file, checked as a whole.

Text in the form ``${NAME}`` takes the value of the environment variable NAME. Such values are
shown and stored as ``${NAME}``, never as what they are. Relative paths start at the folder of the
file. All that is wrong with a file is reported at once.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from streamboost.errors import ConfigurationError
from streamboost.escaping import escaped
from streamboost.pipelines.config import apart, toml
from streamboost.pipelines.config.checks import contradictions
from streamboost.pipelines.config.problems import Problem, describe
from streamboost.pipelines.config.sections import Sections
from streamboost.pipelines.config.variables import Variables, names_in
from streamboost.pipelines.endpoints.base import Input, LabelNames, Surroundings, resolve
from streamboost.pipelines.endpoints.registry import ENDPOINTS
from streamboost.pipelines.span import Span

if TYPE_CHECKING:
    from streamboost.pipelines.config.learner import Core

__all__ = ["LEARNER", "Config", "Tables", "load", "parse"]

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
    ("bootstrap", "committee", None),
    ("predictions", "include", []),
    ("predictions", "probabilities", False),
)
"""Keys that are left out where they say nothing, with what they have then."""


@dataclass(frozen=True)
class Config:
    """A pipeline file that was checked.

    `sections` has the connectors' and the pipeline's settings. `written` is the whole, defaults
    included, with environment values as ``${NAME}``.
    """

    sections: Sections
    _core: "Core | None" = field(repr=False)
    folder: Path
    written: Tables = field(repr=False)
    variables: Variables = field(repr=False)

    @property
    def core(self) -> "Core":
        """The learner's parts; not there where the file was not read as a whole."""
        assert self._core is not None, "the file was loaded without the learner's sections"
        return self._core

    @property
    def has_core(self) -> bool:
        """Whether the learner's sections were read, too."""
        return self._core is not None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.sections.pipeline.name

    @property
    def state(self) -> Path:
        """The folder of the pipeline's state."""
        return self.resolve(self.sections.pipeline.state)

    @property
    def commits_to_kafka(self) -> bool:
        """Whether journal and positions are kept in Kafka, not in the state's log."""
        return self.sections.kafka is not None and self.sections.kafka.transactions

    @property
    def scores_apart(self) -> bool:
        """Whether members of a consumer group score, and this pipeline's process learns alone."""
        return self.sections.pipeline.scoring == "apart"

    @property
    def surroundings(self) -> Surroundings:
        """What the sections need to open what they name."""
        return self.sections.surroundings(self.folder)

    def resolve(self, path: str) -> Path:
        """Return `path` as seen from the pipeline file's folder."""
        return resolve(self.folder, path)

    def mask(self, text: str) -> str:
        """Return `text` with the environment's values as ``${NAME}``."""
        return self.variables.mask(text)

    def to_toml(self) -> str:
        """Return the whole configuration, defaults included and secrets masked."""
        return toml.write(self.written)

    def resolved(self) -> Tables:
        """Return every section with its defaults, and with the environment's values."""
        return _resolved(self.sections, self._core)


def load(path: str | os.PathLike[str], *, learner: bool = True) -> Config:
    """Read and check a pipeline file; ConfigurationError says everything that is wrong with it.

    Without `learner`, the sections of the learner are passed over, which takes a second to load.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: there is no such file; `streamboost init {path}` writes one to start from"
        ) from None
    except IsADirectoryError:
        raise ConfigurationError(f"{path}: is a folder; name the pipeline file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read as text: {error}") from error
    try:
        tables, mended = toml.read(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    if mended:  # without the value, which may be a secret
        raise ConfigurationError(
            _report(
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
    """Check `tables`, the content of a pipeline file in `folder` that errors call `name`."""
    problems: list[Problem] = []
    variables = Variables(environment, folder)
    values = {
        section: _substitute(table, section, None, variables, problems)
        for section, table in tables.items()
    }
    values = apart.filled(values)
    sections = _check(values, tables, problems)
    core = _core_of(values, sections, problems) if learner else None
    if sections is not None:
        problems += contradictions(sections, tables, folder)
        problems += apart.refused(sections)
    if sections is None or problems:
        masked = [Problem(p.section, p.key, variables.mask(p.text)) for p in problems]
        raise ConfigurationError(_report(name, masked))
    written = _as_written(_resolved(sections, core), tables)
    return Config(sections, core, folder, written, variables)


def _core_of(
    values: Mapping[str, Any], sections: Sections | None, problems: list[Problem]
) -> "Core | None":
    """Return the learner's parts, or add what is wrong with them to `problems`."""
    from streamboost.pipelines.config.learner import Core, build_core, check_pool

    tables = {section: values.get(section, {}) for section in LEARNER}
    if not all(isinstance(table, dict) for table in tables.values()):
        return None
    begun = values.get("bootstrap", {})
    built = build_core(tables, is_begun=isinstance(begun, dict) and "committee" in begun)
    if not isinstance(built, Core):
        problems += built
        return None
    if sections is not None:
        problems += check_pool(built.query, Span.parse(sections.pipeline.join_window))
        problems += apart.refused_of_learner(sections, built.settings)
    return built


def _substitute(
    value: Any,
    section: str,
    key: str | None,
    variables: Variables,
    problems: list[Problem],
) -> Any:
    """Return `value` with the environment's values in place of their names."""
    if isinstance(value, dict):
        return {
            name: _substitute(inner, section, name, variables, problems)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_substitute(inner, section, key, variables, problems) for inner in value]
    if not isinstance(value, str):
        return value
    try:
        return variables.put_into(value)
    except KeyError as error:
        text = f"the environment variable {error.args[0]} is not set: set it before starting"
        problems.append(Problem(section, key, text))
        return value


def _check(
    values: Mapping[str, Any], tables: Mapping[str, Any], problems: list[Problem]
) -> Sections | None:
    try:
        return Sections.model_validate(values)
    except ValidationError as error:
        known = [field.alias or name for name, field in Sections.model_fields.items()]
        for entry in error.errors(include_url=False, include_input=False):
            section, *rest = entry["loc"]
            given = tables.get(str(section))
            model = _model_of(str(section), given)
            if "fields" in rest[:-1] and issubclass(model, Input):
                given, model = tables[str(section)]["fields"], LabelNames
                entry |= {"loc": (f"{section}.fields", rest[-1])}
            for key in rest[-1:]:
                given = given.get(key) if isinstance(given, dict) else None
            if entry["type"] == "union_tag_invalid":
                given = tables[str(section)]["connector"]
            problems.append(describe(entry, given, known, model))
        return None


def _model_of(section: str, table: Any) -> type[BaseModel]:
    """Return the model whose keys `section` has, which may depend on its connector."""
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


def _resolved(sections: Sections, core: "Core | None") -> Tables:
    """Return every section with its defaults.

    What says something of fields or labels is left out where it says nothing: a file of a release
    that did not know it stays the same.
    """
    tables = sections.model_dump(by_alias=True) | (core.settings if core else {})
    for section, key, nothing in _UNSAID:
        if tables[section].get(key, nothing) == nothing:
            tables[section].pop(key, None)
    return {section: values for section, values in tables.items() if values is not None}


def _as_written(resolved: Tables, tables: Mapping[str, Any]) -> Tables:
    """Return `resolved` with the environment's values as the file has them."""
    return {
        section: {
            key: tables[section][key] if _is_masked(tables, section, key) else value
            for key, value in values.items()
        }
        for section, values in resolved.items()
    }


def _is_masked(tables: Mapping[str, Any], section: str, key: str) -> bool:
    return bool(names_in(json.dumps(tables.get(section, {}).get(key, ""))))


def _report(name: str, problems: Sequence[Problem | str]) -> str:
    lines = [escaped(str(problem)) for problem in dict.fromkeys(problems)]
    if len(lines) == 1:
        return f"{name}: {lines[0]}"
    return f"{name} has {len(lines)} problems:" + "".join(f"\n  {line}" for line in lines)
