"""The rows of a training, and how they are made of what users give."""

from dataclasses import dataclass

import numpy as np

from streamboost.errors import DataError

__all__ = ["TrainingData", "training_data"]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The rows of one training.

    Parameters
    ----------
    X
        float32 (n, D), C-order; NaN where missing.
    y
        uint32 (n,), places in `classes`.
    weight
        float64 (n,), positive; a row of weight 2 counts as two rows.
    classes
        The class labels (K,).
    categorical
        Which columns hold categories, bool (D,); None: none does.
    places
        int64 (n,): where these rows stood among those given, rows of weight zero having been
        dropped; None when none were.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    categorical: np.ndarray | None = None
    places: np.ndarray | None = None


def training_data(
    X: np.ndarray,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    known: np.ndarray | None,
    categorical: np.ndarray | None = None,
) -> TrainingData:
    """Return the rows of positive weight, their labels as places among the classes."""
    places = None
    if sample_weight is not None and not (sample_weight > 0).all():
        places = np.flatnonzero(sample_weight > 0)
        X, y, sample_weight = X[places], y[places], sample_weight[places]
    if len(X) == 0:
        raise ValueError("no row has a positive weight: give at least one class a weight")
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    classes, codes = _encode(y, known)
    return TrainingData(X, codes, weight, classes, categorical, places)


def _encode(y: np.ndarray, known: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, known ones first and new ones sorted behind, and the codes of `y`."""
    found, codes = np.unique(y, return_inverse=True)
    if known is None:
        return found, codes.astype(np.uint32)
    if _is_text(found) != _is_text(known):
        raise DataError(
            f"the committee's classes are {known.tolist()[:5]} and the new labels "
            f"{found.tolist()[:5]}: text and numbers do not mix; give labels of one kind"
        )
    new = found[~np.isin(found, known)]
    classes = np.concatenate([known, new])
    order = np.argsort(classes)
    places = order[np.searchsorted(classes, found, sorter=order)]
    return classes, places[codes].astype(np.uint32)


def _is_text(labels: np.ndarray) -> bool:
    return isinstance(labels.tolist()[0], str)
