"""Data frames of any library: converts columns to numbers and categories to codes.

narwhals supports pandas, polars, pyarrow and others, none of which needs to be installed.
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

Value = str | int | float | bool

_DECLARE_CATEGORICAL = (
    "make it a category (pandas: X.astype({{{name!r}: 'category'}}), polars: "
    "X.cast({{{name!r}: pl.Categorical}})), name it in categorical_features, or leave it out"
)
_TIMES = (nw.Datetime, nw.Date, nw.Time, nw.Duration)


def to_narwhals_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame of any library as a narwhals frame, or None if `X` is no data frame.

    A table that only Arrow can read, such as a pyarrow RecordBatch, is converted to a pyarrow
    Table.

    Raises
    ------
    DataError
        If `X` is a lazy frame, or an iterator whose rows can be read only once.
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
    """Column names and categories of the data frame that an estimator was trained on.

    Parameters
    ----------
    names
        The names of all columns if all names are text. Else empty: columns are matched by index.
    categories
        Mapping from the index of each categorical column to its categories; code c is the c-th
        category. Values that are not text, numbers or booleans are represented by their text.
    """

    names: tuple[str, ...] = ()
    categories: Mapping[int, tuple[Value, ...]] = field(default_factory=dict)

    @classmethod
    def from_frame(cls, frame: nw.DataFrame[Any], categorical_features: Any) -> "FrameColumns":
        """Return the column names of a training frame, and the categories in the frame.

        If `categorical_features` is "from_dtype", categories are stored for each column of a
        categorical type. Else they are stored for each selected column that is not numeric.
        """
        names = tuple(name for name in frame.columns if isinstance(name, str))
        columns = [frame.get_column(name) for name in frame.columns]
        if isinstance(categorical_features, str) and categorical_features == "from_dtype":
            tabled = [_is_of_categorical_type(column) for column in columns]
        else:
            known = np.array(frame.columns, dtype=object)
            mask = categorical_mask(categorical_features, len(columns), known)
            tabled = [
                bool(m) and not _is_numeric_column(c) for m, c in zip(mask, columns, strict=True)
            ]
        tables = {
            f: _distinct_values_of_column(columns[f]) for f in np.flatnonzero(tabled).tolist()
        }
        return cls(names if len(names) == len(columns) else (), tables)

    def with_new_categories(self, frame: nw.DataFrame[Any]) -> "FrameColumns":
        """Return a copy to which the categories that only `frame` has are appended."""
        columns = self._select_training_columns(frame)
        tables = {}
        for f, known in self.categories.items():
            there = set(known)
            tables[f] = known + tuple(
                v for v in _distinct_values_of_column(columns[f]) if v not in there
            )
        return FrameColumns(self.names, tables)

    def to_numbers(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Convert `frame` to float32 (n, D): categories to codes, missing or unknown values to NaN.

        Raises
        ------
        DataError
            If a column is missing, or holds values that are not numbers.
        """
        columns = self._select_training_columns(frame)
        rows = np.empty((len(frame), len(columns)), dtype=np.float32)
        with np.errstate(over="ignore"):  # infinities are reported later
            for f, column in enumerate(columns):
                values = self.categories.get(f)
                rows[:, f] = (
                    _column_to_float64(column)
                    if values is None
                    else _category_codes(column, values)
                )
        return rows

    def column_name(self, column_index: int) -> str | int:
        """Return a column's name, or its index if the training had no column names."""
        return self.names[column_index] if self.names else column_index

    def _select_training_columns(self, frame: nw.DataFrame[Any]) -> list[nw.Series[Any]]:
        if not self.names:
            return [frame.get_column(name) for name in frame.columns]
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise DataError(
                f"X lacks the columns {missing}, which the training had: give them, empty where "
                "their values are missing"
            )
        return [frame.get_column(name) for name in self.names]

    def to_json(self) -> dict[str, Any]:
        """Return the names and categories as a dictionary for JSON, which `from_json` reads."""
        return {"names": self.names, "categories": list(self.categories.items())}

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> "FrameColumns":
        """Create the columns from the values that `to_json` returned."""
        tables = {int(f): tuple(values) for f, values in description["categories"]}
        return cls(tuple(description["names"]), tables)

    def validate(self, n_features: int, categorical: Iterable[int]) -> None:
        """Raise ModelFileError unless names and categories match the columns of a committee.

        The committee has `n_features` columns, of which those at indices `categorical` are
        categorical.
        """
        if len(self.names) not in (0, n_features) or not set(self.categories) <= set(categorical):
            raise ModelFileError(
                "the names or categories of the columns are not those of the weak learners: the "
                "file is damaged"
            )


