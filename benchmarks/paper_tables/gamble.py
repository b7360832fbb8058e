"""GAMBLE's Figures 5.2 and 5.8 and Table 5.2 (Huang, 2009, chapter 5).

Figures 5.2 and 5.8 follow the thesis: regression trees of 15 leaves, the printed step (but, against
the text, no record under 3e-5 of the heaviest's weight; see `weight_floor`), SAMME on the same
trees, official halves (all of segmentation's 2,100 test rows, though some are in its training
half too), glass cut 113 / 101 and splice 2,860 / the rest at random, means over five cuts. The
values of Figure 5.2 are only in the picture; the text gives the sign test, and Table 5.2 the
least error of GAMBLE within 1,000 rounds, its "target". Pendigits, Soybean and Vehicle are not in
the data folder.

Table 5.2 counts the labels until Algorithm 4 meets the target, and until random ones do. The thesis
does not say how many rounds a committee has, how many labels the seed and each step hold, or which
14 rows of splice it left out. Ours: 200 rounds, a seed of 2 K labels drawn at random, steps of 5
labels where the pool is under 1,000 rows and of 30 elsewhere, at most 1,500 labels, three draws of
the seed (and of the random labels). The target is our own least error, as in the thesis a minimum
over the test half; the count to the published target is given as well.

Figure 5.8 (concentric spheres, five classes) says of itself: 10 % less test error for GAMBLE, and
less training error for SAMME after 120 rounds.
"""

import numpy as np
from matplotlib import pyplot
from scipy.stats import binomtest

from benchmarks.concentric_spheres import CLASSES, spheres
from benchmarks.paper_tables.report import drawn, official, pooled, save, show, stages
from streamboost import GambleClassifier, SammeClassifier

TITLES = [
    "GAMBLE (2009), Figure 5.2: test error in %",
    "GAMBLE (2009), Table 5.2: labels until the target error is met (medians of three draws)",
    "GAMBLE (2009), Figure 5.8: errors in %",
]
ROUNDS = 1000
AT = (10, 100, 1000)
TREE = {"max_leaf_nodes": 15, "max_features": 1.0, "max_bins": 255}
MOST = 1500  # labels bought at most
# Set: rows to train on where the thesis cuts at random; target, least error of Active GAMBLE, and
# labels to the target, asked and random (Table 5.2).
PUBLISHED = {
    "glass": (113, 27.5, 27.5, 91, 102),
    "satimage": (None, 12.6, 11.3, 220, 1450),
    "segment": (None, 4.62, 4.43, 135, 190),
    "splice60": (2860, 4.48, 3.42, 430, 970),
    "vowel": (None, 47.0, 41.8, 155, 205),
}
FIGURE_NOTES = [
    "GAMBLE's weights have a floor of 3e-5 of the heaviest, which Algorithm 2 as printed has not.",
    "Least errors: every difference is within about one standard error of a test half of its size "
    "(glass 101 rows, 4.3 points; splice 330, 1.0; segment 2,100, 0.5; satimage 2,000, 0.7; vowel "
    "462, 2.3); of the thesis's random cuts of glass and splice there is one, of ours five.",
    "Sign test: neither leads. GAMBLE is ahead on satimage throughout, and on four of the five "
    "sets after 1,000 rounds; SAMME on three or four of them before. Most differences are under a "
    "point, and five of the thesis's eight sets would not suffice to tell them from chance.",
]
TABLE_NOTES = [
    "splice: to our own target the published count, to within a step of labels, and random ones "
    "do not get there; to the published one fewer, and half of what random labels take.",
    "satimage: half of what random labels take, where the thesis has a seventh. When a curve that "
    "wavers by half a point about its level first touches a target is chance, for random labels "
    "too, and the picture says more than the count.",
    "segment: near the published counts; vowel: fewer labels than published, and glass too, on "
    "test halves of 101 rows. A target is a mean over the cuts, and a cut harder than the mean "
    "may never meet it.",
    "If one tree of 15 leaves separates the labels bought so far, every round grows the same tree, "
    "all margins tie and queries are random. The curves differ only from some 130 labels on "
    "satimage and segment, and from 40 on glass.",
]
SPHERES_NOTES = [
    "The lead in test error is the published one between 30 and 200 rounds; later it shrinks, as "
    "SAMME still improves after GAMBLE has converged.",
    "SAMME's training error never falls below GAMBLE's, as it does in the thesis from round 120: "
    "that hangs on how SAMME's trees are grown, which the thesis does not say; ours are the same "
    "weighted Gini trees of 15 leaves for both.",
]


