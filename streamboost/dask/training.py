"""Distributed training, as seen by the client: assigns rows to workers, and starts the training.

If a worker dies while rows are read, Dask recomputes the lost rows. The boosting rounds are one
attempt, in which all workers are in sync. If a worker is lost, the attempt ends at once, and is
repeated on the remaining workers.
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
from streamboost.boosting.training_data import check_class_weight, encode_labels
from streamboost.dask import parts
from streamboost.dask.network import Rendezvous, abort_attempt
from streamboost.errors import DataError, LostWorkerError
from streamboost.trees.bins import Bins

if TYPE_CHECKING:
    from distributed import Client

_log = logging.getLogger(__name__)

_ATTEMPTS = 4  # the first, and up to three more
_CHECK_SECONDS = 0.5  # interval to check that all workers are available
_END_SECONDS = 5  # limit for the remaining workers to abandon an attempt


def train_on_workers(
    client: "Client",
    model: SketchLogitBoostClassifier,
    rows: Sequence[Any],
    names: np.ndarray | None,
    *,
    seed: int,
    rounds: int,
    committee: Committee | None = None,
) -> tuple[Committee, np.ndarray]:
    """Train on the cluster; return the committee and the distinct labels.

    `rows` are futures of `Part`, and `names` (D,) the column names of a frame, or None. The
    committee is bitwise equal to that of `model.train` on all rows in this order. Raises
    LostWorkerError if workers are lost in each attempt.
    """
    known_workers = set(client.ncores())
    labels = _gather_distinct_labels(client, rows)
    check_classification_targets(labels)
    if committee is None:
        check_class_weight(model.class_weight, labels)
    classes, codes = encode_labels(labels, None if committee is None else committee.classes)
    factors = np.ones(len(labels))
    if model.class_weight is not None:
        of_rows = client.map(parts.labels_and_weights, rows, pure=False)
        given = model.class_weight, labels, of_rows
        factors = client.submit(parts.label_weight_factors, *given, pure=False).result()
    known = parts.ShardLabels(labels, codes, factors)
    weighed = client.map(parts.encode_and_weight_labels, rows, labels=known, pure=False)
    counts = client.gather(client.map(parts.row_count, weighed, pure=False))
    if sum(counts) == 0:
        raise ValueError("no row has a positive weight: give at least one class a weight")
    bins = _choose_bins(client, model, weighed, _count_columns_of_first_part(client, rows), names)
    job = parts.ShardJob(model, sum(counts), bins, classes, rounds, seed, committee)
    error: BaseException | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _run_attempt(client, job, weighed, counts, known_workers), labels
        except (LostWorkerError, OSError) as lost:
            error = lost
            _log.warning(
                "attempt %d of %d has ended: %s",
                attempt,
                _ATTEMPTS,
                lost,
                extra={"event": "training_attempt_failed"},
            )
    raise LostWorkerError(
        f"in each of {_ATTEMPTS} attempts a worker was lost, in the last by: {error}. See the "
        "workers' logs for why (memory, most often), and train again"
    ) from error


def _gather_distinct_labels(client: "Client", rows: Sequence[Any]) -> np.ndarray:
    found = client.gather(client.map(parts.column_count_and_labels, rows, pure=False))
    widths = {width for width, labels in found if len(labels)}
    if len(widths) > 1:
        raise DataError(f"the chunks of X have {sorted(widths)} columns: give all the same")
    if not widths:
        raise DataError("X has no rows: give some")
    return np.unique(np.concatenate([labels for _, labels in found if len(labels)]))


def _count_columns_of_first_part(client: "Client", rows: Sequence[Any]) -> int:
    return int(client.submit(parts.column_count_and_labels, rows[0], pure=False).result()[0])


def _choose_bins(
    client: "Client",
    model: SketchLogitBoostClassifier,
    rows: Sequence[Any],
    n_columns: int,
    names: np.ndarray | None,
) -> Bins:
    """Return the bins of all columns, which the workers choose from all rows."""
    chosen = model.categorical_features
    mask = categorical_mask(
        None if isinstance(chosen, str) and chosen == "from_dtype" else chosen, n_columns, names
    )
    n = min(n_columns, 2 * len(client.ncores()))
    ends = [n_columns * i // n for i in range(n + 1)]
    cuts = []
    for begin, end in pairwise(ends):
        pieces = client.map(parts.select_columns, rows, begin=begin, end=end, pure=False)
        of_those = None if names is None else names[begin:end]
        given = pieces, model.max_bins, mask[begin:end], of_those
        cuts.append(client.submit(parts.fit_bins, *given, pure=False))
    return parts.concatenate_bins(client.gather(cuts))


def _run_attempt(
    client: "Client",
    job: parts.ShardJob,
    rows: Sequence[Any],
    counts: Sequence[int],
    known_workers: set[str],
) -> Committee:
    """Train once on the available workers, and return the committee.

    `counts` are the numbers of rows of each part in `rows`. `known_workers` are the addresses of
    the workers at the start of the training. Raises LostWorkerError if a worker is lost.
    """
    from distributed import Lock

    told = pickle.dumps(job)  # arrays that Dask sends are read-only, which kernels do not support
    # Without the lock, two trainings could each hold some workers and wait for the others forever.
    with client.as_current(), Lock("streamboost.dask"):
        # Assigned now: workers may have died while it waited for the lock.
        shares = _assign_parts_to_workers(client, rows, counts, known_workers)
        workers = list(shares)
        _log.info("training on %d workers", len(workers), extra={"event": "training_started"})
        rendezvous = _open_rendezvous(client, workers)
        futures = [
            client.submit(
                parts.train_shard,
                told,
                rendezvous,
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
            _wait_for_futures(client, futures, workers)
        finally:
            _abort_attempt_unless_finished(
                client, rendezvous, dict(zip(workers, futures, strict=True))
            )
        return _committee_or_error(futures)


def _assign_parts_to_workers(
    client: "Client", rows: Sequence[Any], counts: Sequence[int], known_workers: set[str]
) -> dict[str, list[int]]:
    """Return the indices in `rows` of the parts that each worker trains on.

    `counts` are the numbers of rows of the parts. A worker gets the parts that it already holds, up
    to an equal share of all rows. The other parts are assigned to the workers with the fewest rows.
    A worker that holds no part and is not in `known_workers` joined during the training. It gets no
    part, as all others would wait until it has loaded its modules.
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


