"""A committee that is kept current: it scores, asks, learns and can be stopped at any step."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.query import QueryStrategy, Requests
from streamboost.active.settings import check_choice
from streamboost.errors import DataError
from streamboost.features import Features
from streamboost.features.layout import Values
from streamboost.storage import Arrays
from streamboost.stream.asking import Asking
from streamboost.stream.blend.blend import Blend
from streamboost.stream.blend.experts import as_experts
from streamboost.stream.checks import (
    Label,
    as_ids,
    as_labels,
    as_predictions,
    as_propensity,
    as_records,
    as_seed,
    as_sources,
    as_tick,
    as_weights,
    as_wide,
)
from streamboost.stream.corrections import Corrector
from streamboost.stream.doubts import Doubts
from streamboost.stream.estimators import Trainable, class_weight_of
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.judge import Judge
from streamboost.stream.labelled_rows.annotators import Annotators
from streamboost.stream.labelled_rows.labelled import LabelledRows
from streamboost.stream.labelled_rows.named import ON_CONFLICT, NamedRow
from streamboost.stream.labelled_rows.working_set import WorkingSet
from streamboost.stream.lags import Lags
from streamboost.stream.scoring import Scored
from streamboost.stream.snapshots import pack, unpack
from streamboost.stream.training.drift import DriftWatch
from streamboost.stream.training.schedule import Schedule, Training
from streamboost.stream.training.trainer import Trainer

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["StreamLearner"]


class StreamLearner(Corrector):
    """Scores every record, asks for a few labels, and trains on those that come back.

    Everything it does follows from its settings, its seed and the calls made: the same calls
    give the same results bit for bit, also when the learner is saved and restored on the way.
    With `Schedule(training="background")` a thread trains, and `swap(trainer.finished())` between
    batches lets serve what it made.

    Parameters
    ----------
    estimator
        What trains the committee, one of streamboost's estimators; None: a
        `SketchLogitBoostClassifier` with settings for few labels, and others from 3,000 rows on.
    working_set
        Which labelled records training sees. None: the newest 40,000, all of the same weight.
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
    features
        What makes columns of the fields of records, for `arrive`, `rows` and `learn`; the
        estimator is told which of them are categories. None: records are rows of arrays.
    experts
        Who has a voice in predictions beside the committee, with a weight that labels teach
        (`Blend`): "all"; "committee" for nobody; or a list of "committee" and any of "correction",
        "neighbours", "sequence", "linear", and "words" where features hold texts.
    on_conflict
        Which label of a record holds that was labelled before, found by its id in the working set:
        "last", "first", or "vote", the one that most have given (of each source the newest); a tie
        leaves what stands. An id that `query` is told of names a new record from then on, and ""
        names none. None: every label is learned as that of another record.

    decisions
        What is decided on beside the labels, `decide`; its cost is among the figures of
        `evaluation`. None: nothing.

    Raises
    ------
    ConfigurationError
        When `random_state`, `coverage` or `label_lags` is out of its range, an expert is not
        known, or there are categories and the estimator takes none.

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
        features: Features | None = None,
        experts: str | Sequence[str] = "all",
        on_conflict: str | None = "last",
        decisions: Decisions | None = None,
    ) -> None:
        if on_conflict is not None:
            check_choice("on_conflict", on_conflict, ON_CONFLICT)
        self.on_conflict = on_conflict
        self.working_set = working_set or WorkingSet()
        self.schedule = schedule or Schedule()
        self.strategy = query or QueryStrategy()
        seeds = np.random.SeedSequence(as_seed("random_state", random_state))
        trainings, asking, keeping, watching = seeds.spawn(4)
        self._rows = LabelledRows(self.working_set, keeping)
        self.trainer = Trainer(estimator, self.schedule, trainings, self._rows)
        self._lags = Lags(label_lags)
        self.features = features
        self.experts = as_experts(experts)
        self._blend = Blend(self.experts, self.schedule, features, label_lags)
        self._asking = Asking(self.strategy, asking, self._rows, self._blend)
        self.annotators = Annotators()
        self._doubts = Doubts(self._rows, self.annotators)
        if self.strategy.relabel:
            self._rows.trust = self._doubts.weights
        self._drift = DriftWatch(self.schedule, watching)
        pool = self.strategy.window if self.strategy.mode == "pool" else 0
        self.judge = Judge(self._asking.block, calibrate=calibrate, coverage=coverage, pool=pool)
        self.decisions = decisions
        self._renamed = {}
        self.n_features = None
        if features is not None:
            self.follow_features()
        elif n_features is not None:
            self.widen(n_features)

    def newest_labelled(self, most: int) -> tuple[list[str], list[Label], np.ndarray]:
        """Return ids, labels and features float32 (n, D) of the newest `most` labelled records."""
        return self._rows.newest(most)

    def query(self, X: Any, scored: Scored, ids: Sequence[str]) -> Requests:
        """Decide which of the records `X` (n, D), scored as `scored`, to ask for.

        Each record counts towards the budget here, once; the tokens of what is asked are spent.
        """
        rows = self._admit(X)
        ids = as_ids(ids, len(rows))
        if len(scored) != len(rows):
            raise DataError(f"{len(scored)} predictions for {len(rows)} records: give one each")
        self._rows.release(ids)
        self._blend.note(ids, scored)
        self._drift.watch(scored, self.committee, self._rows, self._asking.records)
        asked = self._asking.arrive(ids, rows, scored, self.committee)
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
        asked = self._asking.ask(n, self.committee)
        self.judge.ask(asked)
        return asked

    def learn(
        self,
        ids: Sequence[str],
        X: Any,
        y: Any,
        *,
        tick: int = 0,
        propensity: Any = None,
        predicted: Any = None,
        records: Sequence[Values] | None = None,
        weight: Any = None,
        sources: Sequence[str | None] | None = None,
    ) -> tuple[Training, ...]:
        """Learn labels `y` (n,) of records `X` (n, D) in their order, training where it is due.

        A label of a record that the working set holds already goes by `on_conflict`: the row keeps
        its features, whatever `X` says. Returns the trainings that were started, each on the rows
        up to the one that made it due. Trained inline, they have also taken place.

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
            (n,), the labels that were predicted when the records arrived, for `on_drift`; where
            None, that of the committee there is just before the label is learned.
        records
            The values (n) that the rows were made of, where there are features: they learn, too.
            A row that `X` has None for is made of them then, after the labels before it.
        weight
            (n,), as how many records each counts in training; 0 teaches nothing and gives the
            request up. None: one each.
        sources
            (n,), who gave each label, None where nobody knows; None for all.

        Raises
        ------
        DataError
            When anything given cannot be used; nothing has been learned then.
        """
        rows = self._admit(X)
        ids = as_ids(ids, len(rows))
        labels = as_labels(y, len(rows), self._kind)
        for label in self._renamed.keys() & {*labels}:  # it is there again
            del self._renamed[label]
        chances = as_propensity(propensity, len(rows))
        guesses = as_predictions(predicted, len(rows))
        weights = as_weights(weight, len(rows))
        tick = as_tick(tick)
        values = as_records(records, len(rows), self.features is not None)
        who = as_sources(sources, len(rows))
        taught = np.flatnonzero(weights).tolist()
        if len(taught) < len(ids):
            self.expire([ids[i] for i in range(len(ids)) if not weights[i]])
        self._asking.answer([ids[i] for i in taught], chances[taught])
        again = self._again(ids, taught)
        new = [i for i in taught if i not in again]
        said = [self.judge.said(id) for id in ids]
        self.judge.label([ids[i] for i in new], [labels[i] for i in new])
        started: list[Training] = []
        for i in taught:
            if i in again:
                kept = values[i] or None
                started += self._correct(ids[i], labels[i], who[i], tick, kept)
                continue
            is_made_now = self.features is not None and X[i] is None
            row = self.arrive([values[i]])[0] if is_made_now else rows[i]
            named = self._named(labels[i], who[i], said[i], values[i])
            known = float(chances[i]), guesses[i], named
            weighs = float(weights[i])
            started += self._learn(ids[i], row, labels[i], values[i], weighs, tick, *known)
        return tuple(started)

    def learn_unasked(
        self, id: str, row: np.ndarray, label: Label, values: Values, weight: float
    ) -> tuple[Training, ...]:
        """Do what `learn` does for one label that nobody asked for, without looking at it first.

        `row` float32 (D,) is what `arrive` or `rows` made of `values`, `label` of the kind of the
        others, and `weight` positive.
        """
        self._asking.known([id])
        self.judge.label([id], [label])
        return self._learn(id, row, label, values, weight)

    def _learn(
        self,
        id: str,
        row: np.ndarray,
        label: Label,
        values: Values,
        weight: float,
        tick: int = 0,
        chance: float = math.nan,
        guess: Label | None = None,
        named: NamedRow | None = None,
    ) -> tuple[Training, ...]:
        judges = self._drift.judges and self.committee is not None
        if judges and guess is None:
            guess = self.predict(row[None])[0]
        trust = 1.0 if named is None else self.trust(named, label)
        row = self._teach(id, row, label, values, weight * trust)
        kept = id if self.on_conflict is not None else ""
        self._rows.append(row, label, tick, chance, self._asking.records, weight, kept, named)
        if named is not None:
            self.annotators.note(named)
        if judges:
            assert guess is not None
            self._drift.judge(guess, label, self._rows)
        self._lags.add(label)
        return self.trainer.follow(row, label)

    def _teach(
        self, id: str, row: np.ndarray, label: Label, value: Values, weight: float
    ) -> np.ndarray:
        """Let blend and features learn a label; return its `row` with as many columns as then."""
        row = self._wide(row)  # labels before add columns
        weight *= class_weight_of(self.estimator, label, self._rows.counts)
        self._blend.learn(id, row, label, weight, self.committee)
        if self.features is None:
            return row
        self.features.learn(value, label)
        if self.features.fixed:  # no label adds columns
            return row
        self.follow_features()
        return self._wide(row)

    def _wide(self, row: np.ndarray) -> np.ndarray:
        n_features = self.n_features or 0
        return row if len(row) >= n_features else np.asarray(as_wide(row[None], n_features)[0])

    def expire(self, ids: Sequence[str]) -> None:
        """Give up the requests among `ids`, whose tokens stay spent; pass over other ids."""
        ids = list(ids)
        self._asking.expire(ids)
        self.judge.expire(ids)

    def swap(self, committee: "Committee | None") -> tuple[Training, ...]:
        """Let `committee` serve from now on; None changes nothing.

        What `trainer.finished` or `trainer.wait` returned comes in under the version of its
        training, and serves at once, or once it has been judged (`Schedule.promotion`). Any other
        serves at once, under a version of its own, and a training under way is given up. One of
        another family than the estimator's serves until the next training, which trains anew.
        Returns the training that was started, if one had become due meanwhile.

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
        self._admit_committee(committee)
        self.trainer.stamp(committee)
        return ()

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