def cuts(name):
    """Return the training and test halves of a set, one or five; none where it is missing."""
    n_train = PUBLISHED[name][0]
    if n_train is None:
        halves = official(name)
        return [] if halves is None else [halves]
    rows = pooled(name)
    return [] if rows is None else [drawn(*rows, [n_train], seed) for seed in range(5)]


def methods(n_rounds=ROUNDS):
    return {
        "GAMBLE": GambleClassifier(step="paper", n_estimators=n_rounds, random_state=0, **TREE),
        "SAMME": SammeClassifier(n_estimators=n_rounds, random_state=0, **TREE),
    }


def errors_by_round(name):
    """Return the test errors in % after each round: by method, (cuts, rounds); none if missing."""
    runs = {method: [] for method in methods()}
    for train, test in cuts(name):
        for method, model in methods().items():
            runs[method].append(stages(model.fit(*train), *test, ROUNDS))
    return {method: np.array(errors) for method, errors in runs.items() if errors}


def draw_5_2(pairs, out):
    """Draw the pairs of errors (GAMBLE, SAMME) that `pairs` holds for each number of rounds."""
    figure, axis = pyplot.subplots(figsize=(6, 6))
    for (m, points), marker in zip(pairs.items(), "o^s", strict=True):
        axis.scatter(*np.transpose(points), marker=marker, label=f"{m} rounds")
    axis.plot([3, 80], [3, 80], color="grey", linewidth=1)
    axis.set(xscale="log", yscale="log", xlim=(3, 80), ylim=(3, 80), aspect="equal")
    axis.set(xlabel="GAMBLE, test error, %", ylabel="SAMME, test error, %")
    ticks = [3, 5, 10, 20, 40, 80]
    axis.set_xticks(ticks, map(str, ticks))
    axis.set_yticks(ticks, map(str, ticks))
    axis.minorticks_off()
    axis.set_title("Above the line GAMBLE errs less (cf. Figure 5.2)")
    axis.legend()
    save(figure, out, "gamble_5_2")
    pyplot.close(figure)


def figure_5_2(out):
    """Print and draw both methods' errors after 10, 100 and 1,000 rounds; return the targets."""
    rows, pairs, targets = [], {m: [] for m in AT}, {}
    for name in PUBLISHED:
        runs = errors_by_round(name)
        if not runs:
            continue
        targets[name] = runs["GAMBLE"].min(axis=1).mean()
        for m in AT:
            pair = [errors[:, m - 1].mean() for errors in runs.values()]
            pairs[m].append(pair)
            told = (PUBLISHED[name][1], f"{targets[name]:.2f}") if m == ROUNDS else (None, None)
            rows.append((name, m, *(f"{error:.2f}" for error in pair), *told))
        rows.append(None)
    if not targets:
        return targets
    gamble, samme = np.concatenate(list(pairs.values())).T
    won, lost = int((gamble < samme).sum()), int((gamble > samme).sum())
    sign = (
        f"Sign test: GAMBLE errs less in {won} and more in {lost} of {len(gamble)} pairs, "
        f"p = {binomtest(won, won + lost).pvalue:.4f}; published over 24 pairs: p = 0.0066."
    )
    show(
        TITLES[0],
        ("set", "rounds", "GAMBLE", "SAMME", "least, published", "least, measured"),
        rows,
        [sign, *FIGURE_NOTES],
    )
    draw_5_2(pairs, out)
    return targets


def learning_curve(train, test, step, ask, rng):
    """Buy labels `step` at a time, by margin or at random: numbers of labels, errors in %."""
    X, y = train
    known = np.zeros(len(y), dtype=bool)
    known[rng.permutation(len(y))[: 2 * len(np.unique(y))]] = True
    at, errors = [], []
    while True:
        model = methods(200)["GAMBLE"].fit(X[known], y[known])
        at.append(known.sum())
        errors.append(100 * (model.predict(test[0]) != test[1]).mean())
        left = np.flatnonzero(~known)
        if not len(left) or known.sum() >= MOST:
            return np.array(at), np.array(errors)
        order = rng.permutation(len(left))  # ties are broken at random
        if ask:
            F = np.sort(model.committee_.class_scores(X[left[order]]), axis=1)
            order = order[np.argsort(F[:, -1] - F[:, -2], kind="stable")]
        known[left[order[:step]]] = True


