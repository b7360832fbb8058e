"""Training data: the rows, labels and weights of a training, as arrays."""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from streamboost.errors import ConfigurationError, DataError
from streamboost.trees.sums import NO_REDUCE, AllReduce, Shard, quantize_weights


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Validated rows of a training, with class indices and weights.

    Parameters
    ----------
    X
        float32 (n, D), C-order; NaN where missing.
    y
        uint32 (n,), indices of `classes`.
    weight
        float64 (n,), positive; a row of weight 2 counts as two rows.
    classes
        The class labels (K,).
    categorical
        Mask of the categorical columns, bool (D,); None: no column.
    row_indices
        Indices of these rows among the given rows, int64 (n,); None if no row was dropped. Rows of
        weight zero are dropped.
    shard
        Shard of the training data that holds these rows; None if these are all rows.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    categorical: np.ndarray | None = None
    row_indices: np.ndarray | None = None
    shard: Shard | None = None

    @property
    def n_rows(self) -> int:
        """Number of training rows in all shards."""
        return len(self.X) if self.shard is None else self.shard.n

    @property
    def all_reduce(self) -> AllReduce:
        """Operation that sums an array over all shards of the training, in place."""
        return NO_REDUCE if self.shard is None else self.shard.all_reduce

    def class_weights(self) -> np.ndarray:
        """Return the total weight of each class in all shards, float64 (K,)."""
        return total_class_weights(self.y, self.weight, len(self.classes), self.all_reduce)

    def initial_voting_scores(self) -> np.ndarray:
        """Return the initial scores of voting algorithms, float64 (K,).

        The score is 0 for classes with rows. For a class without rows, the score is half the log
        odds of an error rate of 1e-10.
        """
        met = np.bincount(self.y, minlength=len(self.classes)) > 0
        return np.where(met, 0.0, 0.5 * np.log(1e-10))


def make_training_data(
    X: np.ndarray,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    known_classes: np.ndarray | None,
    categorical: np.ndarray | None = None,
) -> TrainingData:
    """Return the rows with positive weight as training data.

    As in scikit-learn, the classes are all distinct labels in `y`, even if all rows of a class have
    weight 0. The `known_classes` of an extended committee come first. Raises ValueError if no row
    has a positive weight.
    """
    classes, codes = encode_labels(y, known_classes)
    row_indices = None
    if sample_weight is not None and not (sample_weight > 0).all():
        row_indices = np.flatnonzero(sample_weight > 0)
        X, codes, sample_weight = X[row_indices], codes[row_indices], sample_weight[row_indices]
    if len(X) == 0:
        raise ValueError("no row has a positive weight: give at least one class a weight")
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    return TrainingData(X, codes, weight, classes, categorical, row_indices)


def total_class_weights(
    y: np.ndarray, weight: np.ndarray, n_classes: int, all_reduce: AllReduce = NO_REDUCE
) -> np.ndarray:
    """Return the total weight of each class, float64 (K,), with exact sums over all shards.

    `y` (n,) are the class indices of the rows of this shard, and `weight` (n,) their positive
    weights. `all_reduce` adds up the weights of all shards.
    """
    units, scale = quantize_weights(weight, all_reduce)
    counted = None if len(units) < len(y) else units
    sums = np.bincount(y, weights=counted, minlength=n_classes).astype(np.int64)
    if counted is None:
        sums *= units[0]
    all_reduce.sum_over_shards(sums)
    return sums / scale


def check_class_weight(class_weight: Any, y: np.ndarray) -> None:
    """Raise ConfigurationError if `class_weight` names classes that are absent from `y` (n,).

    As in scikit-learn, absent classes are accepted if all classes in `y` are named too.
    """
    if not isinstance(class_weight, dict):
        return
    classes = np.unique(y).tolist()
    unknown = [label for label in class_weight if label not in classes]
    unnamed = [label for label in classes if label not in class_weight]
    if unknown and unnamed:
        raise ConfigurationError(
            f"The classes, {unnamed}, are not in class_weight, which names {unknown}, and no row "
            "has that label: name the classes as y does"
        )


