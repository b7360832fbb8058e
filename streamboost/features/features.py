"""Records of mixed fields as rows of an array, and what labels teach about them."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streamboost.features.category import Categories, as_category
from streamboost.features.fields import Field, as_field
from streamboost.features.layout import Layout, Maker, Values
from streamboost.features.number import Numbers
from streamboost.features.paths import getter
from streamboost.features.text import Texts
from streamboost.features.time import Times
from streamboost.features.vector import Vectors
from streamboost.storage import Arrays, part

__all__ = ["Features"]

Label = str | int


class Features:
    """Makes columns of the fields of records, when they arrive, and learns from their labels.

    Numbers, booleans and vectors are columns as they are; times become hours and days;
    categories are numbered by the labels that taught them; texts become what linear models say of
    them. Whatever stands in a row was known before the record's own label, and stays as it was.
    The columns only ever grow in number: with the classes, where there are texts or categories of
    many values.

    Parameters
    ----------
    fields
        What each field holds: "number", "category", "text", "time", or a table such as
        `{"type": "vector", "size": 384}`. A name with dots is a path into nested objects and lists.
    table_bytes
        The most that the tables of texts may take.

    Attributes
    ----------
    unreadable
        How many values of each field were of another kind, and taken as missing.

    Raises
    ------
    ConfigurationError
        When a field is described in a way that cannot be.

    Examples
    --------
    >>> features = Features({"amount": "number", "device.os": "category", "note": "text"})
    >>> records = [{"amount": "75.29", "device": {"os": "linux"}, "note": "thanks"}]
    >>> values = [features.values(record) for record in records]
    >>> features.arrive(values).tolist()
    [[75.29000091552734, 0.0]]
    >>> features.learn(values[0], "fine")
    >>> features.names
    ['amount', 'device.os', 'words for fine']
    """

    def __init__(
        self,
        fields: Mapping[Any, Field | str | Mapping[str, Any]],
        *,
        table_bytes: int = 64 * 2**20,
    ) -> None:
        self.fields: dict[Hashable, Field] = {}
        self.table_bytes = table_bytes
        self.unreadable: Counter[Hashable] = Counter()
        self._classes: dict[Label, int] = {}
        self._layout = Layout()
        self._numbers = Numbers(self._layout)
        self.fixed = True
        """Whether a record's row depends on nothing but its values."""
        self._texts: Texts | None = None
        self._makers: dict[str, Maker] = {"numbers": self._numbers}
        for name, given in fields.items():
            self.add(name, as_field(name, given))

    def __len__(self) -> int:
        return len(self._layout)

    @property
    def names(self) -> list[str]:
        """What each column is."""
        return self._layout.names

    @property
    def categorical(self) -> list[int]:
        """The columns of categories, ascending."""
        return self._layout.categorical

    @property
    def steady(self) -> list[int]:
        """The columns that mean the same whatever is learned: numbers, vectors and times."""
        return sorted(
            column for maker in self._makers.values() if maker.steady for column in maker.columns
        )

    @property
    def classes(self) -> list[Label]:
        """The labels learned, each once, in the order first seen."""
        return list(self._classes)

    @property
    def expert(self) -> list[int]:
        """The columns in which texts give the log probabilities of `classes`; may be fewer."""
        return self._texts.columns if self._texts else []

    def add(self, name: Hashable, field: Field) -> None:
        """Take on a field, the last of every record's values; records before miss it."""
        place = len(self.fields)
        self.fields[name] = field
        self.fixed = self.fixed and field.kind in ("number", "vector")
        if field.kind == "number":
            self._numbers.add(name, place)
        elif field.kind == "text":
            if self._texts is None:
                self._texts = Texts(self._layout, self.table_bytes)
                self._take_on("texts", self._texts)
            self._texts.add(name, place)
        elif field.kind == "time":
            self._take_on(f"{place}", Times(self._layout, name, place, field.zone))
        elif field.kind == "category":
            self._take_on(f"{place}", Categories(self._layout, name, place, field.min_frequency))
        else:
            self._take_on(f"{place}", Vectors(self._layout, name, place, field.size or 0))

    def _take_on(self, key: str, maker: Maker) -> None:
        self._makers[key] = maker
        maker.grow(self.classes)

    def values(self, record: Mapping[Any, Any]) -> Values:
        """Return the values of a record's fields as they are, None where one is missing."""
        return tuple([getter(name)(record) for name in self.fields])

    def arrive(self, values: Sequence[Values]) -> np.ndarray:
        """Take in that records arrived, in their order; return their rows, float32 (n, D).

        Those of a field that joined later may be left out at the end of a record's values.
        """
        values = self._whole(values)
        X = self._empty(len(values))
        for maker in self._makers.values():
            if maker.moving:
                for i in range(len(values)):
                    self.unreadable.update(maker.fill(values[i : i + 1], X[i : i + 1]))
                    maker.note(values[i])
            elif unreadable := maker.fill(values, X):
                self.unreadable.update(unreadable)
        return X

    def note(self, values: Values) -> None:
        """Take in that a record arrived whose row was made before, by `rows`."""
        values = self._whole([values])[0]
        for maker in self._makers.values():
            maker.note(values)

    def rows(self, values: Sequence[Values]) -> np.ndarray:
        """Return the rows that records would have, float32 (n, D), and change nothing."""
        values = self._whole(values)
        X = self._empty(len(values))
        for maker in self._makers.values():
            maker.fill(values, X)
        return X

    def learn(self, values: Values, label: Label) -> None:
        """Learn one record's label."""
        k = self._number(label)
        if self.fixed:
            return
        values = self._whole([values])[0]
        for maker in self._makers.values():
            maker.learn(values, k)

    def correct(self, values: Values, before: Label | None, label: Label | None) -> None:
        """Learn that a record's label is not the one of `before`; None: it has, or had, none."""
        k = None if label is None else self._number(label)
        values = self._whole([values])[0]
        for maker in self._makers.values():
            maker.correct(values, None if before is None else self._classes[before], k)

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another, or none; its columns stay, and come to say nothing."""
        if label in self._classes:
            k = None if into is None else self._number(into)
            for maker in self._makers.values():
                maker.rename(self._classes[label], k)

    def _number(self, label: Label) -> int:
        """Return the number of a class, which may be a new one."""
        k = self._classes.get(label)
        if k is None:
            k = self._classes[label] = len(self._classes)
            for maker in self._makers.values():
                maker.grow(self.classes)
        return k

    def kept(self, values: Values) -> Values | None:
        """Return of a record's values the categories, by which running rates can be corrected.

        None where there are none.
        """
        kinds = [field.kind for field in self.fields.values()]
        if "category" not in kinds:
            return None
        values = self._whole([values])[0]
        return tuple(
            as_category(value) if kind == "category" else None
            for value, kind in zip(values, kinds, strict=True)
        )

    def _whole(self, values: Sequence[Values]) -> Sequence[Values]:
        n = len(self.fields)
        if (len(values) == 1 and len(values[0]) == n) or {*map(len, values)} <= {n}:
            return values
        return [value + (None,) * (n - len(value)) for value in values]

    def _empty(self, n: int) -> np.ndarray:
        X = np.empty((n, len(self._layout)), dtype=np.float32)
        X.fill(np.nan)
        return X

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all there is: one part as JSON can hold it, the other as arrays."""
        parts = {key: maker.state() for key, maker in self._makers.items()}
        about = {
            "fields": [(name, field.given()) for name, field in self.fields.items()],
            "table_bytes": self.table_bytes,
            "classes": self.classes,
            "unreadable": list(self.unreadable.items()),
            "names": self.names,
            "categorical": self.categorical,
            "makers": {key: state for key, (state, _) in parts.items()},
        }
        arrays = {
            f"{key}.{name}": array for key, (_, own) in parts.items() for name, array in own.items()
        }
        return about, arrays

    @classmethod
    def restore(cls, about: dict[str, Any], arrays: Arrays) -> "Features":
        """Return the features that `state` took apart."""
        features = cls(dict(about["fields"]), table_bytes=about["table_bytes"])
        features.resume(about, arrays)
        return features

    def resume(self, about: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for the same fields."""
        self._classes = {label: k for k, label in enumerate(about["classes"])}
        self.unreadable = Counter(dict(about["unreadable"]))
        self._layout.names[:] = about["names"]
        self._layout.categorical[:] = about["categorical"]
        for key, maker in self._makers.items():
            maker.resume(about["makers"][key], part(arrays, f"{key}."))
