"""Runs trainings one after the other, and judges each committee before it serves.

At most one training is under way at a time: from the row that made it due until the committee it
makes serves, or has lost to the one that does. Nothing here reads a clock. Where a thread trains,
its committee takes part from the call that hands it in (`arrive`), so that the same calls give the
same committees, however long the thread took.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from streamboost.errors import DataError
from streamboost.storage import Arrays, pack_json, part, unpack_json
from streamboost.stream.checks import Label, as_array
from streamboost.stream.estimators import Trainable, default_estimator, suited
from streamboost.stream.labelled_rows.labelled import LabelledRows, Sample
from streamboost.stream.scoring import labels_of
from streamboost.stream.training.schedule import Kind, Progress, Schedule, Training

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = [
    "Job",
    "Shadow",
    "Trainer",
    "Underway",
    "Worker",
    "from_arrays",
    "in_arrays",
    "shadow_error",
]


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


class Labelled(Protocol):
    """Rows with their labels."""

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Features, float32 (n, D)."""

    @property
    def y(self) -> np.ndarray:
        """Labels (n,)."""


def shadow_error(committee: "Committee", rows: Labelled) -> float:
    """Return the share of `rows` whose label `committee` does not predict.

    Rows that it was trained on flatter it: give rows that came later.
    """
    return float(np.mean(labels_of(committee, rows.X) != rows.y))


class Shadow:
    """The first labels to come after a training's rows were taken, up to `most` of them."""

    def __init__(
        self, most: int, rows: Iterable[np.ndarray] = (), labels: Iterable[Label] = ()
    ) -> None:
        self.most = most
        self._rows = list(rows)
        self._labels = list(labels)

    @property
    def is_full(self) -> bool:
        """Whether there are as many as were waited for."""
        return len(self._labels) >= self.most

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        """Features, float32 (n, D): D of the widest, the others missing the rest."""
        width = max(map(len, self._rows), default=0)
        X = np.full((len(self._rows), width), np.nan, dtype=np.float32)
        for row, kept in zip(X, self._rows, strict=True):
            row[: len(kept)] = kept
        return X

    @property
    def y(self) -> np.ndarray:
        """Labels (n,)."""
        return as_array(self._labels)

    def add(self, row: np.ndarray, label: Label) -> None:
        """Keep a row (D,) and its label, if there is room."""
        if not self.is_full:
            self._rows.append(row.copy())
            self._labels.append(label)

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another, or none: those rows judge nothing then."""
        now = [into if one == label else one for one in self._labels]
        self._rows = [row for row, one in zip(self._rows, now, strict=True) if one is not None]
        self._labels = [one for one in now if one is not None]

    def state(self) -> tuple[list[Label], Arrays]:
        """Return labels and features, for `resume`."""
        return list(self._labels), {"X": self.X}

    @classmethod
    def resume(cls, most: int, labels: Sequence[Label], arrays: Arrays) -> "Shadow":
        """Return what `state` took apart."""
        return cls(most, arrays["X"], labels)


@dataclass(slots=True)
class Underway:
    """A training: what it works on, and then the committee that has come of it."""

    job: Job | None
    shadow: Shadow
    challenger: "Committee | None" = None

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return it in two parts: one as JSON can hold it, the other as arrays."""
        labels, rows = self.shadow.state()
        job, inputs = self.job.state() if self.job else (None, {})
        arrays = {f"shadow.{name}": array for name, array in rows.items()}
        arrays |= {f"job.{name}": array for name, array in inputs.items()}
        arrays |= in_arrays("challenger.", self.challenger)
        return {"job": job, "labels": labels, "most": self.shadow.most}, arrays

    @classmethod
    def resume(cls, about: dict[str, Any], arrays: Arrays) -> "Underway":
        """Return what `state` took apart."""
        shadow = Shadow.resume(about["most"], about["labels"], part(arrays, "shadow."))
        job = Job.resume(about["job"], part(arrays, "job.")) if about["job"] else None
        return cls(job, shadow, from_arrays("challenger.", arrays))


