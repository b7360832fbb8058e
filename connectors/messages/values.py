"""Taking a record's values, as they came, out of its JSON object."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from streamboost.connectors.messages.written import Time
from streamboost.features.paths import flat, getter, lies_in

__all__ = ["Known", "id_reader", "time_of", "values_reader"]

_KINDS = {bool: "bool", float: "float", list: "array", dict: "object"}


def id_reader(path: str) -> Callable[[Mapping[str, Any]], str | int | None]:
    """Return what gives a record's id; it raises msgspec's ValidationError where that is none."""
    get = getter(path) if "." in path else None

    def read(record: Mapping[str, Any]) -> str | int | None:
        value = record.get(path) if get is None else get(record)
        if type(value) is int or type(value) is str or value is None:
            return value
        kind = _KINDS[type(value)]
        raise msgspec.ValidationError(f"Expected `str | int | null`, got `{kind}` - at `$.{path}`")

    return read


def time_of(value: Any) -> Time:
    """Return `value` where it can be a time, and None where not."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def values_reader(paths: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return what gives a record's values at `paths`, None for those that are absent."""
    if not any("." in path for path in paths):
        return lambda record: tuple(map(record.get, paths))
    getters = [getter(path) for path in paths]
    return lambda record: tuple([get(record) for get in getters])


@dataclass(slots=True)
class _Branch:
    """The names known at one level of a record."""

    leaves: set[str] = field(default_factory=set)
    inner: "dict[str, _Branch]" = field(default_factory=dict)

    def add(self, path: str) -> None:
        self.leaves.add(path)  # a key may be called so as a whole
        head, dot, rest = path.partition(".")
        if dot:
            self.inner.setdefault(head, _Branch()).add(rest)


class Known:
    """Tells which fields of records nobody knows.

    Parameters
    ----------
    paths : those that are known
    whole : those that are known with all that lies within them
    """

    def __init__(self, paths: Iterable[str], whole: Iterable[str]) -> None:
        self._paths, self._whole = frozenset(paths), frozenset(whole)
        self._branch = _Branch()
        for path in self._paths | self._whole:
            self._branch.add(path)

    def unknown(self, records: Iterable[Mapping[str, Any]]) -> Counter[str]:
        """Return how many of `records` have a value in each field that is not known."""
        found: Counter[str] = Counter()
        leaves = self._branch.leaves
        for record in records:
            if not record.keys() <= leaves:
                self._look(record, self._branch, "", found)
        return found

    def _look(
        self, within: Mapping[str, Any], branch: _Branch, prefix: str, found: Counter[str]
    ) -> None:
        for name, value in within.items():
            if name in branch.leaves:
                continue
            inner = branch.inner.get(name)
            if inner is None or not isinstance(value, dict):
                for path, leaf in flat({name: value}).items():
                    if leaf not in (None, "") and not self._is_known(prefix + path):
                        found[prefix + path] += 1
            elif not value.keys() <= inner.leaves:
                self._look(value, inner, f"{prefix}{name}.", found)

    def _is_known(self, path: str) -> bool:
        return path in self._paths or lies_in(path, self._whole)
