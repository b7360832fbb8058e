"""Variables of a labelling interface: fields that the data of each imported task must have.

Label Studio checks imported tasks against every tag with a name and a value, including tags that
only display data. If a field is missing or null in one task, all tasks are refused. The value of
the tag determines the required fields (``extract_data_types`` and ``TaskValidator`` of Label Studio
1.23):

=======================  =========================================================
value of the tag         required in the data
=======================  =========================================================
``$text``                ``text``
``$features.a``          ``a`` in the object ``features``
``Ticket $id: $text``    ``id``, the first variable; others may be missing
``$id: $text``           ``id: $text``: after a leading dollar, all is one name
``$images[{{idx}}].url`` ``images``, a list
=======================  =========================================================
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from xml.etree import ElementTree

import msgspec

_IN_TEXT = re.compile(r"\$(\w+)")

JsonType = TypeVar("JsonType", dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True, order=True)
class TaskVariable:
    """Field that a labelling interface requires in the data of each task.

    Attributes
    ----------
    path : name of the field, or nested names separated by dots
    is_list : whether the value of the field must be a list
    """

    path: str
    is_list: bool = False

    @property
    def top_level_field(self) -> str:
        """The top-level field of the path."""
        return self.path.partition(".")[0]


def required_variables(interface: str) -> tuple[TaskVariable, ...]:
    """Return the fields that a labelling interface (XML) requires in tasks, sorted.

    Raises ValueError for invalid XML.

    >>> required_variables('<View><Text name="shown" value="Ticket $id: $text"/></View>')
    (TaskVariable(path='id', is_list=False),)
    """
    try:
        tags = ElementTree.fromstring(interface).findall(".//*[@value]")
    except ElementTree.ParseError as error:
        raise ValueError(f"the labelling interface cannot be read: {error}") from None
    found = set()
    for tag in tags:
        value = tag.get("value", "")
        if not tag.get("name"):
            continue
        if value.startswith("$"):
            name = value[1:]
        else:
            name = first[1] if (first := _IN_TEXT.search(value)) else ""
        if name:
            path, bracket, _ = name.partition("[")
            found.add(TaskVariable(path, bool(bracket)))
    return tuple(sorted(found))


def add_missing_fields(data: dict[str, Any], variables: Iterable[TaskVariable]) -> None:
    """Set each of `variables` that is missing or null in `data` to "" or an empty list, in place.

    Objects and lists in `data` may be JSON text, which is parsed. Fields of objects may be stored
    under dotted names, and are moved into the objects.

    >>> data = {"id": None, "of": '{"a": 1}', "of.b": 2}
    >>> add_missing_fields(data, map(TaskVariable, ["id", "of.a", "of.b", "of.c"]))
    >>> data["id"], data["of"]
    ('', {'a': 1, 'b': 2, 'c': ''})
    """
    for variable in sorted(variables):
        _set_field_if_missing(data, variable.path, "", is_list=variable.is_list)


def _set_field_if_missing(
    data: dict[str, Any], path: str, default_value: Any, *, is_list: bool
) -> None:
    head, dot, rest = path.partition(".")
    if dot:
        flat = data.get(path)
        inner = data[head] = _parse_json_if_text(dict, data.get(head))
        _set_field_if_missing(inner, rest, default_value if flat is None else flat, is_list=is_list)
        return
    value = data.get(head)
    value = default_value if value is None else value
    data[head] = _parse_json_if_text(list, value) if is_list else value


def _parse_json_if_text(expected_type: type[JsonType], value: Any) -> JsonType:
    """Return `value`, parsed as JSON if it is text; an empty `expected_type` if of another type."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return expected_type()
    return value if isinstance(value, expected_type) else expected_type()
