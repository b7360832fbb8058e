"""Trainings, one after the other: which is due, what it works on, and whether its committee serves.

At most one training is under way at a time: from the row that made it due until the committee it
makes serves, or has lost to the one that does. Nothing here reads a clock. Where a thread trains,
its committee takes part from the call that hands it in (`arrive`), so that the same calls give the
same committees, however long the thread took.
"""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.errors import DataError
from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.estimators import Trainable, default_estimator
from streamboost.stream.labelled_rows.labelled import LabelledRows, Sample
from streamboost.stream.training.jobs import Job, Worker, from_arrays, in_arrays
from streamboost.stream.training.schedule import Kind, Progress, Schedule, Training
from streamboost.stream.training.shadow import Shadow, shadow_error
from streamboost.stream.training.underway import Underway

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Trainer"]


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
