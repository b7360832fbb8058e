"""streamboost as a River classifier."""

from importlib import import_module
from typing import Any

import numpy as np
from river import base

from streamboost.adapters.columns import Columns
from streamboost.errors import ConfigurationError
from streamboost.stream.estimators import Trainable
from streamboost.stream.learner import StreamLearner
from streamboost.stream.schedule import Schedule
from streamboost.stream.scoring import Scored
from streamboost.stream.working_set import WorkingSet

__all__ = ["StreamBoostClassifier"]


class StreamBoostClassifier(base.MiniBatchClassifier):
    """A boosted committee, trained anew and extended as labels come in.

    It keeps the newest labelled records and boosts small trees on them: at every label at first,
    then after each few per cent of new labels, with a few rounds added in between. Between two
    trainings `learn_one` only stores the record. Features may come and go: new ones become
    columns, those that a record lacks are missing values. Values must be numbers or booleans.

    Parameters
    ----------
    estimator
        What is trained, one of streamboost's estimators. None: a `SketchLogitBoostClassifier`
        with 150 rounds of six leaves.
    window_size
        Labelled records kept for training, the newest.
    half_life
        In labels: a record so much older than the newest weighs half as much. None: all weigh
        the same.
    growth
        Factor by which the labels grow from one training anew to the next.
    retrain_every
        Most labels from one training anew to the next. None: growth alone decides.
    extend_every
        Labels from one training to an extension. None: never extend.
    extend_estimators
        Rounds that an extension adds.
    max_estimators
        A committee that an extension would take past so many rounds is trained anew instead.
    coverage
        Share of the sets of `predict_set_one` that are to hold the true label, in (0, 1). Every
        record learned is then scored first, which also calibrates the probabilities. None: no
        sets, and learning is as fast as can be.
    seed
        Seed for reproducible results.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamboost.adapters.river import StreamBoostClassifier
    >>> model = StreamBoostClassifier(seed=7)
    >>> evaluate.progressive_val_score(
    ...     datasets.ImageSegments().take(500), model, metrics.Accuracy()
    ... )
    Accuracy: 9...%
    """

    def __init__(
        self,
        estimator: Trainable | None = None,
        window_size: int = 10_000,
        half_life: float | None = None,
        growth: float = 1.05,
        retrain_every: int | None = 500,
        extend_every: int | None = 10,
        extend_estimators: int = 10,
        max_estimators: int | None = 400,
        coverage: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.window_size = window_size
        self.half_life = half_life
        self.growth = growth
        self.retrain_every = retrain_every
        self.extend_every = extend_every
        self.extend_estimators = extend_estimators
        self.max_estimators = max_estimators
        self.coverage = coverage
        self.seed = seed
        self._columns = Columns()
        # River's labels may be booleans or of several kinds: the learner sees their numbers.
        self._labels: list[base.typing.ClfTarget] = []
        self._numbers: dict[base.typing.ClfTarget, int] = {}
        self._learner = StreamLearner(
            estimator=estimator,
            working_set=WorkingSet(
                size=window_size,
                weights="uniform" if half_life is None else "half_life",
                half_life=half_life,
            ),
            schedule=Schedule(
                growth=growth,
                retrain_every=retrain_every,
                extend_every=extend_every,
                extend_estimators=extend_estimators,
                max_estimators=max_estimators,
            ),
            n_features=0,
            random_state=_entropy() if seed is None else seed,
            coverage=0.9 if coverage is None else coverage,
        )

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget) -> None:
        """Learn that the record `x` has the label `y`."""
        self._learn(self._columns.row(x, grow=True), [y])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the labels `y` (Series) of the rows of `X` (DataFrame), in their order."""
        self._learn(self._columns.table(X, grow=True), y.tolist())

    def predict_proba_one(
        self, x: dict[base.typing.FeatureName, Any], **kwargs: Any
    ) -> dict[base.typing.ClfTarget, float]:
        """Return the probability of every label learned so far; nothing before the first."""
        scored = self._learner.score(self._columns.row(x))
        return dict(zip(self._labels, self._probabilities(scored)[0].tolist(), strict=True))

    def predict_one(
        self, x: dict[base.typing.FeatureName, Any], **kwargs: Any
    ) -> base.typing.ClfTarget | None:
        """Return the likeliest label; None before the first was learned."""
        number = self._learner.predict(self._columns.row(x))[0]
        return None if number is None else self._labels[number]

    def predict_set_one(self, x: dict[base.typing.FeatureName, Any]) -> set[base.typing.ClfTarget]:
        """Return the labels that `x` may have: a share `coverage` of such sets holds the true one.

        A set is all labels before the first training, and may be empty where the committee is
        right more often than that.

        Raises
        ------
        ConfigurationError
            When no `coverage` was given.
        """
        if self.coverage is None:
            raise ConfigurationError(
                "coverage is None: give StreamBoostClassifier(coverage=0.9) or another share for "
                "predict_set_one"
            )
        row = self._columns.row(x)
        return {self._labels[int(number)] for number in self._learner.predict_set(row)[0]}

    def predict_proba_many(self, X: Any) -> Any:
        """Return a DataFrame: a row for each of `X`'s, a column for every label so far."""
        pd = import_module("pandas")  # optional, and needed only by those who bring a DataFrame
        scored = self._learner.score(self._columns.table(X))
        columns = pd.Index(self._labels, dtype=object)
        return pd.DataFrame(self._probabilities(scored), index=X.index, columns=columns)

    def predict_many(self, X: Any) -> Any:
        """Return a Series: the likeliest label of each row of `X` (DataFrame)."""
        pd = import_module("pandas")
        numbers = self._learner.predict(self._columns.table(X))
        labels = [None if number is None else self._labels[number] for number in numbers]
        return pd.Series(labels, index=X.index, dtype=object)

    def _learn(self, rows: np.ndarray, labels: list[base.typing.ClfTarget]) -> None:
        self._learner.widen(len(self._columns))
        for label in labels:
            if label not in self._numbers:
                self._numbers[label] = len(self._labels)
                self._labels.append(label)
        numbers = [self._numbers[label] for label in labels]
        if self.coverage is not None:
            self._learner.judge.observe(self._learner.score(rows), numbers)
        self._learner.learn([""] * len(numbers), rows, numbers)

    def _probabilities(self, scored: Scored) -> np.ndarray:
        """Return (n, labels so far): a label the committee has not met yet has probability 0."""
        probabilities = np.zeros((len(scored), len(self._labels)))
        probabilities[:, scored.classes] = scored.probabilities
        return probabilities


def _entropy() -> int:
    drawn = np.random.SeedSequence().entropy
    assert isinstance(drawn, int)
    return drawn
