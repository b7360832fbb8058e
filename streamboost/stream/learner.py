"""A committee that is kept current: it scores, asks, learns and can be stopped at any step."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.budget import Ledger
from streamboost.active.querier import Querier
from streamboost.active.query import QueryStrategy, Requests
from streamboost.errors import DataError
from streamboost.storage import Arrays
from streamboost.stream.checks import (
    Label,
    as_ids,
    as_labels,
    as_predictions,
    as_propensity,
    as_rows,
    as_tick,
)
from streamboost.stream.drift import DriftWatch
from streamboost.stream.estimators import Trainable
from streamboost.stream.evaluation import Evaluation
from streamboost.stream.judge import Judge
from streamboost.stream.labelled import LabelledRows
from streamboost.stream.lags import Lags
from streamboost.stream.recent import Recent
from streamboost.stream.schedule import Schedule, Training
from streamboost.stream.scoring import (
    Scored,
    evidence,
    labels_of,
    score_with_committee,
    score_with_shares,
    uncalibrated,
)
from streamboost.stream.snapshots import pack, unpack
from streamboost.stream.trainer import Trainer
from streamboost.stream.working_set import WorkingSet

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["StreamLearner"]

_RANDOM_START = Fraction(1, 20)
"""The least budget whose first labels are drawn at random although there is a committee."""


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
        Which labelled records training sees. None: the newest 10,000, all of the same weight.
    schedule
        When to train. None: whenever the labels have grown by 5 %, or by 500, with extensions in
        between.
    query
        Which records to ask for. None: those of small margin, for a budget of 5 %.
    n_features
        D, the number of features; None: that of the first records.
    random_state
        Seed of all random choices, at least 0.
    calibrate
        Give probabilities at the temperature that suits the labels asked for (`Temperature`).
    coverage
        Share of the sets of `predict_set` that are to hold the true label, in (0, 1).
    label_lags
        The newest so many labels learned are features too: `with_lags` puts them first, and they
        count in D. The estimator's `categorical_features` should name them.

    Attributes
    ----------
    trainer
        The trainings: what is under way, pausing, training anew.

    Raises
    ------
    ConfigurationError
        When `coverage` or `label_lags` is out of its range.

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
        calibrate: bool = True,
        coverage: float = 0.9,
        label_lags: int = 0,
    ) -> None:
        self.working_set = working_set or WorkingSet()
        self.schedule = schedule or Schedule()
        self.strategy = query or QueryStrategy()
        trainings, asking, keeping, watching = np.random.SeedSequence(random_state).spawn(4)
        self._rows = LabelledRows(self.working_set, keeping)
        self.trainer = Trainer(estimator, self.schedule, trainings, self._rows)
        self._recent = Recent(self.schedule)
        self._lags = Lags(label_lags)
        self._querier = Querier(self.strategy, asking)
        self._drift = DriftWatch(self.schedule, watching)
        self.judge = Judge(self._querier.budget.block, calibrate=calibrate, coverage=coverage)
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

    @property
    def evaluation(self) -> Evaluation:
        """How good the predictions were that `query` was told of, by the labels it asked for."""
        return self.judge.evaluation

    def with_lags(self, X: np.ndarray) -> np.ndarray:
        """Return `X` float32 (n, D - lags) behind the newest labels learned by now, (n, D).

        A record keeps what it was given here: it is scored, queried and, when its label comes,
        learned with the same.
        """
        return np.hstack([self._lags.rows(len(X)), X]) if self._lags.n else X

    def score(self, X: Any) -> Scored:
        """Predict records `X` (n, D), NaN where missing.

        Before there is a committee, every record gets the commonest label so far.
        """
        rows = self._admit(X)
        committee = self._recent.over(self.committee)
        if committee is None:
            return score_with_shares(self._rows.counts, len(rows))
        return self.judge.calibrated(score_with_committee(committee, rows))

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels, object (n,), that `score` predicts, with less work."""
        rows = self._admit(X)
        committee = self._recent.over(self.committee)
        if committee is None:
            return score_with_shares(self._rows.counts, len(rows)).labels
        return labels_of(committee, rows)

    def predict_set(self, X: Any) -> list[list[Label]]:
        """Return for each record of `X` (n, D) the labels, likeliest first, that it may have.

        Of the records, a share `coverage` has the true label in its set, as far as the labels
        that `query` asked for tell (`LabelSets`); sets may be empty.
        """
        return self.judge.sets(self.score(X))

    def query(self, X: Any, scored: Scored, ids: Sequence[str]) -> Requests:
        """Decide which of the records `X` (n, D), scored as `scored`, to ask for.

        Each record counts towards the budget here, once; the tokens of what is asked are spent.
        """
        rows = self._admit(X)
        ids = as_ids(ids, len(rows))
        if len(scored) != len(rows):
            raise DataError(f"{len(scored)} predictions for {len(rows)} records: give one each")
        version = self._follow()
        self._drift.watch(scored, self.committee, self._rows, self._querier.budget.records)
        utility = self._utility(rows, uncalibrated(scored) if scored.version == version else None)
        asked = self._querier.decide(ids, rows, utility, cold=self._cold)
        self.judge.arrive(ids, scored, asked)
        return asked

    def query_pool(self, n: int) -> Requests:
        """Ask for the `n` best records of the pool now, as far as tokens go, in pool mode.

        No record is counted. With labels learned in between, this is a round of query by
        committee on a standing pool (Huang 2007, Algorithm 4).

        Raises
        ------
        ConfigurationError
            When the strategy is not in pool mode, or `n` is not a whole number of at least 1.
        """
        self._follow()
        return self._querier.ask(n, cold=self._cold)

    @property
    def _cold(self) -> bool:
        """Whether to ask at random.

        Without a committee there is nothing to rank by. From a budget of 5 % on, two labels per
        class drawn at random are affordable before the margins of so young a committee decide;
        below, they would cost more than they teach. Labels on their way count.
        """
        if self.committee is None or self.strategy.share < _RANDOM_START:
            return self.committee is None
        return self.n_labels + self.ledger.pending < 2 * len(self._rows.counts)

    def _follow(self) -> int:
        """Let what is kept for querying be rated by the committee there is; return its version."""
        version = self.committee.version if self.committee else 0
        self._querier.follow(version, self._utility)
        return version

    def _utility(self, rows: np.ndarray, scored: Scored | None = None) -> np.ndarray:
        """Return the utility (n,) of records, `scored` by the committee there is or not yet."""
        committee = self._recent.over(self.committee)
        if committee is None:
            return np.ones(len(rows))
        return self.strategy.measure(evidence(self.strategy.needs, committee, rows, scored))

    def learn(
        self,
        ids: Sequence[str],
        X: Any,
        y: Any,
        *,
        tick: int = 0,
        propensity: Any = None,
        predicted: Any = None,
    ) -> tuple[Training, ...]:
        """Learn labels `y` (n,) of records `X` (n, D) in their order, training where it is due.

        Parameters
        ----------
        ids
            The records' ids.
        X, y
            Features, NaN where missing; labels, all text or all whole numbers.
        tick
            Milliseconds since the epoch, at least those of the last call: schedules in seconds,
            and working sets by time, count by it.
        propensity
            (n,), the chance with which each label was asked for; NaN, or None for all, where
            nobody asked.
        predicted
            (n,), the labels that were predicted when the records arrived, for `on_drift` to judge
            the committee by; where None, that of the committee there is just before the label is
            learned.

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
        ids = as_ids(ids, len(rows))
        labels = as_labels(y, len(rows), self._kind)
        chances = as_propensity(propensity, len(rows))
        guesses = as_predictions(predicted, len(rows))
        tick = as_tick(tick)
        if self.n_features is None:
            self.widen(rows.shape[1])
        self._querier.known(ids)
        self.judge.label(ids, labels)
        started: list[Training] = []
        for row, label, chance, guess in zip(rows, labels, chances.tolist(), guesses, strict=True):
            self._rows.append(row, label, tick, chance, self._querier.budget.records)
            self._drift.judge(guess, row, label, self.committee, self._rows)
            self._recent.add(row, label)
            self._lags.add(label)
            self._answered += chance == chance
            started += self.trainer.follow(row, label)
        return tuple(started)

    def expire(self, ids: Sequence[str]) -> None:
        """Give up requests whose labels will not come; their tokens stay spent."""
        ids = list(ids)
        self._expired += len(ids)
        self.judge.expire(ids)

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
            self._recent.widen(n_features)
            self._querier.widen(n_features)
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
