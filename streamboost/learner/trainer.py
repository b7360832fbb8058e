"""Trainer: runs scheduled and background trainings, and evaluates challengers before deployment.

At most one training is pending: from the label that made the training due until its committee (the
challenger) is deployed or loses to the deployed one (the champion). A committee trained in a thread
takes effect in the call of `add_challenger`, and no clock is read. So the same calls give the same
committees, however long the thread took.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.errors import DataError
from streamboost.evaluation.shadow_scoring import ShadowScoring
from streamboost.learner.estimators import Trainable, adapt_to_size, default_estimator
from streamboost.learner.labelled_rows import LabelledRows, TrainingSample
from streamboost.learner.schedule import Kind, Schedule, Training, TrainingProgress
from streamboost.predictions import predict_labels
from streamboost.storage import Arrays, pack_json, select_prefix, unpack_json

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee


@dataclass(frozen=True, slots=True, eq=False)
class TrainingJob:
    """Training with all its inputs, so that it gives the same committee in any thread.

    Attributes
    ----------
    training
        Kind and seed of the training, and the version of its committee.
    X
        float32 (n, D), oldest label first.
    y
        (n,), the labels.
    weight
        float64 (n,), the training weights; None: all are 1.
    committee
        The committee to extend; None for a training from scratch.
    n_estimators
        Boosting rounds to train; None: the estimator's number.
    """

    training: Training
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    committee: "Committee | None"
    n_estimators: int | None

    def run(self, estimator: Trainable) -> "Committee":
        """Return the committee that `estimator`, adapted to the number of rows, trains."""
        trained = adapt_to_size(estimator, len(self.X)).train(
            self.X,
            self.y,
            self.weight,
            seed=self.training.seed,
            committee=self.committee,
            n_estimators=self.n_estimators,
        )
        return replace(trained, version=self.training.version)

    def with_copied_rows(self) -> "TrainingJob":
        """Return the job with a copy of its rows `X`, so that later labels cannot change them."""
        return replace(self, X=self.X.copy())

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the complete job for `from_state`: a JSON dictionary, and arrays by name."""
        about = {"training": asdict(self.training), "n_estimators": self.n_estimators}
        arrays = {"X": self.X, "y": pack_json(self.y.tolist())}
        if self.weight is not None:
            arrays["weight"] = self.weight
        return about, arrays | committee_to_arrays("extended.", self.committee)

    @classmethod
    def from_state(cls, about: dict[str, Any], arrays: Arrays) -> "TrainingJob":
        """Return the job from the result of `state`."""
        return cls(
            training=Training(**about["training"]),
            X=arrays["X"],
            y=labels_to_array(unpack_json(arrays["y"])),
            weight=arrays.get("weight"),
            committee=committee_from_arrays("extended.", arrays),
            n_estimators=about["n_estimators"],
        )


def committee_to_arrays(prefix: str, committee: "Committee | None") -> Arrays:
    """Return the arrays of `committee` with `prefix` before their names; {} if it is None."""
    arrays = committee.to_arrays() if committee else {}
    return {prefix + name: array for name, array in arrays.items()}


def committee_from_arrays(prefix: str, arrays: Arrays) -> "Committee | None":
    """Return the committee from the arrays whose names start with `prefix`; None if none do."""
    from streamboost.boosting.committee import Committee

    found = select_prefix(arrays, prefix)
    return Committee.from_arrays(found) if found else None


class TrainingThread:
    """Runs training jobs on a background thread, one at a time.

    Kernels release Python's global lock, so that a job runs on another core, in parallel with the
    caller. The thread does not delay the end of the process.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._future: Future[Committee] | None = None

    def start(self, job: TrainingJob, estimator: Trainable) -> None:
        """Run `job` on a new thread, as soon as an abandoned job that still runs has ended."""
        future: Future[Committee] = Future()
        # A daemon thread: the process would wait for the threads of a pool at its end.
        self._thread = Thread(
            target=_run_job,
            args=(job, estimator, future, self._thread),
            name="streamboost-training",
            daemon=True,
        )
        self._future = future
        self._thread.start()

    def poll_result(self) -> "Committee | None":
        """Return the committee of the job, or None while the job runs; raise its exception."""
        return self._future.result() if self._future and self._future.done() else None

    def wait(self) -> "Committee":
        """Wait for the job to end; return its committee, or raise its exception."""
        assert self._future is not None
        return self._future.result()

    def abandon(self) -> None:
        """Discard the job and its result; a training that has started cannot be stopped."""
        if self._future is not None:
            self._future.cancel()
            self._future = None


def _run_job(
    job: TrainingJob,
    estimator: Trainable,
    future: "Future[Committee]",
    previous_thread: Thread | None,
) -> None:
    """Wait for `previous_thread`, then run `job` and set the result of `future`.

    If `future` was cancelled, `job` is not run.
    """
    if previous_thread is not None:
        previous_thread.join()
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(job.run(estimator))
    except BaseException as error:  # raised again by `poll_result` or `wait`
        future.set_exception(error)


class FeaturesAndLabels(Protocol):
    """Interface of labelled rows: features `X` and labels `y`."""

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Features, float32 (n, D)."""

    @property
    def y(self) -> np.ndarray:
        """Labels (n,)."""


