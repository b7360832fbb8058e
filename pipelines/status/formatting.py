"""Formats numbers, durations and times as text, equally in commands and on pages."""

import math
import re
import time
from collections.abc import Mapping
from typing import Any

NOTHING = "—"
"""Placeholder for an unknown value."""

COUNTERS = {
    "records": "records predicted",
    "duplicate_ids": "records with the id of a held record (dead letters)",
    "labels": "labels received",
    "answered": "first labels of requested records (learned)",
    "unsolicited": "labels without a request (learned)",
    "early": "labels that arrived before their record",
    "late": "labels that arrived after their record was evicted from the join window (dropped)",
    "expired": "labels that arrived after their request expired (dropped)",
    "duplicate": "further labels of a record with the same value (dropped)",
    "conflicting": "further labels of a record with another value (dropped: the first stays)",
    "corrected": "further labels of a record with another value (replace it, or count as a vote)",
    "retracted": "labels retracted by a null label",
    "unknown": "labels whose record never arrived (dropped)",
    "empty_label": "null labels for records without a label (dropped)",
    "held_records": "records kept to match labels that arrive later",
    "open_requests": "requests that wait for an answer",
    "waiting_labels": "labels that wait for their record",
}
"""Descriptions of the counters of records and labels."""

RECORDS_APART = "requested records received by the learner (scorers predict all)"
"""Description of the counter ``records`` of a learner with distributed scoring."""

UNUSABLE = "rejected messages"

RECORDED = {
    "valid": "evaluated",
    "labels_alone": "of them without probabilities: calibration is left out",
    "missing": "records without a prediction, which counts as an error",
    "malformed": "records with an invalid prediction, which counts as an error",
}
"""Descriptions of the counts of the predictions of another system."""


def gain_text(gain: Mapping[str, float] | None) -> str:
    """Describe a difference in accuracy and its interval in percentage points.

    >>> gain_text({"value": 0.031, "low": 0.01, "high": 0.052})
    '3.1 points better, 1.0 to 5.2'
    """
    if gain is None:
        return NOTHING
    value, low, high = (100.0 * gain[name] for name in ("value", "low", "high"))
    if value < 0.0:
        return f"{-value:.1f} points worse, {-high:.1f} to {-low:.1f}"
    return f"{value:.1f} points better, {low:.1f} to {high:.1f}"


def percent_text(share: float | None) -> str:
    """Format a proportion between 0 and 1 as a percentage; None as a dash.

    >>> percent_text(0.9127), percent_text(None)
    ('91.3 %', '—')
    """
    return NOTHING if share is None else f"{100 * share:.1f} %"


def estimate_text(estimate: Mapping[str, Any] | None) -> str:
    """Format an estimate and its 95 % interval as percentages; None as a dash.

    >>> estimate_text({"value": 0.9127, "low": 0.88, "high": 0.94})
    '91.3 % (88.0 to 94.0)'
    >>> estimate_text(None)
    '—'
    """
    if estimate is None:
        return NOTHING
    low, high = 100 * estimate["low"], 100 * estimate["high"]
    return f"{percent_text(estimate['value'])} ({low:.1f} to {high:.1f})"


def number_text(value: float | None) -> str:
    """Format a number with four significant digits; from 10,000 on, as a rounded integer.

    >>> [number_text(value) for value in (1234567, 1234.5, 3.14159, 0.00012, 7.0, None)]
    ['1,234,567', '1,234', '3.142', '0.00012', '7', '—']
    """
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return str(value)
    if value == int(value) or abs(value) >= 10_000:
        return f"{round(value):,}"
    return f"{value:,.4g}"


_NUMBERS = 8
"""Maximum length of a list whose numbers are shown."""


def field_text(value: Any) -> str:
    """Format the value of a record's field. Of a long list, only the length is shown.

    >>> [field_text(value) for value in (None, True, 0.12345, [0.5] * 9, "low")]
    ['missing', 'true', '0.1235', '9 numbers', 'low']
    """
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and len(value) > _NUMBERS:
        return f"{len(value)} numbers"
    return number_text(value) if is_number(value) else str(value)


def is_number(value: Any) -> bool:
    """Return whether the value of a field is a number; JSON's true and false are not.

    >>> is_number(1.5), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def duration_text(value: float | None) -> str:
    """Format a duration, given in seconds, in s, ms or µs; None as a dash.

    >>> duration_text(0.0123), duration_text(75.2), duration_text(0.00004), duration_text(None)
    ('12.3 ms', '75.2 s', '40 µs', '—')
    """
    if value is None:
        return NOTHING
    if value >= 1:
        return f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} µs"


_ROUGH_UNITS = ((172_800.0, 86_400.0, "days"), (5_400.0, 3_600.0, "h"), (90.0, 60.0, "min"))
"""Least duration, length in seconds and name of each unit above seconds, the longest first."""


def rough_duration_text(seconds: float) -> str:
    """Format a duration, given in seconds, with two digits and one unit.

    >>> [rough_duration_text(value) for value in (0.2, 2.6, 720, 9_000, 1e6)]
    ['1 s', '3 s', '12 min', '2.5 h', '12 days']
    """
    fitting = (one for one in _ROUGH_UNITS if seconds >= one[0])
    _, length, unit = next(fitting, (0.0, 1.0, "s"))
    value = float(f"{seconds / length:.2g}")
    return f"{max(round(value) if unit == 's' else value, 1):g} {unit}"


def time_text(milliseconds: float | None) -> str:
    """Format milliseconds since the epoch as local time, with the date if it is not today."""
    if milliseconds is None:
        return NOTHING
    then = time.localtime(milliseconds / 1000)
    is_today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", then)


def count_text(n: int, noun: str) -> str:
    """Format a number and its noun, with a plural s unless `n` is 1.

    >>> count_text(1, "label"), count_text(1200, "label")
    ('1 label', '1,200 labels')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def to_sentence(text: str) -> str:
    """Return `text` with a capital first letter and a full stop at the end.

    >>> to_sentence("there is nothing to undo")
    'There is nothing to undo.'
    """
    return text[:1].upper() + text[1:].rstrip(".") + "."


_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


_UNITS = re.compile(
    r"(?<=\d) (?=(?:%|s|ms|µs|min|h|kB|MB|GB|bytes|points)(?!\w))|(?<=\w) (?== \d)|(?<= =) (?=\d)"
)


def with_no_break_spaces(text: str) -> str:
    """Replace spaces between numbers and units, and in equations, by no-break spaces.

    >>> with_no_break_spaces("94.2 % of 7 s words, n = 25")
    '94.2\\xa0% of 7\\xa0s words, n\\xa0=\\xa025'
    """
    return _UNITS.sub("\u00a0", text) if " " in text else text


def escape_bidi(text: str) -> str:
    """Replace bidirectional control characters by their visible code.

    These invisible characters would show the other characters in another order.

    >>> escape_bidi("a\\u202eb")
    'a⟨U+202E⟩b'
    """
    return _MARKS.sub(lambda mark: f"⟨U+{ord(mark[0]):04X}⟩", text)
