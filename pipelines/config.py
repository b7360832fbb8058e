"""Reading a pipeline file: one TOML file, checked as a whole.

Text in the form ``${NAME}`` takes the value of the environment variable NAME. Such values are
shown and stored as ``${NAME}``, never as what they are. Relative paths start at the folder of the
file. All that is wrong with a file is reported at once.

Between two runs on the same state these may change: `batch_records`, `batch_labels` and
`poll_interval` of [pipeline], and where [predictions], [requests] and [dead_letters] go. All else
decides what the state means, and a change is refused.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from streamboost.errors import ConfigurationError
from streamboost.pipelines import toml
from streamboost.pipelines.core import SECTIONS, Core, build_core
from streamboost.pipelines.problems import Problem, describe
from streamboost.pipelines.sections import RiverOracle, Sections

__all__ = ["Config", "load", "parse"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CHANGEABLE = {
    "pipeline": {"batch_records", "batch_labels", "poll_interval"},
    "predictions": {"connector", "stream", "path"},
    "requests": {"connector", "stream", "path"},
    "dead_letters": {"connector", "stream", "path"},
}

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Config:
    """A pipeline file that was checked.

    `sections` has the connectors' and the pipeline's settings, `core` the learner's parts.
    `written` is the whole, defaults included, with environment values as ``${NAME}``.
    """

    sections: Sections
    core: Core
    folder: Path
    written: Tables = field(repr=False)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.sections.pipeline.name

    @property
    def state(self) -> Path:
        """The folder of the pipeline's state."""
        return self.resolve(self.sections.pipeline.state)

    def resolve(self, path: str) -> Path:
        """Return `path` as seen from the pipeline file's folder."""
        return self.folder / Path(path).expanduser()

    def to_toml(self) -> str:
        """Return the whole configuration, defaults included and secrets masked."""
        return toml.write(self.written)

    def binding(self) -> Tables:
        """Return the part of the configuration that must not change between runs."""
        return {
            section: {k: v for k, v in values.items() if k not in _CHANGEABLE.get(section, ())}
            for section, values in self.written.items()
        }

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that must not change between runs."""
        return hashlib.sha256(json.dumps(self.binding(), sort_keys=True).encode()).hexdigest()


def load(path: str | os.PathLike[str]) -> Config:
    """Read and check a pipeline file; ConfigurationError says everything that is wrong with it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path}: there is no such file; `streamboost init {path}` writes one to start from"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read as text: {error}") from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from error
    return parse(tables, path.parent.resolve(), name=str(path))


def parse(
    tables: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "the configuration",
    environment: Mapping[str, str] = os.environ,
) -> Config:
    """Check `tables`, the content of a pipeline file in `folder` that errors call `name`."""
    problems: list[Problem] = []
    values = {
        section: _substitute(table, section, None, environment, problems)
        for section, table in tables.items()
    }
    sections = _check(values, tables, problems)
    core_tables = {s: values.get(s, {}) for s in SECTIONS}
    core: Core | None = None
    if all(isinstance(table, dict) for table in core_tables.values()):
        built = build_core(core_tables)
        if isinstance(built, Core):
            core = built
        else:
            problems += [_mask(problem, values, tables) for problem in built]
    if sections is not None:
        problems += [_mask(problem, values, tables) for problem in _check_schema(sections)]
        problems += _check_places(sections)
    if sections is None or core is None or problems:
        raise ConfigurationError(_report(name, problems))
    return Config(sections, core, folder, _as_written(sections, core, tables))


def _substitute(
    value: Any,
    section: str,
    key: str | None,
    environment: Mapping[str, str],
    problems: list[Problem],
) -> Any:
    """Return `value` with the environment's values in place of their names."""
    if isinstance(value, dict):
        return {
            name: _substitute(inner, section, name, environment, problems)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_substitute(inner, section, key, environment, problems) for inner in value]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if name not in environment:
            text = f"the environment variable {name} is not set: set it before starting"
            problems.append(Problem(section, key, text))
    return _VARIABLE.sub(lambda match: environment.get(match[1], match[0]), value)


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
            for key in rest[-1:]:
                given = given.get(key) if isinstance(given, dict) else None
            if entry["type"] == "union_tag_invalid":
                given = tables[str(section)]["connector"]
            model = _model_of(str(section), tables.get(str(section)))
            problems.append(describe(entry, given, known, model))
        return None


def _check_schema(sections: Sections) -> list[Problem]:
    try:
        sections.schema_.build()
    except ConfigurationError as error:
        return [Problem("schema", None, str(error).removeprefix("[schema] "))]
    return []


def _check_places(sections: Sections) -> list[Problem]:
    """See that no output is mixed with another, and that what is read can be."""
    taken: dict[tuple[Any, ...], str] = {}
    problems = []
    for name in ("source", "labels", "predictions", "requests", "dead_letters"):
        section = getattr(sections, name)
        if not hasattr(section, "path"):
            continue
        place = (section.connector, section.path, getattr(section, "stream", None))
        if place in taken:
            text = f"this is also the place of [{taken[place]}]: give each its own"
            problems.append(Problem(name, None, text))
        taken.setdefault(place, name)
    if isinstance(sections.labels, RiverOracle) and sections.requests.connector != "sqlite":
        text = 'must be "sqlite": [labels] "river" reads the requests from a log'
        problems.append(Problem("requests", "connector", text))
    return problems


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


def _leaves(value: Any, original: Any) -> Iterator[tuple[str, str]]:
    """Yield (value, as written) for every text that the environment changed."""
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key], original[key])
    elif isinstance(value, list):
        for inner, written in zip(value, original, strict=True):
            yield from _leaves(inner, written)
    elif value != original:
        yield value, original


def _mask(problem: Problem, values: Mapping[str, Any], tables: Mapping[str, Any]) -> Problem:
    text = problem.text
    for value, written in _leaves(values.get(problem.section), tables.get(problem.section)):
        text = text.replace(value, written)
    return Problem(problem.section, problem.key, text)


def _as_written(sections: Sections, core: Core, tables: Mapping[str, Any]) -> Tables:
    """Return every section with its defaults, and environment values as the file has them."""
    resolved: Tables = sections.model_dump(by_alias=True) | core.settings
    return {
        section: {
            key: tables[section][key] if _is_masked(tables, section, key) else value
            for key, value in values.items()
        }
        for section, values in resolved.items()
    }


def _is_masked(tables: Mapping[str, Any], section: str, key: str) -> bool:
    return _VARIABLE.search(json.dumps(tables.get(section, {}).get(key, ""))) is not None


def _report(name: str, problems: list[Problem]) -> str:
    lines = [str(problem) for problem in dict.fromkeys(problems)]
    if len(lines) == 1:
        return f"{name}: {lines[0]}"
    return f"{name} has {len(lines)} problems:" + "".join(f"\n  {line}" for line in lines)
