"""What the client does: have rows read and cut where they are, and a training on the workers.

What Dask can compute again it computes again where a worker dies. A training itself is an attempt:
all workers in step, and without one of them it ends at once and begins again on those left.
"""

import logging
import pickle
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from streamboost.boosting.categorical import categorical_mask
from streamboost.boosting.committee import Committee
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.training_data import check_class_weight, encode
from streamboost.dask import parts
from streamboost.dask.network import Meeting, abandon
from streamboost.errors import DataError, LostWorkerError
from streamboost.trees.bins import Bins

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["train"]

_log = logging.getLogger(__name__)

_ATTEMPTS = 4  # the first, and up to three more
_LOOK_SECONDS = 0.5  # between looks at whether all workers are still there
_END_SECONDS = 5  # in which those that are left are told, and give up


def train(
    client: "Client",
    model: SketchLogitBoostClassifier,
    rows: Sequence[Any],
    names: np.ndarray | None,
    *,
    seed: int,
    rounds: int,
    committee: Committee | None = None,
) -> tuple[Committee, np.ndarray]:
    """Train on `rows`, futures of `parts.Part`; return the committee and the labels met.

    The committee is that of `model.train` on all rows, in the order of `rows`, to the last bit.
    """
    known_workers = set(client.ncores())
    labels = _labels(client, rows)
    check_classification_targets(labels)
    if committee is None:
        check_class_weight(model.class_weight, labels)
    classes, codes = encode(labels, None if committee is None else committee.classes)
    factors = np.ones(len(labels))
    if model.class_weight is not None:
        of_rows = client.map(parts.of_rows, rows, pure=False)
        given = model.class_weight, labels, of_rows
        factors = client.submit(parts.factors_of, *given, pure=False).result()
    known = parts.Labels(labels, codes, factors)
    weighed = client.map(parts.weigh, rows, labels=known, pure=False)
    counts = client.gather(client.map(parts.n_rows, weighed, pure=False))
    if sum(counts) == 0:
        raise ValueError("no row has a positive weight: give at least one class a weight")
    bins = _bins(client, model, weighed, _n_columns(client, rows), names)
    job = parts.Job(model, sum(counts), bins, classes, rounds, seed, committee)
    error: BaseException | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _attempt(client, job, weighed, counts, known_workers), labels
        except (LostWorkerError, OSError) as lost:
            error = lost
            _log.warning("attempt %d of %d has ended: %s", attempt, _ATTEMPTS, lost)
    raise LostWorkerError(
        f"in each of {_ATTEMPTS} attempts a worker was lost, in the last by: {error}. See the "
        "workers' logs for why (memory, most often), and train again"
    ) from error


def _labels(client: "Client", rows: Sequence[Any]) -> np.ndarray:
    found = client.gather(client.map(parts.found, rows, pure=False))
    widths = {width for width, labels in found if len(labels)}
    if len(widths) > 1:
        raise DataError(f"the chunks of X have {sorted(widths)} columns: give all the same")
    if not widths:
        raise DataError("X has no rows: give some")
    return np.unique(np.concatenate([labels for _, labels in found if len(labels)]))


def _n_columns(client: "Client", rows: Sequence[Any]) -> int:
    return int(client.submit(parts.found, rows[0], pure=False).result()[0])


