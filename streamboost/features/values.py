"""Sample statistics of a field's values, and tests for counters, codes and identifiers."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from streamboost.features.paths import is_vector

_WRITTEN = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)
_PLAIN = re.compile(
    r"""-?(0|[1-9]\d*)([eE][-+]\d{1,3})?                        # whole, as Python writes 1e+20
    |   [-+]?((0|[1-9]\d*)\.\d*|\.\d+)([eE][-+]?\d{1,3})?""",  # with a point
    re.ASCII | re.VERBOSE,
)
"""Pattern of numbers that are unlikely to be codes: `007`, `1e0` and `+49` may be codes."""

_NO_VALUE = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
_IN_FRONT = re.compile(r"0\d+", re.ASCII)
_STEPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_NAMES = {
    "time": "time ts timestamp at date datetime created updated when moment occurred epoch day",
    "identifier": "id ids uid uuid guid key no nr ref reference serial token hash iban account "
    "card phone mobile ssn isbn ean seq sequence row index transaction txn",
    "code": "zip zipcode postcode postal plz code bin mcc sku naics sic card iban phone mobile",
    "amount": "amount price cost total sum balance income salary wage weight size bytes length "
    "duration distance value score count quantity qty volume population area elevation altitude "
    "speed fee tax revenue sales budget debt loan rate ms seconds age width height depth pressure",
    "year": "year yr",
}
_WORDS = {meaning: frozenset(names.split()) for meaning, names in _NAMES.items()}

_LARGEST = 3.4028234663852886e38
"""Largest float32; larger numbers cannot be features."""

_HUGE = 10**30
"""Bound to which whole numbers are clipped, as numbers in JSON may have any length."""

_SINCE = 631_152_000
_UNTIL = 4_102_444_800
"""1990 and 2100, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class FieldSample:
    """Statistics of the values of one field that are neither null nor empty."""

    n: int
    """Number of values."""
    distinct: int
    """Number of distinct values."""
    numbers: list[float]
    """Numbers, including those in text (`is_plain_number`), and true and false."""
    whole: list[int] | None
    """The integers among the values; None if there are fractions or no integers."""
    plain: int
    """Number of numbers that are not text."""
    written: int
    """Number of texts in the notation of a number, such as "1e0" and "007"."""
    leading_zeros: bool
    """Whether more than 2 % of the values are numbers in text with zeros in front."""
    booleans: int
    """Number of booleans."""
    times: int
    """Number of texts in ISO 8601."""
    n_texts: int
    """Number of texts that are no plain number."""
    lists: list[list[float]]
    """The values that are lists of numbers."""
    words: float
    """Mean number of words in a text."""
    since_1990: bool
    """Whether at least 90 % of the numbers would be times between 1990 and 2100."""

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> "FieldSample":
        """Return the statistics of `values`, the field's value in each record of a sample."""
        there = [value for value in values if not _is_missing_value(value)]
        texts = [value.strip() for value in there if isinstance(value, str)]
        written = [text for text in texts if _WRITTEN.fullmatch(text)]
        if written:  # then `nan` is a missing number
            there = [value for value in there if not _is_placeholder_text(value)]
            texts = [text for text in texts if not _is_placeholder_text(text)]
        lists = [value for value in there if is_vector(value)]
        plain = [value for value in there if isinstance(value, int | float)]
        zeros = sum(_IN_FRONT.fullmatch(text) is not None for text in written)
        numbers = [_as_float(value) for value in (*plain, *filter(is_plain_number, written))]
        return cls(
            n=len(there),
            distinct=len({tuple(v) if isinstance(v, list) else v for v in there}),
            numbers=numbers,
            whole=_integers_only(there),
            plain=len(plain),
            written=len(written),
            leading_zeros=zeros > 0.02 * len(there),
            booleans=sum(isinstance(value, bool) for value in there),
            times=sum(map(_is_iso_time, texts)),
            n_texts=len(texts) - sum(map(is_plain_number, written)),
            lists=lists,
            words=sum(len(text.split()) for text in texts) / max(len(texts), 1),
            since_1990=bool(numbers)
            and sum(map(_is_timestamp_since_1990, numbers)) >= 0.9 * len(numbers),
        )


