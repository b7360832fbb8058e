"""A training as a value, and the thread that may run it."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.stream.checks import as_array
from streamboost.stream.estimators import Trainable
from streamboost.stream.schedule import Training

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Job", "Worker"]


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
        float64 (n,) with mean 1; None for equal weights.
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
        """Return the committee, under its version."""
        trained = estimator.train(
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
        """Return the job without the committee it extends, for `resume`."""
        about = {
            "training": asdict(self.training),
            "extends": self.committee is not None,
            "n_estimators": self.n_estimators,
        }
        arrays = {"X": self.X, "y": pack_json(self.y.tolist())}
        return about, arrays if self.weight is None else arrays | {"weight": self.weight}

    @classmethod
    def resume(cls, about: dict[str, Any], arrays: Arrays, champion: "Committee | None") -> "Job":
        """Return the job that `state` described, extending `champion` if it extends any."""
        return cls(
            training=Training(**about["training"]),
            X=arrays["X"],
            y=as_array(unpack_json(arrays["y"])),
            weight=arrays.get("weight"),
            committee=champion if about["extends"] else None,
            n_estimators=about["n_estimators"],
        )


class Worker:
    """Runs jobs in a thread of its own, one after the other.

    Kernels release Python's lock, so that a job takes a core of its own, not the caller's time.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._future: Future[Committee] | None = None

    def start(self, job: Job, estimator: Trainable) -> None:
        """Begin `job`, once an abandoned one has come to its end."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="streamboost-training")
        self._future = self._pool.submit(job.run, estimator)

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
