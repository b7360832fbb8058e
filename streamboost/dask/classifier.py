"""SketchLogitBoost on the workers of a Dask cluster, with the same results as on one machine."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from streamboost.boosting.frames import training_columns
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.training_data import warn_of_missing_classes
from streamboost.dask import parts, training
from streamboost.errors import ConfigurationError, DataError


@dataclass(kw_only=True, eq=False, repr=False)
class DaskSketchLogitBoostClassifier(SketchLogitBoostClassifier):
    """`SketchLogitBoostClassifier` that trains on Dask arrays or frames without gathering them.

    The committee is bitwise equal to that of `SketchLogitBoostClassifier` on the same rows, for any
    number of workers and any chunks, as workers exchange only sums of integers. If a worker dies,
    the training restarts on the remaining workers, up to three times. Distributed training is
    worthwhile from about 200,000 rows per worker on.

    The parameters are those of `SketchLogitBoostClassifier`, and `client`. `early_stopping` and
    frame columns of a categorical dtype are not supported. Integer columns that
    `categorical_features` names are supported.

    Parameters
    ----------
    client
        The `distributed.Client` of the cluster; None: the newest client.
    """

    client: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on `X` (n, D), a Dask array or frame, NaN where missing, and labels `y` (n,).

        `y` and `sample_weight` are Dask arrays or series with as many rows. Raises
        `streamboost.errors.LostWorkerError` if workers die in each of four attempts.
        """
        self.check_parameters()
        self._columns = None
        self._train_distributed(
            X, y, sample_weight, self._training_seed(), self.n_estimators, reset=True
        )
        return self

    def extend(
        self, X: Any, y: Any, *, n_estimators: int | None = None, sample_weight: Any = None
    ) -> Self:
        """Add `n_estimators` boosting rounds, trained on these rows, to the fitted committee.

        The arguments are those of `fit`. If `n_estimators` is None, as many rounds are added as
        `fit` trains.
        """
        check_is_fitted(self, "classes_")
        rounds, known = self.n_estimators if n_estimators is None else n_estimators, self.committee_
        copy(self).set_params(n_estimators=rounds).check_parameters()
        seed = self._training_seed(n_earlier_rounds=known.n_rounds)
        labels = self._train_distributed(X, y, sample_weight, seed, rounds, reset=False)
        warn_of_missing_classes(known.classes, labels)
        return self

    def _train_distributed(
        self, X: Any, y: Any, weight: Any, seed: int, rounds: int, *, reset: bool
    ) -> np.ndarray:
        """Train on the workers, store the committee, and return the distinct labels in `y`.

        With `reset`, train a new committee; otherwise extend the fitted one.
        """
        if self.early_stopping:
            raise ConfigurationError(
                "early_stopping=True: rows are not held out on Dask; train with it on one machine, "
                "or choose n_estimators"
            )
        try:
            import dask
            from distributed import default_client
        except ImportError as error:
            raise ImportError(f"{error}: pip install 'streamboost[dask]'") from error
        client = self.client or default_client()
        self._set_or_check_columns(X, reset=reset)
        chunks = _divide_labels_like_rows(X, y, weight)
        read = dask.delayed(parts.read_part, pure=False)
        rows = client.compute([read(self._columns, *chunk) for chunk in chunks])
        names = getattr(self, "feature_names_in_", None)
        known = None if reset else self.committee_
        committee, labels = training.train_on_workers(
            client,
            self._unfitted_local_estimator(),
            rows,
            names,
            seed=seed,
            rounds=rounds,
            committee=known,
        )
        self.committee_ = replace(committee, columns=self._columns)
        self.classes_ = self.committee_.classes
        self.n_features_in_ = self.committee_.n_features
        self.validation_score_ = -np.array([])
        return labels

    def _set_or_check_columns(self, X: Any, *, reset: bool) -> None:
        """Store the column names of a frame `X` if `reset`; else compare them with the stored ones.

        Raises DataError if a column is of a categorical type.
        """
        if hasattr(X, "_meta") and hasattr(X._meta, "columns"):
            _check_feature_names(self, X._meta, reset=reset)
            known = None if reset else self._columns
            self._columns = training_columns(X._meta, self.categorical_features, known)
        if self._columns is not None and self._columns.categories:
            names = [self._columns.column_name(f) for f in self._columns.categories]
            raise DataError(
                f"columns {names} hold categories by their type, whose codes Dask's chunks do not "
                "share: give them as whole numbers from 0 on, named in categorical_features"
            )

    def _unfitted_local_estimator(self) -> SketchLogitBoostClassifier:
        """Return an unfitted local estimator with the same parameters, to send to workers."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k != "client"}
        return SketchLogitBoostClassifier(**own)

    def to_local(self) -> SketchLogitBoostClassifier:
        """Return a fitted local estimator with the same committee, for use without Dask."""
        local = self._unfitted_local_estimator()
        for name, value in vars(self).items():
            if name.endswith("_") or name == "_columns":
                setattr(local, name, copy(value))
        return local

    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row, (n,); a Dask array for a Dask collection."""
        return self._call_method_on_chunks("predict", X, self.classes_.dtype, ())

    def predict_proba(self, X: Any) -> Any:
        """Return the class probabilities (n, K); a Dask array if `X` is a Dask collection."""
        return self._call_method_on_chunks(
            "predict_proba", X, np.dtype(np.float64), (len(self.classes_),)
        )

    def decision_function(self, X: Any) -> Any:
        """Return the scores (n, K), or (n,) for two classes.

        The result is a Dask array if `X` is a Dask collection.
        """
        shape = (len(self.classes_),) if len(self.classes_) > 2 else ()
        return self._call_method_on_chunks("decision_function", X, np.dtype(np.float64), shape)

    def _call_method_on_chunks(
        self, method_name: str, X: Any, dtype: np.dtype[Any], shape_per_row: tuple[int, ...]
    ) -> Any:
        check_is_fitted(self, "classes_")
        method: Callable[[Any], np.ndarray] = getattr(super(), method_name)
        if not _is_dask_collection(X):
            return method(X)
        import dask
        import dask.array as da

        predict = dask.delayed(_call_method_on_chunk)
        local = dask.delayed(self.to_local())
        lengths = X.chunks[0] if _is_dask_array(X) else [np.nan] * X.npartitions
        return da.concatenate(
            [
                da.from_delayed(predict(local, method_name, chunk), (length, *shape_per_row), dtype)
                for chunk, length in zip(_chunks_of_rows(X), lengths, strict=True)
            ]
        )


