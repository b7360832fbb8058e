"""Training schedule: first training, retraining and extension, by labels, seconds and drift."""

from dataclasses import dataclass
from functools import lru_cache
from math import floor
from typing import Any, Literal

from streamboost.errors import ConfigurationError
from streamboost.query.settings import check_integer, is_finite
from streamboost.stacking.correction import PER_LABEL, CorrectionSettings

_SHARE = 100
"""An extension needs at least 1/100 of all labels as new labels, to be worth its cost."""

_MANY = 20_000
"""Number of labels from which on retrainings are rarer, as they cost more and gain less."""

_NEVER = 2**63
"""Limit of computed label counts: more labels than any stream has."""

_CHOICES = {
    "training": ("inline", "background"),
    "promotion": ("always", "better"),
    "on_drift": (None, "adwin", "page_hinkley", "kswin"),
    "drift_signal": ("error", "margin", "both"),
}

Kind = Literal["first", "retrain", "extend", "drift"]


@dataclass(frozen=True, slots=True)
class Training:
    """Kind, size, seed and version of a training that was started.

    Attributes
    ----------
    kind
        "first", "retrain" or "extend"; or "drift", a retraining on the rows since a change.
    labels
        Number of labels learned when the training started.
    seed
        Seed of the random numbers of the training.
    version
        Version of the committee that is trained.
    """

    kind: Kind
    labels: int
    seed: int
    version: int


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Times of the last retraining and of the last training, in numbers of labels and in ticks.

    Attributes
    ----------
    retrained, trained
        Number of labels learned when the last retraining, or the last training, started.
    retrained_tick, trained_tick
        Tick of the newest of these labels, in milliseconds since the epoch.
    """

    retrained: int
    trained: int
    retrained_tick: int = 0
    trained_tick: int = 0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Training schedule, evaluated whenever a label arrives, independent of batch boundaries.

    The first training is due at `first` labels of at least two classes. After a retraining at L
    labels, the next one is due max(1, floor(L * (growth - 1))) labels later, or `retrain_every`
    labels or `retrain_seconds` later if that is sooner. In between, the committee is extended
    whenever `extend_every` labels have arrived, or `extend_seconds` have passed, since the last
    training of either kind. Seconds are differences of the labels' `tick`, in milliseconds since
    the epoch.

    Drift detected by `on_drift` retrains on the records labelled since the change, as soon as
    these are of two classes. Older records are dropped, and L is counted from there. With delayed
    labels, some of the remaining records are from before the change.

    Parameters
    ----------
    first
        Least number of labels for the first training.
    growth
        Factor by which the labels grow from one retraining to the next, above 1.
    retrain_every
        Maximum number of labels from one retraining to the next. From 20,000 labels on, the maximum
        grows in proportion to the number of labels; from 40,000 on, it is twice as large. None:
        `growth` and `retrain_seconds` decide.
    retrain_seconds
        Maximum number of seconds from one retraining to the next; None: labels decide.
    extend_every
        Number of labels from one training to an extension, but at least one per cent of all labels;
        None: no extension by labels.
    extend_seconds
        Seconds from one training to an extension; None: no extension by seconds.
    extend_estimators
        Rounds that an extension adds.
    max_estimators
        Limit of the rounds: if an extension would exceed it, the committee is retrained instead.
    training
        "inline": within the call that made the training due. "background": in a thread, in parallel
        with scoring (background training); a call of `StreamLearner.deploy` deploys the committee.
        At most one training runs at a time. Trainings that become due meanwhile start after that
        call, as one training on the working set of that time.
    promotion
        "always": deploy each trained committee. "better": deploy a challenger only if it makes no
        more errors than the champion on the labels that arrived after its training started, which
        it has not seen; no other training starts until then. In a tie the challenger wins, as it
        was trained on more labels. Labels are not weighted by inclusion probability, so the
        comparison is about the requested records, mostly hard ones.
    n_evaluation_labels
        Number of labels for the comparison with promotion="better", at most a tenth of the labels
        learned when the training started, so that a young learner need not wait long.
    on_drift
        River's drift detector: "adwin", "page_hinkley", or "kswin", which takes a hundred times
        as long as the others; None: no detection.
    drift_signal
        Signal of the detector: "error", whether the prediction on arrival of a labelled record was
        wrong; "margin", the difference of the committee's two largest probabilities for each
        record passed to `query`, which needs no labels; or "both", with a detector for each.
    correction_rounds
        Number of stumps that are boosted on top of the committee, on the newest labels. The stumps
        are replaced whenever a label arrives. 0: no correction. `Schedule.per_label()` returns a
        schedule with a correction.
    correction_rows, correction_half_life
        Number of newest labelled records that the stumps are grown on, and the age in labels at
        which a record's weight is half that of the newest.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------
    >>> Schedule(growth=1.5).due_training(labels=15, progress=TrainingProgress(10, 10), rounds=100)
    'retrain'
    """

    first: int = 2
    growth: float = 1.05
    retrain_every: int | None = 500
    retrain_seconds: float | None = None
    extend_every: int | None = 10
    extend_seconds: float | None = None
    extend_estimators: int = 10
    max_estimators: int | None = 400
    training: str = "inline"
    promotion: str = "always"
    n_evaluation_labels: int = 200
    on_drift: str | None = None
    drift_signal: str = "error"
    correction_rounds: int = 0
    correction_rows: int = PER_LABEL.rows
    correction_half_life: float = PER_LABEL.half_life

    def __post_init__(self) -> None:
        check_integer("schedule first", self.first, at_least=2)
        check_integer("schedule extend_estimators", self.extend_estimators)
        check_integer("schedule n_evaluation_labels", self.n_evaluation_labels)
        for name in ("retrain_every", "extend_every", "max_estimators"):
            if getattr(self, name) is not None:
                check_integer(f"schedule {name}", getattr(self, name))
        for name in ("retrain_seconds", "extend_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not (is_finite(seconds) and seconds > 0):
                raise ConfigurationError(
                    f"schedule {name} is {seconds!r}: give a positive number of seconds"
                )
        if not is_finite(self.growth) or self.growth <= 1:
            raise ConfigurationError(
                f"schedule growth is {self.growth!r}: give a factor above 1, such as 1.05 to "
                "retrain after 5 % more labels"
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(
                    f"schedule {name} is {getattr(self, name)!r}: choose one of "
                    f"{', '.join(map(str, choices))}"
                )
        check_integer("schedule correction_rounds", self.correction_rounds, at_least=0)
        check_integer("schedule correction_rows", self.correction_rows)
        if not is_finite(self.correction_half_life) or self.correction_half_life <= 0:
            raise ConfigurationError(
                f"schedule correction_half_life is {self.correction_half_life!r}: give a positive "
                "number of labels"
            )

    @property
    def correction_settings(self) -> CorrectionSettings:
        """Settings of the stumps that correct the committee: the three `correction_` parameters."""
        return CorrectionSettings(
            self.correction_rounds, self.correction_rows, self.correction_half_life
        )

    @classmethod
    def per_label(cls, **settings: Any) -> "Schedule":
        """Return a schedule that adapts to every label, for streams with autocorrelated labels.

        `settings` are parameters of `Schedule` that differ from the ones described here.

        The committee is retrained when the labels have grown by a quarter or by 500, and never
        extended. In between, each label boosts five new stumps on top of the committee: rounds of
        the sketch with two leaves each, on the newest 50 labelled records, where a record five
        labels older weighs half as much. So the newest labels have an immediate effect that decays
        quickly, and corrections do not accumulate. Corrections do not create versions of the
        committee. In a pipeline, each batch is scored with the correction by all labels before the
        batch.

        Measured through River, with only the committee as expert (`experts="committee"`) and every
        label known at once: 94.0 % correct on electricity (45,312 records, six features), against
        85.3 % for repeating the last label and 76.8 % for the committee without corrections. On
        outdoor: 93.5 %, against 90.2 and 63.4 %. Without autocorrelation the correction costs some
        accuracy: weather falls from 79.8 to 76.7 %. By default the correction is one expert of
        several, whatever the schedule.

        Examples
        --------
        >>> Schedule.per_label(correction_half_life=20).correction_rounds
        5
        """
        rounds = PER_LABEL.rounds
        return cls(**{"growth": 1.25, "extend_every": None, "correction_rounds": rounds} | settings)

    def due_training(
        self,
        *,
        labels: int,
        progress: TrainingProgress | None,
        rounds: int,
        tick: int = 0,
        origin: int = 0,
    ) -> Kind | None:
        """Return the kind of training that is due after `labels` labels; None if none is due.

        `progress` describes the last trainings; None before the first. `rounds` is the number of
        boosting rounds of the committee, and `tick` is the tick of the newest label. `origin` is
        the number of labels from before the last drift. The caller must check that the labels have
        two classes.
        """
        if progress is None:
            return "first" if labels >= self.first else None
        wait = _labels_between_retrainings(
            progress.retrained - origin, float(self.growth), self.retrain_every
        )
        grown = labels - progress.retrained >= wait
        if grown or _have_seconds_passed(self.retrain_seconds, progress.retrained_tick, tick):
            return "retrain"
        least = max(self.extend_every or 0, (labels - origin) // _SHARE)
        more = self.extend_every is not None and labels - progress.trained >= least
        if not more and not _have_seconds_passed(self.extend_seconds, progress.trained_tick, tick):
            return None
        return "retrain" if self.exceeds_max_estimators(rounds) else "extend"

    def holdout_size(self, labels: int) -> int:
        """Return the number of labels that evaluate a committee trained on `labels` labels."""
        if self.promotion == "always":
            return 0
        return min(self.n_evaluation_labels, max(1, labels // 10))

    def min_labels_for_training(self, progress: TrainingProgress | None, origin: int) -> int:
        """Return the number of labels below which no training is due; 0 if seconds also decide.

        `progress` and `origin` are described in `due_training`.
        """
        seconds = self.retrain_seconds, self.extend_seconds
        if progress is None or seconds != (None, None):
            return 0
        return self.labels_of_next_training(progress, origin)

    def labels_of_next_training(self, progress: TrainingProgress | None, origin: int) -> int:
        """Return the number of labels at which labels alone make the next training due.

        Seconds may make it due earlier. `progress` and `origin` are described in `due_training`.
        """
        if progress is None:
            return self.first
        retrain = progress.retrained + _labels_between_retrainings(
            progress.retrained - origin, float(self.growth), self.retrain_every
        )
        if self.extend_every is None:
            return retrain
        extend, before = progress.trained + self.extend_every, -1
        while before < extend < retrain:  # the least number of new labels grows with all labels
            before, extend = extend, max(extend, progress.trained + (extend - origin) // _SHARE)
        return min(retrain, extend)

    def exceeds_max_estimators(self, rounds: int) -> bool:
        """Return whether extending a committee of `rounds` rounds would exceed `max_estimators`."""
        limit = self.max_estimators
        return limit is not None and rounds + self.extend_estimators > limit


@lru_cache(maxsize=64)
def _labels_between_retrainings(n_kept: int, growth: float, max_labels: int | None) -> int:
    """Return the number of labels from a retraining on `n_kept` labels to the next one."""
    # 1.15 - 1 falls short of 0.15 in binary; the last term keeps floor from dropping a label.
    step = max(1, floor(min(n_kept * (growth - 1) + 1e-9, _NEVER)))
    most = (max_labels or step) * min(max(n_kept, _MANY), 2 * _MANY) // _MANY
    return min(step, most)


def _have_seconds_passed(seconds: float | None, start_tick: int, end_tick: int) -> bool:
    """Return whether `seconds` have passed from tick `start_tick` to `end_tick`; False if None."""
    return seconds is not None and end_tick - start_tick >= 1000 * seconds
