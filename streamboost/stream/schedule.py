"""When to train: the first committee, retraining and extending, counted in labels."""

from dataclasses import dataclass
from math import floor
from typing import Literal

from streamboost.active.settings import check_whole, is_finite
from streamboost.errors import ConfigurationError

__all__ = ["Kind", "Progress", "Schedule", "Training"]

_NEVER = 2**63
"""More labels than a stream has; a product of floats may be infinite."""

_CHOICES = {"training": ("inline", "background"), "promotion": ("always", "better")}

Kind = Literal["first", "retrain", "extend"]


@dataclass(frozen=True, slots=True)
class Training:
    """A training that was started.

    Attributes
    ----------
    kind
        "first", "retrain" or "extend".
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
    """How many labels had been learned at the last retraining and at the last training of all."""

    retrained: int
    trained: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When to train, in labels; counted row by row, whatever the batches.

    The first training takes place once `first` labels are there and two classes among them.
    After a retraining at L labels the next is due max(1, floor(L * (growth - 1))) labels later,
    or `retrain_every` labels later if that is sooner. In between, the committee is extended
    whenever `extend_every` labels have come since the last training of either kind.

    Parameters
    ----------
    first
        Least number of labels for the first training.
    growth
        Factor by which the labels grow from one retraining to the next, above 1.
    retrain_every
        Most labels from one retraining to the next; None: growth alone decides.
    extend_every
        Labels from one training to an extension; None: never extend.
    extend_estimators
        Rounds that an extension adds.
    max_estimators
        A committee that an extension would take past so many rounds is retrained instead.
    training
        "inline": within the call that made it due. "background": in a thread, so that scoring
        goes on; the committee serves from the call of `swap` that hands it in. One training is
        under way at a time: what becomes due meanwhile starts, as one training on the newest
        rows, after that call.
    promotion
        "always": what a training made serves. "better": only once it has made no more errors
        than the committee that serves, on the labels that came after its own rows were taken,
        which it has not seen; no other training starts until then. A draw is the challenger's,
        which knows more labels.
    shadow
        How many labels to judge it by with promotion="better"; a tenth of the labels learned when
        the training started is enough, so that a young learner need not wait long.

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
    extend_every: int | None = 10
    extend_estimators: int = 10
    max_estimators: int | None = 400
    training: str = "inline"
    promotion: str = "always"
    shadow: int = 200

    def __post_init__(self) -> None:
        check_whole("schedule first", self.first, at_least=2)
        check_whole("schedule extend_estimators", self.extend_estimators)
        check_whole("schedule shadow", self.shadow)
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(
                    f"schedule {name} is {getattr(self, name)!r}: choose one of "
                    f"{', '.join(choices)}"
                )
        for name in ("retrain_every", "extend_every", "max_estimators"):
            if getattr(self, name) is not None:
                check_whole(f"schedule {name}", getattr(self, name))
        if not is_finite(self.growth) or self.growth <= 1:
            raise ConfigurationError(
                f"schedule growth is {self.growth!r}: give a factor above 1, such as 1.05 to "
                "retrain after 5 % more labels"
            )

    def due(self, *, labels: int, progress: Progress | None, rounds: int) -> Kind | None:
        """Return the training that is due after `labels` labels, or None.

        `progress` is None before the first training; `rounds` are those of the committee. That
        two classes are at hand is the caller's to see.
        """
        if progress is None:
            return "first" if labels >= self.first else None
        # 1.15 - 1 falls short of 0.15 in binary; the last term keeps floor from dropping a label.
        growth = progress.retrained * (float(self.growth) - 1) + 1e-9
        step = max(1, floor(min(growth, _NEVER)))
        if labels - progress.retrained >= min(step, self.retrain_every or step):
            return "retrain"
        if self.extend_every is None or labels - progress.trained < self.extend_every:
            return None
        grown = rounds + self.extend_estimators
        full = self.max_estimators is not None and grown > self.max_estimators
        return "retrain" if full else "extend"

    def jury(self, labels: int) -> int:
        """Return how many labels judge a committee whose training started at `labels` labels."""
        if self.promotion == "always":
            return 0
        return min(self.shadow, max(1, labels // 10))
