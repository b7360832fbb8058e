"""Trainings, one after the other: which is due, with what seed, and the version it makes."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.estimators import Trainable, default_estimator
from streamboost.stream.labelled import LabelledRows, Sample
from streamboost.stream.rival import Rival
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
        self._rival: Rival | None = None
        self._family = ""  # that of the committees made here; the first training tells

    @property
    def estimator(self) -> Trainable:
        """What trains the committees."""
        if self._estimator is None:
            self._estimator = default_estimator()
        return self._estimator

    def follow(
        self,
        rows: LabelledRows,
        committee: "Committee | None",
        row: np.ndarray,
        label: Label,
    ) -> tuple[Training, "Committee"] | None:
        """Take in the `row` (D,) just added; return a training with its committee.

        That is one that the row made due, or one whose committee has won against `committee`.
        """
        if committee is not None and self._rival is not None:
            won = self._judge(self._rival, committee, row, label)
            if won is not None:
                return won
        kind = self._due(rows, committee)
        if kind is None or not rows.n_features:
            return None
        sample = rows.sample()
        if len(sample.classes) < 2:
            return None
        extensible = committee is not None and self._extensible(committee, sample)
        if kind == "extend" and not extensible:
            kind = "retrain"
        trained = self._train(kind, sample, rows, committee if kind == "extend" else None)
        if kind != "extend":
            self._rival = None
        if committee is not None and kind == "retrain" and extensible:
            self._challenge(committee, sample, rows)
        return trained

    def _judge(
        self, rival: Rival, committee: "Committee", row: np.ndarray, label: Label
    ) -> tuple[Training, "Committee"] | None:
        """Judge `rival` by one more label; return what made it, and itself, if it has won."""
        rival.judge(committee, row, label)
        if rival.left:
            return None
        self._rival = None
        if not rival.wins:
            return None
        winner = self.stamp(rival.committee)
        return replace(rival.training, version=winner.version), winner

    def _challenge(self, full: "Committee", sample: Sample, rows: LabelledRows) -> None:
        """Let the newer half of a full committee, extended, rival the one trained in its place."""
        if self.schedule.at_limit == "drop_oldest" and self.schedule.fills(full.n_rounds):
            shorter = full.without_oldest((full.n_rounds + 1) // 2)
            training, rival = self._train("drop_oldest", sample, rows, shorter)
            self._rival = Rival(training, rival, self.schedule.shadow)

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
        self, kind: Kind, sample: Sample, rows: LabelledRows, extended: "Committee | None"
    ) -> tuple[Training, "Committee"]:
        seed = int(self._seeds.integers(2**31 - 1))
        trained = self.estimator.train(
            sample.X,
            sample.y,
            sample.weight,
            seed=seed,
            committee=extended,
            n_estimators=self.schedule.extend_estimators if extended else None,
        )
        before = self._progress if extended else None
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
        self._rival = None
        return replace(committee, version=self.made)

    def _extensible(self, committee: "Committee", sample: Sample) -> bool:
        """Whether the estimator can add to `committee`, and it knows every class and column."""
        return (
            committee.family == self._family
            and committee.n_features == sample.X.shape[1]
            and set(sample.classes.tolist()) <= set(committee.classes.tolist())
        )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that changes: one part as JSON can hold it, the other as arrays."""
        rival, arrays = self._rival.state() if self._rival else (None, {})
        state = {
            "made": self.made,
            "seeds": self._seeds.bit_generator.state,
            "progress": asdict(self._progress) if self._progress else None,
            "family": self._family,
            "rival": rival,
        }
        return state, arrays

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned for a trainer of the same settings."""
        self.made = state["made"]
        self._seeds.bit_generator.state = state["seeds"]
        self._progress = Progress(**state["progress"]) if state["progress"] else None
        self._family = state["family"]
        self._rival = Rival.resume(state["rival"], arrays) if state["rival"] else None
