"""Paths of values in a record: names, or dotted paths into nested objects and lists."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

MOST_POSITIONS = 8
"""Largest number of items of a list that `flatten` reads; items of longer lists are rarely fields.
"""

_DEEPEST = 8
"""Largest number of nested levels that `flatten` reads."""

_ABSENT: Final = object()


@lru_cache(maxsize=4096)
def path_getter(path: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads a record's value at `path`, or None if it is absent.

    A key that equals the whole path has priority. Otherwise the path is resolved in nested objects
    and lists, the longest key first.

    >>> price = path_getter("items.0.price")
    >>> price({"items": [{"price": 3}]}), price({"items.0.price": 4}), price({"items": []})
    (3, 4, None)
    """
    head, dot, rest = path.partition(".")
    if not dot:
        return lambda record: record.get(path)
    if "." in rest:
        return lambda record: _value_at(record, path, None)

    def read_two_levels(record: Mapping[str, Any]) -> Any:
        if path in record:
            return record[path]
        inner = record.get(head)
        return inner.get(rest) if isinstance(inner, dict) else _value_at(record, path, None)

    return read_two_levels


def make_values_reader(
    paths: Sequence[str], hidden: Collection[str] = ()
) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function that reads a record's values at dotted paths, None for missing values.

    If a path in `hidden` is nested in one of `paths`, an object or list at that path is missing,
    too.
    """
    holders = {path for path in paths if first_nested_path(path, hidden) is not None}
    if not holders and not any("." in path for path in paths):
        return lambda record: tuple(map(record.get, paths))
    getters = [(_scalar_getter if path in holders else path_getter)(path) for path in paths]
    return lambda record: tuple([get(record) for get in getters])


def _scalar_getter(path: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads a record's value at `path`; None for an object or a list."""
    get = path_getter(path)
    return lambda record: None if isinstance(value := get(record), dict | list) else value


def _value_at(container: Any, path: str, default: Any) -> Any:
    """Return the value at `path` in `container`, or `default` if it is absent.

    `container` may be of any type; only objects and lists have values at paths.
    """
    if isinstance(container, Mapping):
        if path in container:
            return container[path]
        cut = path.rfind(".")
        while cut >= 0:
            if path[:cut] in container:
                inner = _value_at(container[path[:cut]], path[cut + 1 :], _ABSENT)
                if inner is not _ABSENT:
                    return inner
            cut = path.rfind(".", 0, cut)
        return default
    if isinstance(container, list):
        position, dot, rest = path.partition(".")
        if position.isdecimal() and int(position) < len(container):
            inner = container[int(position)]
            return _value_at(inner, rest, default) if dot else inner
    return default


def is_null(record: Mapping[str, Any], path: str) -> bool:
    """Return True if the record has a null value at `path`; False if the path is absent.

    >>> is_null({"a": {"b": None}}, "a.b"), is_null({"a": {}}, "a.b"), is_null({"a": 1}, "a")
    (True, False, False)
    """
    return _value_at(record, path, _ABSENT) is None


def remove_path(record: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a copy of `record` without all values at `path`, however its keys contain dots.

    An item of a list becomes None, so that the other items keep their positions.

    >>> remove_path({"a": [1, {"b": 2}], "a.1.b": 3, "c": 4}, "a.1.b")
    {'a': [1, {}], 'c': 4}
    """
    found = {name: value for name, value in record.items() if name != path}
    cut = path.find(".")
    while cut >= 0:
        if path[:cut] in found:
            found[path[:cut]] = _copy_without_path(found[path[:cut]], path[cut + 1 :])
        cut = path.find(".", cut + 1)
    return found


def _copy_without_path(container: Any, path: str) -> Any:
    if isinstance(container, Mapping):
        return remove_path(container, path)
    position, dot, rest = path.partition(".")
    if not isinstance(container, list) or not position.isdecimal():
        return container
    return [
        (_copy_without_path(item, rest) if dot else None) if place == int(position) else item
        for place, item in enumerate(container)
    ]


def flatten(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat dictionary with the path and value of each field, in order.

    Lists of numbers are kept as vectors; of other lists, the first items are read. Empty objects
    and lists, and values nested deeper than eight levels, are omitted.

    >>> flatten({"a": 1, "device": {"os": "ios"}, "at": [1.5, 2], "tags": ["x", "y"]})
    {'a': 1, 'device.os': 'ios', 'at': [1.5, 2], 'tags.0': 'x', 'tags.1': 'y'}
    """
    found: dict[str, Any] = {}
    for path, value in _iterate_paths_and_values(record, _DEEPEST):
        found.setdefault(path, value)
    return found


def _iterate_paths_and_values(
    record: Mapping[str, Any], max_depth: int
) -> Iterator[tuple[str, Any]]:
    # As in `path_getter`, if two values have the same path, the longer key has priority.
    names = (
        sorted(record, key=_count_dots, reverse=True)
        if any(map(_count_dots, record))
        else list(record)
    )
    for name in names:
        value = record[name]
        if isinstance(value, list) and not is_vector(value):
            value = {str(place): item for place, item in enumerate(value[:MOST_POSITIONS])}
        if not isinstance(value, Mapping):
            yield name, value
        elif max_depth > 1:
            for path, leaf in _iterate_paths_and_values(value, max_depth - 1):
                yield f"{name}.{path}", leaf


def _count_dots(name: str) -> int:
    return name.count(".")


def is_vector(value: Any) -> bool:
    """Return True if `value` is a list of numbers, which may be empty."""
    return isinstance(value, list) and all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in value
    )


def is_within_any(path: str, names: frozenset[str]) -> bool:
    """Return True if `path` equals one of the paths `names`, or is nested in one of them.

    >>> [is_within_any(path, frozenset({"card"})) for path in ("card.number", "cards")]
    [True, False]
    """
    if path in names:
        return True
    cut = path.find(".")
    while cut >= 0:
        if path[:cut] in names:
            return True
        cut = path.find(".", cut + 1)
    return False


def first_nested_path(path: str, others: Iterable[str]) -> str | None:
    """Return the first of the paths `others` that is nested in `path`, or None.

    >>> first_nested_path("box", ["boxes.0", "box", "box.3"])
    'box.3'
    """
    return next((other for other in others if other.startswith(f"{path}.")), None)
