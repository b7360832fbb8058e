"""Report on fields inferred from the first records, and checks of configured field names."""

from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoding import time_or_none
from streamboost.connectors.messages.outgoing import parse_time_ms
from streamboost.errors import DataError
from streamboost.escaping import escape_line
from streamboost.features.inference import InferredFields
from streamboost.features.paths import flatten, path_getter

_SHOWN = 60
"""Number of characters of a message that an error shows."""

_MOST_SHOWN_SEPARATELY = 12
"""Fields of equal kind have a line each up to this number; more fields are merged."""

_NAMED = 20
"""Maximum number of fields that a text lists by name."""


def undamaged_payloads(messages: Sequence[Message]) -> list[bytes]:
    """Return the payloads of undamaged messages; DataError if all messages are damaged."""
    found = [message.payload for message in messages if message.damage is None]
    if messages and not found:
        raise DataError(
            f"none of the {len(messages)} messages at the start can be read; the first: "
            f"{messages[0].damage}"
        )
    return found


def parse_json_objects(payloads: Sequence[bytes], id_field: str | None) -> list[dict[str, Any]]:
    """Decode the payloads that are JSON objects, and ignore others.

    Raises DataError if an id is required and no object has one.
    """
    records = list(_iterate_json_objects(payloads))
    if payloads and not records:
        raise DataError(
            f"none of the {len(payloads)} messages at the start is a JSON object, as every record "
            f"must be; the first is {quoted_excerpt(payloads[0])}"
        )
    get = (lambda record: record) if id_field is None else path_getter(id_field)
    if all(get(record) is None for record in records):
        raise DataError(
            f"none of the {len(records)} JSON objects at the start has the id field {id_field!r} "
            f"(fields seen: {_join_field_names(_field_names_of_records(records)) or 'none'}): name "
            "it in [schema] id"
        )
    return records


def inference_report(
    inference: InferredFields, records: Sequence[Mapping[str, Any]], roles: Mapping[str, str]
) -> str:
    """Return a report with one line per field of `records`: its inferred kind, or why it is unused.

    `roles` maps the name of each field that is not a feature, such as the id, to its role.
    """
    n, n_fields = len(records), len(inference.fields)
    kinds = [
        (name, inference.fields[name].kind, inference.reasons[name]) for name in inference.fields
    ]
    left = [(name, "left out", why) for name, why in inference.reasons.items()]
    rows = [*kinds, *(row for row in left if row[0] not in inference.fields)]
    rows += [(name, roles[name], "") for name in _roles_found_in_records(roles, records, inference)]
    rows = _merge_fields_of_equal_kind(
        [(escape_line(name), kind, escape_line(why)) for name, kind, why in rows]
    )
    wide = [max((len(row[part]) for row in rows), default=0) for part in (0, 1)]
    lines = [f"  {name:<{wide[0]}}  {kind:<{wide[1]}}  {why}".rstrip() for name, kind, why in rows]
    counted = f"{n_fields} field{'s' * (n_fields != 1)}"
    head = f"{counted} to learn from, by {n} record{'s' * (n != 1)}:"
    return "\n".join([head, *lines])


def _roles_found_in_records(
    roles: Iterable[str], records: Sequence[Mapping[str, Any]], inference: InferredFields
) -> Iterable[str]:
    for role in roles:
        get = path_getter(role)
        if role not in inference.fields and any(get(record) is not None for record in records):
            yield role


def _merge_fields_of_equal_kind(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Merge (name, kind, reason) rows if many fields have the same kind and reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, kind, why in rows:
        alike.setdefault((kind, why), []).append(name)
    lines: list[tuple[str, str, str]] = []
    for name, kind, why in rows:
        names = alike[kind, why]
        if len(names) <= _MOST_SHOWN_SEPARATELY:
            lines.append((name, kind, why))
        elif name == names[0]:
            lines.append((f"{name}, {names[1]} and {len(names) - 2} more", kind, why))
    return lines


def absent_fields_error(
    payloads: Iterable[bytes],
    names: Iterable[str],
    *,
    similar_names_only: bool = False,
    used_names: Container[str] = (),
) -> str | None:
    """Return an error text for the first of `names` that no record has; None if all exist.

    With `similar_names_only`, only names that are similar to a field of the records are reported.
    Fields in `used_names` are not compared.
    """
    records = list(_iterate_json_objects(payloads))
    there = _field_names_of_records(records)
    for name in names if records else ():
        get = path_getter(name)
        if name not in there and all(get(record) is None for record in records):
            near = get_close_matches(name, [one for one in there if one not in used_names], n=1)
            if similar_names_only and not near:
                continue
            hint = (
                f"did you mean {near[0]}?" if near else f"fields seen: {_join_field_names(there)}"
            )
            return f"none of {len(records)} records has the field {name!r}; {hint}"
    return None


def time_field_error(payloads: Iterable[bytes], field: str) -> str | None:
    """Return an error text if most values of `field` are not times, else None.

    Times are values that `parse_time_ms` parses.
    """
    values = [
        value
        for value in map(path_getter(field), _iterate_json_objects(payloads))
        if value is not None
    ]
    wrong = [value for value in values if parse_time_ms(time_or_none(value)) is None]
    if 2 * len(wrong) <= len(values):
        return None
    first = wrong[0] if isinstance(wrong[0], str) else repr(wrong[0])
    return (
        f"{len(wrong)} of {len(values)} values of the field {field!r} are no times, first: "
        f"{quoted_excerpt(first)}; name a field with ISO 8601 text or seconds since 1970, or leave "
        "the key out"
    )


def quoted_excerpt(payload: bytes | str) -> str:
    """Return the first characters of a message in quotes, for errors."""
    text = payload.decode(errors="replace") if isinstance(payload, bytes) else payload
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _iterate_json_objects(payloads: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    for payload in payloads:
        try:
            yield decoder.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue


def _field_names_of_records(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in flatten(record)))


def _join_field_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