def _open_rendezvous(client: "Client", workers: Sequence[str]) -> Rendezvous:
    """Open a port on the first worker, and return its address.

    The port is opened by a Dask task. For other messages, Dask would retry for 30 seconds to reach
    a lost worker.
    """
    own = {"workers": workers[:1], "allow_other_workers": False, "pure": False}
    opened = client.submit(parts.open_rendezvous_on_this_worker, len(workers), **own)
    _wait_for_futures(client, [opened], workers)
    return cast(Rendezvous, opened.result())


def _wait_for_futures(client: "Client", futures: Sequence[Any], workers: Sequence[str]) -> None:
    """Wait until all futures are done, or one of them has failed.

    Raises LostWorkerError if one of `workers` has left the cluster.
    """
    from distributed import wait

    while True:
        with suppress(TimeoutError):
            wait(futures, timeout=_CHECK_SECONDS)
            return
        if any(future.status in ("error", "cancelled", "lost") for future in futures):
            return
        if not set(workers) <= set(client.ncores()):
            raise LostWorkerError("a worker has left the cluster")


def _abort_attempt_unless_finished(
    client: "Client", rendezvous: Rendezvous, future_of_worker: dict[str, Any]
) -> None:
    """Abort the attempt on the remaining workers, unless all futures are finished."""
    from distributed import wait

    if all(future.status == "finished" for future in future_of_worker.values()):
        return

    def abort_on_workers() -> None:
        with suppress(Exception):  # a lost worker need not be notified
            client.run(abort_attempt, rendezvous.token, on_error="ignore")

    # Dask waits for the answers of all workers, and a suspended worker gives none.
    told = Thread(target=abort_on_workers, name="streamboost-end", daemon=True)
    told.start()
    told.join(_END_SECONDS)
    left = client.ncores()
    with suppress(TimeoutError):
        wait(
            [future for worker, future in future_of_worker.items() if worker in left], _END_SECONDS
        )
    client.cancel([future for future in future_of_worker.values() if future.status == "pending"])


def _committee_or_error(futures: Sequence[Any]) -> Committee:
    """Return the committee of the first worker's future, or raise the error of a failed future.

    Errors that are not due to lost workers are raised first.
    """
    errors = [future.exception() for future in futures if future.status == "error"]
    for error in errors:
        if not isinstance(error, LostWorkerError | OSError):
            raise error
    if errors or any(future.status != "finished" for future in futures):
        raise LostWorkerError(str(next(iter(errors), "a worker was lost")))
    committee: Committee = futures[0].result()
    return committee
