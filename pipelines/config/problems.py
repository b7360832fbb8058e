"""What is wrong with a pipeline file, in a person's words."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from streamboost.pipelines.config import toml

__all__ = ["Problem", "describe", "unknown_key"]

_WORDS = {
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "string_type": "must be text, in quotes",
    "string_too_short": "must not be empty",
    "finite_number": "must be a finite number",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "value_error": "{error}",
}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong: where, and what to do about it."""

    section: str
    key: str | None
    text: str

    def __str__(self) -> str:
        place = f"[{self.section}]" if self.key is None else f"[{self.section}] {self.key}"
        return f"{place}: {self.text}"


_KIND_OF = {
    "category": "categorical categories category categoricals categorical_features nominal cat",
    "text": "text texts text_features string strings words",
    "time": "datetime datetimes date dates times timestamp timestamps time_features",
    "number": "number numbers numerical numerics numeric_features boolean booleans bool",
    "vector": "vector vectors embedding embeddings",
}
_INSTEAD = {
    "exclude = {}": "ignore ignored drop dropped skip leave_out excluded excludes without",
    "[labels.fields] label = {}": "target label_field label_name target_field y answer class",
    "id = {}": "id_field key record_id id_name",
    "time = {}": "time_field timestamp_field time_name event_time",
    '[schema.fields], with a line such as amount = "number" for each': "features columns inputs "
    "feature_names feature_columns x",
    '[schema.fields], with a line such as ts = { type = "time", zone = "Europe/Berlin" }': "zone "
    "timezone tz time_zone",
}
"""What keys that people guess would be called in [schema]."""

_DELETED = {("schedule", "at_limit"): "delete it, as a full committee is always retrained"}
"""Keys that existed before, and the remedy."""


def _meant(key: str, given: Any) -> str | None:
    """Return what to write for a guessed `key` of [schema]; None where it is no such guess."""
    key = key.lower()
    for kind, guesses in _KIND_OF.items():
        if key in guesses.split():
            names = given if isinstance(given, list) and given else [given]
            names = [name for name in names if isinstance(name, str)] or ["x"]
            value = {"type": kind, "size": 384} if kind == "vector" else kind
            lines = [f"{toml.key_of(name)} = {toml.render(value)}" for name in names[:3]]
            return "[schema.fields] " + ", ".join(lines + ["..."] * (len(names) > 3))
    for instead, guesses in _INSTEAD.items():
        if key in guesses.split():
            shown = given if isinstance(given, str | list) and given else "x"
            listed = shown if isinstance(shown, list) or "exclude" not in instead else [shown]
            return instead.format(toml.render(listed)) if "{}" in instead else instead
    return None


def unknown_key(section: str, key: str, known: Iterable[str], given: Any = None) -> Problem:
    """Say that `section` has no `key`, and which of the `known` ones was probably meant."""
    if section == "schema" and (meant := _meant(key, given)) is not None:
        return Problem(section, key, f"unknown key; write {meant}")
    if (remedy := _DELETED.get((section, key))) is not None:
        return Problem(section, key, f"this key no longer exists; {remedy}")
    known = sorted(known)
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"its keys are {', '.join(known)}"
    return Problem(section, key, f"unknown key; {hint}")


def unknown_section(section: str, known: Iterable[str]) -> Problem:
    """Say that there is no `section`, and which of the `known` ones was probably meant."""
    known = sorted(known)
    near = get_close_matches(section, known, n=1)
    hint = f"did you mean [{near[0]}]?" if near else f"there are [{'] ['.join(known)}]"
    return Problem(section, None, f"unknown section; {hint}")


def describe(
    error: Mapping[str, Any], given: Any, sections: Iterable[str], model: type[BaseModel]
) -> Problem:
    """Put one of pydantic's errors into words.

    Parameters
    ----------
    error : one entry of `ValidationError.errors()`
    given : the value as the file has it, so that secrets are not shown
    sections : the names of the sections there are
    model : the model of the section the error lies in, which knows its keys
    """
    section, *rest = (str(part) for part in error["loc"])
    key = rest[-1] if rest else None
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden" and key is None:
        return unknown_section(section, sections)
    if kind == "extra_forbidden" and key is not None:
        return unknown_key(section, key, model.model_fields, given)
    if kind == "missing" and key is None:
        return Problem(section, None, "this section is missing")
    if kind == "missing" and key is not None:
        return Problem(section, key, f"missing: {model.model_fields[key].description}")
    if kind == "union_tag_not_found":
        return Problem(section, "connector", "missing: which connector to use")
    if kind == "union_tag_invalid":
        key = "connector"
    if key is None:
        return Problem(section, None, "must be a section with keys")
    text = _WORDS.get(kind, error["msg"]).format(**context)
    return Problem(
        section, key, f"{text}, and is {_as_written(given)}" if given is not None else text
    )


def _as_written(given: Any) -> str:
    """Return a value as a pipeline file has it, as far as TOML knows its kind."""
    try:
        return repr(given) if isinstance(given, str) else toml.render(given)
    except TypeError:
        return str(given)
