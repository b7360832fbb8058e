"""Predicts a stream's records with a committee, requests labels, and learns the labels that come.

The module holds the learner alone. Its parts have modules of their own: requests (`asking`),
labelled rows, trainings, the experts beside the committee (`blend`) and the evaluation.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.budget import Ledger
from streamboost.active.query import QueryStrategy, Requests
from streamboost.active.settings import check_choice
from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.features import Features
from streamboost.features.layout import Values
from streamboost.storage import FORMAT, Arrays, pack_json, part, unpack_json
from streamboost.stream.asking import Asking
from streamboost.stream.blend.blend import Blend
from streamboost.stream.blend.experts import as_experts
from streamboost.stream.blend.memory import Memory
from streamboost.stream.checks import (
    Label,
    as_ids,
    as_labels,
    as_predictions,
    as_propensity,
    as_records,
    as_rows,
    as_seed,
    as_sources,
    as_tick,
    as_weights,
    as_wide,
)
from streamboost.stream.doubts import Doubts, Relabels
from streamboost.stream.estimators import Trainable, class_weight_of, describe, rebuild
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.evaluation import Evaluation
from streamboost.stream.evaluation.judge import Judge
from streamboost.stream.evaluation.tally import Rest
from streamboost.stream.labelled_rows.annotators import Annotators, guess_of
from streamboost.stream.labelled_rows.labelled import (
    ON_CONFLICT,
    LabelledRows,
    NamedRow,
    Vote,
    verdict,
)
from streamboost.stream.labelled_rows.working_set import WorkingSet
from streamboost.stream.lags import Lags
from streamboost.stream.scoring import Scored, renamed, score_with_shares
from streamboost.stream.training.drift import DriftWatch
from streamboost.stream.training.schedule import Schedule, Training
from streamboost.stream.training.trainer import Trainer, from_arrays, in_arrays

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["StreamLearner", "at_rest"]

_NEWEST = 5_000
"""Labelled records that experts learn again; few of them remember more."""


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

    Attributes
    ----------
    n_features
        D, the number of features; None until the first records tell.
    trainer
        The trainings: what is under way, pausing, training anew.
    judge
        What the labels asked for say of the predictions.
    annotators
        What the labels of each who gave some came to.
    strategy
        Which records to ask for, and whether to ask again.

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
        self._renamed: dict[Label, Label | None] = {}  # classes that are others now, or none
        self._told: list[int] | None = None  # the categorical columns that the estimator knows of
        self.n_features: int | None = None
        if features is not None:
            self.follow_features()
        elif n_features is not None:
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
    def voices(self) -> dict[str, float]:
        """The weight of the committee and of each expert, as a share of all (`Blend`)."""
        return self._blend.shares

    @property
    def n_labels(self) -> int:
        """Labels learned so far; one that took another's place, or took it back, is one more."""
        return self._rows.total

    @property
    def classes(self) -> list[Label]:
        """The labels of the records learned so far, each once, in the order first seen."""
        return list(self._rows.shares)

    @property
    def n_labelled(self) -> int:
        """Records that have a label now: corrections count once, labels taken back do not."""
        return self._rows.n_labelled

    def label_of(self, id: str) -> Label | None:
        """Return the label that a record of the working set has; None where none is found."""
        found = self._rows.find(id)
        return None if found is None else found[2]

    def has_row(self, id: str) -> bool:
        """Tell whether `correct` finds the record; its label may have been taken back."""
        return self._rows.find(id) is not None

    def newest_labelled(self, most: int) -> tuple[list[str], list[Label], np.ndarray]:
        """Return ids, labels and features float32 (n, D) of the newest `most` labelled records."""
        return self._rows.newest(most)

    @property
    def evaluation(self) -> Evaluation:
        """How good the predictions were that `query` was told of, by the labels it asked for."""
        return self.judge.evaluation

    @property
    def ledger(self) -> Ledger:
        """What has been asked and answered so far."""
        return self._asking.ledger

    @property
    def lacking(self) -> int:
        """Labels that are to be asked for at random although there is a committee, at least 0."""
        return max(self._asking.lacking, 0)

    @property
    def decisions(self) -> Decisions | None:
        """What is decided on beside the labels; None: nothing. They may be set at any time."""
        return self.evaluation.decisions

    @decisions.setter
    def decisions(self, decisions: Decisions | None) -> None:
        self.evaluation.decisions = decisions

    @property
    def label_lags(self) -> int:
        """How many columns of a row, the first, are the newest labels (`with_lags`)."""
        return self._lags.n

    def columns(self, fields: Sequence[str]) -> list[str]:
        """Return what each column of a row (D,) is; without `features`, the `fields` of arrays."""
        own = fields if self.features is None else self.features.names
        return [*(f"the label {k + 1} before" for k in range(self._lags.n)), *own]

    def arrive(self, values: Sequence[Values]) -> np.ndarray:
        """Take in that records arrived (`Features.values`); return their rows, float32 (n, D).

        A record keeps its row: it is scored, queried and, when its label comes, learned with the
        same. DataError where the learner was given no features.
        """
        return self.with_lags(self._known_features().arrive(values))

    def rows(self, values: Sequence[Values]) -> np.ndarray:
        """Return the rows (n, D) that records would have, without taking in that they arrived."""
        return self.with_lags(self._known_features().rows(values))

    def with_lags(self, X: np.ndarray) -> np.ndarray:
        """Return `X` float32 (n, D - lags) behind the newest labels learned by now, (n, D).

        A record keeps what it was given here: it is scored, queried and, when its label comes,
        learned with the same.
        """
        return np.hstack([self._lags.rows(len(X)), X]) if self._lags.n else X

    def _known_features(self) -> Features:
        if self.features is None:
            raise DataError("this learner takes arrays: give it features= to take records")
        return self.features

    def score(self, X: Any) -> Scored:
        """Predict records `X` (n, D), NaN where missing.

        Before there is a committee, every record gets the commonest label so far.
        """
        return self.score_rows(self._admit(X))

    def score_rows(self, rows: np.ndarray) -> Scored:
        """Do what `score` does for what `rows` or `arrive` returned, with no look at it first."""
        if self.committee is None:
            return score_with_shares(self._rows.shares, len(rows))
        scored = self.judge.calibrated(self._blend.score(self.committee, rows))
        return renamed(scored, self._renamed)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels, object (n,), that `score` predicts."""
        rows = self._admit(X)
        if self.committee is None:
            return score_with_shares(self._rows.shares, len(rows)).labels
        return renamed(self._blend.score(self.committee, rows), self._renamed).labels

    def predict_set(self, X: Any) -> list[list[Label | None]]:
        """Return for each record of `X` (n, D) the labels, likeliest first, that it may have.

        Of the records, a share `coverage` has the true label in its set, as far as the labels
        that `query` asked for tell (`LabelSets`). None, always the last, stands for any label
        that nobody has named yet; sets may be empty.
        """
        return self.judge.sets(self.score(X))

    def decide(self, scored: Scored) -> np.ndarray:
        """Return the classes decided on, object (n,), of what `score` returned (`Decisions`).

        None where nothing is decided on, as of all records while there are no decisions to make.
        """
        if self.decisions is None:
            return np.full(len(scored), None, dtype=object)
        return self.decisions.decide(scored)

    def utility(self, X: Any, scored: Scored | None = None) -> np.ndarray:
        """Return by the strategy how much each label of `X` (n, D) would teach now; ask nothing.

        Where they have been `scored` already, they need not be once more.
        """
        if scored is not None:
            return self._asking.rate(self._admit(X), scored, self.committee)
        return self._asking.measure(self._admit(X), self.committee)

    def remember(self, ids: Sequence[str], scored: Scored) -> None:
        """Keep what the experts said of records until they are learned by these `ids`.

        `query` does so too. Of records that nobody remembers they are judged by what they say when
        the label comes, when they may know more than on arrival.
        """
        self._blend.note(ids, scored)

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

    def query_again(self, may: Callable[[str], bool] = lambda id: True) -> Relabels:
        """Ask again about labels that look wrong, as far as the budget's `relabel` share goes.

        Each costs a token. The answers are told to `learn` or `correct`, as other labels that come
        again. Only records of which `may` approves, given their ids, are asked about.
        """
        n = self._asking.due_again
        if not n:
            return Relabels([], np.zeros(0), [])
        again = self._doubts.worst(n, lambda id: self._asking.is_free(id) and may(id))
        self._asking.ask_again(again.ids)
        return again

    def let_score(self) -> None:
        """Let others score: their doubts say what to ask for, and no committee is trained."""
        self._asking.by_scores = True
        self.trainer.pause()

    def arrived(self, scored: Scored, asked: Requests, records: int, rest: Rest | None) -> None:
        """Take in records that others scored and decided about.

        Parameters
        ----------
        scored : of those that were asked about, by one committee
        asked : the requests, one for each
        records : how many there were in all
        rest : sums over the others; None where they come with another call
        """
        self._asking.arrived(records, asked)
        self.judge.arrive(asked.ids, scored, asked)
        if rest is not None:
            self.judge.evaluation.arrive_unasked(rest)

    def expire(self, ids: Sequence[str]) -> None:
        """Give up the requests among `ids`, whose tokens stay spent; pass over other ids."""
        ids = list(ids)
        self._asking.expire(ids)
        self.judge.expire(ids)

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

    def _again(self, ids: Sequence[str], taught: Sequence[int]) -> set[int]:
        """Return which of the labels `taught` are of records that have, or will have, a row."""
        if self.on_conflict is None:
            return set()
        again, seen = set(), set()
        for i in taught:
            if ids[i] and (ids[i] in seen or self._rows.find(ids[i]) is not None):
                again.add(i)
            seen.add(ids[i])
        return again

    def _named(
        self,
        label: Label,
        source: str | None,
        said: tuple[list[Label], np.ndarray] | None,
        values: Values,
    ) -> NamedRow:
        """Return what is noted of a record that is labelled now, and of which that was said."""
        row = NamedRow(0, [(source, label)])
        if said is not None:
            row.guess = guess_of(*said)
            if self.strategy.relabel:
                row.said = said[0], said[1].astype(np.float32)
        if self.features is not None and self.on_conflict is not None:
            row.values = self.features.kept(values)
        return row

    def trust(self, row: NamedRow, label: Label) -> float:
        """Return as how much of a record a row counts; 1 where nobody is asked again."""
        return self._doubts.trust(row, label) if self.strategy.relabel else 1.0

    def correct(
        self,
        ids: Sequence[str],
        y: Sequence[Label | None],
        *,
        tick: int = 0,
        sources: Sequence[str | None] | None = None,
        records: Sequence[Values | None] | None = None,
    ) -> tuple[Training, ...]:
        """Take in labels `y` (n,) of records learned before; None takes a record's label back.

        They are found by their ids in the working set, and others are passed over. The honest
        figures count the other label, running rates of categories subtract what they counted, and
        models trained label by label learn it as one more example. A row without a label leaves;
        the newest such rows, as many as the working set may have, return when a label comes again,
        which the honest figures do not count. Returns the trainings that were started: each change
        counts as a label learned.

        Parameters
        ----------
        ids, y, tick, sources
            As for `learn`.
        records
            The values (n) that the rows were made of, where there are features; None where they
            are not known any more: texts do not learn then.

        Raises
        ------
        DataError
            When anything given cannot be used; nothing has been learned then.
        """
        labels: list[Label | None] = list(y)
        ids, who, tick = as_ids(ids, len(labels)), as_sources(sources, len(labels)), as_tick(tick)
        given = [label for label in labels if label is not None]
        as_labels(given, len(given), self._kind)
        values = [None] * len(ids) if records is None else list(records)
        started: list[Training] = []
        for one in zip(ids, labels, who, values, strict=True):
            started += self._correct(*one[:3], tick, one[3])
        return tuple(started)

    def _correct(
        self,
        id: str,
        label: Label | None,
        source: str | None,
        tick: int,
        values: Values | None = None,
    ) -> tuple[Training, ...]:
        """Take in what `source` says of a record it has learned; None: it says nothing.

        The row keeps its columns, and its place in the order of labels. Whatever counts labels or
        takes sums of them counts the other one instead; what was trained step by step learns it as
        one more example, which a label taken back is none of. `values` are those of its record,
        where they are still known. Returns the trainings that were started.
        """
        rows = self._rows
        self._asking.close(id)
        found = rows.find(id)
        if found is None:
            return ()
        named, row, before = found
        after = label
        if label is not None:
            is_new = source is None or all(source != who for who, _ in named.votes)
            named.say(source, label)
            if is_new:
                self.annotators.note(named)
            if before is not None:
                after = verdict(self.on_conflict or "first", named.votes, before)
        if after == before:
            return ()
        values = named.values if values is None else values
        rows.correct(id, after, tick, self._asking.records)
        if before is not None:
            self.judge.correct(id, before, after)
        elif after is not None:
            self.judge.label([id], [after])
        if after is not None:
            row = np.asarray(as_wide(row[None], self.n_features or 0)[0])
            weight = class_weight_of(self.estimator, after, rows.counts)
            weight *= self.trust(named, after)
            self._blend.correct(row, after, weight, self.committee)
        if self.features is not None and values is not None:
            self.features.correct(values, before, after)
            self.follow_features()
        return self.trainer.proceed()

    def rename(self, label: Label, into: Label | None) -> tuple[Training, ...]:
        """Let one class be another, or none: the records labelled so are no longer labelled then.

        The committee is trained anew; until its successor serves, its predictions are understood in
        the classes there are now. Experts learn the working set's newest records again. What the
        honest figures have summed stays as it was judged. Returns the trainings that were started.

        Raises
        ------
        DataError
            When they are not of the kind of the labels, or the same.
        """
        as_labels([label] if into is None else [label, into], 1 + (into is not None), self._kind)
        if label == into:
            raise DataError(f"the class {label!r} is itself: name another that it is to be")
        classes = {a: into if b == label else b for a, b in self._renamed.items()}
        self._renamed = {a: b for a, b in classes.items() if a != into} | {label: into}
        trainer = self.trainer
        trainer.rename(label, into)
        self.judge.rename(label, into)
        if not self._rows.rename(label, into):
            return trainer.proceed()
        if self.features is not None:
            self.features.rename(label, into)
            self.follow_features()
        self._learn_again()
        return trainer.retrain() if trainer.champion is not None else trainer.proceed()

    def votes_for(self, label: Label) -> list[tuple[str, str | None]]:
        """Return ids and sources of what was said to be of a class, of the rows with an id."""
        named = self._rows.named()
        return [(id, who) for id, row, _ in named for who, said in row.votes if said == label]

    def restore_classes(
        self,
        restored: Mapping[str, Sequence[tuple[str | None, Label, Label]]],
        now: Callable[[Label], Label | None],
    ) -> tuple[Training, ...]:
        """Give labels back the classes they had before `rename`, as far as their rows are kept.

        The committee is trained anew, as after `rename`. Returns the trainings that were started.

        Parameters
        ----------
        restored
            By the ids of records: who gave a label, its class until now, and the one it has again.
        now
            Maps a class to the one that it is now; None: it was dropped.
        """
        classes = {label: now(label) for label in self._renamed}
        self._renamed = {label: into for label, into in classes.items() if into != label}
        changed = False
        for id, changes in restored.items():
            found = self._rows.find(id)
            if found is None:
                continue
            named, _, before = found
            if before is None:  # its label was taken back
                continue
            for source, was, again in changes:
                if (source, was) in named.votes:
                    named.votes[named.votes.index((source, was))] = source, again
            after = _standing(self.on_conflict or "first", named.votes)
            if after == before:
                continue
            changed = True
            self._rows.correct(id, after, self._rows.tick, self._asking.records)
            self.judge.correct(id, before, after)
            if self.features is not None and named.values is not None:
                self.features.correct(named.values, before, after)
        trainer = self.trainer
        if not changed:
            return trainer.proceed()
        if self.features is not None:
            self.follow_features()
        self._learn_again()
        return trainer.retrain() if trainer.champion is not None else trainer.proceed()

    def _learn_again(self) -> None:
        """Make the experts anew of the newest rows, with the weights that they have."""
        before, sample = self._blend, self._rows.sample()
        blend = Blend(self.experts, self.schedule, self.features, self._lags.n)
        blend.take_weights(before)
        blend.widen(self.n_features or 0)
        newest = slice(max(len(sample.y) - _NEWEST, 0), None)
        for row, label in zip(sample.X[newest], sample.y[newest].tolist(), strict=True):
            weight = class_weight_of(self.estimator, label, self._rows.counts)
            blend.learn("", row, label, weight)
        self._blend = self._asking.blend = blend

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

    def _admit_committee(self, committee: "Committee") -> None:
        as_labels(committee.classes, len(committee.classes), self._kind, name="committee.classes")
        if self.n_features is None:
            self.widen(committee.n_features)
        if committee.n_features > self._rows.n_features:
            raise DataError(
                f"the committee scores {committee.n_features} features, and this learner has "
                f"{self.n_features}: train one on the same columns"
            )

    def widen(self, n_features: int) -> None:
        """Take records of `n_features` features from now on; those kept miss the new ones."""
        if n_features < self._rows.n_features:
            raise DataError(
                f"n_features is {n_features}, and there are {self._rows.n_features} already: "
                "columns may join but not leave; give NaN where a value is missing"
            )
        if n_features > self._rows.n_features:
            self._rows.widen(n_features)
            self._blend.widen(n_features)
            self._asking.widen(n_features)
        self.n_features = n_features

    def follow_features(self) -> None:
        """Take on the columns that features have gained; fields may have joined them."""
        assert self.features is not None
        n_features = self._lags.n + len(self.features)
        if n_features == self.n_features:
            return
        self.widen(n_features)
        lags = list(range(self._lags.n))
        columns = lags + [self._lags.n + column for column in self.features.categorical]
        if columns == self._told or not self.features.categorical:
            return
        if "categorical_features" not in self.estimator.get_params():
            self.n_features = None  # so that whoever goes on all the same is told again
            raise ConfigurationError(
                f"{type(self.estimator).__name__} takes no categories: choose an estimator with "
                "categorical_features, or leave out the fields that are categories"
            )
        self.estimator.set_params(categorical_features=columns)
        self._told = columns

    @property
    def _kind(self) -> type | None:
        """What labels are here, str or int; None while nothing tells."""
        if self._rows.kind is None and self.committee is not None:
            return type(self.committee.classes.tolist()[0])
        return self._rows.kind

    def _admit(self, X: Any) -> np.ndarray:
        if self.features is not None:
            X = as_wide(X, self.n_features or 0)
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
        labelled, rows = self._rows.state()
        asking, window = self._asking.state()
        drift, signals = self._drift.state()
        blend, said = self._blend.state()
        trainer, committees = self.trainer.state()
        about = {
            "format": FORMAT,
            "estimator": describe(self.estimator),
            "working_set": asdict(self.working_set),
            "schedule": asdict(self.schedule),
            "query": asdict(self.strategy),
            "n_features": self.n_features,
            "calibrate": self.judge.calibrate,
            "coverage": self.judge.label_sets.coverage,
            "labelled": labelled,
            "trainer": trainer,
            "asking": asking,
            "drift": drift,
            "experts": self.experts,
            "on_conflict": self.on_conflict,
            "annotators": self.annotators.state(),
            "doubts": self._doubts.state(),
            "renamed": list(self._renamed.items()),
            "blend": blend,
            "label_lags": self._lags.n,
            "lags": self._lags.state(),
        }
        mixed: Arrays = {}
        if self.features is not None:
            about["features"], tables = self.features.state()
            mixed = {f"features.{name}": array for name, array in tables.items()}
        return {
            **mixed,
            "about": pack_json(about),
            **{f"rows.{name}": array for name, array in rows.items()},
            **{f"window.{name}": array for name, array in window.items()},
            **{f"blend.{name}": array for name, array in said.items()},
            **{f"judge.{name}": array for name, array in self.judge.state().items()},
            **{f"drift.{name}": array for name, array in signals.items()},
            **{f"trainer.{name}": array for name, array in committees.items()},
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> "StreamLearner":
        """Return the learner that `snapshot` took the arrays from.

        A training that was running in a thread is begun again, on the rows it had.

        Raises
        ------
        ModelFileError
            When the arrays are not a learner's, or of another release.
        """
        try:
            about = unpack_json(arrays["about"])
            if about["format"] != FORMAT:
                raise ModelFileError(
                    f"the learner's snapshot has format {about['format']!r}, and this release "
                    f"reads {FORMAT!r}; train a new learner and take its snapshot"
                )
            learner = cls._of(about, arrays)
            learner._resume(about, arrays)
            return learner
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"these arrays are not a learner's snapshot: {error!r}; give what "
                "StreamLearner.snapshot returned"
            ) from error

    @classmethod
    def _of(cls, about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> "StreamLearner":
        """Return a learner of the settings in a snapshot, which has learned nothing."""
        features = None
        if (fields := about.get("features")) is not None:
            features = Features.restore(fields, part(arrays, "features."))
        return cls(
            estimator=rebuild(about["estimator"]),
            working_set=WorkingSet(**about["working_set"]),
            schedule=Schedule(**about["schedule"]),
            query=QueryStrategy(**about["query"]),
            n_features=about["n_features"],
            calibrate=about["calibrate"],
            coverage=about["coverage"],
            label_lags=about["label_lags"],
            features=features,
            experts=about["experts"],
            on_conflict=about["on_conflict"],
        )

    def _resume(self, about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Set all that changes to what a snapshot of a learner of the same settings holds."""
        self.annotators.resume(about["annotators"])
        self._doubts.resume(about["doubts"])
        self._renamed = dict(about["renamed"])
        self._blend.resume(about["blend"], part(arrays, "blend."))
        self._rows.resume(about["labelled"], part(arrays, "rows."))
        self._asking.resume(about["asking"], part(arrays, "window."))
        self._lags.resume(about["lags"])
        self.judge.resume(part(arrays, "judge."))
        self._drift.resume(about["drift"], part(arrays, "drift."))
        self.trainer.resume(about["trainer"], part(arrays, "trainer."))

    def freeze(self) -> Arrays:
        """Return the state that others predict by, for `thaw`: they learn nothing.

        The larger tables are in parts that seldom change together: the committee with its
        temperature, the tables of the features, the experts, and the labels of each class.
        """
        blend, tables = self._blend.state()
        waiting, said = Memory().state()  # of records that wait for their labels, nothing
        about: dict[str, Any] = {
            "labels": list(self._rows.counts.items()),
            "total": self.n_labels,
            "temperature": self.judge.temperature.state(),
            "renamed": list(self._renamed.items()),
            "blend": blend | {"waiting": waiting},
            "n_features": self.n_features,
        }
        arrays = {f"blend.{n}": a for n, a in tables.items() if not n.startswith("said.")}
        arrays |= {f"blend.said.{name}": array for name, array in said.items()}
        if self.features is not None:
            about["features"], tables = self.features.state()
            arrays |= {f"features.{name}": array for name, array in tables.items()}
        return arrays | in_arrays("committee.", self.committee) | {"about": pack_json(about)}

    def thaw(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set a new learner to predict as the one that `freeze` returned the arrays of.

        Both have the same settings. ModelFileError where the arrays are not `freeze`'s.
        """
        try:
            about, given = unpack_json(arrays["about"]), dict(arrays)
            if "features" in about:
                assert self.features is not None
                self.features.resume(about["features"], part(given, "features."))
                self.follow_features()
            else:
                self.widen(about["n_features"])
            self._rows.counts = dict(about["labels"])
            self._rows.total = about["total"]
            self._blend.resume(about["blend"], part(given, "blend."))
            self.judge.temperature.resume(about["temperature"])
            self._renamed = dict(about["renamed"])
            self.trainer.champion = from_arrays("committee.", given)
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"these arrays are not what a learner predicts by: {error!r}; let scorers and "
                "learner be of one release, with one pipeline file"
            ) from error


def _standing(rule: str, votes: Sequence[Vote]) -> Label:
    """Return the label that holds by a rule of `ON_CONFLICT` after these votes, one by one."""
    label = votes[0][1]
    for n in range(2, len(votes) + 1):
        label = verdict(rule, votes[:n], label)
    return label


def at_rest(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return a snapshot's arrays for one who only predicts: no training goes on in it.

    Raises ModelFileError where they are not a snapshot's.
    """
    try:
        about = unpack_json(arrays["about"])
        about["trainer"]["underway"] = None
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"these arrays are not a learner's snapshot: {error!r}") from error
    return {**arrays, "about": pack_json(about)}