def holdout_error(committee: "Committee", rows: FeaturesAndLabels) -> float:
    """Return the share of `rows` whose label `committee` does not predict.

    Pass rows that arrived after the committee's training: on its own rows the error is too low.
    """
    return float(np.mean(predict_labels(committee, rows.X) != rows.y))


class HoldoutBuffer:
    """Stores the first `capacity` rows after a training starts, to evaluate its committee."""

    def __init__(
        self, capacity: int, rows: Iterable[np.ndarray] = (), labels: Iterable[Label] = ()
    ) -> None:
        self.capacity = capacity
        self._rows = list(rows)
        self._labels = list(labels)

    @property
    def is_full(self) -> bool:
        """Whether the buffer holds `capacity` rows."""
        return len(self._labels) >= self.capacity

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Features, float32 (n, D) with D of the widest row; missing columns are NaN."""
        width = max(map(len, self._rows), default=0)
        X = np.full((len(self._rows), width), np.nan, dtype=np.float32)
        for row, kept in zip(X, self._rows, strict=True):
            row[: len(kept)] = kept
        return X

    @property
    def y(self) -> np.ndarray:
        """Labels (n,)."""
        return labels_to_array(self._labels)

    def add(self, row: np.ndarray, label: Label) -> None:
        """Add a row (D,) and its label, unless the buffer is full."""
        if not self.is_full:
            self._rows.append(row.copy())
            self._labels.append(label)

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Replace the class `label` by `into` in the stored labels; None drops its rows."""
        now = [into if one == label else one for one in self._labels]
        self._rows = [row for row, one in zip(self._rows, now, strict=True) if one is not None]
        self._labels = [one for one in now if one is not None]

    def state(self) -> tuple[list[Label], Arrays]:
        """Return the labels, and the features as the array "X", as the state for `from_state`."""
        return list(self._labels), {"X": self.X}

    @classmethod
    def from_state(cls, capacity: int, labels: Sequence[Label], arrays: Arrays) -> "HoldoutBuffer":
        """Return the buffer from the result of `state`."""
        return cls(capacity, arrays["X"], labels)


