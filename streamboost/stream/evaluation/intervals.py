"""Honest figures: what a tally says of all its records, with 95 % intervals.

The difference estimator (Särndal, Swensson and Wretman 1992, §6.3): of the records without a label
the committee's own probabilities tell what to expect, and the labels asked for tell by how much
they are wrong on average,

    total = sum over labelled z + sum over the rest E[z] + n_rest sum v r / sum v,

with r = z - E[z] and v = 1/pi - 1. Where a record was sure to be asked about, pi = 1 and v = 0: it
speaks for itself only; where all had the same chance, the last factor is the plain mean residual.

Its variance is that of Horvitz and Thompson (1952), sum v (v + 1) r² over the labelled. With few
labels that is uncertain, and small where none of them happened to be wrong; what the committee's
probabilities expect of it, sum v E[r²] over all records, each of which has its v, asked about or
not, counts as `PSEUDO` labels more and is the least it can be.

Where a committee is too sure of itself, neither shows it until one of its few mistakes is asked
about. To what it expects is therefore added what `MISTAKES` mistakes more among the labels would
have come to, over records of all chances, as Agresti and Coull (1998) add to what was counted: e
labels of one chance, none of them wrong, leave room for about 2 / e, and as labels come it fades
beside what they show.

Mistakes that nobody has caught can only lower an accuracy, recall or the like. On that side such
figures have the interval just described, and on the other the plain one, of the variance that the
labels show and as `PSEUDO` labels the probabilities expect: a figure that is too low was made so by
mistakes that were asked about, and these show.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.evaluation.tally import Tally

__all__ = ["Estimate", "Question", "difference", "estimate", "estimates_by_class", "naive"]

PSEUDO = 10.0
"""Labels by whose number the variance that the probabilities expect counts beside the one seen."""

MISTAKES = 1.0
"""Mistakes, beside those that the probabilities expect, among as many labels as are effective."""

FEWEST = 5.0
"""Residuals, by Kish's effective number (sum v)² / sum v², without which there is no figure."""

_TAIL = 0.975

_NO_WEIGHT = 1e-9
"""Labels that were taken back leave the rounding of their weights."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def within(self, low: float, high: float) -> "Estimate":
        """Return the figure cut to the range it can have."""
        value, a, b = (float(min(max(x, low), high)) for x in (self.value, self.low, self.high))
        return Estimate(value, a, b)

    def moved_to(self, value: float) -> "Estimate":
        """Return another figure with as wide an interval."""
        by = value - self.value
        return Estimate(value, self.low + by, self.high + by)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A figure as a function of the sums: its value, and t and w (K,) of `Tally`'s residual.

    `falls` says that every mistake lowers it.
    """

    value: float
    t: np.ndarray
    w: np.ndarray
    falls: bool = False


def difference(
    *,
    rest: float,
    known: float,
    weight: float,
    weight_square: float,
    shift: float,
    first: float,
    second: float,
    model: float,
    doubt: float,
    falls: bool = False,
) -> Estimate | None:
    """Return a total's estimate; see `Tally` for what the sums are.

    `doubt` is the sum of v r² over all records, were each predicted wrongly, and `falls` says that
    each mistake lowers the total. None where there are too few residuals to tell.
    """
    from scipy.special import stdtrit  # longer to load than all else that a short command needs

    if rest == 0.0:
        return Estimate(known, known, known)
    if weight <= _NO_WEIGHT:
        return None
    effective = weight**2 / (weight_square - weight)
    if effective < FEWEST:
        return None
    mean = shift / weight
    squares = max(second - 2.0 * mean * first + mean**2 * weight_square, 0.0) / weight_square
    seen = squares * weight_square * (rest / weight) ** 2
    with_more = model + MISTAKES / effective * doubt
    plain, wide = (
        (effective * seen + PSEUDO * expected) / (effective + PSEUDO)
        for expected in (model, with_more)
    )
    quantile = stdtrit(effective + PSEUDO - 1.0, _TAIL)
    below = quantile * sqrt(max(wide, with_more, 0.0))
    above = quantile * sqrt(max(plain, 0.0)) if falls else below
    value = known + rest * mean
    return Estimate(value, value - below, value + above)


