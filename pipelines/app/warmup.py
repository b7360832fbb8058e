"""Warm-up: compiles the numba kernels before the first batch.

numba compiles a kernel on its first call and caches the result on disk, so the first training on
a machine takes many times as long as later ones. The warm-up keeps the compilation out of the first
batches.
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
from streamboost.evaluation.sufficient_stats import PREDICTORS, EvaluatedRecords, SufficientStats
from streamboost.features import Features
from streamboost.learner.estimators import default_estimator
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule
from streamboost.pipelines.config.learner import KINDS
from streamboost.stacking.vector import VectorExpert
from streamboost.stacking.young import RecentCommittees

__all__ = ["warm_up"]

ANNOUNCEMENT = (
    "Loading the kernels; the first time on a machine they are compiled, in a minute or two ..."
)
PATIENCE = 1.0
"""Seconds before the announcement; loading compiled kernels takes less time."""
LONGEST = 180.0
"""Timeout in seconds for the compilation in another process, which may be suspended."""
MOMENT = 0.05
"""Seconds between two attempts to get the lock."""


def warm_up(announce: Callable[[str], object], estimators: Iterable[str] = tuple(KINDS)) -> float:
    """Compile all kernels by calls with small data; return the duration in seconds.

    If compilation takes long, another thread calls `announce` with a text for the user. If several
    processes start at once, one compiles, and the others load its results.
    """
    timer = threading.Timer(PATIENCE, announce, [ANNOUNCEMENT])
    timer.daemon = True
    timer.start()
    start = time.perf_counter()
    try:
        with _wait_for_first_compilation():
            _call_all_kernels(estimators)
        return time.perf_counter() - start
    finally:
        timer.cancel()


@contextmanager
def _wait_for_first_compilation() -> Iterator[None]:
    """Context manager in which one process of this machine compiles first, and others wait.

    After the first process, all others enter the context together and load the compiled kernels.
    """
    folder = os.open(Path(streamboost.__file__).parent, os.O_RDONLY)
    try:
        # On a file system without locks, each process compiles separately.
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


def _call_all_kernels(estimators: Iterable[str]) -> None:
    """Call every numba kernel at least once, for the given estimators."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 3)).astype(np.float32)
    X[::7, 0] = np.nan
    y = np.arange(64) % 3
    for name in estimators:
        estimator = KINDS[name]()
        committee = estimator.train(X, y, np.ones(64), seed=0, n_estimators=2)
        committee = estimator.train(X, y, seed=0, committee=committee, n_estimators=1)
        committee.probabilities(committee.class_scores(X))
        committee.contributions(X[:1])
    _compile_online_learning_kernels(X, y)
    _compile_stacking_kernels(X, y)
    _compile_young_committee_kernels(X, y)
    _compile_evaluation_kernels()


def _compile_evaluation_kernels() -> None:
    """Call the evaluation kernels with one evaluated record that has decision costs."""
    P, predicted = np.full((1, 2), 0.5), np.zeros((1, len(PREDICTORS)), dtype=np.int64)
    SufficientStats(2).add(
        EvaluatedRecords(P, predicted, predicted[:, 0], others=np.ones(1), decision_cost=P)
    )


def _compile_stacking_kernels(X: np.ndarray, y: np.ndarray) -> None:
    """Call the kernels of all experts: score the records `X`, and learn the labels `y`."""
    estimator = default_estimator()
    estimator.set_params(n_estimators=1)
    learner = StreamLearner(estimator, random_state=0)
    for turn in range(2):  # the first time there is no committee yet
        ids = [f"{turn}.{row}" for row in range(len(X))]
        learner.query(X, learner.score_arrivals(X), ids)
        learner.learn(ids, X, y)
    learner.score(X)
    expert = VectorExpert(Features({"vector": {"type": "vector", "size": X.shape[1]}}), 0)
    expert.train(X, y, None)
    expert.score(X, 0)


def _compile_young_committee_kernels(X: np.ndarray, y: np.ndarray) -> None:
    """Call the kernels of `RecentCommittees`: evaluate one committee on a labelled record."""
    young = RecentCommittees()
    young.count_label(0)
    young.add_committee_if_due(len(X), label_share=1 / len(X))
    committee = default_estimator().train(X, y, seed=0, n_estimators=1)
    young.set_trained_committee(young.members[0], committee, np.arange(3))
    young.update_weights(X[0], np.full(3, 1 / 3), 0)


def _compile_online_learning_kernels(X: np.ndarray, y: np.ndarray) -> None:
    """Call the kernels of online learning, which updates the committee after each label."""
    estimator = default_estimator()
    estimator.set_params(n_estimators=1)
    learner = StreamLearner(estimator, schedule=Schedule.per_label(first=len(X)))
    learner.learn([""] * len(X), X, y)
    learner.score(X)
