"""Slow references for cascades and for pruning."""

from fractions import Fraction
from math import log

import naive
import numpy as np


def cascade(committee, X, ends, thresholds):
    """The scores with which each row leaves, and after how many trees."""
    forest = committee.learners
    scores = np.tile(committee.base, (len(X), 1))
    used = []
    for i, x in enumerate(X):
        for t, root in enumerate(forest.roots):
            scores[i] += forest.values[naive.leaf_of(forest, root, x)]
            second, first = np.sort(scores[i])[-2:]
            if t + 1 in ends and first - second >= thresholds[list(ends).index(t + 1)]:
                break
        used.append(t + 1)
    return scores, used


def thresholds(committee, X, ends, tolerance):
    """At each place, try every margin as the threshold and keep the least that is allowed."""
    staged = [np.tile(committee.base, (len(X), 1))]
    for root in committee.learners.roots:
        leaf = [naive.leaf_of(committee.learners, root, x) for x in X]
        staged.append(staged[-1] + committee.learners.values[leaf])
    answer = staged[-1].argmax(axis=1)
    alive, spent, found = set(range(len(X))), 0, []
    for end in ends[:-1]:
        top = np.sort(staged[end], axis=1)
        margin = top[:, -1] - top[:, -2]
        wrong = staged[end].argmax(axis=1) != answer
        allowed = tolerance * len(X) * end / committee.n_trees
        for theta in [*sorted(margin[list(alive)]), np.inf]:
            gone = {i for i in alive if margin[i] >= theta}
            if spent + sum(wrong[i] for i in gone) <= allowed:
                break
        spent += sum(wrong[i] for i in gone)
        alive -= gone
        found.append(theta)
    return [*found, np.inf]


def score(sums, kind):
    """What a child with these sums (Python integers) is worth, exactly but for logs and Newton."""
    if kind.endswith("newton"):
        half = len(sums) // 2
        return sum(g * g / h for g, h in zip(sums[:half], sums[half:], strict=True) if h)
    if kind == "entropy":
        return sum(s + s * log(s / sum(sums)) for s in sums if s)
    if kind != "gini":
        return Fraction(max(sums))
    return Fraction(sum(s * s for s in sums), sum(sums)) if sum(sums) else Fraction(0)


def class_weights(weight, y, n_classes):
    """Row by row what each answer gains: the row's weight for its own class."""
    return [
        [int(w) if k == c else 0 for k in range(n_classes)] for w, c in zip(weight, y, strict=True)
    ]


def sums_of(gains, rows):
    return [sum(gains[r][k] for r in rows) for k in range(len(gains[0]))]


def most(gains, rows, kind):
    """What rows are worth at most, each in a leaf of its own."""
    return sum(max(score(gains[r], kind), 0) for r in rows)


def worths(rows, feature, codes, n_bins, gains, kind, least=0):
    """What each split by a feature is worth whose children weigh `least`, and leaving all whole."""
    yield score(sums_of(gains, rows), kind)
    missing = bool((codes[feature] == n_bins[feature]).any())
    for missing_left in (False, True) if missing else (False,):
        for code in range(n_bins[feature]):
            left = [
                r for r in rows if naive.goes_left(codes, n_bins, missing_left, feature, code, r)
            ]
            right = [r for r in rows if r not in set(left)]
            sides = [sums_of(gains, side) for side in (left, right)]
            if kind not in ("gini", "entropy") or min(map(sum, sides)) >= least:
                yield sum(score(sums, kind) for sums in sides)


def error(rows, feature, codes, n_bins, gains, kind):
    """What some rows are worth at most less what the best split by a feature makes of them."""
    return most(gains, rows, kind) - max(worths(rows, feature, codes, n_bins, gains, kind))


def quick_adds(heavy, codes, n_bins, gains, kind, least_part):
    """Count the additions of one node's search, and name the features it finishes."""
    features = range(len(codes))
    args = codes, n_bins, gains, kind
    mass = most(gains, heavy, kind)
    ends, begin, wanted, so_far = [], 0, 0.9 * mass, 0.0
    for i, r in enumerate(heavy, start=1):
        so_far += most(gains, [r], kind)
        if so_far >= wanted and i - begin >= least_part and len(heavy) - i >= least_part:
            ends.append(i)
            begin, wanted = i, so_far + (1 - 0.9) / 20 * mass
    if not ends or ends[-1] < len(heavy):
        ends.append(len(heavy))
    errors = {f: error(heavy[: ends[0]], f, *args) for f in features}
    adds, best, finished = len(codes) * ends[0], None, set()
    for f in sorted(features, key=lambda f: (errors[f], f)):
        at = 0
        while at + 1 < len(ends) and (best is None or errors[f] <= best):
            at += 1
            adds += ends[at] - ends[at - 1]
            errors[f] = error(heavy[: ends[at]], f, *args)
        if at + 1 == len(ends):
            finished.add(f)
            best = errors[f] if best is None else min(best, errors[f])
    return adds, finished
