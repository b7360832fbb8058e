"""Synthetic streams with predictions and query decisions, for the tests of evaluation."""

from dataclasses import dataclass

import numpy as np

from streamboost.predictions import Scored


@dataclass
class Made:
    """n records: probabilities, predictions, truth, and the chance with which each was asked."""

    P: np.ndarray
    predicted: np.ndarray
    y: np.ndarray
    propensity: np.ndarray
    selected: np.ndarray
    block: int

    def scored(self, rows=slice(None)):
        P = self.P[rows]
        labels = self.predicted[rows].astype(object)
        return Scored(labels, np.arange(P.shape[1]), P, np.zeros(len(P)), 1)

    def ids(self, rows=slice(None)):
        return [str(i) for i in range(len(self.y))][rows]

    def feed(self, evaluation, *, batch=50, delay=0, start=0, stop=None):
        """Let records arrive in batches, and the labels asked for come `delay` batches late."""
        stop = len(self.y) if stop is None else stop
        for first in range(start, stop, batch):
            rows = slice(first, min(first + batch, stop))
            evaluation.add_records(self.ids(rows), self.scored(rows), self.propensity[rows])
            late = slice(max(first - delay * batch, 0), max(rows.stop - delay * batch, 0))
            answered = [i for i in range(late.start, late.stop) if self.propensity[i] > 0]
            evaluation.add_labels([str(i) for i in answered], self.y[answered])
        return evaluation


def made(seed, n=1500, K=3, block=25, *, drift=0.0, drawn=True, too_sure=2.0):
    """Make up a committee that is `too_sure` of itself, asked about where its margin is small.

    Its errors grow over time by `drift`. The audit takes one place in each block.
    """
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, K)) * np.linspace(2.0, 2.0 - drift, n)[:, None]
    share = np.exp(truth) / np.exp(truth).sum(axis=1, keepdims=True)
    y = (share.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    P = share**too_sure
    P /= P.sum(axis=1, keepdims=True)
    doubt = 1.0 - P.max(axis=1)
    p = np.clip(doubt**2, 0.0, 1.0) if drawn else (doubt > np.quantile(doubt, 0.9)) * 1.0
    rule = rng.random(n) < p
    audit = np.zeros(n, dtype=bool)
    starts = np.arange(0, n, block)
    audit[np.minimum(starts + rng.integers(block, size=len(starts)), n - 1)] = True
    propensity = np.where(rule | audit, 1.0 - (1.0 - p) * (1.0 - 1.0 / block), np.nan)
    return Made(P, P.argmax(axis=1), y, propensity, rule, block)
