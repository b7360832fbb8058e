"""Soft cascade: stops scoring a row early, once its class is decided."""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from streamboost.boosting.committee import Committee
from streamboost.errors import ConfigurationError, DataError
from streamboost.kernels.traverse import FOREST_NODE, add_scores_with_early_exit
from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.trees.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class Cascade:
    """Committee with early exit: a row is scored only by as many trees as decide its class.

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
        Number of trees before each exit point, int64 (exits,), ascending; the last is the number
        of all trees.
    thresholds
        Least margin with which a row exits at each exit point, float64 (exits,). Rows with a
        smaller margin are scored by further trees.
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
    >>> bool(cascade.n_trees_used(X[2::3]).mean() < 80)
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
        """Calibrate exit thresholds for `committee` on unlabelled rows outside its training data.

        The cascade may give some rows another class than the whole committee. After t of T trees,
        at most t/T of the tolerated number of such rows may have exited. Each exit point gets the
        least threshold that respects this bound.

        On new rows, the share of such rows is close to the tolerance, but may exceed it. The share
        is much larger if the tolerance equals only a few calibration rows. With 1,100 rows of
        satimage, a tolerance of 0.2 % gave a share of 1.2 %, and 1 % gave 1.3 %.

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
            Let a row exit only if the remaining trees cannot change its class. The class is then
            always the committee's, but far fewer trees are saved.

        Raises
        ------
        ConfigurationError
            If a setting is out of range.
        DataError
            If `X` is missing, empty, or has other columns than the committee scores; if the
            committee splits categories or is not made of trees; or if `exact` is set for a
            committee that predicts the class of least expected cost.
        """
        forest = _require_forest(committee)
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
            thresholds = _bounds_of_remaining_trees(committee, ends)
            bare = cls(committee, ends, thresholds, 0.0, float("nan"))
            mean = float("nan") if X is None or len(X) == 0 else float(bare.n_trees_used(X).mean())
            return cls(committee, ends, thresholds, 0.0, mean)
        if X is None or len(X) == 0:
            raise DataError("a cascade needs held-back rows: give X, or exact=True")
        thresholds, mean = _calibrate_thresholds(committee, X, rounds, tolerance)
        return cls(committee, ends, thresholds, tolerance, mean)

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """Return the scores of each row of `X` (n, D) at its exit point, float64 (n, K)."""
        return self._score_with_exits(X)[0]

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the predicted class of each row of `X` (n, D) from its scores at the exit."""
        return np.asarray(
            self.committee.classes[self.committee.predicted_indices(self.class_scores(X))]
        )

    def n_trees_used(self, X: np.ndarray) -> np.ndarray:
        """Return the number of trees that were evaluated for each row of `X`, int32 (n,)."""
        return self._score_with_exits(X)[1]

    def require_same_committee(self, committee: Committee) -> None:
        """Raise DataError if the thresholds were calibrated for another committee."""
        _require_same_committee(
            _committee_fingerprint(self.committee), _committee_fingerprint(committee)
        )

    def to_arrays(self) -> Arrays:
        """Return the thresholds as arrays for storage, with a digest to identify the committee."""
        about = {
            "committee": _committee_fingerprint(self.committee),
            "tolerance": self.tolerance,
            "mean_trees": self.mean_trees if np.isfinite(self.mean_trees) else None,
        }
        return {"about": pack_json(about), "ends": self.ends, "thresholds": self.thresholds}

    @classmethod
    def from_arrays(cls, arrays: Arrays, committee: Committee) -> Self:
        """Create a cascade from the result of `to_arrays`.

        Raises DataError if the thresholds were calibrated for another committee.
        """
        about = unpack_json(arrays["about"])
        _require_same_committee(about["committee"], _committee_fingerprint(committee))
        mean = float("nan") if about["mean_trees"] is None else about["mean_trees"]
        return cls(committee, arrays["ends"], arrays["thresholds"], about["tolerance"], mean)

    def _score_with_exits(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each row's scores at its exit point, and the number of trees evaluated for it."""
        X = self.committee.as_rows(X)
        forest = _require_forest(self.committee)
        scores = np.tile(self.committee.base, (len(X), 1))
        used = np.zeros(len(X), dtype=np.int32)
        add_scores_with_early_exit(
            forest.nodes, forest.roots, forest.values, X, scores, self.ends, self.thresholds, used
        )
        return scores, used


def _require_forest(committee: Committee) -> Forest:
    if not isinstance(committee.learners, Forest):
        raise DataError(
            f"the committee is made of {committee.learners.kind}, and a cascade counts trees: "
            "score with the committee itself"
        )
    return committee.learners


def _calibrate_thresholds(
    committee: Committee, X: np.ndarray, rounds: list[int], tolerance: float
) -> tuple[np.ndarray, float]:
    """Return the threshold of each exit point, and the mean number of trees per row of `X`.

    `rounds` are the numbers of rounds at the exit points; see `Cascade.fit`.
    """
    X = committee.as_rows(X)
    forest = _require_forest(committee)
    answers = committee.predicted_indices(committee.class_scores(X))
    scores = np.tile(committee.base, (len(X), 1))
    alive = np.ones(len(X), dtype=bool)
    thresholds = np.full(len(rounds), np.inf)
    done, spent, trees = 0, 0, 0
    for place, m in enumerate(rounds[:-1]):
        forest.add_scores(X, scores, (done, m))
        trees += int(alive.sum()) * int(forest.rounds[m] - forest.rounds[done])
        done = m
        margin = _margins_of_scores(scores)
        wrong = committee.predicted_indices(scores) != answers
        allowed = int(tolerance * len(X) * forest.rounds[m] / committee.n_trees) - spent
        thresholds[place] = _smallest_threshold(margin[alive], wrong[alive], allowed)
        leaving = alive & (margin >= thresholds[place])
        spent += int((leaving & wrong).sum())
        alive &= ~leaving
    trees += int(alive.sum()) * int(committee.n_trees - forest.rounds[done])
    return thresholds, trees / len(X)


def _smallest_threshold(margin: np.ndarray, is_wrong: np.ndarray, n_allowed: int) -> float:
    """Return the smallest threshold at which at most `n_allowed` of the wrong rows exit.

    `margin` (n,) are the margins of the rows. The mask `is_wrong` (n,) marks the rows that would
    get another class than the whole committee's.
    """
    wrongs = np.sort(margin[is_wrong])[::-1]
    leaving = margin[margin > wrongs[n_allowed]] if len(wrongs) > n_allowed else margin
    return float(leaving.min(initial=np.inf))


def _margins_of_scores(scores: np.ndarray) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.full(len(scores), np.inf)
    top = np.partition(scores, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])