def training_columns(
    X: Any, categorical_features: Any, earlier_columns: FrameColumns | None
) -> FrameColumns | None:
    """Return the names and categories of the columns of `X`, or `earlier_columns` without a frame.

    `earlier_columns` are those of the earlier trainings, None if none of them had a frame.
    Categories that are new in `X` are appended to them.
    """
    frame = to_narwhals_frame(X)
    if frame is None:
        return earlier_columns
    return (
        FrameColumns.from_frame(frame, categorical_features)
        if earlier_columns is None
        else earlier_columns.with_new_categories(frame)
    )


def _is_of_categorical_type(column: nw.Series[Any]) -> bool:
    return column.dtype in (nw.Categorical, nw.Enum)


def _is_numeric_column(column: nw.Series[Any]) -> bool:
    return column.dtype.is_numeric() or column.dtype == nw.Boolean


def _to_storable_value(value: Any) -> Value:
    """Convert a category's value to text, a number or a boolean, for storage in a file."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    return value if isinstance(value, str | int) else str(value)


def _distinct_values_of_column(column: nw.Series[Any]) -> tuple[Value, ...]:
    """Return the distinct values of a column, sorted, without missing values.

    The categories that the column's type declares are not used. In polars, they may include
    categories of other frames of the process, and their order differs between frames.
    """
    present = {_to_storable_value(value) for value in column.drop_nulls().unique().to_list()}
    try:
        return tuple(sorted(present))
    except TypeError:
        return tuple(sorted(present, key=lambda value: (type(value).__name__, str(value))))


def _category_codes(column: nw.Series[Any], values: tuple[Value, ...]) -> np.ndarray:
    """Return the index in `values` of each value of a column, float32 (n,).

    The index is NaN for missing values, and for values that `values` lacks.
    """
    code_of: dict[Hashable, float] = {value: float(code) for code, value in enumerate(values)}
    given = zip(column.to_list(), column.is_null().to_list(), strict=True)
    nan = float("nan")
    codes = [nan if gone else code_of.get(_to_storable_value(value), nan) for value, gone in given]
    return np.array(codes, dtype=np.float32)


def _column_to_float64(column: nw.Series[Any]) -> np.ndarray:
    """Convert a column to float64 (n,), NaN where missing; raise DataError if it is not numeric."""
    if isinstance(column.dtype, _TIMES):
        raise DataError(
            f"column {column.name!r} holds times ({column.dtype}), which are no numbers: make "
            "numbers of them, such as the hour and the day of the week, or leave it out"
        )
    if column.dtype.is_nested():  # polars would cast the nested values
        raise DataError(_not_numeric_message(column))
    try:
        return np.asarray(column.cast(nw.Float64).to_numpy())
    except Exception as error:  # the exception type depends on the library
        raise DataError(_not_numeric_message(column)) from error


def _not_numeric_message(column: nw.Series[Any]) -> str:
    """Return an error message with the first value that is not a number, and with a remedy."""
    for value in column.drop_nulls().to_list():
        try:
            float(value)
        except (TypeError, ValueError):
            if isinstance(value, str) or _is_of_categorical_type(column):
                mend = _DECLARE_CATEGORICAL.format(name=column.name)
                return f"column {column.name!r} holds {value!r}, which is no number: {mend}"
            return (
                f"column {column.name!r} holds {value!r} ({column.dtype}), which is no number: "
                "make columns of numbers of it, or leave it out"
            )
    return f"column {column.name!r} ({column.dtype}) cannot be read as numbers: leave it out"
