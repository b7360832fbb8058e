"""GAMBLE's Figures 5.2 and 5.8 and Table 5.2 (Huang, 2009, chapter 5).
the same trees, official halves (all of segmentation's 2,100 test rows, though some stand in its
training half too), glass cut 113 / 101 and splice 2,860 / the rest at random, means over five cuts.
The values of Figure 5.2 stand only in the picture; the text gives the sign test, and Table 5.2 the
least error of GAMBLE within 1,000 rounds, its "target".

Table 5.2 counts the labels until Algorithm 4 meets the target, and until random ones do. The thesis
does not say how many rounds a committee has, how many labels the seed and each step hold, or that
its 14 splice rows fewer are those with ambiguous letters. Ours: 200 rounds, a seed of 2 K labels
drawn at random, steps of 5 labels where the pool is under 1,000 rows and of 20 elsewhere, at most
1,500 labels, random labels over five draws. The target is our own least error, as in the thesis a
minimum over the test half; the count to the published target stands beside it.

Figure 5.8 (concentric spheres, five classes) says of itself: 10 % less test error for GAMBLE, and
less training error for SAMME after 120 rounds.
"""

import numpy as np
from matplotlib import pyplot
from scipy.stats import binomtest

from benchmarks.concentric_spheres import CLASSES, spheres
from benchmarks.paper_tables.report import drawn, official, pooled, save, show, stages
from streamboost import GambleClassifier, SammeClassifier

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
FIGURE_NOTES = []
TABLE_NOTES = []
SPHERES_NOTES = []


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


def figure_5_2(out):
    """Print and draw both methods' errors after 10, 100 and 1,000 rounds; return the targets."""
    figure, axis = pyplot.subplots(figsize=(6, 6))
    rows, pairs, targets = [], [], {}
    for name in PUBLISHED:
        runs = {method: [] for method in methods()}
        for train, test in cuts(name):
            for method, model in methods().items():
                runs[method].append(stages(model.fit(*train), *test, ROUNDS))
        if not runs["GAMBLE"]:
            continue
        gamble, samme = (np.mean(r, axis=0) for r in runs.values())
        targets[name] = np.mean([errors.min() for errors in runs["GAMBLE"]])
        for i, m in enumerate(AT):
            told = (PUBLISHED[name][1], f"{targets[name]:.2f}") if m == AT[-1] else (None, None)
            rows.append((name, m, f"{gamble[m - 1]:.2f}", f"{samme[m - 1]:.2f}", *told))
            pairs.append((gamble[m - 1], samme[m - 1], i))
        rows.append(None)
    x, y, i = np.array(pairs).T
    for j, (m, marker) in enumerate(zip(AT, "o^s", strict=True)):
        axis.scatter(x[i == j], y[i == j], marker=marker, label=f"{m} rounds")
    least, most = 0.8 * min(x.min(), y.min()), 1.2 * max(x.max(), y.max())
    axis.plot([least, most], [least, most], color="grey", linewidth=1)
    axis.set(xscale="log", yscale="log", xlabel="GAMBLE, test error, %", xlim=(least, most))
    axis.set(ylabel="SAMME, test error, %", ylim=(least, most), aspect="equal")
    ticks = [4, 6, 10, 20, 40, 60]
    axis.set_xticks(ticks, map(str, ticks))
    axis.set_yticks(ticks, map(str, ticks))
    axis.minorticks_off()
    axis.set_title("Above the line GAMBLE errs less (cf. Figure 5.2)")
    axis.legend()
    won, lost = int((x < y).sum()), int((x > y).sum())
    chance = binomtest(won, won + lost).pvalue
    show(
        "GAMBLE (2009), Figure 5.2: test error in %",
        ("set", "rounds", "GAMBLE", "SAMME", "least, published", "least, measured"),
        rows,
        [
            f"Sign test: GAMBLE errs less in {won} and more in {lost} of {len(x)} pairs, "
            f"p = {chance:.4f}; published over 24 pairs: p = 0.0066.",
            *FIGURE_NOTES,
        ],
    )
    save(figure, out, "gamble_5_2")
    pyplot.close(figure)
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
        if ask and len(model.classes_) > 1:
            F = np.sort(model.decision_function(X[left[order]]).reshape(len(left), -1), axis=1)
            margin = F[:, -1] - F[:, -2] if F.shape[1] > 1 else np.abs(F[:, 0])
            order = order[np.argsort(margin, kind="stable")]
        known[left[order[:step]]] = True


