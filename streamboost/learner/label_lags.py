"""Lagged labels: the newest known labels as features."""

from typing import Any

import numpy as np

from streamboost.checks import Label
from streamboost.query.settings import check_integer


class LabelLags:
    """Encodes the newest known labels as categorical columns (lagged target).

    If labels are autocorrelated, the last label predicts the next one. With delayed labels, the
    newest known labels are older than the newest records. So store the lags of a record when the
    record is predicted, and train on these, not on the lags known when its label arrives.

    Parameters
    ----------
    label_lags
        Number of columns: the first has the newest label, the second the label before, and so on.

    Raises
    ------
    ConfigurationError
        When `label_lags` is not a whole number of at least 0.

    Examples
    --------
    >>> lags = LabelLags(2)
    >>> lags.add("up")
    >>> lags.make_lag_rows(1)
    array([[ 0., nan]], dtype=float32)
    """

    def __init__(self, label_lags: int = 0) -> None:
        check_integer("label_lags", label_lags, at_least=0)
        self.n = label_lags
        self._codes: dict[Label, int] = {}
        self._newest = [float("nan")] * label_lags

    def add(self, label: Label) -> None:
        """Add the label that has just become known."""
        if self.n:
            code = self._codes.setdefault(label, len(self._codes))
            self._newest = [float(code), *self._newest[:-1]]

    def make_lag_rows(self, n: int) -> np.ndarray:
        """Return `n` equal rows with the newest labels' codes, newest first: float32 (n, lags).

        The code of a label is its index in order of first appearance. Lags without a label are NaN.
        """
        return np.tile(np.array(self._newest, dtype=np.float32), (n, 1))

    def state(self) -> dict[str, Any]:
        """Return the mutable state for `resume`, as JSON values."""
        known = [None if code != code else int(code) for code in self._newest]
        return {"labels": list(self._codes), "newest": known}

    def resume(self, state: dict[str, Any]) -> None:
        """Set the state to one that an object with the same number of lags returned."""
        self._codes = {label: code for code, label in enumerate(state["labels"])}
        self._newest = [float("nan") if code is None else float(code) for code in state["newest"]]
