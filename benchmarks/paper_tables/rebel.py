"""REBEL's Figures 4.7 and 5.9 (Appel, 2017, sections 4.6 and 5.6).

The thesis's protocol: five random cuts of each set into 50 % for training, 25 % to choose the
number of weak learners and 25 % for testing; stumps, at most 200; mean and deviation over the cuts.
Its bars have no values in the text, so that only its ranks are published here. One-vs-all is taken
to have 200 stumps for each class, every other method 200 in all, and AOSO to take whole steps: at
its own rate of 0.1, 200 stumps would hardly begin. Figure 5.9 adds REBEL with trees
(of depth 2; the thesis says shallow) and with localized similarities. Sets are those of the data
folder; of the thesis's own, glass, vowel, letter and landsat (satimage) are among them. Vowel is
cut at random too, which parts no speakers, so that it is far easier than in its official halves.
AdaBoost.ECC, Struct-Boost and CW-Boost, which this library does not have, are left out.
"""

import numpy as np
from matplotlib import pyplot

from benchmarks.paper_tables.report import drawn, pooled, save, show, stages
from streamboost import (
    AdaBoostMHClassifier,
    AOSOLogitBoostClassifier,
    OneVsAllAdaBoostClassifier,
    RebelClassifier,
)

TITLES = [
    "REBEL (2017), Figures 4.7 (stumps) and 5.9: test error in %, mean ± deviation; how often 1st, "
    "2nd and 3rd"
]
SETS = ["glass", "vowel", "segment", "satimage", "letter", "usps"]
ROUNDS = 200
CUTS = 5
STUMPS = ["one-vs-all", "AdaBoost.MH", "AOSO-LogitBoost", "REBEL"]
NOTES = [
    "Published, stumps: REBEL first on three of five sets and second on two. Here it is between "
    "second and last. One-vs-all has K times as many stumps; AdaBoost.MH's and AOSO's have a value "
    "of their own in each leaf, where REBEL's answer plus or minus one coefficient a class; with "
    "the two layers the thesis took elsewhere, REBEL is ahead of every method with stumps.",
    "Published, similarities: best on five of six sets, nearly half of the next best error on "
    "vowel, ahead of REBEL with trees everywhere. Here so on vowel (half of REBEL's with trees), "
    "satimage and, within the deviation, glass. Not on segment, whose classes are told by cuts "
    "along single columns (dividing columns by their deviation, 5.7 %, does not help), nor on "
    "letter, where 200 comparisons of records do not suffice for 26 classes.",
]


def methods():
    """Return a fresh model for each method."""
    shared = {"n_estimators": ROUNDS, "max_features": 1.0, "max_bins": 200}
    stump = {"max_leaf_nodes": 2, **shared}
    return {
        "one-vs-all": OneVsAllAdaBoostClassifier(criterion="error", **stump),
        "AdaBoost.MH": AdaBoostMHClassifier(**stump),
        "AOSO-LogitBoost": AOSOLogitBoostClassifier(leaf="pair", learning_rate=1.0, **stump),
        "REBEL": RebelClassifier(max_depth=1, **shared),
        "REBEL, depth 2": RebelClassifier(max_depth=2, **shared),
        "similarities": RebelClassifier(weak_learner="localized_similarity", n_estimators=ROUNDS),
    }


def error(model, train, held, test):
    """Return the test error in % after the number of rounds that is best on the held rows."""
    model.fit(*train)
    best = stages(model, *held, ROUNDS).argmin()
    return stages(model, *test, ROUNDS)[best]


def measure(name):
    """Return each method's errors over the cuts; none where the set is missing."""
    rows = pooled(name)
    if rows is None:
        return {}
    n = len(rows[1])
    found = {method: [] for method in methods()}
    for seed in range(CUTS):
        train, held, test = drawn(*rows, [n // 2, n // 4], seed)
        for method, model in methods().items():
            found[method].append(error(model, train, held, test))
    return found


def ranks(means, among):
    """Return how often each method of `among` is first, second and third over the sets."""
    order = [sorted(among, key=found.get) for found in means.values()]
    return {m: [sum(o[place] == m for o in order) for place in range(3)] for m in among}


def report(found):
    means = {name: {m: np.mean(e) for m, e in runs.items()} for name, runs in found.items()}
    rows = [
        (name, *(f"{np.mean(e):.1f} ± {np.std(e):.1f}" for e in runs.values()))
        for name, runs in found.items()
    ]
    for title, among in (("places of stumps", STUMPS), ("places of all", list(methods()))):
        places = ranks(means, among)
        cells = ("-".join(map(str, places[m])) if m in places else None for m in methods())
        rows += [None, (title, *cells)]
    show(
        *TITLES,
        ("set", *methods()),
        rows,
        NOTES,
    )


def draw(found, out):
    figure, axis = pyplot.subplots(figsize=(11, 5))
    names = list(methods())
    width = 0.8 / len(names)
    for i, method in enumerate(names):
        runs = np.array([errors[method] for errors in found.values()])
        x = np.arange(len(found)) + (i - (len(names) - 1) / 2) * width
        axis.bar(x, runs.mean(axis=1), width, yerr=runs.std(axis=1), label=method, capsize=2)
    axis.set_xticks(range(len(found)), list(found))
    axis.set(ylabel="test error, %", ylim=(0, None))
    axis.set_title("At most 200 weak learners, five cuts (cf. Figures 4.7 and 5.9)")
    axis.grid(visible=False, axis="x")
    axis.legend(fontsize="small")
    save(figure, out, "rebel_4_7_and_5_9")
    pyplot.close(figure)


def main(out):
    found = {name: runs for name in SETS if (runs := measure(name))}
    if found:
        report(found)
        draw(found, out)
