"""Asking for few labels around any River classifier."""

from collections import deque
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import numpy as np
from river import active, base

from streamboost.active.utilities import UTILITIES
from streamboost.adapters.river import StreamBoostClassifier
from streamboost.errors import ConfigurationError
from streamboost.stream import Querier, QueryStrategy
from streamboost.stream.checks import as_seed

__all__ = ["QueryByCommittee"]


class QueryByCommittee(active.base.ActiveLearningClassifier):
    """Asks for the labels that a classifier would learn most from, within an exact budget.

    Every record that is predicted, by `predict_one` or `predict_proba_one`, counts once, and
    after n of them at most budget * n labels have been asked for. Spending is paced over time,
    and goes to the records that rank highest among the newest `window` by the classifier's own
    doubt; so nothing depends on the scale of its probabilities. Until two labels per class have
    been learned it asks at random. The kept records are rated again by what the classifier has
    become whenever its labels have grown by a twentieth.

    Parameters
    ----------
    classifier
        Any River classifier that gives probabilities.
    budget
        Share of the records whose label may be bought, in (0, 1], taken as the decimal number it
        is written as.
    utility
        How much a label would teach: much where the two likeliest classes are close ("margin"),
        the probabilities have a high "entropy", or the likeliest class is unlikely
        ("least_confident"); "random" asks anywhere.
    burst
        Requests over any n consecutive records stay within budget * n + burst.
    window
        The newest records, among whose utilities that of a new one is ranked.
    seed
        Seed of all random choices, at least 0; None: another one every time.

    Raises
    ------
    ConfigurationError
        When a value is out of its range.

    Examples
    --------
    >>> from river import datasets, metrics
    >>> from streamboost.adapters.query_by_committee import QueryByCommittee
    >>> from streamboost.adapters.river import StreamBoostClassifier
    >>> model = QueryByCommittee(StreamBoostClassifier(seed=1), budget=0.1, seed=1)
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
    .. [1] Seung, H. S., Opper, M. and Sompolinsky, H. (1992). Query by committee. COLT.
    .. [2] Huang, J. (2007). Efficient multiclass boosting with active learning, Algorithm 4.
    """

    def __init__(
        self,
        classifier: base.Classifier,
        budget: float = 0.05,
        utility: str = "margin",
        burst: int = 20,
        window: int = 200,
        seed: int | None = None,
    ) -> None:
        super().__init__(classifier, seed=seed)
        self.budget = budget
        self.utility = utility
        self.burst = burst
        self.window = window
        self._strategy = QueryStrategy(
            utility=utility, budget=budget, burst=burst, audit=0, window=window
        )
        if self._strategy.needs == "votes":
            others = [name for name, one in UTILITIES.items() if one.needs != "votes"]
            raise ConfigurationError(
                f"query utility is {utility!r}, and a River classifier does not show its votes: "
                f"choose one of {', '.join(others)}"
            )
        self._querier = Querier(
            self._strategy, np.random.SeedSequence(None if seed is None else as_seed("seed", seed))
        )
        self._newest: deque[Any] = deque(maxlen=window)
        self._labels: set[base.typing.ClfTarget] = set()
        self._learned = 0
        self._rated_at = 0  # labels learned when the kept records were rated last

    def predict_one(  # type: ignore[override]  # River's own wrappers return pairs, untyped
        self, x: dict[base.typing.FeatureName, Any], **kwargs: Any
    ) -> tuple[base.typing.ClfTarget | None, bool]:
        """Return the likeliest label, None while there is none, and whether to ask for `x`'s."""
        chances, ask = self.predict_proba_one(x, **kwargs)  # type: ignore[no-untyped-call]
        return (max(chances, key=chances.__getitem__) if chances else None), ask

    def learn_one(
        self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget, **kwargs: Any
    ) -> None:
        """Let the classifier learn that `x` has the label `y`."""
        self.classifier.learn_one(x, y, **kwargs)
        self._labels.add(y)
        self._learned += 1

    def _ask_for_label(
        self, x: dict[base.typing.FeatureName, Any], y_pred: Mapping[Any, float]
    ) -> bool:
        cold = len(y_pred) < 2 or self._learned < 2 * len(self._labels)
        if not cold and self._learned > 1.05 * self._rated_at:
            self._querier.follow(self._learned, lambda _: self._rate_kept())
            self._rated_at = self._learned
        requests = self._querier.decide([""], np.empty((1, 0)), self._rate(y_pred), cold=cold)
        if self._strategy.needs != "nothing":
            self._newest.append(copy(x))
        return len(requests) > 0

    def _rate_kept(self) -> np.ndarray:
        """Return the utilities of the newest records, oldest first."""
        rated = [self._rate(self.classifier.predict_proba_one(x)) for x in self._newest]
        return np.concatenate(rated)

    def _rate(self, chances: Mapping[Any, float]) -> np.ndarray:
        """Return the utility (1,) of a record with these probabilities.

        Some classifiers leave out the classes that they hold impossible.
        """
        probabilities = np.zeros((1, max(len(chances), len(self._labels))))
        probabilities[0, : len(chances)] = list(chances.values())
        if self._strategy.needs == "margins":
            return self._strategy.measure(_margins(probabilities))
        return self._strategy.measure(probabilities)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": StreamBoostClassifier()}


def _margins(probabilities: np.ndarray) -> np.ndarray:
    """Return log(p1 / p2) (n,) of probabilities (n, K), p1 the largest and p2 the second.

    It is the margin between the raw scores of a softmax; infinite where only one class is
    possible, and 0 where there are not two.
    """
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities))
    best = np.sort(probabilities, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = np.log(best[:, -1]) - np.log(best[:, -2])
    return np.asarray(np.nan_to_num(margins, nan=0.0, posinf=np.inf))