def is_plain_number(text: str) -> bool:
    """Return True if `text` is a number that does not look like a code.

    Leading zeros, an integer with exponent such as `1e0`, and a plus sign look like codes.

    >>> [is_plain_number(text) for text in ("0", "-0.5", "1e-05", "1.5E3", "20260101")]
    [True, True, True, True, True]
    >>> [is_plain_number(text) for text in ("01", "1e0", "+1", "1_000", "1,000", "0x1f", "nan")]
    [False, False, False, False, False, False, False]
    """
    return _PLAIN.fullmatch(text) is not None and abs(float(text)) <= _LARGEST


def count_json_texts(values: Sequence[Any]) -> int:
    """Return the number of `values` that are text with a JSON object or list.

    >>> count_json_texts(['{"a": 1}', "[1, 2]", "[draft]", {"a": 1}])
    2
    """
    return sum(isinstance(value, str) and _is_json_text(value.strip()) for value in values)


def are_distinct(sample: FieldSample) -> bool:
    """Return True if nearly all values are distinct.

    At most 1 % of the values may be repeated. In a few hundred records, even fields with thousands
    of categories have more repetitions.
    """
    return sample.n - sample.distinct <= max(1, 0.01 * sample.n)


def name_suggests(meaning: str, path: str) -> bool:
    """Return True if the last name in `path` suggests `meaning`.

    Meanings are "time", "identifier", "code", "amount" and "year".

    >>> name_suggests("identifier", "customer.cardNo"), name_suggests("time", "createdAt")
    (True, True)
    >>> name_suggests("identifier", "width"), name_suggests("time", "rates")
    (False, False)
    """
    return any(step.lower() in _WORDS[meaning] for step in _STEPS.findall(path.rpartition(".")[2]))


def are_increasing(numbers: Sequence[int]) -> bool:
    """Return True if nearly all numbers are greater than the number of the preceding record."""
    return sum(a < b for a, b in pairwise(numbers)) >= 0.98 * (len(numbers) - 1)


def have_equal_digit_counts(numbers: Sequence[int], min_digits: int) -> bool:
    """Return True if nearly all numbers have an equal number of digits, at least `min_digits`."""
    lengths = [len(str(abs(number))) for number in numbers]
    usual = max(set(lengths), key=lengths.count)
    return usual >= min_digits and lengths.count(usual) >= 0.98 * len(lengths)


def is_uniformly_distributed(numbers: Sequence[int]) -> bool:
    """Return True if numbers are uniformly distributed over a wide range, as random identifiers.

    The test is that of Kolmogorov-Smirnov at the level of 5 % (Kolmogorov 1933).
    """
    ordered, n = sorted(numbers), len(numbers)
    low, high = ordered[0], ordered[-1]
    if high - low < 100 * n:
        return False
    places = [(number - low) / (high - low) for number in ordered]
    furthest = max(max(abs(x - i / n), abs(x - (i + 1) / n)) for i, x in enumerate(places))
    return furthest < 1.36 / math.sqrt(n)


def _is_missing_value(value: object) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _is_placeholder_text(value: object) -> bool:
    return isinstance(value, str) and _NO_VALUE.fullmatch(value.strip()) is not None


def _is_json_text(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _integers_only(values: Sequence[Any]) -> list[int] | None:
    """Return the integers among the values; None if there are fractions, or no integers."""
    found = []
    for value in values:
        if isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value.strip())):
            found.append(max(-_HUGE, min(int(value), _HUGE)))
        elif isinstance(value, float) or (
            isinstance(value, str) and _WRITTEN.fullmatch(value.strip())
        ):
            return None
    return found or None


def _as_float(value: int | float | str) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number in JSON may have any length
        return float("inf")


def _is_timestamp_since_1990(number: float) -> bool:
    return any(_SINCE <= number / unit <= _UNTIL for unit in (1, 1_000))


def _is_iso_time(text: str) -> bool:
    # A date has at least eight characters; digits alone are a number.
    if len(text) < 8 or text.isdecimal():
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
