"""Trainings, one after the other: which is due, with what seed, and the version it makes."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.stream.estimators import Trainable, default_estimator
from streamboost.stream.labelled import LabelledRows, Sample
from streamboost.stream.schedule import Kind, Progress, Schedule, Training

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Trainer"]


class Trainer:
    """Carries out a schedule; every training has a seed and a version of its own."""

    def __init__(
        self, estimator: Trainable | None, schedule: Schedule, seeds: np.random.SeedSequence
    ) -> None:
        self.schedule = schedule
        self.made = 0
        self._estimator = estimator
        self._seeds = np.random.default_rng(seeds)
        self._progress: Progress | None = None
        self._family = ""  # that of the committees made here; the first training tells

    @property
    def estimator(self) -> Trainable:
        """What trains the committees."""
        if self._estimator is None:
            self._estimator = default_estimator()
        return self._estimator

    def follow(
        self, rows: LabelledRows, committee: "Committee | None"
    ) -> tuple[Training, "Committee"] | None:
        """Train if the row just added makes a training due; return it with its committee."""
        kind = self._due(rows, committee)
        if kind is None or not rows.n_features:
            return None
        sample = rows.sample()
        if len(sample.classes) < 2:
            return None
        if kind == "extend" and not self._extensible(committee, sample):
            kind = "retrain"
        return self._train(kind, sample, rows, committee)

    def _due(self, rows: LabelledRows, committee: "Committee | None") -> Kind | None:
        if rows.cut():
            return "drift"
        return self.schedule.due(
            labels=rows.total,
            progress=self._progress,
            rounds=committee.n_rounds if committee else 0,
            tick=rows.tick,
            origin=rows.origin,
        )

    def _train(
        self, kind: Kind, sample: Sample, rows: LabelledRows, committee: "Committee | None"
    ) -> tuple[Training, "Committee"]:
        seed = int(self._seeds.integers(2**31 - 1))
        extends = kind == "extend"
        trained = self.estimator.train(
            sample.X,
            sample.y,
            sample.weight,
            seed=seed,
            committee=committee if extends else None,
            n_estimators=self.schedule.extend_estimators if extends else None,
        )
        before = self._progress if extends else None
        self._progress = Progress(
            retrained=before.retrained if before else rows.total,
            trained=rows.total,
            retrained_tick=before.retrained_tick if before else rows.tick,
            trained_tick=rows.tick,
        )
        self._family = trained.family
        self.made += 1
        training = Training(kind=kind, labels=rows.total, seed=seed, version=self.made)
        return training, replace(trained, version=self.made)

    def stamp(self, committee: "Committee") -> "Committee":
        """Return `committee` under the next version.

        Its own number may be that of another committee here, whose scores it must not inherit.
        """
        self.made += 1
        return replace(committee, version=self.made)

    def _extensible(self, committee: "Committee | None", sample: Sample) -> bool:
        """Whether the estimator can add to `committee`, and it knows every class and column."""
        return (
            committee is not None
            and committee.family == self._family
            and committee.n_features == sample.X.shape[1]
            and set(sample.classes.tolist()) <= set(committee.classes.tolist())
        )

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON can hold it."""
        return {
            "made": self.made,
            "seeds": self._seeds.bit_generator.state,
            "progress": asdict(self._progress) if self._progress else None,
            "family": self._family,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned for a trainer of the same settings."""
        self.made = state["made"]
        self._seeds.bit_generator.state = state["seeds"]
        self._progress = Progress(**state["progress"]) if state["progress"] else None
        self._family = state["family"]
