"""Finding the numeric fields of records by looking at the first of them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from streamboost.errors import DataError

__all__ = ["absent", "beginning", "infer_numeric", "is_nameable"]

_NAMEABLE = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+')

_SHOWN = 60
"""Characters shown of a message that cannot be used."""

_NAMED = 20
"""How many fields a sentence names before it only counts them."""


def is_nameable(name: str) -> bool:
    """Tell whether a decoder's struct can have a field of that name."""
    return _NAMEABLE.fullmatch(name) is not None


def infer_numeric(
    payloads: Iterable[bytes], *, id_field: str, time_field: str | None
) -> tuple[tuple[str, ...], str]:
    """Return the numeric fields in order of first appearance, and a sentence on the finding.

    Payloads that are not JSON objects are passed over. Raises DataError when none shows an id, or
    no field is numeric.
    """
    payloads = list(payloads)
    records = list(_objects(payloads))
    if payloads and not records:
        raise DataError(
            f"none of the {len(payloads)} messages at the start is a JSON object, as every record "
            f"must be; the first is {beginning(payloads[0])}"
        )
    kinds: dict[str, Counter[str]] = {}
    for record in records:
        for name, value in record.items():
            kinds.setdefault(name, Counter())[_kind(value)] += 1
    seen = _listed([repr(name) for name in kinds]) or "none"
    if id_field not in kinds:
        raise DataError(
            f"none of the {len(records)} JSON objects at the start has the id field {id_field!r} "
            f"(fields seen: {seen}): name it in [schema] id"
        )
    reserved = {id_field, time_field}
    judged = {name: _judge(name, kinds[name]) for name in kinds if name not in reserved}
    numeric = tuple(name for name, fault in judged.items() if fault is None)
    if not numeric:
        raise DataError(
            f"no numeric field in the {len(records)} JSON objects at the start (fields seen: "
            f"{seen}): features must be JSON numbers; name them in [schema] numeric"
        )
    left_out = [f"{name} ({fault})" for name, fault in judged.items() if fault is not None]
    found = f"Found {len(numeric)} numeric fields in {len(records)} records: {_listed(numeric)}."
    return numeric, f"{found} Left out: {_listed(left_out)}." if left_out else found


def absent(payloads: Iterable[bytes], names: Iterable[str]) -> str | None:
    """Return a sentence on the first of `names` that no JSON object has, None if all are there."""
    records = list(_objects(payloads))
    there = dict.fromkeys(name for record in records for name in record)
    for name in names if records else ():
        if name not in there:
            near = get_close_matches(name, there, n=1)
            hint = f"did you mean {near[0]}?" if near else f"fields seen: {_listed(list(there))}"
            return f"none of {len(records)} records has the field {name!r}; {hint}"
    return None


def beginning(payload: bytes | str) -> str:
    """Return how a message begins, in quotes."""
    text = payload.decode(errors="replace") if isinstance(payload, bytes) else payload
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _objects(payloads: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    for payload in payloads:
        try:
            yield decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "nested"


def _judge(name: str, counts: Counter[str]) -> str | None:
    """Return why a field is left out, or None when it is numeric."""
    present = Counter({kind: count for kind, count in counts.items() if kind != "null"})
    if not present:
        return "always null"
    if present["number"] * 2 <= present.total():
        return max((kind for kind in present if kind != "number"), key=present.__getitem__)
    if name == "label":
        return "would give the answer away"
    return None if is_nameable(name) else "its name cannot be used"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
