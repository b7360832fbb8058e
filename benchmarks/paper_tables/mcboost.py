"""MCBoost's Figure 2 and Tables 1 and 2 (Saberian and Vasconcelos, 2011, section 5).

Figure 2: three Gaussian classes in the plane, 1,000 records each for training and testing, and
CD-MCBoost with stumps for 100 rounds. The paper does not say how often the classes occur; here they
are equally likely, as its Bayes errors agree with. The paper has one draw, ours are 20, the first
of which is the picture's.

The paper's protocol: the sets' own training and test halves; in Table 1 decision stumps, 20 rounds
of one-vs-all (20 stumps a class) and as many stumps, 20 K, for the others; in Table 2 trees of
depth 2 and 50 rounds. Ours: every feature is offered, up to 255 bins, and depth alone bounds a
tree. The order of the tables' columns is scrambled in the extracted text and was told from what the
text says of letter, pendigit and isolet; the places of landsat and letter follow from it. Landsat
is satimage here; pendigit, optdigit, shuttle and isolet are not in the data folder.
"""

import numpy as np
from matplotlib import pyplot
from scipy.stats import multivariate_normal

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
from streamboost.boosting.costs.simplex import simplex_codewords

TITLES = [
    "MCBoost (2011), Figure 2: errors in %",
    "MCBoost (2011), Table 1, stumps: test accuracy in %",
    "MCBoost (2011), Table 2, trees of depth 2: test accuracy in %",
]
SETS = ["satimage", "letter"]
ALL = {"max_features": 1.0, "max_bins": 255}
TREE = {"max_depth": 2, "max_leaf_nodes": 4, "n_estimators": 50, **ALL}

GAUSSIANS = [
    multivariate_normal([1, 2], [[1, 0.5], [0.5, 2]]),
    multivariate_normal([-1, 0], [[1, 0.3], [0.3, 1]]),
    multivariate_normal([2, -1], [[0.4, 0.1], [0.1, 0.8]]),
]
DRAWS, AT = 20, (0, 10, 100)
NOTES_FIGURE = [
    "Bayes' rule errs as published (on 400,000 records in 11.4 %), so the problem is the paper's. "
    "After 100 rounds we are a point above it, give or take 0.8 from draw to draw: the published "
    "0.17 is a lucky draw, as the first here is.",
    "Predictions begin at 0, and gather along the codewords, ever farther out, as in the figure.",
]


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
    "(after 3 it was 71.85 %), after 1 on letter, for which the paper gives no figure.",
]
# Title: methods, their published accuracies by set, notes on the differences.
TABLES = {
    TITLES[1]: (
        stumps,
        {
            "one-vs-all": {"satimage": 84.80, "letter": 50.92},
            "AdaBoost.MH": {"satimage": 47.70, "letter": 15.73},
            "CD-MCBoost": {"satimage": 85.70, "letter": 49.60},
        },
        NOTES_1,
    ),
    TITLES[2]: (
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


def gaussians(n, rng):
    """Draw `n` records of the three Gaussians (n, 2), and their classes (n,)."""
    y = rng.integers(0, len(GAUSSIANS), n)
    drawn = np.array([g.rvs(n, random_state=rng) for g in GAUSSIANS])
    return drawn[y, np.arange(n)], y


def bayes_error(X, y):
    """Return the error in % of Bayes' rule, which knows the densities."""
    return 100 * (np.argmax([g.pdf(X) for g in GAUSSIANS], axis=0) != y).mean()


def predictors(model, X):
    """Return f (n, 2) before the first round and after each: z_k is its product with codeword k."""
    Y = simplex_codewords(3)
    z = [np.zeros((len(X), 3)), *model.staged_decision_function(X)]
    return [2 / 3 * scores @ Y for scores in z]


def figure_2(out):
    """Print and draw CD-MCBoost on the three Gaussians."""
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.5))
    found = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        train, test = gaussians(1_000, rng), gaussians(1_000, rng)
        model = CDMCBoostClassifier(n_estimators=AT[-1], max_leaf_nodes=2, **ALL).fit(*train)
        wrong = stages(model, *test, AT[-1])
        found.append((bayes_error(*train), bayes_error(*test), wrong[AT[1] - 1], wrong[-1]))
        if seed == 0:
            f = predictors(model, test[0])
            for axis, t in zip(axes, AT, strict=True):
                draw_predictions(axis, f[t], test[1])
    for axis, t in zip(axes, AT, strict=True):
        axis.set_title(f"t = {t} (cf. Figure 2)")
    claims = {
        "Bayes' rule, training set": 11.67,
        "Bayes' rule, test set": 11.13,
        "CD-MCBoost after 10 rounds": None,
        "CD-MCBoost after 100 rounds": 11.30,
    }
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0)
    rows = [
        (claim, told and f"{told:.2f}", f"{m:.2f} ± {d:.2f}", f"{first:.2f}")
        for (claim, told), m, d, first in zip(
            claims.items(), mean, deviation, found[0], strict=True
        )
    ]
    gap = np.subtract(*np.transpose(found)[[3, 1]])
    rows.append(
        ("above Bayes' rule on the test set", "0.17", f"{gap.mean():.2f} ± {gap.std():.2f}",
         f"{gap[0]:.2f}")
    )  # fmt: skip
    columns = ("what", "published", f"measured, {DRAWS} draws", "the first")
    show(TITLES[0], columns, rows, NOTES_FIGURE)
    save(figure, out, "mcboost_2")
    pyplot.close(figure)


def draw_predictions(axis, f, y):
    """Draw predictions (n, 2) by class, and the codewords as dashed lines."""
    reach = max(1.0, np.abs(f).max())
    for k, word in enumerate(simplex_codewords(3)):
        axis.scatter(*f[y == k].T, s=6, color=f"C{k}", label=f"class {k + 1}")
        axis.plot(*np.outer(word, (0, reach)), "--", color=f"C{k}", linewidth=1)
    axis.set(xlabel="f1(x)", ylabel="f2(x)")
    axis.legend(fontsize="small")


def main(out):
    figure_2(out)
    tables(out)


def tables(out):
    """Print and draw Tables 1 and 2."""
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8))
    for (title, (methods, published, notes)), line in zip(TABLES.items(), axes, strict=True):
        rows = []
        for name, axis in zip(SETS, line, strict=True):
            halves = official(name)
            if halves is None:
                continue
            curves = measure(methods, *halves)
            told = {method: levels[name] for method, levels in published.items() if name in levels}
            draw(axis, f"{title.split(', ')[1]}: {name}", curves, told)
            for method, (_, right) in curves.items():
                pair = (None, None)
                if method in told:
                    pair = (f"{told[method]:.2f}", f"{right[-1] - told[method]:+.2f}")
                rows.append((name, method, pair[0], f"{right[-1]:.2f}", pair[1]))
            rows.append(None)
        show(
            title,
            ("set", "method", "published", "measured", "difference"),
            rows,
            notes,
            text=2,
        )
    save(figure, out, "mcboost")
    pyplot.close(figure)
