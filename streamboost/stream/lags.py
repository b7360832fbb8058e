"""The newest known labels, as features."""

from typing import Any

import numpy as np

from streamboost.active.settings import check_whole
from streamboost.stream.checks import Label

__all__ = ["Lags"]


class Lags:
    """Offers the newest labels that are known as columns of categories.

    On streams whose labels follow one another the last label says much about the next. With
    delayed labels, the newest known are older than the newest there are: training must see those
    that stood here when the record was predicted, not those that stand here when its label comes.

    Parameters
    ----------
    label_lags
        How many columns: the newest label's first, then the one before it, and so on.

    Raises
    ------
    ConfigurationError
        When it is not a whole number of at least 0.

    Examples
    --------
    >>> lags = Lags(2)
    >>> lags.add("up")
    >>> lags.rows(1)
    array([[ 0., nan]], dtype=float32)
    """

    def __init__(self, label_lags: int = 0) -> None:
        check_whole("label_lags", label_lags, at_least=0)
        self.n = label_lags
        self._codes: dict[Label, int] = {}
        self._newest = [float("nan")] * label_lags

    def add(self, label: Label) -> None:
        """Take in the label that has just become known."""
        if self.n:
            code = self._codes.setdefault(label, len(self._codes))
            self._newest = [float(code), *self._newest[:-1]]

    def rows(self, n: int) -> np.ndarray:
        """Return the labels' numbers, in the order first seen, `n` times: float32 (n, lags).

        NaN where there were not so many labels yet.
        """
        return np.tile(np.array(self._newest, dtype=np.float32), (n, 1))

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON can hold it."""
        known = [None if code != code else int(code) for code in self._newest]
        return {"labels": list(self._codes), "newest": known}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned for as many lags."""
        self._codes = {label: code for code, label in enumerate(state["labels"])}
        self._newest = [float("nan") if code is None else float(code) for code in state["newest"]]
