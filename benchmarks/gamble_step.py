"""GAMBLE's steps on real data: what its default by the number of classes rests on.

    python -m benchmarks.gamble_step [--rounds 200] [--sets satimage letter ...]

One tree size, max(15, 2K) leaves, and the same draws of features for all steps. ``letter:14`` is
letter's first 14 classes. Sets without an official test half are split 70/30. Errors are means over
three seeds, or ten of small sets; in brackets the rounds, out of all, in which the training loss
rose.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import train_test_split

from benchmarks.data import load
from streamboost import GambleClassifier

SETS = ["dna180", "satimage", "glass", "segment", "usps", "vowel", "letter:14", "letter"]
STEPS = ["paper", "scaled", "line", "exact"]
SMALL = 1000  # training rows below which one seed is not enough


def classes_of(name):
    """Return a set, limited to its first classes if the name gives a number; None if missing."""
    name, _, n_classes = name.partition(":")
    data = load(name)
    if data is None:
        return None
    data = dict(data)
    for half in ("train", "test") if n_classes else ():
        kept = data[f"y_{half}"] < int(n_classes)
        data |= {f"{v}_{half}": data[f"{v}_{half}"][kept] for v in "Xy"}
    return data


def halves(data, seed):
    """Return training and test rows, the official ones where there are such."""
    if len(data["y_test"]) == 0:
        split = train_test_split(
            data["X_train"], data["y_train"], test_size=0.3, random_state=seed,
            stratify=data["y_train"],
        )  # fmt: skip
        return (split[0], split[2]), (split[1], split[3])
    kept = data.get("test_not_in_train", np.ones(len(data["y_test"]), dtype=bool))
    return (data["X_train"], data["y_train"]), (data["X_test"][kept], data["y_test"][kept])


def measure(step, train, test, rounds, at, seed):
    """Return the test error in % after each number of rounds in `at`, and how often loss rose."""
    model = GambleClassifier(step=step, n_estimators=rounds, random_state=seed).fit(*train)
    y = np.searchsorted(model.classes_, train[1])
    T, rows = len(model.classes_) - 1, np.arange(len(y))
    forest = model.committee_.learners
    loss, rises = 0.0, 0
    scores = np.zeros((len(y), T + 1))
    for m in range(rounds):
        forest.add_scores(train[0], scores, (m, m + 1))
        new = np.logaddexp.reduce(-scores[rows, y] / T) - np.log(len(y))
        rises, loss = rises + (new > loss), new
    wrong = [labels != test[1] for labels in model.staged_predict(test[0])]
    return [100 * wrong[m - 1].mean() for m in at] + [rises]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    at = [m for m in (20, 50, 100, 200, 500) if m < arguments.rounds] + [arguments.rounds]
    table = Table(
        title="Test error in %; in brackets: rounds in which the loss rose", title_justify="left"
    )
    for column in ("set", "K", "rounds"):
        table.add_column(column, justify="left" if column == "set" else "right")
    for step in STEPS:
        table.add_column(step, justify="right")
    for name in arguments.sets:
        data = classes_of(name)
        if data is None:
            continue
        seeds = range(10 if len(data["y_train"]) < SMALL else 3)
        found = np.array(
            [
                [measure(s, *halves(data, seed), arguments.rounds, at, seed) for s in STEPS]
                for seed in seeds
            ]
        ).mean(axis=0)
        for i, m in enumerate(at):
            head = (name, str(len(np.unique(data["y_train"])))) if i == 0 else ("", "")
            rises = [f" ({r:.0f})" if m == at[-1] else "" for r in found[:, -1]]
            cells = [f"{e:.2f}{r}" for e, r in zip(found[:, i], rises, strict=True)]
            table.add_row(*head, str(m), *cells)
        table.add_section()
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
