"""Finding out what the fields of records hold, by looking at the first of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from streamboost.features.features import Features
from streamboost.features.fields import Field
from streamboost.features.paths import flat, getter, is_vector, lies_in
from streamboost.features.values import (
    Sample,
    differ,
    is_counter,
    is_even,
    json_within,
    named_as,
    of_one_length,
)

__all__ = ["NEVER", "Inference", "infer"]

NEVER = "never has a value"
"""Why a field is left out that may be judged later."""

MANY_WORDS = 3.0
"""Words a value has on average from which on text is read word by word."""

RARE = 2
"""Labels that a value must have had where a category has many of them."""

_ENOUGH = 20
"""Values it takes to say that nearly all differ."""

_SOME = 5
"""The same, where the name of a field says so, too."""


@dataclass(frozen=True, slots=True)
class Inference:
    """What the fields were taken for.

    Attributes
    ----------
    fields : those to learn from by their paths, in order of appearance
    reasons : why each was taken for that, or left out, in a few words; those left out are there too
    """

    fields: dict[str, Field]
    reasons: dict[str, str]


def infer(
    records: Sequence[Mapping[str, Any]],
    *,
    reserved: Collection[str] = (),
    exclude: Collection[str] = (),
    named: Mapping[str, Field] = MappingProxyType({}),
) -> Inference:
    """Say of every field in `records` what it holds, and why; 200 to 500 of them are enough.

    Numbers (also as text, and true and false), times, categories, texts and lists of numbers are
    told apart. Nearly unique text and whole numbers are taken for identifiers and left out, amounts
    never; whole numbers that look like codes are pointed out.

    Parameters
    ----------
    records : as JSON gives them
    reserved : paths that mean something else, such as the id: passed over in silence
    exclude : paths to leave out, with all that lies within
    named : what is known beforehand, in the order to have it where no record shows it

    >>> found = infer([{"id": 1, "amount": 3.5, "note": "so far so good"}], reserved=["id"])
    >>> [(name, field.kind) for name, field in found.fields.items()]
    [('amount', 'number'), ('note', 'text')]
    """
    values: dict[str, list[Any]] = {}
    for record in records:
        for path, value in flat(record).items():
            values.setdefault(path, []).append(value)
    hidden, left_out = frozenset(reserved), frozenset(exclude)
    fields: dict[str, Field] = {}
    reasons: dict[str, str] = {}
    for path, given in values.items():
        if path in named:
            fields[path], reasons[path] = named[path], _as_named(path, named[path], records)
        elif lies_in(path, left_out):
            reasons[path] = "excluded, as the file says"
        elif not lies_in(path, hidden):
            nested = _nested(path, records, values)
            plain = sum(value is not None for value in given)
            if nested > plain:
                if plain:
                    reasons[path] = (
                        f"an object or a list in {nested} of {nested + plain} records, whose "
                        "fields stand for themselves"
                    )
                continue
            field, reasons[path] = _judged(path, given)
            if field is not None:
                fields[path] = field
    for path in [path for path in named if path not in fields]:
        fields[path], reasons[path] = named[path], _unseen(path, named[path], records, values)
    return Inference(fields, reasons)


def _nested(path: str, records: Sequence[Mapping[str, Any]], seen: Collection[str]) -> int:
    """Return in how many of `records` other fields lie within what stands at `path`."""
    if not any(other.startswith(f"{path}.") for other in seen):
        return 0
    read = getter(path)
    return sum(
        isinstance(value, Mapping | list) and not is_vector(value) for value in map(read, records)
    )


def _as_named(path: str, field: Field, records: Sequence[Mapping[str, Any]]) -> str:
    """Say of a named field how many of its values are of another kind."""
    features = Features({path: field})
    values = [value for value in map(features.values, records) if value[0] not in (None, "")]
    features.arrive(values)
    n, lost = len(values), features.unreadable[path]
    told = f"; {lost} of {n} values cannot be read as that, and are missing" if lost else ""
    return f"as the file says{told}{_json([value for value, *_ in values])}"


def _unseen(
    path: str, field: Field, records: Sequence[Mapping[str, Any]], seen: Collection[str]
) -> str:
    read = getter(path)
    if not records or any(read(record) is not None for record in records):
        return _as_named(path, field, records)  # a whole list or object, say
    near = get_close_matches(path, seen, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"as the file says, but none of {len(records)} records has it{hint}"


_Verdict = tuple[Field | None, str]


def _judged(path: str, values: Sequence[Any]) -> _Verdict:
    sample = Sample.of(values)
    if not sample.n:
        return None, NEVER
    if 2 * len(sample.lists) > sample.n:
        return _lists(path, sample)
    if 2 * sample.plain > sample.n or len(sample.numbers) == sample.n:
        return _numbers(path, sample)
    if sample.times >= 0.9 * sample.n:
        return Field("time"), "dates or times (ISO 8601)"
    field, why = _texts(path, sample)
    return field, f"{why}{_rather_numbers(sample)}{_json(values)}"


def _rather_numbers(sample: Sample) -> str:
    """Return a hint for a field of which most values can be read as numbers."""
    n = sample.plain + sample.written
    if 2 * n <= sample.n:
        return ""
    if n == sample.n:
        return '; name it as "number" if these are amounts'
    return (
        f'; {n} of {sample.n} values are numbers: name it as "number", and the others are missing'
    )


def _json(values: Sequence[Any]) -> str:
    """Return a hint for a field whose text holds JSON, as a cell of a CSV file may."""
    n = json_within(values)
    told = f"; text with JSON inside in {n} of {len(values)} records: write JSON Lines to use it"
    return told if n else ""


def _lists(path: str, sample: Sample) -> _Verdict:
    lengths = {len(value) for value in sample.lists}
    if len(lengths) > 1:
        between = f"{min(lengths)} to {max(lengths)}"
        return None, f"lists of {between} numbers: name a position, such as {path}.0, to use it"
    return Field("vector", size=lengths.pop()), "lists of numbers of one length"


def _numbers(path: str, sample: Sample) -> _Verdict:
    if sample.booleans == sample.n:
        return Field("number"), "true or false, as 1 and 0"
    written = "numbers"
    if len(sample.numbers) < sample.n:
        written += f"; {sample.n - len(sample.numbers)} of {sample.n} values are not, and missing"
    if sample.leading_zeros:
        return _category(sample, "codes: numbers with zeros in front")
    if named_as("time", path) and sample.since_1990:
        return Field("time"), "seconds or milliseconds since 1970"
    if sample.whole is None:
        return Field("number"), written
    if fault := _identifier(path, sample):
        return None, f'{fault}: an identifier; name it as "number" to use it'
    if _is_code(path, sample):
        hint = 'they look like codes: name it as "category" if they are'
        return Field("number"), f"whole {written}; {hint}"
    return Field("number"), written


def _identifier(path: str, sample: Sample) -> str | None:
    """Return why whole numbers name records, or None where they measure something.

    Whole amounts differ, too: what tells them apart is their name, else that amounts come small
    and large, where identifiers count up, are all as long, or lie evenly over a range.
    """
    assert sample.whole is not None
    if not differ(sample) or named_as("amount", path):
        return None
    if named_as("identifier", path):
        return "nearly every whole number differs" if sample.n >= _SOME else None
    if sample.n < _ENOUGH:
        return None
    if is_counter(sample.whole):
        return "whole numbers that count up"
    if of_one_length(sample.whole, 8) or is_even(sample.whole):
        return "nearly every whole number differs"
    return None


def _is_code(path: str, sample: Sample) -> bool:
    assert sample.whole is not None
    if named_as("amount", path) or sample.distinct <= 2:
        return False
    return (
        named_as("code", path)
        or named_as("identifier", path)
        or (not named_as("year", path) and of_one_length(sample.whole, 4))
    )


def _texts(path: str, sample: Sample) -> _Verdict:
    many = sample.distinct > 0.2 * sample.n
    if sample.words >= MANY_WORDS and (many or sample.n < _ENOUGH):
        return Field("text"), f"text of {sample.words:.0f} words on average"
    if sample.n >= _ENOUGH and differ(sample):
        told = f"nearly every value differs ({sample.distinct} of {sample.n})"
        return None, f'{told}: an identifier; name it as "category" or "text" to use it'
    if sample.n >= _SOME and sample.distinct > 0.9 * sample.n and named_as("identifier", path):
        told = f"called so, and {sample.distinct} of {sample.n} values differ"
        return None, f'{told}: an identifier; name it as "category" to use it'
    if sample.leading_zeros and sample.written == sample.n:
        return _category(sample, "codes: numbers with zeros in front")
    return _category(sample, "text" if sample.texts else "values of several kinds")


def _category(sample: Sample, what: str) -> _Verdict:
    several = "1 value" if sample.distinct == 1 else f"{sample.distinct} values"
    said = f"{what}, {several} in {sample.n} records"
    if sample.n >= _ENOUGH and sample.distinct > 0.3 * sample.n:
        return Field("category", min_frequency=RARE), f"{said}: rare ones share a place"
    return Field("category"), said