def reached(at, errors, target):
    """Return the labels with which the error first was at most `target`; infinite for never."""
    met = np.flatnonzero(errors <= target + 1e-9)
    return at[met[0]] if len(met) else np.inf


def count(labels):
    """Write a median number of labels."""
    middle = np.median(labels)
    return "not met" if np.isinf(middle) else f"{middle:.0f}"


def measure(name):
    """Return the learning curves of a set, three with labels asked for and three with random ones.

    None where the set is missing.
    """
    halves = cuts(name)
    if not halves:
        return None
    step = 5 if len(halves[0][0][1]) < 1000 else 30
    return {
        who: [
            learning_curve(*halves[d % len(halves)], step, ask, np.random.default_rng(d))
            for d in range(3)
        ]
        for who, ask in (("asked", True), ("random", False))
    }


def table_5_2(out, targets, found):
    """Print the labels each target took and draw the curves of what `measure` found, by set."""
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 8))
    for axis in axes.flat[len(found) :]:
        axis.axis("off")
    rows = []
    for (name, runs), axis in zip(found.items(), axes.flat, strict=False):
        _, told, least_told, *labels_told = PUBLISHED[name]
        least = np.mean([errors.min() for _, errors in runs["asked"]])
        rows.append((name, "published", told, least_told, *labels_told))
        for label, goal in (("measured", targets[name]), ("to the published target", told)):
            labels = [count([reached(*run, goal) for run in r]) for r in runs.values()]
            rows.append((name, label, f"{goal:.2f}", f"{least:.2f}", *labels))
        rows.append(None)
        for who, r in runs.items():
            axis.plot(r[0][0], np.mean([errors for _, errors in r], axis=0), label=who)
        axis.axhline(told, color="grey", linestyle=":", label="published target")
        axis.axhline(targets[name], color="grey", linestyle="--", label="measured target")
        axis.set(title=name, xlabel="labels", ylabel="test error, %", ylim=(0, 4 * targets[name]))
        axis.legend(fontsize="small")
    show(
        TITLES[1],
        ("set", "method", "target", "least, asked", "labels, asked", "labels, random"),
        rows,
        TABLE_NOTES,
        text=2,
    )
    save(figure, out, "gamble_table_5_2")
    pyplot.close(figure)


def draw_5_8(found, out):
    """Draw test and training errors over the rounds."""
    figure, axis = pyplot.subplots(figsize=(8, 5.5))
    for i, (method, halves) in enumerate(found.items()):
        for errors, style, which in zip(halves, "-:", ("test", "training"), strict=True):
            label = f"{method}, {which}"
            axis.plot(range(1, ROUNDS + 1), errors, f"C{i}", linestyle=style, label=label)
    axis.axvline(120, color="grey", linewidth=1)
    axis.text(125, 60, "here the thesis's\ntraining errors cross", fontsize="small")
    axis.set(xscale="log", xlabel="rounds", ylabel="error, %")
    axis.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    axis.set_title("Concentric spheres, five classes (cf. Figure 5.8)")
    axis.legend(loc="lower left")
    save(figure, out, "gamble_5_8")
    pyplot.close(figure)


def figure_5_8(out):
    """Print and draw the errors on concentric spheres."""
    rng = np.random.default_rng(0)
    train, test = spheres(1000 * CLASSES, rng), spheres(10_000, rng)
    found = {}
    for method, model in methods().items():
        model.fit(*train)
        found[method] = stages(model, *test, ROUNDS), stages(model, *train, ROUNDS)
    rows = [
        (f"{which} error of {method} after {m} rounds", None, f"{errors[m - 1]:.1f}")
        for m in (100, 400, ROUNDS)
        for method, halves in found.items()
        for which, errors in zip(("test", "training"), halves, strict=True)
    ]
    (gamble, gamble_train), (samme, samme_train) = found.values()
    ahead = np.flatnonzero(samme_train < gamble_train)
    rows += [
        None,
        ("largest lead of GAMBLE in test error", "10", f"{(samme - gamble).max():.1f}"),
        ("its lead after 1,000 rounds", None, f"{samme[-1] - gamble[-1]:.1f}"),
        ("SAMME has the smaller training error after", "120", ahead[0] if len(ahead) else "never"),
    ]
    columns = ("claim", "published", "measured")
    show(TITLES[2], columns, rows, SPHERES_NOTES)
    draw_5_8(found, out)


def main(out):
    figure_5_8(out)
    targets = figure_5_2(out)
    if targets:
        table_5_2(out, targets, {name: measure(name) for name in targets})
