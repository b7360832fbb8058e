"""Warm-up: compiles the numba kernels before the first batch.

numba compiles a kernel on its first call and caches the result on disk, so the first training on
a machine takes many times as long as later ones. The warm-up keeps the compilation out of the first
batches.
"""

import fcntl
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import streamboost
from streamboost.boosting.committee import Committee
from streamboost.boosting.compilation import stump_committee, watch_compilations
from streamboost.evaluation.sufficient_stats import PREDICTORS, EvaluatedRecords, SufficientStats
from streamboost.features import Features
from streamboost.learner.estimators import Trainable
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule
from streamboost.pipelines.config.file import core_count
from streamboost.pipelines.config.learner import KINDS
from streamboost.stacking.vector import VectorExpert
from streamboost.stacking.young import RecentCommittees

ANNOUNCEMENT = (
    "Loading the kernels; the first time on a machine they are compiled, in up to a minute ..."
)
PATIENCE = 1.0
"""Seconds before the announcement; loading compiled kernels takes less time."""
LONGEST = 180.0
"""Timeout in seconds for the compilation in another process, which may be suspended."""
SECOND_PROGRAM = """
import gc
from streamboost.pipelines.app.warmup import compile_prediction_kernels
gc.disable()
compile_prediction_kernels()
"""
MOMENT = 0.05
"""Seconds between two attempts to get the lock."""


def warm_up(announce: Callable[[str], object], estimators: Iterable[str] = tuple(KINDS)) -> float:
    """Compile all kernels by calls with small data; return the duration in seconds.

    If compilation takes long, another thread calls `announce` with a text for the user. If several
    processes start at once, one compiles, and the others load its results. On two cores or more, it
    starts a process that compiles half of the kernels.
    """
    timer = threading.Timer(PATIENCE, announce, [ANNOUNCEMENT])
    timer.daemon = True
    timer.start()
    start = time.perf_counter()
    try:
        with _wait_for_first_compilation(), _pause_gc(), _second_process() as (start_second, wait):
            X, y = _labelled_rows()
            with watch_compilations(start_second):
                committees = {
                    name: _compile_training_kernels(KINDS[name](), X, y) for name in estimators
                }
                _compile_vector_kernels(X, y)
            wait()
            compile_prediction_kernels()
            for name, committee in committees.items():
                longer = KINDS[name]().train(X, y, seed=0, committee=committee, n_estimators=1)
                longer.probabilities(longer.class_scores(X))
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


@contextmanager
def _pause_gc() -> Iterator[None]:
    """Context manager without garbage collections, which take a tenth of the time to compile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _second_process() -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Context manager whose functions start a process that compiles, and wait for its end.

    numba compiles on one core only. The process caches the kernels for predictions on disk. The
    first function does nothing on a single core, or if the process was started before.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        if not processes and core_count() > 1:
            quiet = subprocess.DEVNULL
            command = [sys.executable, "-P", "-c", SECOND_PROGRAM]
            processes.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))

    def wait() -> None:
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LONGEST)

    try:
        yield start, wait
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _compile_training_kernels(estimator: Trainable, X: np.ndarray, y: np.ndarray) -> Committee:
    committee = estimator.train(X, y, np.ones(len(X)), seed=0, n_estimators=2)
    committee.contributions(X[:1])
    return committee


def compile_prediction_kernels() -> None:
    """Call the kernels that predict, combine predictions and evaluate them, without any training.

    These are about as many as the kernels that train.
    """
    X, y = _labelled_rows()
    committee = stump_committee(n_features=3, n_classes=3)
    committee.probabilities(committee.class_scores(X))
    _compile_stacking_kernels(committee, X, y)
    _compile_online_learning_kernels(committee, X, y)
    _compile_young_committee_kernels(committee, X)
    _compile_evaluation_kernels()


def _compile_vector_kernels(X: np.ndarray, y: np.ndarray) -> None:
    expert = VectorExpert(Features({"vector": {"type": "vector", "size": X.shape[1]}}), 0)
    expert.train(X, y, None)
    expert.score(X, 0)


def _labelled_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return 64 rows, float32 (64, 3), some with a missing value, and their labels int64."""
    X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    X[::7, 0] = np.nan
    return X, np.arange(64) % 3


def _compile_evaluation_kernels() -> None:
    P, predicted = np.full((1, 2), 0.5), np.zeros((1, len(PREDICTORS)), dtype=np.int64)
    SufficientStats(2).add(
        EvaluatedRecords(P, predicted, predicted[:, 0], others=np.ones(1), decision_cost=P)
    )


def _compile_stacking_kernels(committee: Committee, X: np.ndarray, y: np.ndarray) -> None:
    """Call the kernels of the other experts: score the records `X`, and learn the labels `y`."""
    learner = StreamLearner(schedule=Schedule(first=4 * len(X)), random_state=0)
    for turn in range(2):  # the first time there is no committee yet
        ids = [f"{turn}.{row}" for row in range(len(X))]
        learner.query(X, learner.score_arrivals(X), ids)
        learner.learn(ids, X, y)
        learner.deploy(committee)
    learner.score(X)


def _compile_young_committee_kernels(committee: Committee, X: np.ndarray) -> None:
    young = RecentCommittees()
    young.count_label(0)
    young.add_committee_if_due(len(X), label_share=1 / len(X))
    young.set_trained_committee(young.members[0], committee, np.arange(3))
    young.update_weights(X[0], np.full(3, 1 / 3), 0)


def _compile_online_learning_kernels(committee: Committee, X: np.ndarray, y: np.ndarray) -> None:
    """Call the kernels of online learning, which corrects the committee after each label."""
    learner = StreamLearner(schedule=Schedule.per_label(first=2 * len(X)), experts="committee")
    learner.deploy(committee)
    learner.learn([""] * len(X), X, y)
    learner.score(X)