def _call_method_on_chunk(
    local_estimator: SketchLogitBoostClassifier, method_name: str, X: Any
) -> np.ndarray:
    if len(X) == 0:  # an empty partition
        K = len(local_estimator.classes_)
        flat = method_name == "predict" or (method_name == "decision_function" and K == 2)
        dtype = local_estimator.classes_.dtype if method_name == "predict" else np.float64
        return np.empty((0,) if flat else (0, K), dtype=dtype)
    return np.asarray(getattr(local_estimator, method_name)(X))


def _is_dask_collection(X: Any) -> bool:
    return hasattr(X, "__dask_graph__")


def _is_dask_array(X: Any) -> bool:
    return hasattr(X, "chunks") and hasattr(X, "rechunk")


def _chunks_of_rows(X: Any) -> list[Any]:
    """Return the chunks of a Dask array, with all columns each, or the partitions of a frame."""
    if _is_dask_array(X) and X.ndim > 1:
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))


def _divide_labels_like_rows(X: Any, y: Any, weight: Any) -> list[tuple[Any, Any, Any]]:
    """Return a tuple of rows, labels and weights (or None) for each chunk of rows.

    Labels and weights are divided like the rows. Raises DataError if an argument is no Dask
    collection, or if the numbers of rows or chunks differ.
    """
    given = {"X": X, "y": y} | ({} if weight is None else {"sample_weight": weight})
    wrong = [name for name, value in given.items() if not _is_dask_collection(value)]
    if wrong:
        raise DataError(
            f"{wrong[0]} is no Dask array or frame but {type(given[wrong[0]]).__name__}: give "
            "dask.array.from_array(...), or train with SketchLogitBoostClassifier"
        )
    of_rows = None
    if _is_dask_array(X):
        X = X.compute_chunk_sizes() if np.isnan(X.chunks[0]).any() else X
        of_rows = X.chunks[0]
    blocks = [
        _chunks_of_rows(X),
        *(_chunks_like_rows(v, of_rows) for k, v in given.items() if k != "X"),
    ]
    if len({len(some) for some in blocks}) > 1:
        raise DataError(
            f"X has {len(blocks[0])} chunks and y {len(blocks[1])}: give both the same rows in "
            "each, as a frame and one of its columns have"
        )
    none = [None] * len(blocks[0])
    return list(zip(*blocks, *([] if weight is not None else [none]), strict=True))


def _chunks_like_rows(values: Any, chunk_sizes: tuple[int, ...] | None) -> list[Any]:
    """Return the chunks of labels or weights, divided like the rows.

    `chunk_sizes` are the numbers of rows in each chunk of `X`. If `X` is a frame, they are unknown
    (None), and the chunks of `values` are kept.
    """
    if _is_dask_array(values) and chunk_sizes is not None:
        values = values.compute_chunk_sizes() if np.isnan(values.chunks[0]).any() else values
        if sum(values.chunks[0]) != sum(chunk_sizes):
            raise DataError(
                f"X has {sum(chunk_sizes)} rows, and y or sample_weight {sum(values.chunks[0])}"
            )
        values = values.rechunk({0: chunk_sizes})
    return _chunks_of_rows(values)
