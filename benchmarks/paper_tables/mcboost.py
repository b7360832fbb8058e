"""MCBoost's Tables 1 and 2 (Saberian and Vasconcelos, 2011, section 5).

The paper's protocol: the sets' own training and test halves; in Table 1 decision stumps, 20 rounds
of one-vs-all (20 stumps a class) and as many stumps, 20 K, for the others; in Table 2 trees of
depth 2 and 50 rounds. Ours: every feature is offered, up to 255 bins, and depth alone bounds a
tree. The order of the tables' columns is scrambled in the extracted text and was told from what the
text says of letter, pendigit and isolet; the places of landsat and letter follow from it. Landsat
is satimage here; pendigit, optdigit, shuttle and isolet are not in the data folder.
"""

import numpy as np
from matplotlib import pyplot

from benchmarks.paper_tables.report import official, save, show, stages
from streamboost import (
    AdaBoostCostClassifier,
    AdaBoostM1Classifier,
    AdaBoostMHClassifier,
    CDMCBoostClassifier,
    GDMCBoostClassifier,
    OneVsAllAdaBoostClassifier,
    SammeClassifier,
)

SETS = ["satimage", "letter"]
ALL = {"max_features": 1.0, "max_bins": 255}
TREE = {"max_depth": 2, "max_leaf_nodes": 4, "n_estimators": 50, **ALL}


def stumps(K):
    """Return Table 1's methods for K classes: model, stumps a round."""
    stump = {"max_leaf_nodes": 2, **ALL}
    return {
        "one-vs-all": (OneVsAllAdaBoostClassifier(n_estimators=20, criterion="error", **stump), K),
        "AdaBoost.MH": (AdaBoostMHClassifier(n_estimators=20 * K, **stump), 1),
        "CD-MCBoost": (CDMCBoostClassifier(n_estimators=20 * K, **stump), 1),
    }


def trees(K):
    """Return Table 2's methods: model, trees a round."""
    return {
        "AdaBoost.M1": (AdaBoostM1Classifier(criterion="error", **TREE), 1),
        "SAMME": (SammeClassifier(criterion="error", **TREE), 1),
        "SAMME, Gini trees": (SammeClassifier(**TREE), 1),
        "AdaBoost-Cost": (AdaBoostCostClassifier(**TREE), 1),
        "GD-MCBoost": (GDMCBoostClassifier(**TREE), 1),
    }


NOTES_1 = [
    "one-vs-all and CD-MCBoost: equal on satimage; on letter both pass their published figures "
    "after about 100 stumps and end 20 points above them after the 520 that 20 rounds for 26 "
    "classes make, so that the paper's budget there seems to have been about 100 for all classes.",
    "AdaBoost.MH: ours gives every class a value of its own in each leaf, after Schapire and "
    "Singer, and is the best of the three; the paper does not describe its own, which scores no "
    "more on shuttle (79.16 %) than naming the commonest class does.",
]
NOTES_2 = [
    "GD-MCBoost: the paper's figures, to within two points on letter and exactly on satimage.",
    "AdaBoost-Cost: better here, by 9 points on letter; with trees that name classes it differs "
    "from GD-MCBoost by the length of its steps alone, so the paper's gap of 18 points there must "
    "come from how its trees were built.",
    "SAMME: within three points; trees of least Gini impurity do better on letter than the paper's "
    "trees of least error.",
    "AdaBoost.M1: a tree of four leaves is seldom right on more than half of the weight where "
    "classes are many, and the training ends at the first that is not: after 6 rounds on satimage "
    "(after 3 it stood at 71.85 %), after 1 on letter, for which the paper gives no figure.",
]
# Title: methods, their published accuracies by set, what is to be said of the differences.
TABLES = {
    "Table 1, stumps": (
        stumps,
        {
            "one-vs-all": {"satimage": 84.80, "letter": 50.92},
            "AdaBoost.MH": {"satimage": 47.70, "letter": 15.73},
            "CD-MCBoost": {"satimage": 85.70, "letter": 49.60},
        },
        NOTES_1,
    ),
    "Table 2, trees of depth 2": (
        trees,
        {
            "AdaBoost.M1": {"satimage": 72.85},
            "SAMME": {"satimage": 79.80, "letter": 45.65},
            "AdaBoost-Cost": {"satimage": 83.95, "letter": 42.00},
            "GD-MCBoost": {"satimage": 86.65, "letter": 59.65},
        },
        NOTES_2,
    ),
}


def draw(axis, title, curves, told):
    """Draw accuracies over weak learners, the published ones as dotted lines."""
    for i, (method, (at, right)) in enumerate(curves.items()):
        axis.plot(at, right, color=f"C{i}", label=method)
        if method in told:
            axis.axhline(told[method], color=f"C{i}", linestyle=":")
    axis.set(title=title, xlabel="weak learners", ylabel="test accuracy, %")
    axis.legend(title="dotted: published", fontsize="small")


def measure(methods, train, test):
    """Return, by method, numbers of weak learners and the test accuracy in % after each."""
    curves = {}
    for method, (model, per_round) in methods(len(np.unique(train[1]))).items():
        wrong = stages(model.fit(*train), *test, model.n_estimators)
        curves[method] = per_round * np.arange(1, model.n_estimators + 1), 100 - wrong
    return curves


def main(out):
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8))
    for (title, (methods, published, notes)), line in zip(TABLES.items(), axes, strict=True):
        rows = []
        for name, axis in zip(SETS, line, strict=True):
            halves = official(name)
            if halves is None:
                continue
            curves = measure(methods, *halves)
            told = {method: levels[name] for method, levels in published.items() if name in levels}
            draw(axis, f"{title}: {name}", curves, told)
            for method, (_, right) in curves.items():
                pair = (None, None)
                if method in told:
                    pair = (f"{told[method]:.2f}", f"{right[-1] - told[method]:+.2f}")
                rows.append((name, method, pair[0], f"{right[-1]:.2f}", pair[1]))
            rows.append(None)
        show(
            f"MCBoost (2011), {title}: test accuracy in %",
            ("set", "method", "published", "measured", "difference"),
            rows,
            notes,
            text=2,
        )
    save(figure, out, "mcboost")
    pyplot.close(figure)
