"""Categorical columns: the parameter `categorical_features` of the estimators, and its checks.

The parameter has one of these values:

- "from_dtype": the columns of a frame whose type is category, Categorical or Enum; none of an array
- a mask (D,), column indices, or, if `fit` gets a frame, column names
- None: no column

In an array, or in a numeric column of a frame, categories are whole numbers from 0. Negative
numbers are missing values. A category of a frame that is not a number is identified by its value,
not by the frame's own code (`streamboost.boosting.frames`). A split sends a set of categories left.
NaN and categories absent from the training data are missing values. If a column has more than 254
categories, the rare ones share a bin. `extend` needs the same categorical columns as `fit`.
"""

from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError, DataError
from streamboost.trees.categories import LARGEST


def validated_categorical_mask(
    X: np.ndarray,
    selection: Any,
    categorical_dtype_columns: list[int],
    names: np.ndarray | None,
    no_categories_reason: str,
) -> np.ndarray:
    """Return a mask of the categorical columns of `X`, bool (D,), after checking their values.

    `selection` is the parameter `categorical_features`. `categorical_dtype_columns` are the indices
    of the frame columns of a categorical type, which "from_dtype" selects. `names` are the column
    names of a frame, else None. `no_categories_reason` is empty, or the reason why the estimator
    does not support categories; then a categorical column raises ConfigurationError.
    """
    from_dtype = isinstance(selection, str) and selection == "from_dtype"
    mask = categorical_mask(
        categorical_dtype_columns if from_dtype else selection, X.shape[1], names
    )
    if no_categories_reason and mask.any():
        raise ConfigurationError(
            f"categorical_features chooses {mask.sum()} columns, and {no_categories_reason}"
        )
    check_categories(X, mask, names)
    return mask


def categorical_mask(selection: Any, n_features: int, names: np.ndarray | None) -> np.ndarray:
    """Return the mask of the columns that `categorical_features` selects, bool (D,).

    Parameters
    ----------
    selection
        None, a mask (D,), column indices, or column names.
    names
        The column names (D,) if `fit` got a data frame, else None.

    Raises
    ------
    ConfigurationError
        If `selection` does not match the columns.

    Examples
    --------
    >>> from streamboost.boosting.categorical import categorical_mask
    >>> categorical_mask([0, 2], 3, None)
    array([ True, False,  True])
    """
    mask = np.zeros(n_features, dtype=bool)
    choice = np.asarray([] if selection is None else selection)
    if choice.size == 0:
        return mask
    if choice.dtype.kind == "b" and choice.shape == mask.shape:
        return choice.copy()
    if choice.dtype.kind in "iu" and choice.ndim == 1:
        if ((choice < 0) | (choice >= n_features)).any():
            raise ConfigurationError(
                f"categorical_features={choice.tolist()}: X has {n_features} columns, so that "
                f"indices lie between 0 and {n_features - 1}"
            )
        mask[choice] = True
        return mask
    if all(isinstance(name, str) for name in choice.tolist()) and choice.ndim == 1:
        known = [] if names is None else names.tolist()
        unknown = [name for name in choice.tolist() if name not in known]
        if unknown:
            has = f"the columns are {known}" if known else "X has no column names"
            raise ConfigurationError(
                f"categorical_features names {unknown}, and {has}: fit on a data frame with such "
                "columns, or give indices"
            )
        return np.isin(known, choice)
    raise ConfigurationError(
        f"categorical_features={selection!r}: give None, {n_features} booleans (one for each "
        "column of X), column indices, or column names"
    )


def check_categories(X: np.ndarray, categorical: np.ndarray, names: np.ndarray | None) -> None:
    """Raise DataError if a categorical column holds a value that is not a category.

    `X` is float32 (n, D), and `categorical` bool (D,) marks the categorical columns. `names` (D,)
    are the column names, or None. Negative values and NaN are valid, as missing values.
    """
    for f in np.flatnonzero(categorical):
        column = X[:, f]
        wrong = (column >= 0) & (column != np.floor(column))
        mend = "number its categories 0, 1, 2, ... (OrdinalEncoder does)"
        if not wrong.any():
            wrong = column >= LARGEST
            mend += ": larger numbers run together in float32"
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            name = f"column {f}" if names is None else f"column {str(names[f])!r} ({f})"
            raise DataError(
                f"{name} is in categorical_features and holds {column[row]:.10g} in row {row}: "
                f"{mend}, or take the column out of categorical_features"
            )
