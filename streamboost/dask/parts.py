"""Tasks of a worker: read its rows, bin columns, train on a shard."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from streamboost.boosting.categorical import check_categories
from streamboost.boosting.committee import Committee
from streamboost.boosting.frames import FrameColumns, frame_of
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.training_data import TrainingData, factors
from streamboost.dask.handshake import Encryption
from streamboost.dask.network import Rendezvous, abandon, join, listen
from streamboost.trees.bins import Bins
from streamboost.trees.categories import CategoryBins
from streamboost.trees.sums import AllReduce, Shard

__all__ = [
    "Part",
    "ShardJob",
    "ShardLabels",
    "columns",
    "cut",
    "factors_of",
    "joined",
    "n_rows",
    "of_rows",
    "open_port",
    "read",
    "train",
    "weigh",
    "width_and_labels",
]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a chunk: X float32 (n, D), labels or codes y (n,), weights float64 (n,)."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True, slots=True)
class ShardLabels:
    """Sorted distinct labels, the code of each, and the factors of its rows' weights."""

    labels: np.ndarray
    codes: np.ndarray
    factors: np.ndarray


@dataclass(frozen=True, slots=True)
class ShardJob:
    """Job of a training, the same for all workers: on `n` rows, extending `committee`."""

    model: SketchLogitBoostClassifier
    n: int
    bins: Bins
    classes: np.ndarray
    rounds: int
    seed: int
    committee: Committee | None


def read(columns: FrameColumns | None, X: Any, y: Any, weight: Any) -> Part:
    """Validate a chunk or partition as `fit` does; return it as a part."""
    frame = frame_of(X)
    if frame is not None:
        X = (columns or FrameColumns()).read(frame)
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


def width_and_labels(part: Part) -> tuple[int, np.ndarray]:
    """Return the number of columns of a part, and its distinct labels."""
    return part.X.shape[1], np.unique(part.y)


def of_rows(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels and weights of a part."""
    return part.y, part.weight


def factors_of(
    class_weight: Any, labels: np.ndarray, of_parts: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Return the factors of the weights of each label's rows, float64 (K,)."""
    y, weight = (np.concatenate(of_each) for of_each in zip(*of_parts, strict=True))
    return factors(class_weight, labels, np.searchsorted(labels, y), weight)


def weigh(part: Part, labels: ShardLabels) -> Part:
    """Return the rows of a part with positive weight, with codes for labels."""
    at = np.searchsorted(labels.labels, part.y)
    X, y, weight = part.X, labels.codes[at], part.weight * labels.factors[at]
    if not (weight > 0).all():
        X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
    return Part(X, y, weight)


def n_rows(part: Part) -> int:
    """Return the number of rows of a part."""
    return len(part.y)


def columns(part: Part, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return some columns of a part, and its weights."""
    return part.X[:, begin:end], part.weight


def cut(
    pieces: Sequence[tuple[np.ndarray, np.ndarray]],
    max_bins: int | None,
    categorical: np.ndarray,
    names: np.ndarray | None,
) -> Bins:
    """Choose the bins of some columns from all rows, in order; `categorical` (columns,)."""
    X = np.concatenate([piece for piece, _ in pieces])
    check_categories(X, categorical, names)
    weight = np.concatenate([weight for _, weight in pieces])
    return Bins.fit(X, weight, max_bins, categorical)


def joined(bins: Sequence[Bins]) -> Bins:
    """Concatenate the bins of consecutive groups of columns."""
    cuts = list[np.ndarray]()
    categories = dict[int, CategoryBins]()
    for some in bins:
        categories |= {len(cuts) + f: of for f, of in some.categories.items()}
        cuts += some.cuts
    return Bins(cuts, np.concatenate([some.missing for some in bins]), categories)


def open_port(n: int) -> Rendezvous:
    """Open a port for the rendezvous of `n` workers, of which this worker is the first."""
    from distributed import get_worker

    return listen(get_worker().address.split("://")[-1].rsplit(":", 1)[0].strip("[]"), n)


def train(
    pickled_job: bytes, rendezvous: Rendezvous, rank: int, starts: Sequence[int], *parts: Part
) -> Committee | None:
    """Train with the other workers on `parts`, whose offsets among all rows are `starts`.

    `pickled_job` is a `ShardJob`. The first worker returns the committee. The others have an equal
    committee, and return None.
    """
    from distributed import get_worker

    try:
        total = join(rendezvous, rank, Encryption.of(get_worker()))
        job: ShardJob = pickle.loads(pickled_job)
        data = _data(job, starts, parts, total)
        model, rng = job.model, np.random.default_rng(job.seed)
        committee = model._boost(data, job.rounds, rng, job.committee)
        # A barrier: a connection that ends earlier counts as a lost worker.
        total.sum_over_shards(np.zeros(1, dtype=np.int64))
        return committee if rank == 0 else None
    finally:
        abandon(rendezvous.token)


def _data(
    job: ShardJob, starts: Sequence[int], parts: Sequence[Part], total: AllReduce
) -> TrainingData:
    X, y, weight = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "weight")
    )
    places = np.concatenate(
        [np.arange(at, at + len(part.y)) for at, part in zip(starts, parts, strict=True)]
    )
    shard = Shard(job.n, places, total, job.bins)
    return TrainingData(X, y, weight, job.classes, job.bins.categorical, None, shard)