def estimate(tally: Tally, predictor: int, question: Question) -> Estimate | None:
    """Return the figure with an interval from its linearization (Särndal et al., §5.5)."""
    sums, t, w = tally.sums, question.t, question.w
    model = _squares(t, w, sums["model"], sums["model_own"][predictor])
    found = difference(
        rest=tally.rest,
        known=0.0,
        weight=tally.weight,
        weight_square=tally.weight_square,
        shift=float(t @ np.einsum("aa->a", sums["cells_shift"][predictor]))
        - float(w @ sums["truth_shift"]),
        first=float(t @ sums["first_own"][predictor] - w @ sums["first"]),
        second=_squares(t, w, sums["second"], sums["second_own"][predictor]),
        model=model,
        doubt=_doubt(sums, predictor, t, w, model),
        falls=question.falls,
    )
    return found and found.moved_to(question.value)


def estimates_by_class(
    tally: Tally, values: np.ndarray, t: np.ndarray, w: np.ndarray, *, falls: bool = False
) -> list[Estimate | None]:
    """Return what `estimate` says of the committee's figures on each class, all at once.

    That of class k has the value `values[k]`, and t and w (K,) that are `t[k]` and `w[k]` there and
    0 elsewhere, so that diagonals are all there is to its sums of squares.
    """
    sums = tally.sums

    def own(name: str) -> np.ndarray:
        return np.asarray(np.einsum("aa->a", sums[name][0]))

    def squares(name: str) -> np.ndarray:
        whole, alone = np.einsum("aa->a", sums[name]), own(f"{name}_own")
        return np.asarray(w**2 * whole - 2.0 * t * w * alone + t**2 * alone)

    K, model, stands = len(t), squares("model"), sums["stands"][0]
    P = stands.sum(axis=0)
    alone = stands.sum(axis=1) / K + (1.0 - 2.0 / K) * own("stands")
    doubt = w**2 * (P.sum() / K + (1.0 - 2.0 / K) * P) + (t**2 - 2.0 * t * w) * alone - model
    columns = {
        "shift": t * own("cells_shift") - w * sums["truth_shift"],
        "first": t * sums["first_own"][0] - w * sums["first"],
        "second": squares("second"),
        "model": model,
        "doubt": doubt * K / max(K - 1, 1),
    }
    whole = {"weight": tally.weight, "weight_square": tally.weight_square}
    found: list[Estimate | None] = []
    for value, *row in zip(
        values.tolist(), *(one.tolist() for one in columns.values()), strict=True
    ):
        about = dict(zip(columns, row, strict=True))
        one = difference(rest=tally.rest, known=0.0, **whole, **about, falls=falls)
        found.append(one and one.moved_to(value))
    return found


def _squares(t: np.ndarray, w: np.ndarray, whole: np.ndarray, own: np.ndarray) -> float:
    """Return the sum of r², of sums of d dᵀ and, by the class a predicted, of d[a] d."""
    return float(w @ whole @ w - 2.0 * t @ own @ w + t**2 @ np.einsum("aa->a", own))


def _doubt(sums: Arrays, predictor: int, t: np.ndarray, w: np.ndarray, model: float) -> float:
    """Return the sum of v r² over all records, were all labels mistakes; see `difference`.

    A label that is any class with the same chance U = 1/K is a mistake K - 1 times in K, and has
    E[d dᵀ] = diag(U) - U Pᵀ - P Uᵀ + P Pᵀ. What `Tally` holds of P Pᵀ is diag(P) less the model.
    """
    K, stands = len(t), sums["stands"][predictor]
    P, own, size = sums["stands"][0].sum(axis=0), np.einsum("aa->a", stands), stands.sum(axis=1)
    whole = (P.sum() / K + P) @ w**2 - 2.0 * w.sum() * (P @ w) / K
    cross = t @ ((size / K + own) * w - (stands @ w + own * w.sum()) / K)
    alone = t**2 @ (size / K + own - 2.0 * own / K)
    return float(whole - 2.0 * cross + alone - model) * K / max(K - 1, 1)


def naive(hits: float, answered: float) -> Estimate | None:
    """Return the share `hits` / `answered` with the interval of a fair sample, which it is not."""
    if not answered:
        return None
    share = hits / answered
    half = 1.96 * sqrt(share * (1.0 - share) / answered)
    return Estimate(share, share - half, share + half)
