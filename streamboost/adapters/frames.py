"""Conversion of data frames of any library to records, and of results to the same library.

Uses narwhals, which supports pandas, polars, pyarrow and others; none needs to be installed.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from streamboost.boosting.frames import to_narwhals_frame
from streamboost.errors import DataError


def frame_to_records(X: Any) -> list[dict[Hashable, Any]]:
    """Return the rows of the frame `X` as dictionaries, with None for missing values."""
    frame = _as_narwhals_frame(X)
    columns = [
        [None if gone else value for value, gone in zip(s.to_list(), s.is_null(), strict=True)]
        for s in frame.iter_columns()
    ]
    if not columns:
        return [{} for _ in range(len(frame))]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def _as_narwhals_frame(X: Any) -> nw.DataFrame[Any]:
    frame = to_narwhals_frame(X)
    if frame is None:
        raise DataError(
            f"X is no frame but {type(X).__name__}: give a table of pandas, polars or pyarrow, "
            "or records one by one"
        )
    return frame


def to_list(values: Any) -> list[Any]:
    """Convert a series, an array or a list to a list of Python values."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series.to_list()
    return values.tolist() if hasattr(values, "tolist") else list(values)


def to_series_like(X: Any, values: Sequence[Any]) -> Any:
    """Return `values` as a series of the library that the frame `X` is from.

    The series has the index of `X`, if there is one. In pandas the dtype is object, so that None
    does not change the types of other values.
    """
    frame = _as_narwhals_frame(X)
    if frame.implementation.is_pandas_like():
        return frame.implementation.to_native_namespace().Series(
            list(values), index=X.index, dtype=object
        )
    mixed = len({type(value) for value in values if value is not None}) > 1
    dtype = nw.Object() if mixed else None
    return nw.new_series("", values, dtype, backend=frame.implementation).to_native()


def to_frame_like(X: Any, values: np.ndarray, columns: Sequence[Hashable]) -> Any:
    """Return `values` (n, K) as a frame of the library that the frame `X` is from.

    The frame has the index of `X`, if there is one. `columns` are its column names, converted to
    text unless the library supports other names.

    Raises
    ------
    DataError
        When two column names have the same text.
    """
    frame = _as_narwhals_frame(X)
    if frame.implementation.is_pandas_like():
        pandas = frame.implementation.to_native_namespace()
        names = pandas.Index(list(columns), dtype=object)
        return pandas.DataFrame(values, index=X.index, columns=names)
    texts = [str(column) for column in columns]
    if len(set(texts)) < len(texts):
        raise DataError(
            f"the labels {list(columns)} would name columns alike: give labels of one kind, or a "
            "pandas frame, whose columns are named by any value"
        )
    of_columns = dict(zip(texts, values.T.copy(), strict=True))
    return nw.from_dict(of_columns, backend=frame.implementation).to_native()
