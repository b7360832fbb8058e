"""A committee that is kept current: it scores, asks, learns and can be stopped at any step."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.budget import Ledger
from streamboost.active.query import Querier, QueryStrategy, Requests
from streamboost.errors import DataError
from streamboost.storage import Arrays
from streamboost.stream.checks import Label, as_ids, as_labels, as_propensity, as_rows, as_tick
from streamboost.stream.estimators import Trainable
from streamboost.stream.labelled import LabelledRows
from streamboost.stream.schedule import Schedule, Training
from streamboost.stream.scoring import (
    Scored,
    labels_of,
    margins_of,
    score_with_committee,
    score_with_shares,
)
from streamboost.stream.snapshots import pack, unpack
from streamboost.stream.trainer import Trainer
from streamboost.stream.working_set import WorkingSet

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["StreamLearner"]


class StreamLearner:
    """Scores every record, asks for a few labels, and trains on those that come back.

    Everything it does follows from its settings, its seed and the calls made: the same calls
    give the same results bit for bit, also when the learner is saved and restored on the way.
    With `Schedule(training="background")` a thread trains, and `swap(trainer.finished())` between
    batches lets serve what it made.

    Parameters
    ----------
    estimator
        What trains the committee, one of streamboost's estimators; None: a
        `SketchLogitBoostClassifier` with settings for few labels.
    working_set
        The labelled records kept for training.
    schedule
        When to train.
    query
        Which labels to ask for.
    n_features
        D, the number of features; None: that of the first records.
    random_state
        Seed, at least 0.

    Attributes
    ----------
    trainer
        The trainings: what is under way, pausing, training anew.

    Examples
    --------
    >>> import numpy as np
    >>> learner = StreamLearner(query=QueryStrategy(budget=0.5, audit=0), random_state=7)
    >>> X = np.array([[0.0], [1.0], [0.1], [0.9]])
    >>> learner.learn(["a", "b"], X[:2], ["low", "high"])
    (Training(kind='first', labels=2, seed=..., version=1),)
    >>> scored = learner.score(X)
    >>> scored.version
    1
    >>> len(learner.query(X, scored, ["a", "b", "c", "d"])) <= 2
    True
    """

    def __init__(
        self,
        estimator: Trainable | None = None,
        working_set: WorkingSet | None = None,
        schedule: Schedule | None = None,
        query: QueryStrategy | None = None,
        n_features: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.working_set = working_set or WorkingSet()
        self.schedule = schedule or Schedule()
        self.strategy = query or QueryStrategy()
        trainings, asking = np.random.SeedSequence(random_state).spawn(2)
        self._rows = LabelledRows(self.working_set)
        self.trainer = Trainer(estimator, self.schedule, trainings, self._rows)
        self._querier = Querier(self.strategy, asking)
        self._answered = 0
        self._expired = 0
        self.n_features: int | None = None
        if n_features is not None:
            self.widen(n_features)

    @property
    def estimator(self) -> Trainable:
        """What trains the committee."""
        return self.trainer.estimator

    @property
    def committee(self) -> "Committee | None":
        """The committee that scores; None before the first training."""
        return self.trainer.champion

    @property
    def n_labels(self) -> int:
        """Labels learned so far."""
        return self._rows.total

    @property
    def classes(self) -> list[Label]:
        """The labels learned so far, each once, in the order first seen."""
        return list(self._rows.counts)

    @property
    def ledger(self) -> Ledger:
        """What has been asked and answered so far."""
        return self._querier.ledger(answered=self._answered, expired=self._expired)

    def score(self, X: Any) -> Scored:
        """Predict records `X` (n, D), NaN where missing.

        Before there is a committee, every record gets the commonest label so far.
        """
        rows = self._admit(X)
        if self.committee is None:
            return score_with_shares(self._rows.counts, len(rows))
        return score_with_committee(self.committee, rows)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels, object (n,), that `score` predicts, with less work."""
        rows = self._admit(X)
        if self.committee is None:
            return score_with_shares(self._rows.counts, len(rows)).labels
        return labels_of(self.committee, rows)

    def query(self, X: Any, scored: Scored, ids: Sequence[str]) -> Requests:
        """Decide which of the records `X` (n, D), scored as `scored`, to ask for.

        Each record counts towards the budget here, once; the tokens of what is asked are spent.
        """
        rows = self._admit(X)
        ids = as_ids(ids, len(rows))
        if len(scored) != len(rows):
            raise DataError(f"{len(scored)} predictions for {len(rows)} records: give one each")
        version = self.committee.version if self.committee else 0
        margins = scored.margins if scored.version == version else self._margins(rows)
        self._querier.window.follow(version, lambda X: self.strategy.measure(self._margins(X)))
        # Two labels per class, drawn at random, before margins of so young a committee decide.
        cold = self.committee is None or self.n_labels < 2 * len(self._rows.counts)
        return self._querier.decide(ids, rows, self.strategy.measure(margins), cold=cold)

    def learn(
        self, ids: Sequence[str], X: Any, y: Any, *, tick: int = 0, propensity: Any = None
    ) -> tuple[Training, ...]:
        """Learn labels `y` (n,) of records `X` (n, D) in their order, training where it is due.

        Parameters
        ----------
        ids
            The records' ids.
        X, y
            Features, NaN where missing; labels, all text or all whole numbers.
        tick
            Milliseconds since the epoch, kept with the rows.
        propensity
            (n,), the chance with which each label was asked for; NaN, or None for all, where
            nobody asked.

        Returns
        -------
        tuple of Training
            The trainings that were started, each on the rows up to the one that made it due.
            Trained inline, they have also taken place.

        Raises
        ------
        DataError
            When anything given cannot be used; nothing has been learned then.
        """
        rows = as_rows(X, self.n_features)
        as_ids(ids, len(rows))
        labels = as_labels(y, len(rows), self._kind)
        chances = as_propensity(propensity, len(rows))
        tick = as_tick(tick)
        if self.n_features is None:
            self.widen(rows.shape[1])
        started: list[Training] = []
        for row, label, chance in zip(rows, labels, chances.tolist(), strict=True):
            self._rows.append(row, label, tick, chance)
            self._answered += chance == chance
            started += self.trainer.follow(row, label)
        return tuple(started)

    def expire(self, ids: Sequence[str]) -> None:
        """Give up requests whose labels will not come; their tokens stay spent."""
        self._expired += len(list(ids))

    def swap(self, committee: "Committee | None") -> tuple[Training, ...]:
        """Let `committee` serve from now on; None changes nothing.

        What `trainer.finished` or `trainer.wait` returned comes in under the version of its
        training, and serves at once, or once it has been judged (`Schedule.promotion`). Any other
        serves at once, under a version of its own, and a training under way is given up. One of
        another family than the estimator's serves until the next training, which trains anew.

        Returns
        -------
        tuple of Training
            The training that was started, if one had become due meanwhile.

        Raises
        ------
        DataError
            When its classes are not of the kind of this learner's labels, or it scores features
            that this learner does not have; the committee there is stays.
        """
        if committee is None:
            return ()
        if committee is self.trainer.finished():
            return self.trainer.arrive(committee)
        as_labels(committee.classes, len(committee.classes), self._kind, name="committee.classes")
        if self.n_features is None:
            self.widen(committee.n_features)
        if committee.n_features > self._rows.n_features:
            raise DataError(
                f"the committee scores {committee.n_features} features, and this learner has "
                f"{self.n_features}: train one on the same columns"
            )
        self.trainer.stamp(committee)
        return ()

    def widen(self, n_features: int) -> None:
        """Take records of `n_features` features from now on; those kept miss the new ones."""
        if n_features < self._rows.n_features:
            raise DataError(
                f"n_features is {n_features}, and there are {self._rows.n_features} already: "
                "columns may join but not leave; give NaN where a value is missing"
            )
        if n_features > self._rows.n_features:
            self._rows.widen(n_features)
            self._querier.window.widen(n_features)
        self.n_features = n_features

    @property
    def _kind(self) -> type | None:
        """What labels are here, str or int; None while nothing tells."""
        if self._rows.kind is None and self.committee is not None:
            return type(self.committee.classes.tolist()[0])
        return self._rows.kind

    def _admit(self, X: Any) -> np.ndarray:
        rows = as_rows(X, self.n_features)
        if self.n_features is None:
            self.widen(rows.shape[1])
        return rows

    def _margins(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows)) if self.committee is None else margins_of(self.committee, rows)

    def snapshot(self) -> Arrays:
        """Return all there is to the learner as arrays; `restore` makes it again from them.

        Raises
        ------
        ConfigurationError
            When the estimator cannot be named, as it is not one of streamboost's.
        """
        return pack(self)

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> "StreamLearner":
        """Return the learner that `snapshot` took the arrays from.

        A training that was running in a thread is begun again, on the rows it had.

        Raises
        ------
        ModelFileError
            When the arrays are not a learner's, or of another release.
        """
        return unpack(cls, arrays)
