"""The half of a learner that predicts: what it says about records, from all it knows by now."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.active.budget import Ledger
from streamboost.active.query import Requests
from streamboost.errors import ConfigurationError, DataError
from streamboost.features import Features
from streamboost.features.layout import Values
from streamboost.stream.asking import Asking
from streamboost.stream.blend.blend import Blend
from streamboost.stream.checks import Label, as_labels, as_rows, as_wide
from streamboost.stream.estimators import Trainable
from streamboost.stream.evaluation.decisions import Decisions
from streamboost.stream.evaluation.judge import Judge
from streamboost.stream.evaluation.rest import Rest
from streamboost.stream.evaluation.windows import Evaluation
from streamboost.stream.labelled_rows.annotators import Annotators
from streamboost.stream.labelled_rows.labelled import LabelledRows
from streamboost.stream.lags import Lags
from streamboost.stream.scoring import Scored, renamed, score_with_shares
from streamboost.stream.training.trainer import Trainer

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Predictor"]


class Predictor:
    """Predicts records as what it is made of knows them; predicting teaches it nothing.

    Attributes
    ----------
    n_features
        D, the number of features; None until the first records tell.
    trainer
        The trainings: what is under way, pausing, training anew.
    judge
        What the labels asked for say of the predictions.
    features
        What makes columns of records' fields; None where records are arrays.
    annotators
        What the labels of each who gave some came to.
    """

    n_features: int | None
    trainer: Trainer
    judge: Judge
    features: Features | None
    annotators: Annotators
    _blend: Blend
    _rows: LabelledRows
    _lags: Lags
    _told: list[int] | None = None  # the categorical columns that the estimator knows of
    _asking: Asking
    _renamed: dict[Label, Label | None]  # classes that are others now, or none

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

    @property
    def evaluation(self) -> Evaluation:
        """How good the predictions were that `query` was told of, by the labels it asked for."""
        return self.judge.evaluation

    @property
    def ledger(self) -> Ledger:
        """What has been asked and answered so far."""
        return self._asking.ledger

    def arrive(self, values: Sequence[Values]) -> np.ndarray:
        """Take in that records arrived (`Features.values`); return their rows, float32 (n, D).

        A record keeps its row: it is scored, queried and, when its label comes, learned with the
        same. DataError where the learner was given no features.
        """
        return self.with_lags(self._known_features().arrive(values))

    def rows(self, values: Sequence[Values]) -> np.ndarray:
        """Return the rows (n, D) that records would have, without taking in that they arrived."""
        return self.with_lags(self._known_features().rows(values))

    def _known_features(self) -> Features:
        if self.features is None:
            raise DataError("this learner takes arrays: give it features= to take records")
        return self.features

    @property
    def label_lags(self) -> int:
        """How many columns of a row, the first, are the newest labels (`with_lags`)."""
        return self._lags.n

    def columns(self, fields: Sequence[str]) -> list[str]:
        """Return what each column of a row (D,) is; without `features`, the `fields` of arrays."""
        own = fields if self.features is None else self.features.names
        return [*(f"the label {k + 1} before" for k in range(self._lags.n)), *own]

    def with_lags(self, X: np.ndarray) -> np.ndarray:
        """Return `X` float32 (n, D - lags) behind the newest labels learned by now, (n, D).

        A record keeps what it was given here: it is scored, queried and, when its label comes,
        learned with the same.
        """
        return np.hstack([self._lags.rows(len(X)), X]) if self._lags.n else X

    def let_score(self) -> None:
        """Let others score: their doubts say what to ask for, and no committee is trained."""
        self._asking.by_scores = True
        self.trainer.pause()

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

    def remember(self, ids: Sequence[str], scored: Scored) -> None:
        """Keep what the experts said of records until they are learned by these `ids`.

        `query` does so too. Of records that nobody remembers they are judged by what they say when
        the label comes, when they may know more than on arrival.
        """
        self._blend.note(ids, scored)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels, object (n,), that `score` predicts."""
        rows = self._admit(X)
        if self.committee is None:
            return score_with_shares(self._rows.shares, len(rows)).labels
        return renamed(self._blend.score(self.committee, rows), self._renamed).labels

    @property
    def decisions(self) -> Decisions | None:
        """What is decided on beside the labels; None: nothing. They may be set at any time."""
        return self.evaluation.decisions

    @decisions.setter
    def decisions(self, decisions: Decisions | None) -> None:
        self.evaluation.decisions = decisions

    def decide(self, scored: Scored) -> np.ndarray:
        """Return the classes decided on, object (n,), of what `score` returned (`Decisions`).

        None where nothing is decided on, as of all records while there are no decisions to make.
        """
        if self.decisions is None:
            return np.full(len(scored), None, dtype=object)
        return self.decisions.decide(scored)

    def predict_set(self, X: Any) -> list[list[Label | None]]:
        """Return for each record of `X` (n, D) the labels, likeliest first, that it may have.

        Of the records, a share `coverage` has the true label in its set, as far as the labels
        that `query` asked for tell (`LabelSets`). None, always the last, stands for any label
        that nobody has named yet; sets may be empty.
        """
        return self.judge.sets(self.score(X))

    def utility(self, X: Any, scored: Scored | None = None) -> np.ndarray:
        """Return by the strategy how much each label of `X` (n, D) would teach now; ask nothing.

        Where they have been `scored` already, they need not be once more.
        """
        if scored is not None:
            return self._asking.rate(self._admit(X), scored, self.committee)
        return self._asking.measure(self._admit(X), self.committee)

    @property
    def lacking(self) -> int:
        """Labels that are to be asked for at random although there is a committee, at least 0."""
        return max(self._asking.lacking, 0)

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

    def _admit_committee(self, committee: "Committee") -> None:
        as_labels(committee.classes, len(committee.classes), self._kind, name="committee.classes")
        if self.n_features is None:
            self.widen(committee.n_features)
        if committee.n_features > self._rows.n_features:
            raise DataError(
                f"the committee scores {committee.n_features} features, and this learner has "
                f"{self.n_features}: train one on the same columns"
            )
