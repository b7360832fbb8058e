"""A training as a value, and the thread that may run it."""

from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.storage import Arrays, pack_json, part, unpack_json
from streamboost.stream.checks import as_array
from streamboost.stream.estimators import Trainable, suited
from streamboost.stream.training.schedule import Training

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Job", "Worker", "from_arrays", "in_arrays"]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One training with all it works on: it makes the same committee wherever it runs.

    Attributes
    ----------
    training
        What kind it is, its seed, and the version it makes.
    X
        float32 (n, D), oldest label first.
    y
        (n,), the labels.
    weight
        float64 (n,), as `Sample` has them; None where all are 1.
    committee
        The one it extends; None where it trains anew.
    n_estimators
        Rounds to grow; None: as many as the estimator says.
    """

    training: Training
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    committee: "Committee | None"
    n_estimators: int | None

    def run(self, estimator: Trainable) -> "Committee":
        """Return the committee that `estimator`, as it suits so many rows, makes of it."""
        trained = suited(estimator, len(self.X)).train(
            self.X,
            self.y,
            self.weight,
            seed=self.training.seed,
            committee=self.committee,
            n_estimators=self.n_estimators,
        )
        return replace(trained, version=self.training.version)

    def detached(self) -> "Job":
        """Return the job on rows of its own, which no later label changes."""
        return replace(self, X=self.X.copy())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all of it, for `resume`: one part as JSON can hold it, the other as arrays."""
        about = {"training": asdict(self.training), "n_estimators": self.n_estimators}
        arrays = {"X": self.X, "y": pack_json(self.y.tolist())}
        if self.weight is not None:
            arrays["weight"] = self.weight
        return about, arrays | in_arrays("extended.", self.committee)

    @classmethod
    def resume(cls, about: dict[str, Any], arrays: Arrays) -> "Job":
        """Return the job that `state` took apart."""
        return cls(
            training=Training(**about["training"]),
            X=arrays["X"],
            y=as_array(unpack_json(arrays["y"])),
            weight=arrays.get("weight"),
            committee=from_arrays("extended.", arrays),
            n_estimators=about["n_estimators"],
        )


def in_arrays(prefix: str, committee: "Committee | None") -> Arrays:
    """Return a committee's arrays under names of their own; nothing for None."""
    arrays = committee.to_arrays() if committee else {}
    return {prefix + name: array for name, array in arrays.items()}


def from_arrays(prefix: str, arrays: Arrays) -> "Committee | None":
    """Return the committee that `in_arrays` named so, or None."""
    from streamboost.boosting.committee import Committee

    found = part(arrays, prefix)
    return Committee.from_arrays(found) if found else None


class Worker:
    """Runs jobs in a thread of its own, one after the other.

    Kernels release Python's lock, so that a job takes a core of its own, not the caller's time. A
    process that ends waits for none of them.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._future: Future[Committee] | None = None

    def start(self, job: Job, estimator: Trainable) -> None:
        """Begin `job`, once an abandoned one has come to its end."""
        future: Future[Committee] = Future()
        # A pool's threads would be waited for at the end of the process.
        self._thread = Thread(
            target=_run,
            args=(job, estimator, future, self._thread),
            name="streamboost-training",
            daemon=True,
        )
        self._future = future
        self._thread.start()

    def finished(self) -> "Committee | None":
        """Return what the job made, None while it runs; raise what it raised."""
        return self._future.result() if self._future and self._future.done() else None

    def wait(self) -> "Committee":
        """Return what the job made, once it has come to its end."""
        assert self._future is not None
        return self._future.result()

    def abandon(self) -> None:
        """Forget the job; a training cannot be stopped, so its end is not waited for."""
        if self._future is not None:
            self._future.cancel()
            self._future = None


def _run(
    job: Job, estimator: Trainable, future: "Future[Committee]", before: Thread | None
) -> None:
    """Run `job` after the thread `before`, unless it was cancelled by then."""
    if before is not None:
        before.join()
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job.run(estimator))
    except BaseException as error:  # it belongs to whoever asks for the result
        future.set_exception(error)
