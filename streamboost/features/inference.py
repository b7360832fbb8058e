"""Type inference: infers the field types from a sample of records."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from streamboost.features.features import Features
from streamboost.features.fields import Field
from streamboost.features.paths import (
    first_nested_path,
    flatten,
    is_vector,
    is_within_any,
    path_getter,
)
from streamboost.features.values import (
    FieldSample,
    are_distinct,
    are_increasing,
    count_json_texts,
    have_equal_digit_counts,
    is_uniformly_distributed,
    name_suggests,
)

NEVER = "never has a value"
"""Reason for leaving out a field whose type may be inferred later."""

MANY_WORDS = 3.0
"""Least mean number of words of a text field; shorter text is a category."""

RARE = 2
"""`min_frequency` of a category with many values."""

_ENOUGH = 20
"""Least number of values of a field to decide that it is an identifier, as nearly all differ."""

_SOME = 5
"""Least number of values for this decision if the name of the field suggests an identifier."""


@dataclass(frozen=True, slots=True)
class InferredFields:
    """Result of type inference: the type of each field, and the reason for it.

    Attributes
    ----------
    fields : mapping from the path of each field to learn from to its type, in order of appearance
    reasons : mapping from path to a short reason for the type, or for leaving the field out
    """

    fields: dict[str, Field]
    reasons: dict[str, str]


def infer_fields(
    records: Sequence[Mapping[str, Any]],
    *,
    reserved: Collection[str] = (),
    exclude: Collection[str] = (),
    named: Mapping[str, Field] = MappingProxyType({}),
) -> InferredFields:
    """Infer the type of each field in `records`, with reasons; 200 to 500 records suffice.

    The types are number (also as text, and true and false), time, category, text and vector. Nearly
    unique text and whole numbers are identifiers, and are left out, except for amounts. Whole
    numbers that look like codes are reported.

    Parameters
    ----------
    records : records as parsed from JSON
    reserved : paths with another use, such as the id; they get neither a type nor a reason
    exclude : paths to leave out, with all nested fields; a list of numbers is left out, too, if one
        of its positions is reserved or excluded
    named : mapping from path to the configured type; fields absent from all records are appended

    >>> found = infer_fields([{"id": 1, "amount": 3.5, "note": "so far so good"}], reserved=["id"])
    >>> [(name, field.kind) for name, field in found.fields.items()]
    [('amount', 'number'), ('note', 'text')]
    """
    values: dict[str, list[Any]] = {}
    for record in records:
        for path, value in flatten(record).items():
            values.setdefault(path, []).append(value)
    hidden, left_out = frozenset(reserved), frozenset(exclude)
    fields: dict[str, Field] = {}
    reasons: dict[str, str] = {}
    for path, given in values.items():
        if path in named:
            fields[path], reasons[path] = (
                named[path],
                _named_field_reason(path, named[path], records),
            )
        elif not path:
            reasons[path] = "the field has no name"
        elif is_within_any(path, left_out):
            reasons[path] = "excluded, as the file says"
        elif not is_within_any(path, hidden):
            nested = _count_records_with_nested_fields(path, records, values)
            plain = sum(value is not None for value in given)
            if nested > plain:
                if plain:
                    reasons[path] = (
                        f"an object or a list in {nested} of {nested + plain} records, whose "
                        "fields stand for themselves"
                    )
                continue
            if any(map(is_vector, given)) and (
                inner := first_nested_path(path, (*reserved, *exclude))
            ):
                reasons[path] = f"{inner} in it is no feature: name the other positions to use them"
                continue
            field, reasons[path] = _infer_field(path, given)
            if field is not None:
                fields[path] = field
    for path in [path for path in named if path not in fields]:
        fields[path], reasons[path] = (
            named[path],
            _absent_field_reason(path, named[path], records, values),
        )
    return InferredFields(fields, reasons)


def _count_records_with_nested_fields(
    path: str, records: Sequence[Mapping[str, Any]], seen: Collection[str]
) -> int:
    """Return the number of `records` in which the value at `path` has nested fields.

    `seen` are the paths of all values in the records.
    """
    if not any(other.startswith(f"{path}.") for other in seen):
        return 0
    read = path_getter(path)
    return sum(
        isinstance(value, Mapping | list) and not is_vector(value) for value in map(read, records)
    )


def _named_field_reason(path: str, field: Field, records: Sequence[Mapping[str, Any]]) -> str:
    """Return the reason for the type of a field that the configuration file names.

    The text has the number of values in `records` that do not fit this type.
    """
    # Sentence encoders, which are slow, read every text.
    as_text = Field("text") if field.kind == "text" else field
    features = Features({path: as_text})
    values = [value for value in map(features.values, records) if value[0] not in (None, "")]
    features.encode_arrivals(values)
    n, lost = len(values), features.unreadable[path]
    told = f"; {lost} of {n} values cannot be read as that, and are missing" if lost else ""
    return f"as the file says{told}{_json_hint([value for value, *_ in values])}"


def _absent_field_reason(
    path: str, field: Field, records: Sequence[Mapping[str, Any]], seen: Collection[str]
) -> str:
    read = path_getter(path)
    if not records or any(read(record) is not None for record in records):
        return _named_field_reason(path, field, records)  # for example, a whole list or object
    near = get_close_matches(path, seen, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"as the file says, but none of {len(records)} records has it{hint}"


_Inferred = tuple[Field | None, str]


def _infer_field(path: str, values: Sequence[Any]) -> _Inferred:
    sample = FieldSample.from_values(values)
    if not sample.n:
        return None, NEVER
    if 2 * len(sample.lists) > sample.n:
        return _infer_list_field(path, sample)
    if 2 * sample.plain > sample.n or len(sample.numbers) == sample.n:
        return _infer_from_numbers(path, sample)
    if sample.times >= 0.9 * sample.n:
        return Field("time"), "dates or times (ISO 8601)"
    field, why = _infer_from_texts(path, sample)
    return field, f"{why}{_numeric_text_hint(sample)}{_json_hint(values)}"


def _numeric_text_hint(sample: FieldSample) -> str:
    """Return a hint, as text, if most values of a text field can be read as numbers, else ""."""
    n = sample.plain + sample.written
    if 2 * n <= sample.n:
        return ""
    if n == sample.n:
        return '; name it as "number" if these are amounts'
    return (
        f'; {n} of {sample.n} values are numbers: name it as "number", and the others are missing'
    )


def _json_hint(values: Sequence[Any]) -> str:
    """Return a hint, as text, if the values of a field are JSON text, as in CSV files, else ""."""
    n = count_json_texts(values)
    told = f"; text with JSON inside in {n} of {len(values)} records: write JSON Lines to use it"
    return told if n else ""


def _infer_list_field(path: str, sample: FieldSample) -> _Inferred:
    lengths = {len(value) for value in sample.lists}
    if len(lengths) > 1:
        between = f"{min(lengths)} to {max(lengths)}"
        return None, f"lists of {between} numbers: name a position, such as {path}.0, to use it"
    return Field("vector", size=lengths.pop()), "lists of numbers of one length"


def _infer_from_numbers(path: str, sample: FieldSample) -> _Inferred:
    if sample.booleans == sample.n:
        return Field("number"), "true or false, as 1 and 0"
    written = "numbers"
    if len(sample.numbers) < sample.n:
        written += f"; {sample.n - len(sample.numbers)} of {sample.n} values are not, and missing"
    if sample.leading_zeros:
        return _infer_category_field(sample, "codes: numbers with zeros in front")
    if name_suggests("time", path) and sample.since_1990:
        return Field("time"), "seconds or milliseconds since 1970"
    if sample.whole is None:
        return Field("number"), written
    if fault := _identifier_reason(path, sample):
        return None, f'{fault}: an identifier; name it as "number" to use it'
    if _looks_like_code(path, sample):
        hint = 'they look like codes: name it as "category" if they are'
        return Field("number"), f"whole {written}; {hint}"
    return Field("number"), written


def _identifier_reason(path: str, sample: FieldSample) -> str | None:
    """Return the reason why whole numbers are identifiers; None if they are amounts.

    Amounts may also be nearly unique. The name of the field decides first. Otherwise amounts vary
    in size, whereas identifiers count up, have equal lengths, or are uniform over a range.
    """
    assert sample.whole is not None
    if not are_distinct(sample) or name_suggests("amount", path):
        return None
    if name_suggests("identifier", path):
        return "nearly every whole number differs" if sample.n >= _SOME else None
    if sample.n < _ENOUGH:
        return None
    if are_increasing(sample.whole):
        return "whole numbers that count up"
    if have_equal_digit_counts(sample.whole, 8) or is_uniformly_distributed(sample.whole):
        return "nearly every whole number differs"
    return None


def _looks_like_code(path: str, sample: FieldSample) -> bool:
    assert sample.whole is not None
    if name_suggests("amount", path) or sample.distinct <= 2:
        return False
    return (
        name_suggests("code", path)
        or name_suggests("identifier", path)
        or (not name_suggests("year", path) and have_equal_digit_counts(sample.whole, 4))
    )


def _infer_from_texts(path: str, sample: FieldSample) -> _Inferred:
    many = sample.distinct > 0.2 * sample.n
    if sample.words >= MANY_WORDS and (many or sample.n < _ENOUGH):
        return Field("text"), f"text of {sample.words:.0f} words on average"
    if sample.n >= _ENOUGH and are_distinct(sample):
        told = f"nearly every value differs ({sample.distinct} of {sample.n})"
        return None, f'{told}: an identifier; name it as "category" or "text" to use it'
    if sample.n >= _SOME and sample.distinct > 0.9 * sample.n and name_suggests("identifier", path):
        told = f"called so, and {sample.distinct} of {sample.n} values differ"
        return None, f'{told}: an identifier; name it as "category" to use it'
    if sample.leading_zeros and sample.written == sample.n:
        return _infer_category_field(sample, "codes: numbers with zeros in front")
    return _infer_category_field(sample, "text" if sample.n_texts else "values of several kinds")


def _infer_category_field(sample: FieldSample, kind_of_values: str) -> _Inferred:
    several = "1 value" if sample.distinct == 1 else f"{sample.distinct} values"
    said = f"{kind_of_values}, {several} in {sample.n} records"
    if sample.n >= _ENOUGH and sample.distinct > 0.3 * sample.n:
        return Field("category", min_frequency=RARE), f"{said}: rare ones share a place"
    return Field("category"), said