def _bounds_of_remaining_trees(committee: Committee, ends: np.ndarray) -> np.ndarray:
    """Return bounds on the change of a score difference by the trees after each exit, (exits,).

    A leaf changes a difference of two scores by at most its largest less its smallest value. The
    bound is the sum over the trees of the largest such range, plus a bound of rounding errors.
    """
    values = _require_forest(committee).values.astype(np.float64)
    ranges = _largest_leaf_value_of_each_tree(committee, values.max(axis=1) - values.min(axis=1))
    sizes = _largest_leaf_value_of_each_tree(committee, np.abs(values).max(axis=1))
    largest = np.abs(committee.base).max() + sizes.sum()
    rounding = 4 * (committee.n_trees + 1) * np.finfo(np.float64).eps * largest
    to_come = np.append(ranges[::-1].cumsum()[::-1], 0.0)[ends]
    return np.asarray(np.nextafter(to_come + rounding, np.inf))


def _largest_leaf_value_of_each_tree(committee: Committee, leaf_values: np.ndarray) -> np.ndarray:
    """Return the largest of `leaf_values` (leaves,) in each tree, float64 (trees,)."""
    forest = _require_forest(committee)
    nodes = forest.nodes
    at, tree = forest.roots, np.arange(committee.n_trees)
    widest = np.zeros(committee.n_trees)
    while len(at):
        inner = at >= 0
        np.maximum.at(widest, tree[~inner], leaf_values[~at[~inner]])
        at = np.concatenate([nodes["left"][at[inner]], nodes["right"][at[inner]]])
        tree = np.tile(tree[inner], 2)
    return widest


def _committee_fingerprint(committee: Committee) -> dict[str, object]:
    """Return the version, the number of trees and a digest, which identify the committee."""
    forest = _require_forest(committee)
    digest = hashlib.sha256()
    nodes = [forest.nodes[name] for name in FOREST_NODE.fields or ()]
    for array in (committee.base, forest.roots, forest.values, forest.rounds, *nodes):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "version": committee.version,
        "trees": committee.n_trees,
        "digest": digest.hexdigest(),
    }


def _require_same_committee(
    calibrated_fingerprint: dict[str, object], given_fingerprint: dict[str, object]
) -> None:
    """Raise DataError if the fingerprints of two committees differ."""
    if calibrated_fingerprint != given_fingerprint:
        raise DataError(
            f"the thresholds were set for a committee of {calibrated_fingerprint['trees']} trees, "
            f"version {calibrated_fingerprint['version']}, and this one has "
            f"{given_fingerprint['trees']}, version {given_fingerprint['version']}: "
            "fit the cascade again on held-back rows whenever the committee changes"
        )
