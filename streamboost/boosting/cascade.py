"""Soft cascade: stops scoring a row early, once its class is decided."""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.errors import ConfigurationError, DataError
from streamboost.kernels.traverse import FOREST_NODE, add_scores_until
from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.trees.forest import Forest

__all__ = ["Cascade"]


@dataclass(frozen=True, slots=True, eq=False)
class Cascade:
    """Committee with early exit: a row with a wide margin is scored by few trees.

    A soft cascade (Bourdev and Brandt, 2005; Appel, 2017, chapter 2, for two classes) stops at a
    grid of exit points in the committee. The margin of a row is its largest partial score less its
    second largest. If the margin reaches the threshold of an exit point, the partial score decides
    the class. Only scoring changes: the committee stays as it was trained. Partial scores decide
    the class well, but give poor probabilities, so that a cascade returns no probabilities.

    Create a cascade with `fit`. The thresholds belong to one committee: after trees are added or
    dropped, fit the cascade again.

    Parameters
    ----------
    committee
        The committee that scores.
    ends
        The grid: numbers of trees, int64 (places,), ascending. The last is the number of all trees.
    thresholds
        Least margin with which a row exits at each exit point, float64 (places,).
    tolerance
        Share of the calibration rows that may get another class than the committee's; 0 for exact
        thresholds.
    mean_trees
        Mean number of trees that scored a calibration row; NaN without calibration rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamboost import Cascade, SketchLogitBoostClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SketchLogitBoostClassifier(n_estimators=100, random_state=0).fit(X[::3], y[::3])
    >>> cascade = Cascade.fit(model.committee_, X[1::3], tolerance=0.01)
    >>> bool(cascade.trees_used(X[2::3]).mean() < 80)
    True
    >>> bool((cascade.predict(X[2::3]) == model.predict(X[2::3])).mean() > 0.95)
    True
    """

    committee: Committee
    ends: np.ndarray
    thresholds: np.ndarray
    tolerance: float
    mean_trees: float

    @classmethod
    def fit(
        cls,
        committee: Committee,
        X: np.ndarray | None = None,
        *,
        tolerance: float = 0.01,
        every: int = 5,
        exact: bool = False,
    ) -> Self:
        """Calibrate the thresholds of `committee` on unlabelled rows outside its training data.

        After t of T trees, t/T of the tolerance may be spent on rows that exited with another class
        than the whole committee's. The threshold of an exit point is the least that respects this.

        On new rows the disagreement is close to the tolerance, but may exceed it. It exceeds it
        clearly if the tolerance equals only a few calibration rows. With 1,100 rows of satimage, a
        tolerance of 0.2 % gave 1.2 %, and 1 % gave 1.3 %.

        Parameters
        ----------
        committee
            Any trained committee.
        X
            Calibration rows (n, D), NaN where missing. If `exact`, they are optional and only
            determine `mean_trees`.
        tolerance
            Share of the rows that may get another class than the whole committee's, in [0, 1).
        every
            Number of rounds between two exit points.
        exact
            Let a row exit only if the remaining trees cannot change its class, because its margin
            exceeds the sum of their ranges. The class is always the committee's, and far fewer
            trees are saved.

        Raises
        ------
        ConfigurationError
            If a setting is out of range.
        DataError
            If `X` is missing, empty, or has other columns than the committee scores; if the
            committee splits categories or is not made of trees; or if `exact` is set for a
            committee that predicts the class of least expected cost.
        """
        forest = _trees(committee)
        if forest.sets.size:
            raise DataError(
                "the committee splits sets of categories, and a cascade compares numbers only: "
                "score with the committee itself"
            )
        if exact and committee.costs.size:
            raise DataError(
                "the committee answers the least expected cost, which the margin of its scores "
                "does not settle: give held-back rows instead of exact=True"
            )
        if not 0 <= tolerance < 1:
            raise ConfigurationError(f"tolerance={tolerance}: must be at least 0 and less than 1")
        if every < 1:
            raise ConfigurationError(f"every={every}: must be at least 1")
        rounds = [*range(every, committee.n_rounds, every), committee.n_rounds]
        ends = forest.rounds[rounds].astype(np.int64)
        if exact:
            thresholds = _remaining(committee, ends)
            bare = cls(committee, ends, thresholds, 0.0, float("nan"))
            mean = float("nan") if X is None or len(X) == 0 else float(bare.trees_used(X).mean())
            return cls(committee, ends, thresholds, 0.0, mean)
        if X is None or len(X) == 0:
            raise DataError("a cascade needs held-back rows: give X, or exact=True")
        thresholds, mean = _calibrate(committee, X, rounds, tolerance)
        return cls(committee, ends, thresholds, tolerance, mean)

    def decision(self, X: np.ndarray) -> np.ndarray:
        """Return the partial scores of the rows of `X` (n, D) at their exits, float64 (n, K)."""
        return self._run(X)[0]

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the committee's best class for the partial scores of each row, (n,)."""
        return np.asarray(self.committee.classes[self.committee.best(self.decision(X))])

    def trees_used(self, X: np.ndarray) -> np.ndarray:
        """Return the number of trees that score each row of `X` (n, D), int32 (n,)."""
        return self._run(X)[1]

    def check(self, committee: Committee) -> None:
        """Raise DataError unless the thresholds were calibrated for `committee`."""
        _require_same(_identity(self.committee), _identity(committee))

    def to_arrays(self) -> Arrays:
        """Return the thresholds as plain arrays, with the digest of their committee."""
        about = {
            "committee": _identity(self.committee),
            "tolerance": self.tolerance,
            "mean_trees": self.mean_trees if np.isfinite(self.mean_trees) else None,
        }
        return {"about": pack_json(about), "ends": self.ends, "thresholds": self.thresholds}

    @classmethod
    def from_arrays(cls, arrays: Arrays, committee: Committee) -> Self:
        """Rebuild a cascade from `to_arrays` output; raise DataError for another committee."""
        about = unpack_json(arrays["about"])
        _require_same(about["committee"], _identity(committee))
        mean = float("nan") if about["mean_trees"] is None else about["mean_trees"]
        return cls(committee, arrays["ends"], arrays["thresholds"], about["tolerance"], mean)

    def _run(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        X = self.committee.as_rows(X)
        forest = _trees(self.committee)
        scores = np.tile(self.committee.base, (len(X), 1))
        used = np.zeros(len(X), dtype=np.int32)
        add_scores_until(
            forest.nodes, forest.roots, forest.values, X, scores, self.ends, self.thresholds, used
        )
        return scores, used


def _trees(committee: Committee) -> Forest:
    if not isinstance(committee.learners, Forest):
        raise DataError(
            f"the committee is made of {committee.learners.kind}, and a cascade counts trees: "
            "score with the committee itself"
        )
    return committee.learners


def _calibrate(
    committee: Committee, X: np.ndarray, rounds: list[int], tolerance: float
) -> tuple[np.ndarray, float]:
    """Return the threshold of each exit point, and the mean number of trees per row of `X`."""
    X = committee.as_rows(X)
    forest = _trees(committee)
    answers = committee.best(committee.decision(X))
    scores = np.tile(committee.base, (len(X), 1))
    alive = np.ones(len(X), dtype=bool)
    thresholds = np.full(len(rounds), np.inf)
    done, spent, trees = 0, 0, 0
    for place, m in enumerate(rounds[:-1]):
        forest.add_scores(X, scores, (done, m))
        trees += int(alive.sum()) * int(forest.rounds[m] - forest.rounds[done])
        done = m
        margin = _margins(scores)
        wrong = committee.best(scores) != answers
        allowed = int(tolerance * len(X) * forest.rounds[m] / committee.n_trees) - spent
        thresholds[place] = _least_threshold(margin[alive], wrong[alive], allowed)
        leaving = alive & (margin >= thresholds[place])
        spent += int((leaving & wrong).sum())
        alive &= ~leaving
    trees += int(alive.sum()) * int(committee.n_trees - forest.rounds[done])
    return thresholds, trees / len(X)


def _least_threshold(margin: np.ndarray, wrong: np.ndarray, allowed: int) -> float:
    """Return the least margin at which at most `allowed` wrong rows exit."""
    wrongs = np.sort(margin[wrong])[::-1]
    leaving = margin[margin > wrongs[allowed]] if len(wrongs) > allowed else margin
    return float(leaving.min(initial=np.inf))


def _margins(scores: np.ndarray) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.full(len(scores), np.inf)
    top = np.partition(scores, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


def _remaining(committee: Committee, ends: np.ndarray) -> np.ndarray:
    """Return an upper bound on the change of a score difference by the trees after an exit point.

    The bound is the sum over these trees of the widest range of a leaf, plus a bound on the
    rounding errors of all additions.
    """
    values = _trees(committee).values.astype(np.float64)
    ranges = _widest_leaf(committee, values.max(axis=1) - values.min(axis=1))
    sizes = _widest_leaf(committee, np.abs(values).max(axis=1))
    largest = np.abs(committee.base).max() + sizes.sum()
    rounding = 4 * (committee.n_trees + 1) * np.finfo(np.float64).eps * largest
    to_come = np.append(ranges[::-1].cumsum()[::-1], 0.0)[ends]
    return np.asarray(np.nextafter(to_come + rounding, np.inf))


def _widest_leaf(committee: Committee, of_leaf: np.ndarray) -> np.ndarray:
    """Return the largest `of_leaf` (leaves,) in each tree, float64 (trees,)."""
    forest = _trees(committee)
    nodes = forest.nodes
    at, tree = forest.roots, np.arange(committee.n_trees)
    widest = np.zeros(committee.n_trees)
    while len(at):
        inner = at >= 0
        np.maximum.at(widest, tree[~inner], of_leaf[~at[~inner]])
        at = np.concatenate([nodes["left"][at[inner]], nodes["right"][at[inner]]])
        tree = np.tile(tree[inner], 2)
    return widest


def _identity(committee: Committee) -> dict[str, object]:
    forest = _trees(committee)
    digest = hashlib.sha256()
    nodes = [forest.nodes[name] for name in FOREST_NODE.fields or ()]
    for array in (committee.base, forest.roots, forest.values, forest.rounds, *nodes):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "version": committee.version,
        "trees": committee.n_trees,
        "digest": digest.hexdigest(),
    }


def _require_same(ours: dict[str, object], theirs: dict[str, object]) -> None:
    if ours != theirs:
        raise DataError(
            f"the thresholds were set for a committee of {ours['trees']} trees, version "
            f"{ours['version']}, and this one has {theirs['trees']}, version {theirs['version']}: "
            "fit the cascade again on held-back rows whenever the committee changes"
        )
