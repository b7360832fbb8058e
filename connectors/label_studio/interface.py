"""What a labelling interface shows of a task's data, and so what an import demands of it.

Label Studio checks the tasks it is given against every tag that has a name and a value, also one
that nobody answers, and refuses them all for one that lacks something or has null. What it demands
follows from the value (``extract_data_types`` and ``TaskValidator`` of Label Studio 1.23):

=======================  =========================================================
value                    demanded of the data
=======================  =========================================================
``$text``                ``text``
``$features.a``          ``a`` in the object ``features``
``Ticket $id: $text``    ``id``, the first; what it shows of the others may be gone
``$id: $text``           ``id: $text``, as what begins with a dollar is one name
``$images[{{idx}}].url`` ``images``, a list
=======================  =========================================================
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar
from xml.etree import ElementTree

import msgspec

__all__ = ["Variable", "complete", "variables_of"]

_IN_TEXT = re.compile(r"\$(\w+)")

Kind = TypeVar("Kind", dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """What is demanded.

    Attributes
    ----------
    path
        Its name, or the names that lead to it, with dots between.
    is_list
        Whether it must be a list.
    """

    path: str
    is_list: bool = False

    @property
    def field(self) -> str:
        """The field of the data that it is, or lies in."""
        return self.path.partition(".")[0]


def variables_of(interface: str) -> tuple[Variable, ...]:
    """Return what `interface`, a labelling interface as XML, demands of tasks, in order.

    Raises ValueError where it is no XML.

    >>> variables_of('<View><Text name="shown" value="Ticket $id: $text"/></View>')
    (Variable(path='id', is_list=False),)
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
            found.add(Variable(path, bool(bracket)))
    return tuple(sorted(found))


def complete(data: dict[str, Any], variables: Iterable[Variable]) -> None:
    """Let each of `variables` lead to something in `data`: what it lacks, or has as null, is empty.

    Objects and lists may stand there as JSON, and what lies in an object under its dotted path.

    >>> data = {"id": None, "of": '{"a": 1}', "of.b": 2}
    >>> complete(data, [Variable("id"), Variable("of.a"), Variable("of.b"), Variable("of.c")])
    >>> data["id"], data["of"]
    ('', {'a': 1, 'b': 2, 'c': ''})
    """
    for variable in sorted(variables):
        _lead(data, variable.path, "", is_list=variable.is_list)


def _lead(data: dict[str, Any], path: str, otherwise: Any, *, is_list: bool) -> None:
    """Let `path` lead to a value in `data`: to `otherwise` where it leads to none."""
    head, dot, rest = path.partition(".")
    if dot:
        flat = data.get(path)
        inner = data[head] = _as(dict, data.get(head))
        _lead(inner, rest, otherwise if flat is None else flat, is_list=is_list)
        return
    value = data.get(head)
    value = otherwise if value is None else value
    data[head] = _as(list, value) if is_list else value


def _as(kind: type[Kind], value: Any) -> Kind:
    """Return `value`, or what it says as JSON, where that is of `kind`; an empty one otherwise."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            return kind()
    return value if isinstance(value, kind) else kind()
