"""AOSO-LogitBoost's Table 3, middle panel (Sun, Reid and Zhou, 2014, section 7.1).

The paper's protocol: trees of 20 leaves, rate 0.1, until the training loss is under 1e-16 or 10,000
rounds of ABC-LogitBoost's K-1 trees are grown, as many trees for AOSO; the error is that of the
last round. Ours: the same trees and rate, no regularization but the clamp of leaves at ±4, all
features, 255 bins (the paper's candidate cuts are all values), and 4,000 trees a run, ABC's
rounds being cut to match. Letter2k and Letter4k train on the last 2,000 and 4,000 of letter's
20,000 rows and Letter15k on the first 15,000; the paper says how many, not which. The curves show
how far from its end a run is, with the published errors as lines. Mnist, Poker, Covertype,
Pendigits, Isolet and Optdigits are not in the data folder.
"""

from itertools import pairwise

import numpy as np
from matplotlib import pyplot

from benchmarks.paper_tables.report import official, pooled, save, show
from streamboost import ABCLogitBoostClassifier, AOSOLogitBoostClassifier

TITLES = ["AOSO-LogitBoost (2014), Table 3: wrong test rows, 20 leaves, rate 0.1"]
TREES = 4_000
STEP = 100  # trees between two points of a curve
TREE = {
    "max_leaf_nodes": 20, "learning_rate": 0.1, "min_child_weight": 0.0, "l2_regularization": 0.0,
    "max_features": 1.0, "max_bins": 255,
}  # fmt: skip
# The wrong test rows of Table 3 at 20 leaves and rate 0.1, and the rows of letter to train on.
PUBLISHED = {
    "letter2k": {"ABC": 2034, "AOSO": 1862},
    "letter4k": {"ABC": 1055, "AOSO": 991},
    "letter15k": {"ABC": 109, "AOSO": 116},
    "letter": {"ABC": 89, "AOSO": 92},
    "usps": {"ABC": 96, "AOSO": 99},
}
LETTERS = {
    "letter2k": slice(-2_000, None),
    "letter4k": slice(-4_000, None),
    "letter15k": slice(None, 15_000),
}
NOTES = [
    "The standard error of a count is about its root (usps 10, letter2k 43). usps: ABC within one, "
    "AOSO 1.7 above and at its best within one; the paper's own counts at other tree sizes and "
    "rates spread from 92 to 114.",
    "letter: the published runs ended after some 7,200 (letter2k) to 24,800 trees (letter15k) of "
    "AOSO and 13,275 to 45,000 of ABC (Table 16); at 4,000 AOSO has nearly arrived on letter2k, "
    "and ABC, with 160 rounds, is still on its way. As in the paper AOSO needs fewer trees, and "
    "gains most where rows are few.",
]


def halves(name):
    """Return the training and test rows of a set of Table 3; None where it is missing."""
    if name not in LETTERS:
        return official(name)
    rows = pooled("letter")
    if rows is None:
        return None
    X, y = rows
    held = np.ones(len(y), dtype=bool)
    held[LETTERS[name]] = False
    return (X[~held], y[~held]), (X[held], y[held])


def models(K):
    """Return the methods: model, trees a round."""
    return {
        "ABC": (ABCLogitBoostClassifier(n_estimators=TREES // (K - 1), **TREE), K - 1),
        "AOSO": (AOSOLogitBoostClassifier(n_estimators=TREES, leaf="pair", **TREE), 1),
    }


def errors(model, per_round, X, y):
    """Return numbers of trees, at intervals of about `STEP`, and the wrong rows after each."""
    committee = model.committee_
    n_rounds = committee.n_rounds
    at = np.unique(np.append(np.arange(0, n_rounds, max(STEP // per_round, 1)), n_rounds))
    scores = np.tile(committee.base, (len(y), 1))
    wrong = []
    for first, last in pairwise(at):
        committee.learners.add_scores(X, scores, (first, last))
        wrong.append((committee.classes[scores.argmax(axis=1)] != y).sum())
    return per_round * at[1:], np.array(wrong)


def measure(name):
    """Return, by method, numbers of trees and the wrong test rows after each, and all test rows."""
    parts = halves(name)
    if parts is None:
        return None
    train, test = parts
    K = len(np.unique(train[1]))
    curves = {
        method: errors(model.fit(*train), per_round, *test)
        for method, (model, per_round) in models(K).items()
    }
    return curves, len(test[1])


def report(found, out):
    """Print the table and draw the curves of what `measure` found, by set."""
    figure, axes = pyplot.subplots(2, 3, figsize=(15, 8))
    for axis in axes.flat[len(found) :]:
        axis.axis("off")
    rows = []
    for (name, (curves, n_test)), axis in zip(found.items(), axes.flat, strict=False):
        for i, (method, (at, wrong)) in enumerate(curves.items()):
            told = PUBLISHED[name][method]
            change = f"{100 * (wrong[-1] / told - 1):+.1f} %"
            rows.append((name, method, told, wrong[-1], change, wrong.min(), at[-1]))
            axis.plot(at, 100 * wrong / n_test, color=f"C{i}", label=method)
            axis.axhline(100 * told / n_test, color=f"C{i}", linestyle=":")
        rows.append(None)
        least = 100 * min(PUBLISHED[name][method] for method in curves) / n_test
        axis.set(title=name, xlabel="trees", ylabel="test error, %", ylim=(0.8 * least, 2 * least))
        axis.legend(title="dotted: published", fontsize="small")
    show(
        *TITLES,
        ("set", "method", "published", "measured", "difference", "least on the way", "trees"),
        rows,
        NOTES,
        text=2,
    )
    save(figure, out, "aoso")
    pyplot.close(figure)


def main(out):
    found = {name: result for name in PUBLISHED if (result := measure(name))}
    if found:
        report(found, out)
