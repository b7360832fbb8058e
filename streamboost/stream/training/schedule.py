"""When to train: the first committee, retraining and extending, by labels, seconds and drift."""

from dataclasses import dataclass
from functools import lru_cache
from math import floor
from typing import Any, Literal

from streamboost.active.settings import check_whole, is_finite
from streamboost.errors import ConfigurationError

__all__ = ["Kind", "Progress", "Schedule", "Training"]

_SHARE = 100
"""One label in so many more brings an extension: fewer teach too little for what it costs."""

_MANY = 20_000
"""Labels from which on retrainings cost as much as all else, and teach the less."""

_NEVER = 2**63
"""More labels than a stream has; a product of floats may be infinite."""

_CHOICES = {
    "training": ("inline", "background"),
    "promotion": ("always", "better"),
    "on_drift": (None, "adwin", "page_hinkley", "kswin"),
    "drift_signal": ("error", "margin", "both"),
}

Kind = Literal["first", "retrain", "extend", "drift"]


@dataclass(frozen=True, slots=True)
class Training:
    """A training that was started.

    Attributes
    ----------
    kind
        "first", "retrain" or "extend"; or "drift", a retraining on the rows since a change.
    labels
        How many labels had been learned when it started.
    seed
        What its random numbers came from.
    version
        That of the committee it makes.
    """

    kind: Kind
    labels: int
    seed: int
    version: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The last retraining and the last training of all.

    Attributes
    ----------
    retrained, trained
        How many labels had been learned.
    retrained_tick, trained_tick
        The tick of the newest of them.
    """

    retrained: int
    trained: int
    retrained_tick: int = 0
    trained_tick: int = 0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When to train, looked at whenever a label arrives, row by row whatever the batches.

    The first training takes place once `first` labels are there and two classes among them.
    After a retraining at L labels the next is due max(1, floor(L * (growth - 1))) labels later,
    or `retrain_every` labels or `retrain_seconds` later if that is sooner. In between, the
    committee is extended whenever `extend_every` labels have come, or `extend_seconds` have
    passed, since the last training of either kind. Seconds are counted by the labels' ticks.

    A drift noticed by `on_drift` retrains on the records whose labels came since the change, as
    soon as these are of two classes; the older ones are dropped, and L is counted from there. With
    labels that come late, records of before the change are among them.

    Parameters
    ----------
    first
        Least number of labels for the first training.
    growth
        Factor by which the labels grow from one retraining to the next, above 1.
    retrain_every
        Most labels from one retraining to the next, twice as many once there are 40,000 (from
        20,000 on in proportion); None: growth and seconds decide.
    retrain_seconds
        Most seconds from one retraining to the next; None: labels decide.
    extend_every
        Labels from one training to an extension, or one per cent of all labels where that is
        more; None: no extension by labels.
    extend_seconds
        Seconds from one training to an extension; None: no extension by seconds.
    extend_estimators
        Rounds that an extension adds.
    max_estimators
        A committee that an extension would take past so many rounds is retrained instead.
    training
        "inline": within the call that made it due. "background": in a thread, so that scoring
        goes on; the committee serves from the call of `swap` that hands it in. One training is
        under way at a time: what becomes due meanwhile starts, as one training on the working
        set of then, after that call.
    promotion
        "always": what a training made serves. "better": only once it has made no more errors
        than the committee that serves, on the labels that came after its training started, which
        it has not seen; no other training starts until then. A draw is the challenger's,
        which knows more labels. Each label counts as one, however likely it was to be asked for:
        it is a judgement of the records that are asked about, the hard ones above all.
    shadow
        How many labels such a judgement waits for; a tenth of the labels learned when the
        training started is enough, so that a young learner need not wait long.
    on_drift
        River's detector that looks for drift: "adwin", "page_hinkley", or "kswin", which takes a
        hundred times as long as the others; None: nobody looks.
    drift_signal
        What it looks at: "error", whether the prediction that a labelled record got on arrival
        was wrong; "margin", how far apart the committee puts the two likeliest classes of each
        record that `query` is told of, which needs no labels; or "both", each with a detector of
        its own.
    correction_rounds
        Stumps that correct the committee's scores by what the newest labels say; each label
        replaces those of the label before. 0: none. See `per_label`.
    correction_rows, correction_half_life
        On how many of the newest labelled records they are grown, and the age in labels at which
        one of them weighs half as much as the newest.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------
    >>> Schedule(growth=1.5).due(labels=15, progress=Progress(10, 10), rounds=100)
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
    shadow: int = 200
    on_drift: str | None = None
    drift_signal: str = "error"
    correction_rounds: int = 0
    correction_rows: int = 50
    correction_half_life: float = 5.0

    def __post_init__(self) -> None:
        check_whole("schedule first", self.first, at_least=2)
        check_whole("schedule extend_estimators", self.extend_estimators)
        check_whole("schedule shadow", self.shadow)
        for name in ("retrain_every", "extend_every", "max_estimators"):
            if getattr(self, name) is not None:
                check_whole(f"schedule {name}", getattr(self, name))
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
        check_whole("schedule correction_rounds", self.correction_rounds, at_least=0)
        check_whole("schedule correction_rows", self.correction_rows)
        if not is_finite(self.correction_half_life) or self.correction_half_life <= 0:
            raise ConfigurationError(
                f"schedule correction_half_life is {self.correction_half_life!r}: give a positive "
                "number of labels"
            )

    @classmethod
    def per_label(cls, **settings: Any) -> "Schedule":
        """Return a schedule that follows every label, for streams whose labels follow one another.

        The committee is retrained as labels grow by a quarter, or 500 have come, and never
        extended. In between, at every label, five stumps are boosted anew on top of it: rounds of
        the sketch with two leaves each, on the newest 50 labelled records, where one five labels
        older weighs half as much. So the last few labels count at once and are forgotten as fast,
        and nothing piles up. Corrections are no versions of the committee; in a pipeline each
        batch is scored with the correction by all labels before it. Where the committee speaks
        alone (`experts="committee"`), with every label known at once, through River, it is right on
        94.0 % of electricity (45,312 records, six features), where repeating the last label is on
        85.3 % and the committee without corrections on 76.8 %, and on 93.5 % of outdoor (90.2 and
        63.4 %). Where neighbours are not alike it costs some: weather falls from 79.8 to 76.7 %. By
        default the correction is one expert of several, whatever the schedule. `settings` are
        parameters that differ.

        Examples
        --------
        >>> Schedule.per_label(correction_half_life=20).correction_rounds
        5
        """
        return cls(**{"growth": 1.25, "extend_every": None, "correction_rounds": 5} | settings)

    def due(
        self,
        *,
        labels: int,
        progress: Progress | None,
        rounds: int,
        tick: int = 0,
        origin: int = 0,
    ) -> Kind | None:
        """Return the training that is due after `labels` labels, the newest at `tick`, or None.

        `progress` is None before the first training; `rounds` are those of the committee;
        `origin` labels came before the last drift. That two classes are at hand is the caller's
        to see.
        """
        if progress is None:
            return "first" if labels >= self.first else None
        wait = _wait(progress.retrained - origin, float(self.growth), self.retrain_every)
        grown = labels - progress.retrained >= wait
        if grown or _passed(self.retrain_seconds, progress.retrained_tick, tick):
            return "retrain"
        least = max(self.extend_every or 0, (labels - origin) // _SHARE)
        more = self.extend_every is not None and labels - progress.trained >= least
        if not more and not _passed(self.extend_seconds, progress.trained_tick, tick):
            return None
        return "retrain" if self.fills(rounds) else "extend"

    def jury(self, labels: int) -> int:
        """Return how many labels judge what a training started at `labels` labels makes."""
        if self.promotion == "always":
            return 0
        return min(self.shadow, max(1, labels // 10))

    def rests_until(self, progress: Progress | None, origin: int) -> int:
        """Return how many labels there must be for any training to be due; 0: seconds may tell."""
        seconds = self.retrain_seconds, self.extend_seconds
        if progress is None or seconds != (None, None):
            return 0
        wait = _wait(progress.retrained - origin, float(self.growth), self.retrain_every)
        extended = progress.trained + (self.extend_every or wait)
        return min(progress.retrained + wait, extended)

    def fills(self, rounds: int) -> bool:
        """Whether an extension would take a committee of so many rounds past the limit."""
        limit = self.max_estimators
        return limit is not None and rounds + self.extend_estimators > limit


@lru_cache(maxsize=64)
def _wait(kept: int, growth: float, every: int | None) -> int:
    """Return how many labels make a retraining due after one on `kept` of them."""
    # 1.15 - 1 falls short of 0.15 in binary; the last term keeps floor from dropping a label.
    step = max(1, floor(min(kept * (growth - 1) + 1e-9, _NEVER)))
    most = (every or step) * min(max(kept, _MANY), 2 * _MANY) // _MANY
    return min(step, most)


def _passed(seconds: float | None, since: int, tick: int) -> bool:
    """Whether `seconds` have passed between two ticks; None never passes."""
    return seconds is not None and tick - since >= 1000 * seconds