@dataclass(slots=True)
class PendingTraining:
    """Started training whose committee is not deployed yet.

    `job` is the job of a running thread; None once it has ended. `holdout` holds the labels since
    the start of the training. `challenger` is the trained committee; None while the job runs.
    """

    job: TrainingJob | None
    holdout: HoldoutBuffer
    challenger: "Committee | None" = None

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the complete state for `from_state`: a JSON dictionary, and arrays by name."""
        labels, rows = self.holdout.state()
        job, inputs = self.job.state() if self.job else (None, {})
        arrays = {f"holdout.{name}": array for name, array in rows.items()}
        arrays |= {f"job.{name}": array for name, array in inputs.items()}
        arrays |= committee_to_arrays("challenger.", self.challenger)
        return {"job": job, "labels": labels, "most": self.holdout.capacity}, arrays

    @classmethod
    def from_state(cls, about: dict[str, Any], arrays: Arrays) -> "PendingTraining":
        """Return the training from the result of `state`."""
        holdout = HoldoutBuffer.from_state(
            about["most"], about["labels"], select_prefix(arrays, "holdout.")
        )
        job = (
            TrainingJob.from_state(about["job"], select_prefix(arrays, "job."))
            if about["job"]
            else None
        )
        return cls(job, holdout, committee_from_arrays("challenger.", arrays))


class Trainer:
    """Runs the trainings of a schedule; each training has its own seed and version.

    Attributes
    ----------
    champion
        The deployed committee; None before the first.
    paused
        Whether trainings are paused; then the champion does not change.
    newest_version
        The newest version, trained or in training.
    shadow
        Compares the champion with an earlier version.
    """

    def __init__(
        self,
        estimator: Trainable | None,
        schedule: Schedule,
        seeds: np.random.SeedSequence,
        rows: LabelledRows,
    ) -> None:
        self.schedule = schedule
        self._rows = rows
        self.champion: Committee | None = None
        self.paused = False
        self.newest_version = 0
        self.shadow = ShadowScoring()
        self._estimator = estimator
        self._seeds = np.random.default_rng(seeds)
        self._progress: TrainingProgress | None = None
        self._family = ""  # family of the committees trained here, set by the first training
        self._retrain_requested = False
        self._idle_until = 0  # number of labels before which no training is due
        self._pending: PendingTraining | None = None
        self._worker = TrainingThread()

    @property
    def estimator(self) -> Trainable:
        """The estimator that trains the committees."""
        if self._estimator is None:
            self._estimator = default_estimator()
        return self._estimator

    @property
    def running_training(self) -> Training | None:
        """The training in a thread, until `StreamLearner.deploy` gets its committee; or None."""
        job = self._pending.job if self._pending else None
        return job.training if job else None

    @property
    def challenger(self) -> "Committee | None":
        """Committee that is evaluated on arriving labels before it may be deployed, or None."""
        return self._pending.challenger if self._pending else None

    def finished_committee(self) -> "Committee | None":
        """Return the committee of the training in a thread; None if it is not ready."""
        return self._worker.poll_result() if self.running_training else None

    def wait_for_training(self, version: int) -> "Committee":
        """Wait for the end of the running training; return its committee, number `version`.

        Raises
        ------
        DataError
            When no training of this version is running.
        """
        running = self.running_training
        if running is None or running.version != version:
            what = f"version {running.version} is being made" if running else "nothing is"
            raise DataError(f"version {version} cannot be waited for: {what}")
        return self._worker.wait()

    def retrain(self) -> tuple[Training, ...]:
        """Retrain the committee now, or once no training is pending.

        Returns the training that was started, if any.
        """
        self._retrain_requested = True
        return self.start_due_training()

    def promote(self) -> tuple[Training, ...]:
        """Deploy the challenger, if there is one, without waiting for its evaluation.

        Returns the training that was started, if one had become due.
        """
        if self._pending is not None and self._pending.challenger is not None:
            self._replace_champion(self._pending.challenger)
        return self.start_due_training()

    def pause_training(self) -> None:
        """Pause trainings, and keep the deployed committee, until `resume_training`.

        Labels are stored meanwhile.
        """
        self.paused = True

    def resume_training(self) -> tuple[Training, ...]:
        """Resume trainings after `pause_training`; return the training that was started, if any."""
        self.paused = False
        return self.start_due_training()

    def on_label(self, row: np.ndarray, label: Label) -> tuple[Training, ...]:
        """Add the newest label and its row (D,) to the pending training's evaluation, if any.

        Starts a training if one is due. Returns the training that was started, if any.
        """
        if self._pending is not None:
            self._pending.holdout.add(row, label)
        elif self._is_no_training_due:
            return ()
        return self.start_due_training()

    @property
    def n_labels_until_training(self) -> int:
        """Number of further labels until the next training by labels; 0 if it is due.

        Drift, commands and seconds may start a training earlier.
        """
        rows = self._rows
        due = self.schedule.labels_of_next_training(self._progress, rows.origin)
        return 0 if self._retrain_requested else max(due - rows.total, 0)

    @property
    def _is_no_training_due(self) -> bool:
        """Whether no training is due, as there are too few labels, no drift and no request."""
        is_idle = self._rows.total < self._idle_until and not self._retrain_requested
        return is_idle and not self._rows.has_suspected_drift

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Replace the class `label` by `into` in the labels that evaluate a challenger.

        None drops the labels of this class.
        """
        if self._pending is not None:
            self._pending.holdout.rename_or_remove_class(label, into)

    def add_challenger(self, challenger: "Committee") -> tuple[Training, ...]:
        """Start the evaluation of `challenger`, the committee that the thread has trained.

        If `Schedule.promotion` is "always", the challenger is deployed at once. Returns the
        training that was started, if any.
        """
        assert self._pending is not None
        self._set_challenger(challenger, self._pending.holdout)
        return self.start_due_training()

    def deploy_as_new_version(self, committee: "Committee") -> None:
        """Deploy `committee` under the next version, and discard a pending training.

        The current version of `committee` may be that of another committee in this learner, whose
        cached scores must not be used.
        """
        self.newest_version += 1
        self._replace_champion(replace(committee, version=self.newest_version), restart=True)
        self._worker.abandon()

    def _replace_champion(self, committee: "Committee", *, restart: bool = False) -> None:
        """Deploy `committee` instead of the champion; `restart` starts another comparison."""
        if self.champion is not None:
            self.shadow.on_deploy(self.champion, committee, restart=restart)
        self.champion = committee
        self._pending = None

    def start_due_training(self) -> tuple[Training, ...]:
        """Deploy a challenger that has won its evaluation, then start a training if one is due.

        Returns the training that was started, if any. While trainings are paused, nothing is done.
        """
        if self.paused:
            return ()
        self._promote_or_discard()
        job = self._start_due_job() if self._pending is None else None
        if job is None:
            return ()
        holdout = HoldoutBuffer(self.schedule.holdout_size(job.training.labels))
        if self.schedule.training == "background":
            job = job.with_copied_rows()
            self._worker.start(job, self.estimator)
            self._pending = PendingTraining(job, holdout)
        else:
            self._set_challenger(job.run(self.estimator), holdout)
            self._promote_or_discard()
        return (job.training,)

    def _set_challenger(self, challenger: "Committee", holdout: HoldoutBuffer) -> None:
        """Set the committee to evaluate next, on the labels in `holdout`."""
        self._pending = PendingTraining(None, holdout, challenger)
        self._family = challenger.family

    def _promote_or_discard(self) -> None:
        """Deploy or discard the challenger, once there are enough labels to evaluate it."""
        pending = self._pending
        if pending is None or pending.challenger is None:
            return
        if self.champion is not None and pending.holdout.capacity:
            if not pending.holdout.is_full:
                return
            errors = [
                holdout_error(c, pending.holdout) for c in (pending.challenger, self.champion)
            ]
            if errors[0] > errors[1]:
                self._pending = None
                return
        self._replace_champion(pending.challenger)

    def _start_due_job(self) -> TrainingJob | None:
        """Start the training that is due, and return its job; None if none is due or possible."""
        kind = self._kind_of_due_training()
        if kind is None or not self._rows.n_features:
            return None
        sample = self._rows.training_sample()
        if len(sample.classes) < 2:
            return None
        champion = self.champion
        if kind == "extend" and champion is not None and self._can_extend(champion, sample):
            return self._start_job(kind, sample, champion)
        return self._start_job("retrain" if kind == "extend" else kind, sample, None)

    def _start_job(
        self, kind: Kind, sample: TrainingSample, extended: "Committee | None"
    ) -> TrainingJob:
        """Record a training on `sample` as started, and return its job.

        `extended` is the committee to extend; None: a training from scratch.
        """
        rows, before = self._rows, self._progress if extended else None
        self._idle_until = 0
        self._progress = TrainingProgress(
            retrained=before.retrained if before else rows.total,
            trained=rows.total,
            retrained_tick=before.retrained_tick if before else rows.tick,
            trained_tick=rows.tick,
        )
        if extended is None:  # an extension does not satisfy `retrain`
            self._retrain_requested = False
        self.newest_version += 1
        seed = int(self._seeds.integers(2**31 - 1))
        return TrainingJob(
            Training(kind=kind, labels=rows.total, seed=seed, version=self.newest_version),
            sample.X,
            sample.y,
            sample.weight,
            committee=extended,
            n_estimators=self.schedule.extend_estimators if extended else None,
        )

    def _kind_of_due_training(self) -> Kind | None:
        rows = self._rows
        if len(rows.counts) < 2:
            return None
        if rows.drop_rows_before_drift():
            return "drift"
        if self._retrain_requested:
            return "retrain" if self._progress else "first"
        due = self.schedule.due_training(
            labels=rows.total,
            progress=self._progress,
            rounds=self.champion.n_rounds if self.champion else 0,
            tick=rows.tick,
            origin=rows.origin,
        )
        if due is None:
            self._idle_until = self.schedule.min_labels_for_training(self._progress, rows.origin)
        return due

    def _can_extend(self, committee: "Committee", sample: TrainingSample) -> bool:
        """Return whether `committee` can be extended on `sample`.

        The family and the number of columns must be equal, and no class may be new.
        """
        return (
            committee.family == self._family
            and committee.n_features == sample.X.shape[1]
            and set(sample.classes.tolist()) <= set(committee.classes.tolist())
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the mutable state for `resume`: a JSON dictionary, and arrays by name.

        A training in a thread is stored as its inputs, and `resume` starts the training again.
        """
        about: dict[str, Any] = {
            "made": self.newest_version,
            "seeds": self._seeds.bit_generator.state,
            "progress": asdict(self._progress) if self._progress else None,
            "family": self._family,
            "paused": self.paused,
            "wanted": self._retrain_requested,
            "underway": None,
        }
        about["shadow"], baseline = self.shadow.state()
        arrays = committee_to_arrays("champion.", self.champion)
        arrays |= committee_to_arrays("baseline.", baseline)
        if (pending := self._pending) is not None:
            about["underway"], parts = pending.state()
            arrays |= parts
        return about, arrays

    def resume(self, about: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that `state` returned for a trainer with equal settings."""
        self.newest_version = about["made"]
        self._seeds.bit_generator.state = about["seeds"]
        self._progress = TrainingProgress(**about["progress"]) if about["progress"] else None
        self._idle_until = 0
        self._family = about["family"]
        self.paused = about["paused"]
        self._retrain_requested = about["wanted"]
        self.champion = committee_from_arrays("champion.", arrays)
        self.shadow.resume(about["shadow"], committee_from_arrays("baseline.", arrays))
        if about["underway"] is not None:
            self._pending = PendingTraining.from_state(about["underway"], arrays)
            if self._pending.job is not None:
                self._worker.start(self._pending.job, self.estimator)
