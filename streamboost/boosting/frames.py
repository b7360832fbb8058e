"""Frames of whatever library as arrays of numbers, and their categories as codes.

narwhals knows pandas, polars and pyarrow among others, and none of them needs to be installed.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe, is_into_series, is_polars_lazyframe

from streamboost.boosting.categorical import categorical_mask
from streamboost.errors import DataError, ModelFileError

__all__ = ["FrameColumns", "columns_of", "frame_of"]

Value = str | int | float | bool

_SAY_SO = (
    "make it a category (pandas: X.astype({{{name!r}: 'category'}}), polars: "
    "X.cast({{{name!r}: pl.Categorical}})), name it in categorical_features, or leave it out"
)
_TIMES = (nw.Datetime, nw.Date, nw.Time, nw.Duration)


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """Return `X` as narwhals sees it; None where it is no frame.

    Every table is read here. What narwhals does not know and Arrow can read, such as a pyarrow
    RecordBatch, becomes a pyarrow Table.

    Raises
    ------
    DataError
        When `X` is a table that holds no rows yet, or gives them only once.
    """
    if is_polars_lazyframe(X):
        raise DataError("X is a lazy frame, which holds no rows yet: give X.collect()")
    if is_into_dataframe(X):
        known: nw.DataFrame[Any] = nw.from_native(X, eager_only=True)
        return known
    if not hasattr(X, "__arrow_c_stream__") or is_into_series(X):
        return None
    if isinstance(X, Iterator):
        kind = type(X).__name__
        raise DataError(f"X is a {kind}, whose rows can be read once: give X.read_all()")
    table: nw.DataFrame[Any] = nw.from_arrow(X, backend="pyarrow")
    return table


@dataclass(frozen=True, slots=True, eq=False)
class FrameColumns:
    """What the columns of a training's frame are called, and its categories in order of code.

    Parameters
    ----------
    names
        The names of all columns where they are text, else empty: columns go by their place then.
    categories
        The values of each column of categories, by its place; code c stands for the c-th. Values
        that are not text, numbers or booleans are known by their text.
    """

    names: tuple[str, ...] = ()
    categories: Mapping[int, tuple[Value, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: nw.DataFrame[Any], chosen: Any) -> "FrameColumns":
        """Return those of a training on `frame` with `categorical_features` as `chosen`.

        Columns of categories by their type have a table: all of them if `chosen` is "from_dtype".
        What is chosen by name or place has one where its type is not a number's.
        """
        names = tuple(name for name in frame.columns if isinstance(name, str))
        columns = [frame.get_column(name) for name in frame.columns]
        if isinstance(chosen, str) and chosen == "from_dtype":
            tabled = [_is_category(column) for column in columns]
        else:
            known = np.array(frame.columns, dtype=object)
            mask = categorical_mask(chosen, len(columns), known)
            tabled = [bool(m) and not _is_number(c) for m, c in zip(mask, columns, strict=True)]
        tables = {f: _found(columns[f]) for f in np.flatnonzero(tabled).tolist()}
        return cls(names if len(names) == len(columns) else (), tables)

    def extended(self, frame: nw.DataFrame[Any]) -> "FrameColumns":
        """Return these with the categories of `frame` that are new, behind those known."""
        columns = self._columns(frame)
        tables = {}
        for f, known in self.categories.items():
            there = set(known)
            tables[f] = known + tuple(v for v in _found(columns[f]) if v not in there)
        return FrameColumns(self.names, tables)

    def read(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Return `frame` as float32 (n, D), NaN where a value is missing or an unknown category.

        Raises
        ------
        DataError
            When a column is not there, or holds what is no number.
        """
        columns = self._columns(frame)
        rows = np.empty((len(frame), len(columns)), dtype=np.float32)
        with np.errstate(over="ignore"):  # an infinity is found, and named, afterwards
            for f, column in enumerate(columns):
                values = self.categories.get(f)
                rows[:, f] = _numbers(column) if values is None else _codes(column, values)
        return rows

    def name(self, f: int) -> str | int:
        """Return the name of column `f`, or `f` where columns go by their place."""
        return self.names[f] if self.names else f

    def _columns(self, frame: nw.DataFrame[Any]) -> list[nw.Series[Any]]:
        if not self.names:
            return [frame.get_column(name) for name in frame.columns]
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise DataError(
                f"X lacks the columns {missing}, which the training had: give them, empty where "
                "their values are missing"
            )
        return [frame.get_column(name) for name in self.names]

    def describe(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it, for `rebuild`."""
        return {"names": self.names, "categories": list(self.categories.items())}

    @classmethod
    def rebuild(cls, description: Mapping[str, Any]) -> "FrameColumns":
        """Return what `describe` described."""
        tables = {int(f): tuple(values) for f, values in description["categories"]}
        return cls(tuple(description["names"]), tables)

    def check(self, n_features: int, categorical: Iterable[int]) -> None:
        """Raise ModelFileError unless it fits a committee with these columns of categories."""
        if len(self.names) not in (0, n_features) or not set(self.categories) <= set(categorical):
            raise ModelFileError(
                "the names or categories of the columns are not those of the weak learners: the "
                "file is damaged"
            )


def columns_of(X: Any, chosen: Any, known: FrameColumns | None) -> FrameColumns | None:
    """Return what a training on `X` knows of columns, beside what is `known` from those before it.

    `chosen` is `categorical_features`; None where there was no frame.
    """
    frame = frame_of(X)
    if frame is None:
        return known
    return FrameColumns.of(frame, chosen) if known is None else known.extended(frame)


def _is_category(column: nw.Series[Any]) -> bool:
    return column.dtype in (nw.Categorical, nw.Enum)


def _is_number(column: nw.Series[Any]) -> bool:
    return column.dtype.is_numeric() or column.dtype == nw.Boolean


def _plain(value: Any) -> Value:
    """Return a category's value as a file can hold it: what is none of these goes by its text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    return value if isinstance(value, str | int) else str(value)


def _found(column: nw.Series[Any]) -> tuple[Value, ...]:
    """Return the values of a column, each once and sorted, the missing ones aside.

    Not the categories that its type declares: whatever else a process has seen may be among them
    in polars, and their order differs from frame to frame.
    """
    present = {_plain(value) for value in column.drop_nulls().unique().to_list()}
    try:
        return tuple(sorted(present))
    except TypeError:
        return tuple(sorted(present, key=lambda value: (type(value).__name__, str(value))))


def _codes(column: nw.Series[Any], values: tuple[Value, ...]) -> np.ndarray:
    """Return the code of each value, float32 (n,); NaN where it is missing or unknown."""
    code_of: dict[Hashable, float] = {value: float(code) for code, value in enumerate(values)}
    given = zip(column.to_list(), column.is_null().to_list(), strict=True)
    nan = float("nan")
    codes = [nan if gone else code_of.get(_plain(value), nan) for value, gone in given]
    return np.array(codes, dtype=np.float32)


def _numbers(column: nw.Series[Any]) -> np.ndarray:
    """Return a column of numbers (n,), NaN where one is missing; DataError where there are none."""
    if isinstance(column.dtype, _TIMES):
        raise DataError(
            f"column {column.name!r} holds times ({column.dtype}), which are no numbers: make "
            "numbers of them, such as the hour and the day of the week, or leave it out"
        )
    if column.dtype.is_nested():  # polars would cast what lies within
        raise DataError(_why_not(column))
    try:
        return np.asarray(column.cast(nw.Float64).to_numpy())
    except Exception as error:  # each library has its own
        raise DataError(_why_not(column)) from error


def _why_not(column: nw.Series[Any]) -> str:
    """Say what keeps a column from being numbers, and how to mend it."""
    for value in column.drop_nulls().to_list():
        try:
            float(value)
        except (TypeError, ValueError):
            if isinstance(value, str) or _is_category(column):
                mend = _SAY_SO.format(name=column.name)
                return f"column {column.name!r} holds {value!r}, which is no number: {mend}"
            return (
                f"column {column.name!r} holds {value!r} ({column.dtype}), which is no number: "
                "make columns of numbers of it, or leave it out"
            )
    return f"column {column.name!r} ({column.dtype}) cannot be read as numbers: leave it out"
