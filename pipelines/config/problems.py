"""Problems of a pipeline file, with error messages that name a remedy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from streamboost.pipelines.config import toml

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
    """Problem in a pipeline file: section, key, and text with a remedy."""

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
"""Maps the setting of [schema] to write instead (a format string) to frequently guessed names of
this setting."""

_DELETED = {
    ("schedule", "at_limit"): "delete it, as a committee at max_estimators is always retrained"
}
"""Deleted keys, and the remedy."""

_FORMER_SECTIONS = {"bootstrap": "initial_data", "rivals": "shadow_models"}

_FORMER = {
    ("pipeline", "on_gap"): "on_data_loss",
    ("query", "utility"): "strategy",
    ("query", "rule"): "selection",
    ("query", "loan"): "initial_credit",
    ("query", "expected_records"): "stream_length",
    ("query", "round_size"): "query_batch_size",
    ("schedule", "shadow"): "n_evaluation_labels",
    ("labels", "of"): "answer",
    ("monitor", "address"): "host",
    ("monitor", "names"): "allowed_hosts",
    ("monitor", "allow_plain"): "allow_insecure_http",
}
"""Former names of keys."""

_FORMER_VALUES = {
    ("pipeline", "scoring", "here"): "local",
    ("pipeline", "scoring", "apart"): "distributed",
    ("pipeline", "on_data_loss", "stop"): "fail",
    ("query", "selection", "chance"): "probability",
    ("labels", "connector", "answers"): "oracle",
    ("labels", "connector", "records"): "inline",
    ("labels", "answer", "requests"): "requested",
    ("committee", "experts", "words"): "text",
    ("committee", "experts", "sequence"): "transitions",
}
"""Former names of values."""


def renamed_value_hint(section: str, key: str | None, given: Any) -> str:
    """Return the new names of renamed values in `given`, as a suffix of an error text, or "".

    >>> renamed_value_hint("pipeline", "scoring", "apart")
    '; "apart" is now "distributed"'
    """
    values = given if isinstance(given, list) else [given]
    found = [
        f'; "{value}" is now "{_FORMER_VALUES[section, key, value]}"'
        for value in values
        if isinstance(value, str) and key is not None and (section, key, value) in _FORMER_VALUES
    ]
    return "".join(found)


def _suggest_schema_line(key: str, given: Any) -> str | None:
    """Return the line to write instead of an unknown `key` of [schema]; None: no suggestion."""
    key = key.lower()
    for kind, guesses in _KIND_OF.items():
        if key in guesses.split():
            names = given if isinstance(given, list) and given else [given]
            names = [name for name in names if isinstance(name, str)] or ["x"]
            value = {"type": kind, "size": 384} if kind == "vector" else kind
            lines = [f"{toml.format_key(name)} = {toml.format_value(value)}" for name in names[:3]]
            return "[schema.fields] " + ", ".join(lines + ["..."] * (len(names) > 3))
    for instead, guesses in _INSTEAD.items():
        if key in guesses.split():
            shown = given if isinstance(given, str | list) and given else "x"
            listed = shown if isinstance(shown, list) or "exclude" not in instead else [shown]
            return instead.format(toml.format_value(listed)) if "{}" in instead else instead
    return None


def unknown_key_problem(section: str, key: str, known: Iterable[str], given: Any = None) -> Problem:
    """Return the problem of an unknown `key`, with the most similar of the `known` keys."""
    if section == "schema" and (meant := _suggest_schema_line(key, given)) is not None:
        return Problem(section, key, f"unknown key; write {meant}")
    if (remedy := _DELETED.get((section, key))) is not None:
        return Problem(section, key, f"this key no longer exists; {remedy}")
    if (name := _FORMER.get((section, key))) is not None:
        return Problem(section, key, f"unknown key; it is now called {name}")
    known = sorted(known)
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"its keys are {', '.join(known)}"
    return Problem(section, key, f"unknown key; {hint}")


def unknown_section_problem(section: str, known: Iterable[str]) -> Problem:
    """Return the problem of an unknown `section`, with the most similar of the `known` ones."""
    if section in _FORMER_SECTIONS:
        return Problem(
            section, None, f"unknown section; it is now called [{_FORMER_SECTIONS[section]}]"
        )
    known = sorted(known)
    near = get_close_matches(section, known, n=1)
    hint = f"did you mean [{near[0]}]?" if near else f"there are [{'] ['.join(known)}]"
    return Problem(section, None, f"unknown section; {hint}")


def convert_pydantic_error(
    error: Mapping[str, Any], given: Any, sections: Iterable[str], model: type[BaseModel]
) -> Problem:
    """Convert a validation error of pydantic to a problem with a remedy.

    Parameters
    ----------
    error : one entry of `ValidationError.errors()`
    given : the value as written in the file, so that secrets are not shown
    sections : the names of all sections
    model : the model class of the section with the error
    """
    section, *rest = (str(part) for part in error["loc"])
    key = rest[-1] if rest else None
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden" and key is None:
        return unknown_section_problem(section, sections)
    if kind == "extra_forbidden" and key is not None:
        return unknown_key_problem(section, key, model.model_fields, given)
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
    if given is not None:
        text = f"{text}, and is {_format_value_as_written(given)}"
    return Problem(section, key, text + renamed_value_hint(section, key, given))


def _format_value_as_written(given: Any) -> str:
    try:
        return repr(given) if isinstance(given, str) else toml.format_value(given)
    except TypeError:
        return str(given)
