"""Accuracy gained by relabel requests, with five annotators of whom two are wrong half the time.

``python -m benchmarks.relabel [SEEDS]`` streams records with each budget, with and without a share
of it for relabel requests (`[query] relabel`). It prints the accuracy of the final predictions on
records that were not streamed, and the share of the training labels that were wrong at the end. The
annotator of a relabel request is drawn from those who have not labelled the record yet.
"""

import sys
from collections.abc import Iterator

import numpy as np
from river.datasets import ImageSegments
from sklearn.datasets import load_digits, make_classification

from streamboost.learner import QueryConfig, StreamLearner

RIGHT = np.array([0.5, 0.5, 1.0, 1.0, 1.0])
"""Probability of a correct label by annotator; a fifth of all labels are wrong."""

BATCH = 20
STREAMS = {"segments": 0.2, "digits": 0.2, "mixture": 0.1}
"""With the budget of each."""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the records (n, D) of a stream, and their classes (n,)."""
    if name == "segments":
        records, labels = zip(*ImageSegments(), strict=True)
        X = np.array([list(record.values()) for record in records], dtype=np.float32)
        return X, np.unique(labels, return_inverse=True)[1]
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        X, y = make_classification(
            6_000, 20, n_informative=8, n_classes=4, class_sep=1.2, random_state=1
        )
    return X.astype(np.float32), y


class People:
    """Five people who are asked."""

    def __init__(self, y: np.ndarray, rng: np.random.Generator) -> None:
        self._y, self._rng, self._classes = y, rng, int(y.max()) + 1

    def answer(self, i: int, excluded_annotators: list[str]) -> tuple[str, int]:
        """Return who answers about record `i`, and what."""
        who = int(
            self._rng.choice([p for p in range(len(RIGHT)) if str(p) not in excluded_annotators])
        )
        if self._rng.random() < RIGHT[who]:
            return str(who), int(self._y[i])
        return str(who), int(self._y[i] + 1 + self._rng.integers(self._classes - 1)) % self._classes


def run(name: str, seed: int, **query: float) -> tuple[float, float, int]:
    """Return final accuracy, share of wrong labels, and labels bought."""
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    test, stream = order[: len(y) // 3], order[len(y) // 3 :]
    people = People(y, np.random.default_rng(seed + 1))
    strategy = QueryConfig(budget=STREAMS[name], **query)
    learner = StreamLearner(query=strategy, random_state=seed)
    for start in range(0, len(stream), BATCH):
        rows = stream[start : start + BATCH]
        ids = [str(i) for i in rows]
        asked = learner.query(X[rows], learner.score_arrivals(X[rows]), ids)
        again = learner.query_relabels()
        told = [people.answer(int(id), []) for id in asked.ids]
        if told:
            who, labels = zip(*told, strict=True)
            places = [int(id) for id in asked.ids]
            learner.learn(
                asked.ids, X[places], labels, propensity=asked.propensity, sources=list(who)
            )
        told = [
            people.answer(int(id), excluded_annotators)
            for id, excluded_annotators in zip(again.ids, again.excluded_annotators, strict=True)
        ]
        if told:
            who, labels = zip(*told, strict=True)
            learner.correct(again.ids, labels, sources=list(who))
    learner.trainer.retrain()
    wrong = [label != y[int(id)] for id, _, label in learner._rows.annotated_rows()]
    accuracy = float(np.mean(learner.predict(X[test]) == y[test]))
    return accuracy, float(np.mean(wrong)), learner.ledger.requests


def table(seeds: int, shares: tuple[float, ...] = (0.0, 0.1, 0.2)) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| stream | budget | relabel | accuracy | gain | wrong labels | labels |"
    yield "|---|---|---|---|---|---|---|"
    for name, budget in STREAMS.items():
        plain = np.zeros(seeds)
        for share in shares:
            found = np.array([run(name, seed, relabel=share) for seed in range(seeds)])
            plain = plain if share else found[:, 0]
            gain = 100 * (found[:, 0] - plain)
            error = gain.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
            accuracy, wrong, labels = found.mean(axis=0)
            yield (
                f"| {name} | {budget:.0%} | {share:.0%} | {accuracy:.1%} | "
                f"{gain.mean():+.1f} ± {error:.1f} | {wrong:.1%} | {labels:.0f} |"
            )


def main() -> None:
    """Print the table."""
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        print(line, flush=True)


if __name__ == "__main__":
    main()
