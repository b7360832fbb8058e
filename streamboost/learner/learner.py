"""Stream learner: scores records, requests labels and trains on the labels that arrive.

The class `StreamLearner` calls the query decisions (`query_controller`), labelled rows, trainings
(`trainer`), experts (`streamboost.stacking`) and evaluation (`streamboost.evaluation`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.checks import (
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
    pad_missing_columns,
)
from streamboost.encoders import SentenceEncoders
from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.evaluation.decisions import Decisions
from streamboost.evaluation.delayed_evaluator import DelayedEvaluator
from streamboost.evaluation.evaluation import Evaluation
from streamboost.evaluation.learning_curve import Forecast
from streamboost.evaluation.sufficient_stats import UnlabelledSums
from streamboost.features import Features
from streamboost.features.layout import Values
from streamboost.learner.annotators import AnnotatorStatistics, confident_label
from streamboost.learner.changes import ChangeHistory, DetectedChange
from streamboost.learner.drift import DriftMonitor
from streamboost.learner.estimators import (
    Trainable,
    adapt_to_size,
    class_weight_for_label,
    describe_estimator,
    rebuild_estimator,
)
from streamboost.learner.label_lags import LabelLags
from streamboost.learner.label_quality import LabelQuality, RelabelRequests
from streamboost.learner.labelled_rows import (
    ON_CONFLICT,
    AnnotatedRow,
    LabelledRows,
    VoteHistory,
    resolve_label,
)
from streamboost.learner.query_controller import QueryController
from streamboost.learner.schedule import Schedule, Training
from streamboost.learner.trainer import Trainer, committee_from_arrays, committee_to_arrays
from streamboost.learner.working_set import WorkingSet
from streamboost.predictions import (
    Scored,
    committee_predictions,
    fill_missing_probabilities,
    label_probabilities,
    rename_classes,
    score_by_class_shares,
)
from streamboost.query.config import QueryConfig, Requests
from streamboost.query.settings import check_choice
from streamboost.query.token_bucket import Ledger
from streamboost.stacking.experts import as_expert_names
from streamboost.stacking.prediction_cache import PredictionCache
from streamboost.stacking.stacking import OnlineStacking
from streamboost.stacking.young import ROUNDS, RecentCommittees
from streamboost.storage import FORMAT, Arrays, pack_json, select_prefix, unpack_json

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_NEWEST = 5_000
"""Number of newest labelled records that the experts are retrained on after `rename_class`."""


class StreamLearner:
    """Scores every record, requests labels for a few records, and trains on the labels returned.

    The learner is deterministic: with equal settings and seeds, the same calls give bitwise equal
    results, also when the learner is saved and restored in between. With
    `Schedule(training="background")` a thread trains. Call `deploy(trainer.finished_committee())`
    between batches to deploy the committee that the thread trained.

    Parameters
    ----------
    estimator
        Estimator of streamboost that trains the committee. None: a `SketchLogitBoostClassifier`
        with settings for few labels, and with other settings from 3,000 rows on.
    working_set
        Selects the labelled records for training. None: the newest 40,000 with equal weights.
    schedule
        Times of training. None: whenever the labels have grown by 5 %, or by 500, with extensions
        in between.
    query
        Selects the records to request labels for. None: small margins, with a budget of 5 %.
    n_features
        D, the number of features; None: that of the first records.
    random_state
        Seed of all random choices, at least 0.
    calibrate
        Calibrate the probabilities with the temperature fitted to requested labels
        (`TemperatureScaling`).
    coverage
        Share of the prediction sets (`predict_set`) that should contain the true label, in (0, 1).
    label_lags
        Number of newest learned labels that are also features (lagged target). `add_label_lags`
        adds them as the first columns, and D includes them. List them in the estimator's
        `categorical_features`.
    features
        Encodes the fields of records as columns, for `encode_arrivals`, `encode_records` and
        `learn`. The estimator is given the indices of the categorical columns. None: records are
        rows of arrays.
    experts
        Experts that predict in addition to the committee, weighted online by the labels
        (`OnlineStacking`): "all"; "committee" for no others; or a list of "committee" and any of
        "correction", "neighbours", "transitions", "linear", "text" (requires text features),
        "vector" (requires vector features), "young" (committees of different age for streams that
        change, `RecentCommittees`) and "runs" (a filter for `score_arrivals` if successive records
        often have the same class, `ClassRunFilter`).
    on_conflict
        Rule that chooses the label if a record of the working set is labelled again: "last",
        "first", or "vote" (the most frequent of the annotators' newest labels; in a tie, the
        current label). After an id is passed to `query`, the id identifies the new record. Records
        with the id "" cannot be labelled again. None: each label is learned as a separate record.
    decisions
        Decisions made in addition to predicted labels, see `decide_classes`. `evaluation` estimates
        their cost. None: no decisions.

    Attributes
    ----------
    n_features
        D, the number of features; None before the first records.
    trainer
        Runs the trainings: reports the running training, pauses trainings, retrains on demand.
    evaluator
        Estimates the quality of predictions from the requested labels.
    annotators
        Statistics of the labels of each annotator.
    changes
        Changes of the stream, detected by the experts "young".
    query_config
        Settings of label requests and relabel requests.

    Raises
    ------
    ConfigurationError
        When `random_state`, `coverage` or `label_lags` is out of its range, an expert's name is
        unknown, or there are categories and the estimator does not support them.

    Examples
    --------
    >>> import numpy as np
    >>> learner = StreamLearner(query=QueryConfig(budget=0.5, audit=0), random_state=7)
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
        query: QueryConfig | None = None,
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
        self.query_config = query or QueryConfig()
        seeds = np.random.SeedSequence(as_seed("random_state", random_state))
        trainings, asking, keeping, watching = seeds.spawn(4)
        self._rows = LabelledRows(self.working_set, keeping)
        self.trainer = Trainer(estimator, self.schedule, trainings, self._rows)
        self._lags = LabelLags(label_lags)
        self.features = features
        self.experts = as_expert_names(experts)
        self._stacking = OnlineStacking(
            self.experts, self.schedule.correction_settings, features, label_lags
        )
        self._query_controller = QueryController(
            self.query_config, asking, self._rows, self._stacking
        )
        self.changes = ChangeHistory()
        self.annotators = AnnotatorStatistics()
        self._label_quality = LabelQuality(self._rows, self.annotators)
        if self.query_config.relabel:
            self._rows.trust = self._label_quality.training_weights
        self._drift = DriftMonitor(self.schedule, watching)
        pool = self.query_config.window if self.query_config.mode == "pool" else 0
        self.evaluator = DelayedEvaluator(
            self._query_controller.audit_block_size,
            calibrate=calibrate,
            coverage=coverage,
            pool=pool,
            min_labels=self.query_config.evaluation_labels,
        )
        self.decisions = decisions
        self._renamed: dict[Label, Label | None] = {}  # classes that are others now, or none
        self._categorical_columns: list[int] | None = None  # as set in the estimator
        self.n_features: int | None = None
        if features is not None:
            self.update_columns()
        elif n_features is not None:
            self.widen_rows(n_features)

    @property
    def estimator(self) -> Trainable:
        """The estimator that trains the committee."""
        return self.trainer.estimator

    @property
    def committee(self) -> "Committee | None":
        """The committee that scores; None before the first training."""
        return self.trainer.champion

    @property
    def expert_weights(self) -> dict[str, float]:
        """The normalized weights of the committee and of each expert (`OnlineStacking`)."""
        return self._stacking.normalized_weights

    @property
    def n_labels(self) -> int:
        """Number of labels learned so far; each correction or retraction is counted as a label."""
        return self._rows.total

    @property
    def classes(self) -> list[Label]:
        """The distinct labels of the records learned so far, in order of appearance."""
        return list(self._rows.class_counts)

    @property
    def renamed_classes(self) -> dict[Label, Label | None]:
        """Maps classes that were merged or removed, which the committee may have, to the current.

        None: the class was removed.
        """
        return dict(self._renamed)

    @property
    def n_labelled(self) -> int:
        """Number of records with a label: corrections count once, retracted labels do not."""
        return self._rows.n_labelled

    def label_of(self, id: str) -> Label | None:
        """Return the label of the record `id`, or None if the working set has no such record."""
        found = self._rows.find(id)
        return None if found is None else found[2]

    def has_row(self, id: str) -> bool:
        """Return whether the row of the record `id` is stored, as `correct` requires."""
        return self._rows.find(id) is not None

    def newest_labelled(self, most: int) -> tuple[list[str], list[Label], np.ndarray]:
        """Return ids, labels and features float32 (n, D) of the newest labelled records.

        At most `most` records are returned, the newest first.
        """
        return self._rows.newest_rows(most)

    @property
    def evaluation(self) -> Evaluation:
        """Unbiased estimates of the quality of the predictions that were passed to `query`."""
        return self.evaluator.evaluation

    def forecast(self) -> Forecast | None:
        """Return a forecast of the accuracy over further labels; None with too few labels."""
        return self.evaluation.forecast([one.since_labels for one in self.changes])

    @property
    def ledger(self) -> Ledger:
        """Counts of requested, answered and expired labels, and the budget."""
        return self._query_controller.ledger

    @property
    def n_missing_random_labels(self) -> int:
        """Number of labels to request at random before the utilities of the committee decide."""
        return max(self._query_controller.n_missing_random_labels, 0)

    @property
    def decisions(self) -> Decisions | None:
        """Decisions made in addition to predicted labels, or None. May be set at any time."""
        return self.evaluation.decision_rule

    @decisions.setter
    def decisions(self, decisions: Decisions | None) -> None:
        self.evaluation.decision_rule = decisions

    @property
    def n_label_lags(self) -> int:
        """Number of lagged labels, the first columns of each row (`add_label_lags`)."""
        return self._lags.n

    def columns(self, fields: Sequence[str]) -> list[str]:
        """Return the names (D,) of the columns of a row: lagged labels, then features.

        If the learner has no `features`, the columns after the lagged labels are called `fields`.
        """
        own = fields if self.features is None else self.features.names
        return [*(f"the label {k + 1} before" for k in range(self._lags.n)), *own]

    def encode_arrivals(self, values: Sequence[Values]) -> np.ndarray:
        """Observe arriving records, given their field `values`; return their rows, float32 (n, D).

        Keep the row of a record: use the same row to score, to query and, when the label arrives,
        to learn. Raises DataError if the learner has no features.
        """
        return self.add_label_lags(self._require_features().encode_arrivals(values))

    def encode_records(self, values: Sequence[Values]) -> np.ndarray:
        """Return rows float32 (n, D) of records, given their field `values`; change no state."""
        return self.add_label_lags(self._require_features().encode(values))

    def add_label_lags(self, X: np.ndarray) -> np.ndarray:
        """Return `X` (n, D - lags) with the lagged labels added as first columns: float32 (n, D).

        Keep the row of a record: use the same row to score, to query and, when the label arrives,
        to learn.
        """
        return np.hstack([self._lags.make_lag_rows(len(X)), X]) if self._lags.n else X

    def _require_features(self) -> Features:
        if self.features is None:
            raise DataError("this learner takes arrays: give it features= to take records")
        return self.features

    def score(self, X: Any) -> Scored:
        """Return predictions for records `X` (n, D), in which missing values are NaN.

        Before the first training, each record gets the most frequent label so far.
        """
        return self.score_rows(self._validated_rows(X))

    def score_rows(self, rows: np.ndarray) -> Scored:
        """Return predictions for `rows` that `encode_records` returned, without validation."""
        if self.committee is None:
            return score_by_class_shares(self._rows.class_counts, len(rows))
        scored = self.evaluator.calibrate_probabilities(self._stacking.score(self.committee, rows))
        return rename_classes(scored, self._renamed)

    def score_arrivals(self, X: Any) -> Scored:
        """Return predictions for arriving records `X` (n, D), in order of arrival.

        If successive records often have the same class, the predictions also depend on earlier
        records and their labels (`ClassRunFilter`), unlike those of `score`. Call `query` with the
        result next.
        """
        rows = self._validated_rows(X)
        if self.committee is None:
            return self.score_rows(rows)
        scored = self.evaluator.calibrate_probabilities(self._stacking.score(self.committee, rows))
        own = rename_classes(scored, self._renamed)
        filtered = self._stacking.apply_class_run_filter(rows, scored)
        if filtered is None:
            return own
        return replace(rename_classes(filtered, self._renamed), unfiltered=own)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels of `X` (n, D), object (n,)."""
        rows = self._validated_rows(X)
        if self.committee is None:
            return score_by_class_shares(self._rows.class_counts, len(rows)).labels
        return rename_classes(self._stacking.score(self.committee, rows), self._renamed).labels

    def predict_set(self, X: Any) -> list[list[Label | None]]:
        """Return a prediction set for each record of `X` (n, D), the most probable label first.

        The sets are calibrated on the labels that `query` requested, so that a share `coverage` of
        the sets contains the true label (`PredictionSets`). None, always the last entry, represents
        all labels that have not appeared yet. Sets may be empty.
        """
        return self.evaluator.make_prediction_sets(self.score(X))

    def decide_classes(self, scored: Scored) -> np.ndarray:
        """Return the decided class of each record in `scored`, object (n,) (`Decisions`).

        None for records without a decision, and for all records if there are no `decisions`.
        """
        if self.decisions is None:
            return np.full(len(scored), None, dtype=object)
        return self.decisions.decide_classes(scored)

    def utility(self, X: Any, scored: Scored | None = None) -> np.ndarray:
        """Return the utility (n,) of a label for each record of `X` (n, D), without requests.

        `scored` are the predictions for these records; None: they are computed now.
        """
        if scored is not None:
            return self._query_controller.arrival_utilities(
                self._validated_rows(X), scored, self.committee
            )
        return self._query_controller.committee_utilities(self._validated_rows(X), self.committee)

    def cache_predictions(self, ids: Sequence[str], scored: Scored) -> None:
        """Cache the experts' predictions of the records `ids` until their labels arrive.

        `query` calls this. If a record is not in the cache, its label updates the expert weights
        with predictions made when the label arrives. Later predictions may be better than the
        predictions on arrival.
        """
        self._stacking.cache_predictions(ids, scored)

    def query(
        self, X: Any, scored: Scored, ids: Sequence[str], evaluated: Scored | None = None
    ) -> Requests:
        """Decide which of the arriving records `X` (n, D) to request labels for.

        Each record adds to the budget once, in this call; each request spends a token.

        `scored` are this learner's predictions. `evaluated` are predictions of another system for
        the same records: then `evaluation` and the requests are about these, and the learner's own
        are `Report.committee_alone`. If a record's probabilities are NaN, the other system
        predicted only a label, or nothing if the label is None. None: the learner's predictions are
        evaluated.
        """
        rows = self._validated_rows(X)
        ids = as_ids(ids, len(rows))
        for one in (scored, evaluated):
            if one is not None and len(one) != len(rows):
                raise DataError(f"{len(one)} predictions for {len(rows)} records: give one each")
        self._rows.release_ids(ids)
        self._stacking.cache_predictions(ids, scored)
        # `ClassRunFilter` is certain within a run of one class, but such labels are as useful.
        own = scored if scored.unfiltered is None else scored.unfiltered
        self._drift.observe_margins(
            own, self.committee, self._rows, self._query_controller.n_records
        )
        if evaluated is None:
            asked = self._query_controller.query_records(ids, rows, own, self.committee)
            self.evaluator.add_predictions(ids, scored, asked, self._committee_labels(scored))
            return asked
        evaluated = self._fill_evaluated(evaluated, scored)
        asked = self._query_controller.query_records(
            ids, rows, own, self.committee, label_probabilities(evaluated)
        )
        self.evaluator.add_predictions(ids, scored, asked, scored.labels, evaluated)
        return asked

    def _fill_evaluated(self, evaluated: Scored, scored: Scored) -> Scored:
        """Return the predictions of another system with the learner's for missing probabilities."""
        has_label = np.array([label is not None for label in evaluated.labels], dtype=bool)
        if np.isnan(evaluated.probabilities[has_label]).any():
            self.evaluation.has_probabilities = False
        return fill_missing_probabilities(evaluated, scored)

    def _committee_labels(self, scored: Scored) -> np.ndarray:
        """Return the labels (n,) that the committee predicts without other experts.

        If `scored` has no scores of the committee, the labels predicted by all experts are
        returned.
        """
        committee = self.committee
        if committee is None or scored.scores is None or scored.version != committee.version:
            return scored.labels
        return rename_classes(committee_predictions(committee, scored), self._renamed).labels

    def query_pool(self, n: int) -> Requests:
        """Request labels for at most `n` records of the pool, in order of utility.

        Fewer are requested if the token balance does not suffice. If the labels are learned between
        the calls, each call is a round of Algorithm 4 of Huang (2009).

        Raises
        ------
        ConfigurationError
            When the strategy is not in pool mode, or `n` is not a whole number of at least 1.
        """
        asked = self._query_controller.query_pool(n, self.committee)
        self.evaluator.add_requests(asked)
        return asked

    def query_relabels(self, may: Callable[[str], bool] = lambda id: True) -> RelabelRequests:
        """Request another label for records whose label looks wrong, within the `relabel` share.

        `QueryConfig.relabel` sets this share of the budget, and each request costs a token. Pass
        the answers to `learn` or `correct`, as any second label. Only records whose id passes the
        predicate `may` are considered.
        """
        n = self._query_controller.n_due_relabels
        if not n:
            return RelabelRequests([], np.zeros(0), [])
        again = self._label_quality.find_suspect_labels(
            n, lambda id: self._query_controller.has_no_open_request(id) and may(id)
        )
        self._query_controller.request_relabels(again.ids)
        return again

    def use_external_scores(self) -> None:
        """Prepare the learner for scores of other processes, and pause training in this process."""
        self._query_controller.uses_external_scores = True
        self.trainer.pause_training()

    def observe_scored(
        self,
        scored: Scored,
        requests: Requests,
        records: int,
        unlabelled: UnlabelledSums | None,
        evaluated: Scored | None = None,
    ) -> None:
        """Add records that other processes have scored, with the label requests that they made.

        Parameters
        ----------
        scored : predictions of the records with a request, all made by the same committee
        requests : the label requests, one for each record in `scored`
        records : the number of all records, with and without a request
        unlabelled : sums over the records without a request; None if another call passes these sums
        evaluated : predictions of another system for the records in `scored`, as in `query`
        """
        self._query_controller.observe_requests(records, requests)
        own = None
        if evaluated is not None:
            own, evaluated = scored.labels, self._fill_evaluated(evaluated, scored)
        self.evaluator.add_predictions(requests.ids, scored, requests, own, evaluated)
        if unlabelled is not None:
            self.evaluator.evaluation.add_unlabelled_sums(unlabelled)

    def expire_requests(self, ids: Sequence[str]) -> None:
        """Expire the open requests of the records `ids`; their tokens stay spent.

        Ids without an open request are ignored.
        """
        ids = list(ids)
        self._query_controller.expire_requests(ids)
        self.evaluator.expire_requests(ids)

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
        """Learn the labels `y` (n,) of records `X` (n, D) in order, and start trainings when due.

        If a record is already in the working set, `on_conflict` chooses its label; its stored
        features are kept, and its row in `X` is ignored. Returns the trainings that were started,
        each on the rows up to the row that made the training due. Inline trainings are complete on
        return.

        Parameters
        ----------
        ids
            The records' ids.
        X, y
            Features, NaN where missing; labels, either all str or all int.
        tick
            Milliseconds since the epoch, not decreasing between calls. Schedules in seconds and
            working sets by time use the tick.
        propensity
            (n,), the inclusion probability of each request; NaN, or None for all, for labels
            without a request.
        predicted
            (n,), the labels predicted on arrival, for `on_drift`. None: the current committee
            predicts just before the label is learned.
        records
            Field values of the n records, required if the learner has `features`, which also learn
            from the values. If a row of `X` is None, it is encoded here, after the preceding labels
            were learned.
        weight
            (n,), the weight of each record in training; a record of weight 0 is not learned, and
            its request expires. None: 1 for each.
        sources
            (n,), the annotator of each label, None where unknown; None for all.

        Raises
        ------
        DataError
            When an argument is invalid; nothing has been learned then.
        """
        rows = self._validated_rows(X)
        ids = as_ids(ids, len(rows))
        labels = as_labels(y, len(rows), self._label_type)
        for label in self._renamed.keys() & {*labels}:  # the class is used again
            del self._renamed[label]
        chances = as_propensity(propensity, len(rows))
        guesses = as_predictions(predicted, len(rows))
        weights = as_weights(weight, len(rows))
        tick = as_tick(tick)
        values = as_records(records, len(rows), self.features is not None)
        who = as_sources(sources, len(rows))
        taught = np.flatnonzero(weights).tolist()
        if len(taught) < len(ids):
            self.expire_requests([ids[i] for i in range(len(ids)) if not weights[i]])
        self._query_controller.record_answers([ids[i] for i in taught], chances[taught])
        again = self._find_second_labels(ids, taught)
        new = [i for i in taught if i not in again]
        predictions = [self.evaluator.pending_prediction(id) for id in ids]
        represented = [self.evaluator.pending_weight(id) for id in ids]
        self.evaluator.add_labels(
            [ids[i] for i in new], [labels[i] for i in new], [who[i] for i in new]
        )
        started: list[Training] = []
        for i in taught:
            if i in again:
                kept = values[i] or None
                started += self._correct_one_label(ids[i], labels[i], who[i], tick, kept)
                continue
            is_made_now = self.features is not None and X[i] is None
            row = self.encode_arrivals([values[i]])[0] if is_made_now else rows[i]
            named = self._make_annotations(labels[i], who[i], predictions[i], values[i])
            known = float(chances[i]), guesses[i], named
            if (n_represented := represented[i]) is not None:
                row = self._append_missing_columns(row)  # earlier labels may have added columns
                self.trainer.shadow.add_label(
                    self.committee, row, labels[i], n_represented, self._renamed
                )
            weighs = float(weights[i])
            started += self._learn_one_label(
                ids[i], row, labels[i], values[i], weighs, tick, *known
            )
        return tuple(started)

    def learn_unsolicited(
        self, id: str, row: np.ndarray, label: Label, values: Values, weight: float
    ) -> tuple[Training, ...]:
        """Learn one label that was not requested, as `learn` does, but without validation.

        `row` float32 (D,) is the result of `encode_arrivals` for `values`. `label` has the type of
        the other labels, and `weight` is positive. Returns the trainings that were started.
        """
        self._query_controller.exclude_records([id])
        self.evaluator.add_labels([id], [label])
        return self._learn_one_label(id, row, label, values, weight)

    def _learn_one_label(
        self,
        id: str,
        row: np.ndarray,
        label: Label,
        values: Values,
        weight: float,
        tick: int = 0,
        propensity: float = math.nan,
        predicted: Label | None = None,
        annotations: AnnotatedRow | None = None,
    ) -> tuple[Training, ...]:
        """Learn the first label of a record; the arguments are described in `learn`.

        `predicted` is the label predicted on arrival; None: it is predicted now if needed.
        `annotations` are the votes and predictions to store for the record; None: none.
        """
        uses_errors = self._drift.uses_errors and self.committee is not None
        if uses_errors and predicted is None:
            predicted = self.predict(row[None])[0]
        trust = 1.0 if annotations is None else self.label_probability(annotations, label)
        row = self._update_stack_and_features(id, row, label, values, weight * trust)
        kept = id if self.on_conflict is not None else ""
        self._rows.append(
            row,
            label,
            tick,
            propensity,
            self._query_controller.n_records,
            weight,
            kept,
            annotations,
        )
        if annotations is not None:
            self.annotators.observe(annotations)
        if uses_errors:
            assert predicted is not None
            self._drift.observe_error(predicted, label, self._rows)
        self._lags.add(label)
        started = self.trainer.on_label(row, label)
        if started and self._stacking.vector is not None:
            sample = self._rows.training_sample()
            self._stacking.train_expert_of_vector_fields(sample.X, sample.y, sample.weight)
        if (young := self._stacking.young) is not None:
            rows = self._rows
            if (since := young.pop_detected_change()) is not None:
                n = self._query_controller.n_records
                self.changes.add(
                    DetectedChange(n, rows.total, rows.n_records_at_label(since + 1), since)
                )
            young.add_committee_if_due(
                rows.total, rows.total / max(self._query_controller.n_records, rows.total)
            )
            if started or young.are_used_in_predictions:
                self._train_recent_committees(young)
        return started

    def _train_recent_committees(self, young: RecentCommittees) -> None:
        """Train each recent committee that has enough new labels since its last training."""
        young.drop_created_before(self._rows.n_evicted)
        n_estimators = min(self.estimator.get_params().get("n_estimators") or ROUNDS, ROUNDS)
        for member in young.committees_due_for_training():
            sample = self._rows.training_sample(member.order)
            if len(sample.classes) > 1:
                committee = adapt_to_size(self.estimator, len(sample.X)).train(
                    sample.X, sample.y, sample.weight, seed=member.order, n_estimators=n_estimators
                )
                self._stacking.set_recent_committee(member, committee)

    def _update_stack_and_features(
        self, id: str, row: np.ndarray, label: Label, value: Values, weight: float
    ) -> np.ndarray:
        """Update experts and features with the label of `row`; return `row` with all columns.

        The result has NaN in columns that the update added.
        """
        row = self._append_missing_columns(row)  # earlier labels may have added columns
        weight *= class_weight_for_label(self.estimator, label, self._rows.counts)
        self._stacking.learn(id, row, label, weight, self.committee)
        if self.features is None:
            return row
        self.features.learn(value, label)
        if self.features.fixed:  # no label adds columns
            return row
        self.update_columns()
        return self._append_missing_columns(row)

    def _append_missing_columns(self, row: np.ndarray) -> np.ndarray:
        n_features = self.n_features or 0
        return (
            row
            if len(row) >= n_features
            else np.asarray(pad_missing_columns(row[None], n_features)[0])
        )

    def _find_second_labels(self, ids: Sequence[str], positions: Sequence[int]) -> set[int]:
        """Return the `positions` in `ids` whose record has a stored row or an earlier position."""
        if self.on_conflict is None:
            return set()
        again, seen = set(), set()
        for i in positions:
            if ids[i] and (ids[i] in seen or self._rows.find(ids[i]) is not None):
                again.add(i)
            seen.add(ids[i])
        return again

    def _make_annotations(
        self,
        label: Label,
        source: str | None,
        prediction: tuple[list[Label], np.ndarray] | None,
        values: Values,
    ) -> AnnotatedRow:
        """Return annotations for a newly labelled record: its vote and prediction on arrival."""
        row = AnnotatedRow(0, [(source, label)])
        if prediction is not None:
            row.guess = confident_label(*prediction)
            if self.query_config.relabel:
                row.arrival_prediction = prediction[0], prediction[1].astype(np.float32)
        if self.features is not None and self.on_conflict is not None:
            row.values = self.features.categories_only(values)
        return row

    def label_probability(self, row: AnnotatedRow, label: Label) -> float:
        """Return the probability that the `label` of `row` is right; 1 without relabelling."""
        return (
            self._label_quality.label_probability(row, label) if self.query_config.relabel else 1.0
        )

    def correct(
        self,
        ids: Sequence[str],
        y: Sequence[Label | None],
        *,
        tick: int = 0,
        sources: Sequence[str | None] | None = None,
        records: Sequence[Values | None] | None = None,
    ) -> tuple[Training, ...]:
        """Replace labels learned before by `y` (n,), in order; None retracts a record's label.

        Records are found by id in the working set, and unknown ids are ignored.

        - The unbiased estimates count the new label instead of the old one.
        - Running rates of categories subtract the old label.
        - Models trained label by label learn the new label as one more example.
        - A row with a retracted label is not used in training. If the record is labelled again, the
          row is used again, but the unbiased estimates do not count the new label. The number of
          such rows is at most the size of the working set; the oldest are dropped.

        Each change is counted as a label learned. Returns the trainings that were started.

        Parameters
        ----------
        ids, y, tick, sources
            As for `learn`.
        records
            Field values of the n records, if the learner has `features`. Where the values are None,
            text features are not updated.

        Raises
        ------
        DataError
            When an argument is invalid; nothing has been learned then.
        """
        labels: list[Label | None] = list(y)
        ids, who, tick = as_ids(ids, len(labels)), as_sources(sources, len(labels)), as_tick(tick)
        given = [label for label in labels if label is not None]
        as_labels(given, len(given), self._label_type)
        values = [None] * len(ids) if records is None else list(records)
        started: list[Training] = []
        for one in zip(ids, labels, who, values, strict=True):
            started += self._correct_one_label(*one[:3], tick, one[3])
        return tuple(started)

    def _correct_one_label(
        self,
        id: str,
        label: Label | None,
        source: str | None,
        tick: int,
        values: Values | None = None,
    ) -> tuple[Training, ...]:
        """Replace the label of a record that has a row; None retracts the label.

        The features of the row and its place in the order of labels do not change. Counters and
        sums replace the old label with the new one. Models trained step by step learn the new label
        as one more example; they do not undo a retracted label. `values` are the record's fields,
        if available. Returns the trainings that were started.
        """
        rows = self._rows
        self._query_controller.record_relabel_answer(id)
        found = rows.find(id)
        if found is None:
            return ()
        named, row, before = found
        after = label
        if label is not None:
            is_new = source is None or all(source != who for who, _ in named.votes)
            named.add_vote(source, label, self.on_conflict or "first")
            if is_new:
                self.annotators.observe(named)
            if before is not None:
                after = resolve_label(self.on_conflict or "first", named.votes, before)
        if after == before:
            return ()
        values = named.values if values is None else values
        rows.correct_label(id, after, tick, self._query_controller.n_records)
        if before is not None:
            self.evaluator.correct_label(id, before, after)
        elif after is not None:
            self.evaluator.add_labels([id], [after])
        if after is not None:
            row = np.asarray(pad_missing_columns(row[None], self.n_features or 0)[0])
            weight = class_weight_for_label(self.estimator, after, rows.counts)
            weight *= self.label_probability(named, after)
            self._stacking.correct_label(row, after, weight, self.committee)
        if self.features is not None and values is not None:
            self.features.correct_label(values, before, after)
            self.update_columns()
        return self.trainer.start_due_training()

    def rename_class(self, label: Label, into: Label | None) -> tuple[Training, ...]:
        """Replace the class `label` by `into` in all labels; None drops the class with its labels.

        If a record with a dropped label has votes for other classes, `on_conflict` chooses its
        label among these votes. The committee is retrained. Until its successor is deployed, its
        predictions are mapped to the current classes. The experts are retrained on the newest
        records of the working set. Sums of the unbiased estimates are not changed. Returns the
        trainings that were started.

        Raises
        ------
        DataError
            When the classes are not of the type of the labels, or are equal.
        """
        as_labels(
            [label] if into is None else [label, into], 1 + (into is not None), self._label_type
        )
        if label == into:
            raise DataError(f"the class {label!r} is itself: name another that it is to be")
        classes = {a: into if b == label else b for a, b in self._renamed.items()}
        self._renamed = {a: b for a, b in classes.items() if a != into} | {label: into}
        trainer = self.trainer
        if into is None:  # before the estimates lose the labels of the class
            self._remove_class_votes(label)
        trainer.rename_or_remove_class(label, into)
        self.evaluator.rename_or_remove_class(label, into)
        changed = self._rows.rename_or_remove_class(label, into)
        if changed and self.features is not None:
            self.features.rename_or_remove_class(label, into)
        if self.on_conflict == "vote":  # votes for two classes are now for one
            for id, row, before in list(self._rows.annotated_rows()):
                if row.votes:
                    after = resolve_label("vote", row.votes, before)
                    changed = self._relabel_row(id, row, before, after) or changed
        return self.retrain_on_changed_labels() if changed else trainer.start_due_training()

    def annotator_votes(self, id: str) -> VoteHistory | None:
        """Return the annotators' votes on a record, and its label; None if no row is stored."""
        found = self._rows.find(id)
        if found is None:
            return None
        row, _, label = found
        return VoteHistory([*row.votes], len(row.votes), label)

    def annotator_votes_where(
        self, matches: Callable[[str | None, Label], bool]
    ) -> dict[str, VoteHistory]:
        """Return the vote histories, by record id, of records with a matching vote.

        `matches(source, label)` returns whether a vote matches.
        """
        return {
            id: VoteHistory(list(row.votes), len(row.votes), now)
            for id, row, now in self._rows.annotated_rows()
            if any(matches(*vote) for vote in row.votes)
        }

    def restore_classes(
        self, restored: Mapping[str, VoteHistory], now: Callable[[Label], Label | None]
    ) -> tuple[Training, ...]:
        """Restore the classes that labels had before `rename_class`, for records that have a row.

        If a label changes, the committee is retrained, as after `rename_class`. Returns the
        trainings that were started.

        Parameters
        ----------
        restored
            Vote histories with the restored classes, by record id.
        now
            Function that maps a class to its current name, or to None if the class was dropped.
        """
        classes = {label: now(label) for label in self._renamed}
        self._renamed = {label: into for label, into in classes.items() if into != label}
        changed = False
        for id, history in restored.items():
            found = self._rows.find(id)
            if found is None or not history.votes:
                continue
            row, _, before = found
            if before is None:  # its label was taken back
                continue
            row.votes, after = history.replay(self.on_conflict or "first")
            changed = self._relabel_row(id, row, before, after) or changed
        return self.retrain_on_changed_labels() if changed else self.trainer.start_due_training()

    def retrain_on_changed_labels(self) -> tuple[Training, ...]:
        """Retrain experts and committee after the labels of many rows have changed.

        Returns the trainings that were started.
        """
        trainer = self.trainer
        if self.features is not None:
            self.update_columns()
        self._retrain_experts()
        return trainer.retrain() if trainer.champion is not None else trainer.start_due_training()

    def _remove_class_votes(self, label: Label) -> None:
        """Remove the votes for class `label`, and relabel its records by their other votes.

        The rule is `on_conflict`. Records without other votes are unchanged.
        """
        for id, row, before in list(self._rows.annotated_rows()):
            votes = [vote for vote in row.votes if vote[1] != label]
            if before == label and votes:
                row.votes, after = VoteHistory(votes).replay(self.on_conflict or "first")
                self._relabel_row(id, row, before, after)

    def _relabel_row(self, id: str, row: AnnotatedRow, before: Label, after: Label) -> bool:
        """Replace the label `before` of a record by `after`; return whether the labels differ."""
        if after == before:
            return False
        self._rows.correct_label(id, after, self._rows.tick, self._query_controller.n_records)
        self.evaluator.correct_label(id, before, after)
        if self.features is not None and row.values is not None:
            self.features.correct_label(row.values, before, after)
        return True

    def _retrain_experts(self) -> None:
        """Retrain the experts from scratch on the newest rows, and keep their weights."""
        before, sample = self._stacking, self._rows.training_sample()
        stacking = OnlineStacking(
            self.experts, self.schedule.correction_settings, self.features, self._lags.n
        )
        stacking.copy_weights(before)
        stacking.set_n_features(self.n_features or 0)
        newest = slice(max(len(sample.y) - _NEWEST, 0), None)
        for row, label in zip(sample.X[newest], sample.y[newest].tolist(), strict=True):
            weight = class_weight_for_label(self.estimator, label, self._rows.counts)
            stacking.learn("", row, label, weight)
        stacking.train_expert_of_vector_fields(sample.X, sample.y, sample.weight)
        self._stacking = self._query_controller.stacking = stacking

    def deploy(self, committee: "Committee | None") -> tuple[Training, ...]:
        """Deploy `committee` for scoring, or start its evaluation; do nothing if it is None.

        If `committee` is the result of `Trainer.finished_committee` or `Trainer.wait_for_training`,
        it has the version of its training, and is deployed at once, or after its evaluation as a
        challenger (`Schedule.promotion`). Any other committee is deployed at once with a new
        version, and a running training is abandoned. The next training does not extend a committee
        of another algorithm family (`Committee.family`). Returns the training that was started, if
        one became due.

        Raises
        ------
        DataError
            When its classes are not of the type of this learner's labels, or it needs features
            that this learner does not have; the current committee stays deployed.
        """
        if committee is None:
            return ()
        if committee is self.trainer.finished_committee():
            return self.trainer.add_challenger(committee)
        self._validate_committee(committee)
        self.trainer.deploy_as_new_version(committee)
        return ()

    def _validate_committee(self, committee: "Committee") -> None:
        as_labels(
            committee.classes, len(committee.classes), self._label_type, name="committee.classes"
        )
        if self.n_features is None:
            self.widen_rows(committee.n_features)
        if committee.n_features > self._rows.n_features:
            raise DataError(
                f"the committee scores {committee.n_features} features, and this learner has "
                f"{self.n_features}: train one on the same columns"
            )

    def widen_rows(self, n_features: int) -> None:
        """Set the number of features to `n_features`; stored rows get NaN in new columns."""
        if n_features < self._rows.n_features:
            raise DataError(
                f"n_features is {n_features}, and there are {self._rows.n_features} already: "
                "columns may join but not leave; give NaN where a value is missing"
            )
        if n_features > self._rows.n_features:
            self._rows.widen_rows(n_features)
            self._stacking.set_n_features(n_features)
            self._query_controller.widen_rows(n_features)
        self.n_features = n_features

    def update_columns(self) -> None:
        """Extend stored rows by new feature columns; set the estimator's `categorical_features`."""
        assert self.features is not None
        n_features = self._lags.n + len(self.features)
        if n_features == self.n_features:
            return
        self.widen_rows(n_features)
        self._stacking.add_vector_expert_if_due()
        lags = list(range(self._lags.n))
        columns = lags + [self._lags.n + column for column in self.features.categorical_columns]
        if columns == self._categorical_columns or not self.features.categorical_columns:
            return
        if "categorical_features" not in self.estimator.get_params():
            self.n_features = None  # so that a caller that continues gets the error again
            raise ConfigurationError(
                f"{type(self.estimator).__name__} takes no categories: choose an estimator with "
                "categorical_features, or leave out the fields that are categories"
            )
        self.estimator.set_params(categorical_features=columns)
        self._categorical_columns = columns

    @property
    def _label_type(self) -> type | None:
        """Type of the labels, str or int; None if there are neither labels nor a committee."""
        if self._rows.label_type is None and self.committee is not None:
            return type(self.committee.classes.tolist()[0])
        return self._rows.label_type

    def _validated_rows(self, X: Any) -> np.ndarray:
        if self.features is not None:
            X = pad_missing_columns(X, self.n_features or 0)
        rows = as_rows(X, self.n_features)
        if self.n_features is None:
            self.widen_rows(rows.shape[1])
        return rows

    def snapshot(self) -> Arrays:
        """Return the complete state of the learner as named arrays, for `restore`.

        Raises
        ------
        ConfigurationError
            When the estimator is not one of streamboost's public estimators.
        """
        labelled, rows = self._rows.state()
        asking, window = self._query_controller.state()
        drift, signals = self._drift.state()
        stacking, expert_arrays = self._stacking.state()
        trainer, committees = self.trainer.state()
        about = {
            "format": FORMAT,
            "estimator": describe_estimator(self.estimator),
            "working_set": asdict(self.working_set),
            "schedule": asdict(self.schedule),
            "query": asdict(self.query_config),
            "n_features": self.n_features,
            "calibrate": self.evaluator.calibrate,
            "coverage": self.evaluator.label_sets.coverage,
            "labelled": labelled,
            "trainer": trainer,
            "asking": asking,
            "drift": drift,
            "changes": self.changes.state(),
            "experts": self.experts,
            "on_conflict": self.on_conflict,
            "annotators": self.annotators.state(),
            "doubts": self._label_quality.state(),
            "renamed": list(self._renamed.items()),
            "blend": stacking,
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
            **{f"blend.{name}": array for name, array in expert_arrays.items()},
            **{f"judge.{name}": array for name, array in self.evaluator.state().items()},
            **{f"drift.{name}": array for name, array in signals.items()},
            **{f"trainer.{name}": array for name, array in committees.items()},
        }

    @classmethod
    def restore(
        cls, arrays: Mapping[str, np.ndarray], encoders: SentenceEncoders | None = None
    ) -> "StreamLearner":
        """Create a learner from the arrays that `snapshot` returned.

        `encoders` loads the sentence encoders of the features; None: their paths are relative to
        the current folder. A training that was running in a thread is started again, on the same
        rows.

        Raises
        ------
        ModelFileError
            When the arrays are not a learner's snapshot, or are of another release.
        """
        try:
            about = unpack_json(arrays["about"])
            if about["format"] != FORMAT:
                raise ModelFileError(
                    f"the learner's snapshot has format {about['format']!r}, and this release "
                    f"reads {FORMAT!r}; train a new learner and take its snapshot"
                )
            learner = cls._untrained_from_snapshot(about, arrays, encoders)
            learner._restore_state(about, arrays)
            return learner
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"these arrays are not a learner's snapshot: {error!r}; give what "
                "StreamLearner.snapshot returned"
            ) from error

    @classmethod
    def _untrained_from_snapshot(
        cls,
        about: dict[str, Any],
        arrays: Mapping[str, np.ndarray],
        encoders: SentenceEncoders | None,
    ) -> "StreamLearner":
        """Create an untrained learner with the settings of a snapshot.

        `about` is the snapshot's JSON part, and `arrays` are its arrays.
        """
        features = None
        if (fields := about.get("features")) is not None:
            features = Features.restore(fields, select_prefix(arrays, "features."), encoders)
        return cls(
            estimator=rebuild_estimator(about["estimator"]),
            working_set=WorkingSet(**about["working_set"]),
            schedule=Schedule(**about["schedule"]),
            query=QueryConfig(**about["query"]),
            n_features=about["n_features"],
            calibrate=about["calibrate"],
            coverage=about["coverage"],
            label_lags=about["label_lags"],
            features=features,
            experts=about["experts"],
            on_conflict=about["on_conflict"],
        )

    def _restore_state(self, about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the mutable state from the snapshot of a learner with equal settings."""
        self.annotators.resume(about["annotators"])
        self._label_quality.resume(about["doubts"])
        self._renamed = dict(about["renamed"])
        self._stacking.resume(about["blend"], select_prefix(arrays, "blend."))
        self._rows.resume(about["labelled"], select_prefix(arrays, "rows."))
        self._query_controller.resume(about["asking"], select_prefix(arrays, "window."))
        self._lags.resume(about["lags"])
        self.evaluator.resume(select_prefix(arrays, "judge."))
        self.changes.resume(about["changes"])
        self._drift.resume(about["drift"], select_prefix(arrays, "drift."))
        self.trainer.resume(about["trainer"], select_prefix(arrays, "trainer."))

    def export_scoring_state(self) -> Arrays:
        """Export the read-only state for `load_scoring_state` in processes that do not learn.

        Large tables are split into parts that rarely change at the same time: the committee with
        its temperature, the feature tables, the experts, each young committee and the label counts.
        """
        stacking, tables = self._stacking.state()
        young = {name: tables.pop(name) for name in list(tables) if name.startswith("young.")}
        waiting, cached = PredictionCache().state()  # an empty cache: scorers learn no labels
        about: dict[str, Any] = {
            "labels": list(self._rows.counts.items()),
            "total": self.n_labels,
            "temperature": self.evaluator.temperature.state(),
            "renamed": list(self._renamed.items()),
            "blend": stacking | {"waiting": waiting},
            "n_features": self.n_features,
        }
        arrays = {f"blend.{n}": a for n, a in tables.items() if not n.startswith("said.")}
        arrays |= {f"blend.said.{name}": array for name, array in cached.items()}
        if self.features is not None:
            about["features"], tables = self.features.state()
            arrays |= {f"features.{name}": array for name, array in tables.items()}
        arrays |= young | committee_to_arrays("committee.", self.committee)
        return arrays | {"about": pack_json(about)}

    def load_scoring_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the result of `export_scoring_state` of another learner into a new learner.

        Both learners need equal settings. Raises ModelFileError if the arrays are no exported
        scoring state.
        """
        try:
            about, given = unpack_json(arrays["about"]), dict(arrays)
            if "features" in about:
                assert self.features is not None
                self.features.resume(about["features"], select_prefix(given, "features."))
                self.update_columns()
            else:
                self.widen_rows(about["n_features"])
            self._rows.counts = dict(about["labels"])
            self._rows.total = about["total"]
            young = {name: array for name, array in given.items() if name.startswith("young.")}
            self._stacking.resume(about["blend"], select_prefix(given, "blend.") | young)
            self.evaluator.temperature.resume(about["temperature"])
            self._renamed = dict(about["renamed"])
            self.trainer.champion = committee_from_arrays("committee.", given)
        except (LookupError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"these arrays are not what a learner predicts by: {error!r}; let scorers and "
                "learner be of one release, with one pipeline file"
            ) from error


def without_running_training(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return the arrays of a snapshot without the training that was running.

    A learner restored from the result can predict without first repeating this training. Raises
    ModelFileError if the arrays are not a snapshot's.
    """
    try:
        about = unpack_json(arrays["about"])
        about["trainer"]["underway"] = None
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"these arrays are not a learner's snapshot: {error!r}") from error
    return {**arrays, "about": pack_json(about)}