def reached(at, errors, target):
    """Return the labels with which the error first was at most `target`; infinite for never."""
    met = np.flatnonzero(errors <= target + 1e-9)
    return at[met[0]] if len(met) else np.inf


def count(labels):
    """Write a median number of labels."""
    middle = np.median(labels)
    return "not met" if np.isinf(middle) else f"{middle:.0f}"


def table_5_2(out, targets):
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 8))
    axes.flat[-1].axis("off")
    rows = []
    for (name, target), axis in zip(targets.items(), axes.flat, strict=False):
        _, told, least_told, *labels_told = PUBLISHED[name]
        halves = cuts(name)
        step = 5 if len(halves[0][0][1]) < 1000 else 20
        runs = {
            who: [
                learning_curve(*halves[d % len(halves)], step, ask, np.random.default_rng(d))
                for d in range(5)
            ]
            for who, ask in (("asked", True), ("random", False))
        }
        least = np.mean([errors.min() for _, errors in runs["asked"]])
        rows.append((name, "published", told, least_told, *labels_told))
        for label, goal in (("measured", target), ("to the published target", told)):
            found = [count([reached(*run, goal) for run in r]) for r in runs.values()]
            rows.append((name, label, f"{goal:.2f}", f"{least:.2f}", *found))
        rows.append(None)
        for who, r in runs.items():
            axis.plot(r[0][0], np.mean([errors for _, errors in r], axis=0), label=who)
        axis.axhline(told, color="grey", linestyle=":", label="published target")
        axis.axhline(target, color="grey", linestyle="--", label="measured target")
        axis.set(title=name, xlabel="labels", ylabel="test error, %", ylim=(0, 4 * target))
        axis.legend(fontsize="small")
    show(
        "GAMBLE (2009), Table 5.2: labels until the target error is met (medians of five draws)",
        ("set", "method", "target", "least, asked", "labels, asked", "labels, random"),
        rows,
        TABLE_NOTES,
    )
    save(figure, out, "gamble_table_5_2")
    pyplot.close(figure)


def figure_5_8(out):
    rng = np.random.default_rng(0)
    train, test = spheres(1000 * CLASSES, rng), spheres(10_000, rng)
    figure, axis = pyplot.subplots(figsize=(8, 5.5))
    found = {}
    for i, (method, model) in enumerate(methods().items()):
        model.fit(*train)
        found[method] = stages(model, *test, ROUNDS), stages(model, *train, ROUNDS)
        for errors, style, which in zip(found[method], "-:", ("test", "training"), strict=True):
            axis.plot(range(1, ROUNDS + 1), errors, f"C{i}", linestyle=style, label=which)
            axis.lines[-1].set_label(f"{method}, {which}")
    axis.axvline(120, color="grey", linewidth=1)
    axis.text(125, 62, "here the thesis's training\nerrors cross", fontsize="small")
    axis.set(xscale="log", xlabel="rounds", ylabel="error, %")
    axis.set_title("Concentric spheres, five classes (cf. Figure 5.8)")
    axis.legend(loc="lower left")
    (gamble, gamble_train), (samme, samme_train) = found.values()
    ahead = np.flatnonzero(samme_train >= gamble_train)
    crossing = ahead[-1] + 2 if len(ahead) and ahead[-1] + 2 <= ROUNDS else None
    rows = [
        (f"test error of {name} after {m} rounds", None, f"{errors[m - 1]:.1f}")
        for m in (100, 400, ROUNDS)
        for name, errors in (("GAMBLE", gamble), ("SAMME", samme))
    ]
    rows += [
        None,
        ("test error, SAMME less GAMBLE, in the end", "10", f"{samme[-1] - gamble[-1]:.1f}"),
        ("SAMME's training error is the lesser from round", "120", crossing),
    ]
    show(
        "GAMBLE (2009), Figure 5.8: error in %",
        ("claim", "published", "measured"),
        rows,
        SPHERES_NOTES,
    )
    save(figure, out, "gamble_5_8")
    pyplot.close(figure)


def main(out):
    figure_5_8(out)
    table_5_2(out, figure_5_2(out))
