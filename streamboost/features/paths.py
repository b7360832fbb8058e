"""Where a field stands in a record."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

__all__ = ["getter"]


def getter(path: Hashable) -> Callable[[Mapping[Any, Any]], Any]:
    """Return what gives a record's value at `path`, None where there is none.

    A key of that whole name wins; else dots lead into nested objects, and numbers into lists.

    >>> get = getter("items.0.price")
    >>> get({"items": [{"price": 3}]}), get({"items": []}), get({"items.0.price": 4})
    (3, None, 4)
    """
    if not isinstance(path, str) or "." not in path:
        return lambda record: record.get(path)
    parts = path.split(".")

    def get(record: Mapping[Any, Any]) -> Any:
        if path in record:
            return record[path]
        value: Any = record
        for part in parts:
            if isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal():
                value = value[int(part)] if int(part) < len(value) else None
            else:
                return None
        return value

    return get