class Trainer:
    """Carries out a schedule; every training has a seed and a version of its own.

    Attributes
    ----------
    champion
        The committee that serves; None before the first.
    paused
        Whether no training starts and the champion stays.
    made
        The newest version there is, or is being made.
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
        self.made = 0
        self._estimator = estimator
        self._seeds = np.random.default_rng(seeds)
        self._progress: Progress | None = None
        self._family = ""  # that of the committees made here; the first training tells
        self._wanted = False
        self._rests_until = 0  # labels before which the schedule need not be asked
        self._underway: Underway | None = None
        self._worker = Worker()

    @property
    def estimator(self) -> Trainable:
        """What trains the committees."""
        if self._estimator is None:
            self._estimator = default_estimator()
        return self._estimator

    @property
    def running(self) -> Training | None:
        """The training that a thread is at, until `StreamLearner.swap` takes what it made."""
        job = self._underway.job if self._underway else None
        return job.training if job else None

    @property
    def challenger(self) -> "Committee | None":
        """A committee that is judged on the labels that come, before it may serve."""
        return self._underway.challenger if self._underway else None

    def finished(self) -> "Committee | None":
        """Return what the running training made, for `StreamLearner.swap`; None while it runs."""
        return self._worker.finished() if self.running else None

    def wait(self, version: int) -> "Committee":
        """Return the committee `version`, once the running training has made it.

        Raises
        ------
        DataError
            When no training that makes it is running.
        """
        running = self.running
        if running is None or running.version != version:
            what = f"version {running.version} is being made" if running else "nothing is"
            raise DataError(f"version {version} cannot be waited for: {what}")
        return self._worker.wait()

    def retrain(self) -> tuple[Training, ...]:
        """Train anew now, or as soon as no training is under way; return what was started."""
        self._wanted = True
        return self.proceed()

    def promote(self) -> tuple[Training, ...]:
        """Let the challenger serve, if there is one; return the training that was started."""
        if self._underway is not None and self._underway.challenger is not None:
            self.champion = self._underway.challenger
            self._underway = None
        return self.proceed()

    def pause(self) -> None:
        """Start no training and let the champion stay, until `go_on`; labels are still kept."""
        self.paused = True

    def go_on(self) -> tuple[Training, ...]:
        """Go on after `pause`; return the training that was started, if one was due."""
        self.paused = False
        return self.proceed()

    def follow(self, row: np.ndarray, label: Label) -> tuple[Training, ...]:
        """Take in the row (D,) just added: a challenger is judged on it, a training may start."""
        if self._underway is not None:
            self._underway.shadow.add(row, label)
        elif self._rests:
            return ()
        return self.proceed()

    @property
    def _rests(self) -> bool:
        """Whether nothing can be due, whatever the newest label."""
        rests = self._rows.total < self._rests_until and not self._wanted
        return rests and not self._rows.is_suspected

    def rename(self, label: Label, into: Label | None) -> None:
        """Let one class be another, or none, among the labels that judge a challenger."""
        if self._underway is not None:
            self._underway.shadow.rename(label, into)

    def arrive(self, challenger: "Committee") -> tuple[Training, ...]:
        """Take in what the running training made; return the training that was started."""
        assert self._underway is not None
        self._take(challenger, self._underway.shadow)
        return self.proceed()

    def stamp(self, committee: "Committee") -> None:
        """Let `committee` serve under the next version; what is under way is given up.

        Its own number may be that of another committee here, whose scores it must not inherit.
        """
        self.made += 1
        self.champion = replace(committee, version=self.made)
        self._underway = None
        self._worker.abandon()

    def proceed(self) -> tuple[Training, ...]:
        """Let a challenger serve that may; start the training that is due, if none is under way."""
        if self.paused:
            return ()
        self._decide()
        job = self._due_job() if self._underway is None else None
        if job is None:
            return ()
        shadow = Shadow(self.schedule.jury(job.training.labels))
        if self.schedule.training == "background":
            job = job.detached()
            self._worker.start(job, self.estimator)
            self._underway = Underway(job, shadow)
        else:
            self._take(job.run(self.estimator), shadow)
            self._decide()
        return (job.training,)

    def _take(self, challenger: "Committee", shadow: Shadow) -> None:
        """Let `challenger` be judged by `shadow`; what it was trained on has had its use."""
        self._underway = Underway(None, shadow, challenger)
        self._family = challenger.family

    def _decide(self) -> None:
        """Settle who serves, once there is a challenger and there are labels enough to judge it."""
        underway = self._underway
        if underway is None or underway.challenger is None:
            return
        if self.champion is not None and underway.shadow.most:
            if not underway.shadow.is_full:
                return
            errors = [
                shadow_error(c, underway.shadow) for c in (underway.challenger, self.champion)
            ]
            if errors[0] > errors[1]:
                self._underway = None
                return
        self.champion = underway.challenger
        self._underway = None

    def _due_job(self) -> Job | None:
        """Return the training that is due now and can be done; None where there is none."""
        kind = self._due()
        if kind is None or not self._rows.n_features:
            return None
        sample = self._rows.sample()
        if len(sample.classes) < 2:
            return None
        champion = self.champion
        if kind == "extend" and champion is not None and self._extensible(champion, sample):
            return self._job(kind, sample, champion)
        return self._job("retrain" if kind == "extend" else kind, sample, None)

    def _job(self, kind: Kind, sample: Sample, extended: "Committee | None") -> Job:
        """Return the training that works on `sample`, counted as started."""
        rows, before = self._rows, self._progress if extended else None
        self._rests_until = 0
        self._progress = Progress(
            retrained=before.retrained if before else rows.total,
            trained=rows.total,
            retrained_tick=before.retrained_tick if before else rows.tick,
            trained_tick=rows.tick,
        )
        if extended is None:  # an extension is not what `retrain` asks for
            self._wanted = False
        self.made += 1
        seed = int(self._seeds.integers(2**31 - 1))
        return Job(
            Training(kind=kind, labels=rows.total, seed=seed, version=self.made),
            sample.X,
            sample.y,
            sample.weight,
            committee=extended,
            n_estimators=self.schedule.extend_estimators if extended else None,
        )

    def _due(self) -> Kind | None:
        rows = self._rows
        if len(rows.counts) < 2:
            return None
        if rows.cut():
            return "drift"
        if self._wanted:
            return "retrain" if self._progress else "first"
        due = self.schedule.due(
            labels=rows.total,
            progress=self._progress,
            rounds=self.champion.n_rounds if self.champion else 0,
            tick=rows.tick,
            origin=rows.origin,
        )
        if due is None:
            self._rests_until = self.schedule.rests_until(self._progress, rows.origin)
        return due

    def _extensible(self, committee: "Committee", sample: Sample) -> bool:
        """Whether the estimator can add to `committee`, and it knows every class and column."""
        return (
            committee.family == self._family
            and committee.n_features == sample.X.shape[1]
            and set(sample.classes.tolist()) <= set(committee.classes.tolist())
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays.

        A training in its thread is there as what it works on: it is begun again.
        """
        about: dict[str, Any] = {
            "made": self.made,
            "seeds": self._seeds.bit_generator.state,
            "progress": asdict(self._progress) if self._progress else None,
            "family": self._family,
            "paused": self.paused,
            "wanted": self._wanted,
            "underway": None,
        }
        arrays = in_arrays("champion.", self.champion)
        if (underway := self._underway) is not None:
            about["underway"], parts = underway.state()
            arrays |= parts
        return about, arrays

    def resume(self, about: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for a trainer of the same settings."""
        self.made = about["made"]
        self._seeds.bit_generator.state = about["seeds"]
        self._progress = Progress(**about["progress"]) if about["progress"] else None
        self._rests_until = 0
        self._family = about["family"]
        self.paused = about["paused"]
        self._wanted = about["wanted"]
        self.champion = from_arrays("champion.", arrays)
        if about["underway"] is not None:
            self._underway = Underway.resume(about["underway"], arrays)
            if self._underway.job is not None:
                self._worker.start(self._underway.job, self.estimator)