def warn_of_missing_classes(known_classes: np.ndarray, y: np.ndarray) -> None:
    """Warn if one of the committee's classes is absent from the labels `y` (n,) of an extension."""
    absent = known_classes[~np.isin(known_classes, y)].tolist()
    if not absent:
        return
    names = f"{absent[:5]}"[:-1] + (", ...]" if len(absent) > 5 else "]")
    warnings.warn(
        f"the rows of this extension have none of class {names}, {len(absent)} of the "
        f"committee's {len(known_classes)}: nothing tells the others from it, and its recall "
        "falls, mostly far and soon. Add some rows of each class, earlier ones will do, or fit "
        "again",
        UserWarning,
        stacklevel=3,
    )


def apply_class_weight(
    class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None
) -> np.ndarray | None:
    """Return the row weights times the weights of the rows' classes, float64 (n,).

    `class_weight` is None, which returns `sample_weight` itself; a dictionary (other classes have
    weight 1); or "balanced", which is n / (K times the total weight of the class), so that the K
    classes present have equal total weights. A row of weight 2 counts as two rows.

    >>> apply_class_weight("balanced", np.array([0, 0, 0, 1]), None)
    array([0.666..., 0.666..., 0.666..., 2.        ])
    """
    if class_weight is None:
        return sample_weight
    own = np.ones(len(y)) if sample_weight is None else sample_weight
    classes, codes = np.unique(y, return_inverse=True)
    return np.asarray(own * class_weight_factors(class_weight, classes, codes, own)[codes])


def class_weight_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the factor by which `class_weight` multiplies row weights of each class, float64 (K,).

    `codes` (n,) are indices of `classes` (K,), and `weight` (n,) is not negative; see
    `apply_class_weight`.
    """
    if isinstance(class_weight, dict):
        _require_valid_class_weights(class_weight)
        return np.array([class_weight.get(c, 1.0) for c in classes.tolist()], dtype=np.float64)
    counted, mass, of_class = weight > 0, np.zeros(len(classes)), np.ones(len(classes))
    if counted.any():
        mass = total_class_weights(codes[counted], weight[counted], len(classes))
    met = mass > 0  # the factor of other classes has no effect, as their rows have weight 0
    of_class[met] = mass.sum() / (met.sum() * mass[met])
    return of_class


def _require_valid_class_weights(class_weight: dict[Any, Any]) -> None:
    for label, weight in class_weight.items():
        if not (isinstance(weight, Real) and 0 <= float(weight) < np.inf):
            raise ConfigurationError(
                f"class_weight[{label!r}] is {weight!r}: give a finite number, 0 or more"
            )


def encode_labels(y: np.ndarray, known_classes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, and the class index of each label in `y`, uint32 (n,).

    The `known_classes`, if any, come first, and then new labels. Raises DataError if only one of
    `y` and `known_classes` consists of text.
    """
    found, codes = (
        _distinct_text_labels(y)
        if len(y) and _are_text_labels(y)
        else np.unique(y, return_inverse=True)
    )
    if known_classes is None:
        return found, codes.astype(np.uint32)
    if _are_text_labels(found) != _are_text_labels(known_classes):
        raise DataError(
            f"the committee's classes are {known_classes.tolist()[:5]} and the new labels "
            f"{found.tolist()[:5]}: text and numbers do not mix; give labels of one kind"
        )
    new = found[~np.isin(found, known_classes)]
    classes = np.concatenate([known_classes, new])
    order = np.argsort(classes)
    places = order[np.searchsorted(classes, found, sorter=order)]
    return classes, places[codes].astype(np.uint32)


def _distinct_text_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct text labels, and the index of each row's label.

    For text, this is faster than `numpy.unique`.
    """
    labels = y.tolist()
    found = sorted(set(labels))
    place = {label: i for i, label in enumerate(found)}
    return np.array(found, dtype=y.dtype), np.array([place[label] for label in labels])


def _are_text_labels(labels: np.ndarray) -> bool:
    return isinstance(labels[0], str)
