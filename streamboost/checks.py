"""Validation and conversion of the arguments of a learner's methods."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError, DataError

Label = str | int

_INT64 = np.iinfo(np.int64)
_HEAVIEST = 2.0**30
"""Largest training weight: in sums with much larger weights, records of weight 1 would be lost to
rounding."""
_KINDS = {str: "text", int: "whole numbers"}


def as_rows(X: Any, n_features: int | None) -> np.ndarray:
    """Return `X` as float32 (n, D) in C-order; NaN is a missing value.

    Raises
    ------
    DataError
        When `X` is not a table of numbers, has another number of columns than `n_features`, or
        holds an infinity or a number that float32 cannot hold.
    """
    try:
        table = np.asarray(X)
        if table.dtype.kind not in "buifO":
            raise TypeError(
                f"it holds {table.dtype} values; give numbers, NaN where one is missing"
            )
        rows = np.ascontiguousarray(table if table.dtype == np.float32 else _to_float32(table))
    except (TypeError, ValueError) as error:
        raise DataError(f"X is not a table of numbers: {error}") from error
    if rows.ndim != 2:
        raise DataError(f"X has shape {rows.shape}: give an array (records, features)")
    if n_features is not None and rows.shape[1] != n_features:
        raise DataError(
            f"X has {rows.shape[1]} features, and this learner began with {n_features}: give "
            "every record the same columns, NaN where a value is missing"
        )
    infinite = np.isinf(rows)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise DataError(
            f"X[{row}, {column}] is {table[row, column]!r}, infinite or too large for "
            "float32: give a finite number, or NaN for a missing value"
        )
    return rows


def pad_missing_columns(rows: Any, n_features: int) -> np.ndarray:
    """Return `rows` as float32 (n, `n_features`), with NaN in the columns that a row lacks.

    `rows` is an array (n, D) or a list of n arrays (D,) of any length. None in the list gives a row
    of NaN. Rows of at least `n_features` columns are not changed.
    """
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1] >= n_features:
        return rows
    n_features = max([n_features, *(len(row) for row in rows if row is not None)])
    wide = np.full((len(rows), n_features), np.nan, dtype=np.float32)
    for out, row in zip(wide, rows, strict=True):
        if row is not None:
            out[: len(row)] = row
    return wide


def _to_float32(table: np.ndarray) -> np.ndarray:
    # A number too large for float32 becomes an infinity, which `as_rows` rejects.
    with np.errstate(over="ignore"):
        return table.astype(np.float32)


def as_ids(ids: Sequence[str], n: int) -> list[str]:
    """Return `ids` as a list of `n` texts, or raise DataError."""
    ids = list(ids)
    if len(ids) != n:
        raise DataError(f"{len(ids)} ids for {n} records: give one id per record")
    if {*map(type, ids)} <= {str}:
        return ids
    for i, one in enumerate(ids):
        if not isinstance(one, str):
            raise DataError(f"ids[{i}] is {one!r}: ids are text")
    return ids


def as_labels(y: Any, n: int, kind: type | None, *, name: str = "y") -> list[Label]:
    """Return `y` as `n` labels, all str or all int.

    `kind` is the type of the learner's earlier labels, str or int; None if there are none. `name`
    is the argument's name in error messages.

    Raises
    ------
    DataError
        When there are not `n` labels, when a label is neither text nor a 64-bit integer, or when
        the labels are of different types.
    """
    labels = list(y.tolist() if isinstance(y, np.ndarray) else y)
    if len(labels) != n:
        raise DataError(f"{len(labels)} labels for {n} records: give one label per record")
    for i, label in enumerate(labels):
        if isinstance(label, np.generic):
            labels[i] = label = label.item()
        if type(label) not in (str, int):
            raise DataError(f"{name}[{i}] is {label!r}: labels are text or whole numbers")
        if type(label) is int and not _INT64.min <= label <= _INT64.max:
            raise DataError(f"{name}[{i}] is {label!r}: whole-number labels have at most 64 bits")
        kind = kind or type(label)
        if type(label) is not kind:
            raise DataError(
                f"{name}[{i}] is {label!r}, and this learner's labels are {_KINDS[kind]}: keep to "
                "one kind"
            )
    return labels


def labels_to_array(labels: Iterable[Label]) -> np.ndarray:
    """Return labels of one type as an array: int64 for whole numbers, object for text.

    Text is not stored in numpy's text type, which pads all labels to the longest and strips
    trailing NULs.
    """
    known = list(labels)
    return np.array(known, dtype=object if known and isinstance(known[0], str) else np.int64)


def as_propensity(propensity: Any, n: int) -> np.ndarray:
    """Return `propensity` as float64 (n,); None gives an array of NaN.

    An entry is the probability with which a record's label was requested; NaN means no request.
    Raises DataError for other values.
    """
    if propensity is None:
        return np.full(n, np.nan)
    values = np.asarray(propensity, dtype=np.float64)
    if values.shape != (n,):
        raise DataError(f"propensity has shape {values.shape}, and there are {n} records")
    wrong = ~(np.isnan(values) | ((values > 0) & (values <= 1)))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"propensity[{i}] is {values[i]}: give a chance above 0 and at most 1, or NaN where "
            "nobody asked"
        )
    return values


def as_predictions(predicted: Any, n: int) -> list[Label | None]:
    """Return `predicted` as a list of `n` labels, None for a record without a prediction.

    The argument None gives a list of None. Raises DataError if there are not `n` entries.
    """
    if predicted is None:
        return [None] * n
    known = list(predicted.tolist() if isinstance(predicted, np.ndarray) else predicted)
    if len(known) != n:
        raise DataError(f"{len(known)} predictions for {n} records: give one each, None for none")
    return known


def as_records(
    records: Sequence[tuple[Any, ...]] | None, n: int, required: bool
) -> Sequence[tuple[Any, ...]]:
    """Return `records`, the field values of `n` records; if not `required`, `n` empty tuples.

    Raises DataError if `records` is missing although `required`, is given although not `required`,
    or does not have `n` entries.
    """
    if required != (records is not None):
        raise DataError(
            "records is missing: features learn from the values that rows were made of"
            if required
            else "records were given to a learner without features, which cannot use them"
        )
    if records is not None and len(records) != n:
        raise DataError(f"{len(records)} records for {n} rows: give one each")
    return [()] * n if records is None else records


def as_seed(name: str, seed: Any) -> int:
    """Return the value `seed` of the argument called `name` as an int of at least 0.

    Raises ConfigurationError for any other value.

    >>> as_seed("random_state", 7)
    7
    """
    try:
        value = index(seed)
    except TypeError:
        value = -1
    if value < 0:
        raise ConfigurationError(f"{name} is {seed!r}: give a whole number of at least 0")
    return value


def as_sources(sources: Sequence[str | None] | None, n: int) -> list[str | None]:
    """Return the annotators' names of `n` labels, None for an unknown annotator.

    The argument None gives a list of None. Raises DataError for other values.
    """
    known: list[str | None] = [None] * n if sources is None else list(sources)
    if len(known) != n:
        raise DataError(f"{len(known)} sources for {n} labels: give one each, None for none")
    for i, one in enumerate(known):
        if one is not None and not isinstance(one, str):
            raise DataError(f"sources[{i}] is {one!r}: who gave a label is text, or None")
    return known


def as_tick(tick: Any) -> int:
    """Return `tick`, milliseconds since the epoch, as an int.

    Raises DataError if `tick` is not an integer of at most 64 bits.
    """
    try:
        value = index(tick)
    except TypeError:
        value = _INT64.max + 1
    if not _INT64.min <= value <= _INT64.max:
        raise DataError(f"tick is {tick!r}: give whole milliseconds since the epoch")
    return value


def as_weights(weight: Any, n: int) -> np.ndarray:
    """Return the training weights `weight` as float64 (n,); None gives ones.

    Raises DataError if a weight is invalid.
    """
    if weight is None:
        return np.ones(n)
    try:
        values = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weight is not numbers: {error}; give one for each record") from error
    if values.shape != (n,):
        raise DataError(f"weight has shape {values.shape}, and there are {n} records")
    wrong = ~((values >= 0) & (values <= _HEAVIEST))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"weight[{i}] is {values[i]}: give a finite number, 0 or more and at most "
            f"{_HEAVIEST:.0f}, as how many records it is to count"
        )
    return values