def _bins(
    client: "Client",
    model: SketchLogitBoostClassifier,
    rows: Sequence[Any],
    n_columns: int,
    names: np.ndarray | None,
) -> Bins:
    """Choose the bins of each column in one place, by all its values in the order of the rows."""
    chosen = model.categorical_features
    mask = categorical_mask(
        None if isinstance(chosen, str) and chosen == "from_dtype" else chosen, n_columns, names
    )
    n = min(n_columns, 2 * len(client.ncores()))
    ends = [n_columns * i // n for i in range(n + 1)]
    cuts = []
    for begin, end in pairwise(ends):
        pieces = client.map(parts.columns, rows, begin=begin, end=end, pure=False)
        of_those = None if names is None else names[begin:end]
        given = pieces, model.max_bins, mask[begin:end], of_those
        cuts.append(client.submit(parts.cut, *given, pure=False))
    return parts.joined(client.gather(cuts))


def _attempt(
    client: "Client",
    job: parts.Job,
    rows: Sequence[Any],
    counts: Sequence[int],
    known_workers: set[str],
) -> Committee:
    """Train once; raise LostWorkerError where a worker is lost."""
    from distributed import Lock

    told = pickle.dumps(job)  # as Dask would send arrays, kernels could not write to them
    # Two trainings, each with some of the workers and waiting for the others, would wait forever.
    with client.as_current(), Lock("streamboost.dask"):
        # Only now: while it waited for others, workers may have died.
        shares = _shares(client, rows, counts, known_workers)
        workers = list(shares)
        _log.info("training on %d workers", len(workers))
        meeting = _meet(client, workers)
        futures = [
            client.submit(
                parts.train,
                told,
                meeting,
                rank,
                [sum(counts[:i]) for i in shares[worker]],
                *(rows[i] for i in shares[worker]),
                workers=[worker],
                allow_other_workers=False,
                pure=False,
            )
            for rank, worker in enumerate(workers)
        ]
        try:
            _wait(client, futures, workers)
        finally:
            _end(client, meeting, dict(zip(workers, futures, strict=True)))
        return _result(futures)


def _shares(
    client: "Client", rows: Sequence[Any], counts: Sequence[int], known_workers: set[str]
) -> dict[str, list[int]]:
    """Return which rows each worker trains on: those it has, as long as the others have as many.

    A worker that has none and was not known when the training began, such as Dask starts in the
    place of one that died, is spared: all others would wait until it has loaded what it needs.
    """
    from distributed import wait

    wait(rows)
    has = client.who_has(rows)
    holding = known_workers.union(*has.values())
    there = client.ncores()
    workers = sorted(holding & set(there)) or sorted(there)
    if not workers:
        raise LostWorkerError("no worker is left")
    shares: dict[str, list[int]] = {worker: [] for worker in workers}
    n_rows = dict.fromkeys(workers, 0)
    fair, elsewhere = sum(counts) / len(workers), []
    for i, future in enumerate(rows):
        holders = [w for w in has.get(future.key, ()) if w in shares]
        holder = min(holders, key=n_rows.__getitem__, default=None)
        if holder is None or n_rows[holder] + counts[i] / 2 > fair:
            elsewhere.append(i)
        else:
            shares[holder].append(i)
            n_rows[holder] += counts[i]
    for i in sorted(elsewhere, key=lambda at: -counts[at]):
        worker = min(workers, key=n_rows.__getitem__)
        shares[worker].append(i)
        n_rows[worker] += counts[i]
    return {worker: share for worker, share in shares.items() if share}


def _meet(client: "Client", workers: Sequence[str]) -> Meeting:
    """Have the first open a port for all.

    By a task: what is sent to a worker without one, Dask has tried for 30 seconds where it is gone.
    """
    own = {"workers": workers[:1], "allow_other_workers": False, "pure": False}
    opened = client.submit(parts.open_port, len(workers), **own)
    _wait(client, [opened], workers)
    return cast(Meeting, opened.result())


def _wait(client: "Client", futures: Sequence[Any], workers: Sequence[str]) -> None:
    """Wait until all are done, or one cannot be."""
    from distributed import wait

    while True:
        with suppress(TimeoutError):
            wait(futures, timeout=_LOOK_SECONDS)
            return
        if any(future.status in ("error", "cancelled", "lost") for future in futures):
            return
        if not set(workers) <= set(client.ncores()):
            raise LostWorkerError("a worker has left the cluster")


def _end(client: "Client", meeting: Meeting, futures: dict[str, Any]) -> None:
    """Have all that are left give up what they do, where they are not done."""
    from distributed import wait

    if all(future.status == "finished" for future in futures.values()):
        return

    def tell() -> None:
        with suppress(Exception):  # whoever is lost by now needs not be told
            client.run(abandon, meeting.token, on_error="ignore")

    # Dask waits for the answers of all, and a worker that stands still gives none.
    told = Thread(target=tell, name="streamboost-end", daemon=True)
    told.start()
    told.join(_END_SECONDS)
    left = client.ncores()
    with suppress(TimeoutError):
        wait([future for worker, future in futures.items() if worker in left], _END_SECONDS)
    client.cancel([future for future in futures.values() if future.status == "pending"])


def _result(futures: Sequence[Any]) -> Committee:
    """Return the first one's; raise what is the fault of one rather than that it was lost."""
    errors = [future.exception() for future in futures if future.status == "error"]
    for error in errors:
        if not isinstance(error, LostWorkerError | OSError):
            raise error
    if errors or any(future.status != "finished" for future in futures):
        raise LostWorkerError(str(next(iter(errors), "a worker was lost")))
    committee: Committee = futures[0].result()
    return committee
