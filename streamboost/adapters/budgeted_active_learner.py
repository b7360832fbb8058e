"""Active learning within an exact label budget, around any River classifier."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
from river import active, base, compose

from streamboost.adapters.river import StreamBoostClassifier
from streamboost.checks import as_seed
from streamboost.errors import ConfigurationError
from streamboost.learner import Querier, QueryConfig
from streamboost.query.strategies import UTILITIES


class BudgetedActiveLearner(active.base.ActiveLearningClassifier):
    """Requests the labels that a classifier would learn most from, within an exact budget.

    Each call of `predict_one` or `predict_proba_one` counts one record. After n records at most
    budget * n labels have been requested. Requests are distributed over time. Records are ranked by
    the strategy's utility among the newest `window` records, and higher ranks are requested with a
    higher probability, so the scale of the probabilities does not matter. Until two labels per
    class have been learned, requests are random. The utilities of the window are computed again
    whenever the number of learned labels has grown by 5 %.

    Parameters
    ----------
    classifier
        Any River classifier with probabilities. "vote_entropy" requires an ensemble or a
        `StreamBoostClassifier`.
    budget
        Share of the records whose label may be bought, in (0, 1]. A float is read as its decimal
        notation: 0.1 is exactly 1/10.
    strategy
        Utility of a label. "margin", "entropy" and "least_confident" are uncertainty
        sampling [1]_ by the classifier's probabilities. "vote_entropy" is query by committee
        [2]_: the entropy of the members' votes. These are the members of a River ensemble (ARF,
        AMF, SRP, bagging, boosting, voting), also as the last step of a pipeline, and the stages
        of a `StreamBoostClassifier`'s committee. "random" requests any record.
    burst
        Requests over any n consecutive records stay within budget * n + burst.
    window
        Number of newest records whose utilities a new record is ranked among.
    seed
        Seed of all random choices, at least 0; None: a random seed.

    Raises
    ------
    ConfigurationError
        When a value is out of its range, or the classifier has no members for "vote_entropy".

    Examples
    --------
    >>> from river import datasets, metrics
    >>> from streamboost.adapters.budgeted_active_learner import BudgetedActiveLearner
    >>> from streamboost.adapters.river import StreamBoostClassifier
    >>> model = BudgetedActiveLearner(StreamBoostClassifier(seed=1), budget=0.1, seed=1)
    >>> metric, asked = metrics.Accuracy(), 0
    >>> for x, y in datasets.ImageSegments().take(1_000):
    ...     prediction, ask = model.predict_one(x)
    ...     metric.update(y, prediction)
    ...     if ask:
    ...         model.learn_one(x, y)
    ...         asked += 1
    >>> metric.get() > 0.75, asked <= 100
    (True, True)

    References
    ----------
    .. [1] Settles, B. (2009). Active learning literature survey. University of
       Wisconsin-Madison, Computer Sciences Technical Report 1648, sections 3.1 and 3.2.
    .. [2] Seung, H. S., Opper, M. and Sompolinsky, H. (1992). Query by committee. COLT.
    """

    def __init__(
        self,
        classifier: base.Classifier,
        budget: float = 0.05,
        strategy: str = "margin",
        burst: int = 20,
        window: int = 200,
        seed: int | None = None,
    ) -> None:
        super().__init__(classifier, seed=seed)
        self.budget = budget
        self.strategy = strategy
        self.burst = burst
        self.window = window
        self._config = QueryConfig(
            strategy=strategy, budget=budget, burst=burst, audit=0, window=window
        )
        if self._config.required_input == "votes" and _find_voting_ensemble(classifier) is None:
            others = [name for name, one in UTILITIES.items() if one.required_input != "votes"]
            raise ConfigurationError(
                f"query strategy is {strategy!r}, and {type(classifier).__name__} has no members "
                "that vote: give a River ensemble or a StreamBoostClassifier, or choose one of "
                f"{', '.join(others)}"
            )
        self._querier = Querier(
            self._config, np.random.SeedSequence(None if seed is None else as_seed("seed", seed))
        )
        self._newest: deque[Any] = deque(maxlen=window)
        self._labels: set[base.typing.ClfTarget] = set()
        self._learned = 0
        self._rescored_at = 0  # labels learned when the stored records were last rescored

    def predict_one(  # type: ignore[override]  # River's own wrappers return pairs, untyped
        self, x: dict[base.typing.FeatureName, Any], **kwargs: Any
    ) -> tuple[base.typing.ClfTarget | None, bool]:
        """Return the most probable label of `x`, or None, and whether to request the true label."""
        chances, ask = self.predict_proba_one(x, **kwargs)  # type: ignore[no-untyped-call]
        return (max(chances, key=chances.__getitem__) if chances else None), ask

    def learn_one(
        self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget, **kwargs: Any
    ) -> None:
        """Learn the label `y` of the record `x` with the classifier."""
        self.classifier.learn_one(x, y, **kwargs)
        self._labels.add(y)
        self._learned += 1

    def _ask_for_label(
        self, x: dict[base.typing.FeatureName, Any], y_pred: Mapping[Any, float]
    ) -> bool:
        """Return whether to request the label of `x`, given its predicted probabilities."""
        cold = len(y_pred) < 2 or self._learned < 2 * len(self._labels)
        if not cold and self._learned > 1.05 * self._rescored_at:
            self._querier.rescore(self._learned, lambda _: self._newest_utilities())
            self._rescored_at = self._learned
        utility = self._label_utility(x, y_pred)
        requests = self._querier.select_requests([""], np.empty((1, 0)), utility, at_random=cold)
        if self._config.required_input != "nothing":
            self._newest.append(copy(x))
        return len(requests) > 0

    def _newest_utilities(self) -> np.ndarray:
        """Return the label utilities (n,) of the newest records, oldest first."""
        return np.concatenate([self._label_utility(x) for x in self._newest])

    def _label_utility(
        self, x: dict[base.typing.FeatureName, Any], y_pred: Mapping[Any, float] | None = None
    ) -> np.ndarray:
        """Return the utility (1,) of the label of record `x`.

        `y_pred` are the record's predicted probabilities; None: the classifier predicts them now.
        Classes that a classifier omits have probability 0.
        """
        if self._config.required_input == "votes":
            chances = _vote_shares(self.classifier, x)
        else:
            chances = self.classifier.predict_proba_one(x) if y_pred is None else y_pred
        probabilities = np.zeros((1, max(len(chances), len(self._labels))))
        probabilities[0, : len(chances)] = list(chances.values())
        if self._config.required_input == "margins":
            return self._config.compute_utility(_top_two_log_ratio(probabilities))
        return self._config.compute_utility(probabilities)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": StreamBoostClassifier()}


def _find_voting_ensemble(classifier: Any) -> Any:
    """Return `classifier` or its last pipeline step if it is an ensemble that votes, else None."""
    if isinstance(classifier, compose.Pipeline):
        return _find_voting_ensemble(next(reversed(classifier.steps.values())))
    return classifier if isinstance(classifier, base.Ensemble | StreamBoostClassifier) else None


def _vote_shares(classifier: Any, x: dict[base.typing.FeatureName, Any]) -> Mapping[Any, float]:
    """Return, by class, the share of the ensemble's members that predict this class for `x`.

    Members without a prediction are not counted.
    """
    if isinstance(classifier, compose.Pipeline):
        *transformers, last = classifier.steps.values()
        for transformer in transformers:
            x = transformer.transform_one(x)
        return _vote_shares(last, x)
    if isinstance(classifier, StreamBoostClassifier):
        return classifier.predict_votes_one(x)
    votes = Counter(vote for member in classifier if (vote := member.predict_one(x)) is not None)
    return {label: n / votes.total() for label, n in votes.items()}


def _top_two_log_ratio(probabilities: np.ndarray) -> np.ndarray:
    """Return the log ratio (n,) of the largest and second largest of probabilities (n, K).

    The log ratio equals the margin between the raw scores of a softmax. It is infinite if all but
    one probability are 0, and 0 if there are fewer than two classes.
    """
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities))
    best = np.sort(probabilities, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = np.log(best[:, -1]) - np.log(best[:, -2])
    return np.asarray(np.nan_to_num(margins, nan=0.0, posinf=np.inf))
