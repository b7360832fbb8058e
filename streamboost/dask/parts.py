"""Tasks that run on workers: read rows, choose bins, and train on the rows of one worker."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from streamboost.boosting.categorical import check_categories
from streamboost.boosting.committee import Committee
from streamboost.boosting.frames import FrameColumns, to_narwhals_frame
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.training_data import TrainingData, class_weight_factors
from streamboost.dask.handshake import TlsContexts
from streamboost.dask.network import Rendezvous, abort_attempt, join_rendezvous, open_rendezvous
from streamboost.trees.bins import Bins
from streamboost.trees.categories import CategoryBins
from streamboost.trees.sums import AllReduce, Shard


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a Dask chunk: X float32 (n, D), labels or class indices y (n,), weights (n,)."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True, slots=True)
class ShardLabels:
    """Sorted distinct labels, and for each its class index and a factor of its rows' weights."""

    labels: np.ndarray
    codes: np.ndarray
    factors: np.ndarray


@dataclass(frozen=True, slots=True)
class ShardJob:
    """Description of a training, equal for all workers.

    `n` is the number of rows of all workers, and `rounds` the number of rounds to train. If
    `committee` is given, the training extends this committee.
    """

    model: SketchLogitBoostClassifier
    n: int
    bins: Bins
    classes: np.ndarray
    rounds: int
    seed: int
    committee: Committee | None


def read_part(columns: FrameColumns | None, X: Any, y: Any, weight: Any) -> Part:
    """Validate the rows of one Dask chunk as `fit` does, and return them as a `Part`.

    `columns` converts the values of a frame; None for arrays. `weight` may be None.
    """
    frame = to_narwhals_frame(X)
    if frame is not None:
        X = (columns or FrameColumns()).to_numbers(frame)
    how: dict[str, Any] = {"dtype": np.float32, "order": "C", "ensure_all_finite": "allow-nan"}
    X = check_array(X, ensure_min_samples=0, **how)
    y = check_array(y, ensure_2d=False, dtype=None, ensure_min_samples=0)
    y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    check_consistent_length(X, y)
    weight = np.ones(len(y)) if weight is None else weight
    weight = check_array(weight, ensure_2d=False, dtype=np.float64, ensure_min_samples=0)
    check_consistent_length(weight, y)
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    return Part(X, y, weight)


def column_count_and_labels(part: Part) -> tuple[int, np.ndarray]:
    """Return the number of columns D of a part, and its distinct labels, sorted."""
    return part.X.shape[1], np.unique(part.y)


def labels_and_weights(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels (n,) and weights (n,) of a part."""
    return part.y, part.weight


def label_weight_factors(
    class_weight: Any,
    labels: np.ndarray,
    labels_and_weights_of_parts: Sequence[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Return the factor by which `class_weight` multiplies the row weights of each label, (K,).

    `labels` (K,) are sorted. The last argument has the result of `labels_and_weights` for each
    part.
    """
    y, weight = (
        np.concatenate(of_each) for of_each in zip(*labels_and_weights_of_parts, strict=True)
    )
    return class_weight_factors(class_weight, labels, np.searchsorted(labels, y), weight)


def encode_and_weight_labels(part: Part, labels: ShardLabels) -> Part:
    """Return a copy of `part` with labels as class indices, and weights times the labels' factors.

    Rows of weight 0 are dropped.
    """
    at = np.searchsorted(labels.labels, part.y)
    X, y, weight = part.X, labels.codes[at], part.weight * labels.factors[at]
    if not (weight > 0).all():
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
    return Part(X, y, weight)


def row_count(part: Part) -> int:
    """Return the number of rows of a part."""
    return len(part.y)


def select_columns(part: Part, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns `begin` to `end` - 1 of a part, (n, columns), and its weights (n,)."""
    return part.X[:, begin:end], part.weight


def fit_bins(
    columns_and_weights: Sequence[tuple[np.ndarray, np.ndarray]],
    max_bins: int | None,
    categorical: np.ndarray,
    names: np.ndarray | None,
) -> Bins:
    """Return the bins of a group of columns, chosen from all rows.

    `columns_and_weights` are the results of `select_columns` for all parts. The mask `categorical`,
    bool (columns,), marks categorical columns, and `names` are the column names or None.
    """
    X = np.concatenate([piece for piece, _ in columns_and_weights])
    check_categories(X, categorical, names)
    weight = np.concatenate([weight for _, weight in columns_and_weights])
    return Bins.fit(X, weight, max_bins, categorical)


def concatenate_bins(bins_of_groups: Sequence[Bins]) -> Bins:
    """Return the bins of all columns, from the bins of consecutive groups of columns."""
    cuts = list[np.ndarray]()
    categories = dict[int, CategoryBins]()
    for some in bins_of_groups:
        categories |= {len(cuts) + f: of for f, of in some.categories.items()}
        cuts += some.cuts
    return Bins(cuts, np.concatenate([some.missing for some in bins_of_groups]), categories)


def open_rendezvous_on_this_worker(n_workers: int) -> Rendezvous:
    """Open a port for all `n_workers` on this worker, the first, and return its address."""
    from distributed import get_worker

    return open_rendezvous(
        get_worker().address.split("://")[-1].rsplit(":", 1)[0].strip("[]"), n_workers
    )


def train_shard(
    pickled_job: bytes, rendezvous: Rendezvous, rank: int, row_offsets: Sequence[int], *parts: Part
) -> Committee | None:
    """Train together with the other workers on the rows of `parts`, and return the committee.

    `pickled_job` is a pickled `ShardJob`, and `row_offsets` are the indices of each part's first
    row among all rows. `rank` is the number of this worker. Workers other than the first compute an
    equal committee, but return None.
    """
    from distributed import get_worker

    try:
        all_reduce = join_rendezvous(rendezvous, rank, TlsContexts.from_worker(get_worker()))
        job: ShardJob = pickle.loads(pickled_job)
        data = _combine_parts_as_training_data(job, row_offsets, parts, all_reduce)
        model, rng = job.model, np.random.default_rng(job.seed)
        committee = model._boost_committee(data, job.rounds, rng, job.committee)
        # A barrier: a connection that ends earlier counts as a lost worker.
        all_reduce.sum_over_shards(np.zeros(1, dtype=np.int64))
        return committee if rank == 0 else None
    finally:
        abort_attempt(rendezvous.token)


def _combine_parts_as_training_data(
    job: ShardJob, row_offsets: Sequence[int], parts: Sequence[Part], all_reduce: AllReduce
) -> TrainingData:
    X, y, weight = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "weight")
    )
    places = np.concatenate(
        [np.arange(at, at + len(part.y)) for at, part in zip(row_offsets, parts, strict=True)]
    )
    shard = Shard(job.n, places, all_reduce, job.bins)
    return TrainingData(X, y, weight, job.classes, job.bins.categorical, None, shard)
