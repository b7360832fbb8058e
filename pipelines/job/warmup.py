"""Compiling the kernels before they are needed.

numba compiles a kernel on its first call and keeps the result on disk, so the first training on
a machine takes many times as long as any later one. Doing it beforehand keeps that out of the
first batches.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import streamboost
from streamboost.pipelines.config.learner import KINDS
from streamboost.stream.estimators import default_estimator
from streamboost.stream.evaluation.tally import PREDICTORS, Judged, Tally
from streamboost.stream.learner import StreamLearner
from streamboost.stream.training.schedule import Schedule

__all__ = ["warm_up"]

ANNOUNCEMENT = (
    "Loading the kernels; the first time on a machine they are compiled, up to half a minute ..."
)
PATIENCE = 1.0
"""Seconds after which it is announced: loading compiled kernels takes less."""
LONGEST = 180.0
"""Seconds to wait while another process compiles, which may have been stopped meanwhile."""
MOMENT = 0.05
"""Seconds between two looks at whether it is done."""


def warm_up(say: Callable[[str], object], estimators: Iterable[str] = tuple(KINDS)) -> float:
    """Train, extend, score and explain a small committee of each kind, blend experts, and judge.

    Returns the seconds it took.

    `say` is told, from another thread, when this means compiling. Where several processes begin
    at once, one compiles and the others load what it has kept.
    """
    timer = threading.Timer(PATIENCE, say, [ANNOUNCEMENT])
    timer.daemon = True
    timer.start()
    start = time.perf_counter()
    try:
        with _one_first():
            _call_all(estimators)
        return time.perf_counter() - start
    finally:
        timer.cancel()


@contextmanager
def _one_first() -> Iterator[None]:
    """Let one process on this machine go first, and then all others together.

    Each of a pipeline's processes would compile the same for itself, on the same cores.
    """
    folder = os.open(Path(streamboost.__file__).parent, os.O_RDONLY)
    try:
        # A file system without locks: each compiles for itself.
        with suppress(OSError):
            wait, end = fcntl.LOCK_EX, time.monotonic() + LONGEST
            while time.monotonic() < end:
                try:
                    fcntl.flock(folder, wait | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    wait = fcntl.LOCK_SH
                    time.sleep(MOMENT)
        yield
    finally:
        os.close(folder)


def _call_all(estimators: Iterable[str]) -> None:
    """Call every kernel once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 3)).astype(np.float32)
    X[::7, 0] = np.nan
    y = np.arange(64) % 3
    for name in estimators:
        estimator = KINDS[name]()
        committee = estimator.train(X, y, np.ones(64), seed=0, n_estimators=2)
        committee = estimator.train(X, y, seed=0, committee=committee, n_estimators=1)
        committee.probabilities(committee.decision(X))
        committee.contributions(X[:1])
    _follow_labels(X, y)
    _blend(X, y)
    _judge()


def _judge() -> None:
    """Add up a record that is judged, by what was decided about it, too."""
    P, predicted = np.full((1, 2), 0.5), np.zeros((1, len(PREDICTORS)), dtype=np.int64)
    Tally(2).add(Judged(P, predicted, predicted[:, 0], others=np.ones(1), paid=P))


def _blend(X: np.ndarray, y: np.ndarray) -> None:
    """Have experts say something of records, and learn from what these turn out to be."""
    estimator = default_estimator()
    estimator.set_params(n_estimators=1)
    learner = StreamLearner(estimator, random_state=0)
    for turn in range(2):  # the first time there is no committee yet
        ids = [f"{turn}.{row}" for row in range(len(X))]
        learner.query(X, learner.score(X), ids)
        learner.learn(ids, X, y)
    learner.score(X)


def _follow_labels(X: np.ndarray, y: np.ndarray) -> None:
    """Correct a committee by the newest labels, as a schedule per label does."""
    estimator = default_estimator()
    estimator.set_params(n_estimators=1)
    learner = StreamLearner(estimator, schedule=Schedule.per_label(first=len(X)))
    learner.learn([""] * len(X), X, y)
    learner.score(X)
