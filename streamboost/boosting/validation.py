"""Validation of the arrays and frames that users give to estimators, by scikit-learn's rules."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_X_y,
    validate_data,
)

from streamboost.boosting.frames import FrameColumns, to_narwhals_frame
from streamboost.errors import DataError


def validate_features(
    estimator: BaseEstimator,
    columns: FrameColumns | None,
    X: Any,
    y: Any = "no_validation",
    *,
    reset: bool,
) -> Any:
    """Validate `X`, an array or a frame, and `y` if given.

    Returns `X` as float32 (n, D) in C-order, or if `y` is given, the tuple of `X` and `y`.

    The checks are those of scikit-learn's `validate_data`. The column names of a frame are compared
    with those of the fitted `estimator`, or stored in `estimator` if `reset`. `columns` converts
    the values of a frame to numbers. Raises DataError if categories are known from a frame, and `X`
    is an array.
    """
    how = {"dtype": np.float32, "order": "C", "ensure_all_finite": "allow-nan"}
    frame = to_narwhals_frame(X)
    if frame is None and columns is not None and columns.categories:
        raise DataError(
            "X is no frame, and the training knew categories by the values of a frame's columns "
            f"{[columns.column_name(f) for f in columns.categories]}: give such a frame"
        )
    if frame is None:
        return validate_data(estimator, X, y, reset=reset, **how)
    validate_data(estimator, frame.to_native(), y, skip_check_array=True, reset=reset)
    rows = (columns or FrameColumns()).to_numbers(frame)
    if isinstance(y, str):
        return check_array(rows, estimator=estimator, **how)
    return check_X_y(rows, y, estimator=estimator, **how)


def validate_training_rows(
    estimator: BaseEstimator,
    columns: FrameColumns | None,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    reset: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Validate the rows of a training; return `X` float32 (n, D), `y` (n,) and weights (n,).

    The arguments are those of `validate_features`.
    """
    X, y = validate_features(estimator, columns, X, y, reset=reset)
    check_classification_targets(y)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return X, y, weight
