"""REBEL trained with costs beside the same committee with costs applied after training.

    python -m benchmarks.rebel_costs [--trials 100] [--rounds 100] [--depth 1]

After Appel (2017), Figure 4.5: planar mixtures of Gaussian clusters, 1000 rows to train on and 500
to test, 100 stumps; costs are |N(0, 1)| off the diagonal, scaled so that a random answer costs 1.
Each trial has a mixture and a cost matrix of its own. "After training" takes the class of least
expected cost under probabilities read from the neutral committee's scores H. The thesis does not
say how it read them. Its appendix 7.1 gives H as the log odds at the minimum of the exponential
loss, that is sigmoid(H); but the minimum is at half the log odds, that is sigmoid(2 H).
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from streamboost import RebelClassifier

TRAIN, TEST = 1000, 500


def mixture(rng, n_classes, n):
    """Draw rows (n, 2) and classes (n,): each class has 2 to 6 Gaussian clusters."""
    n_clusters = rng.integers(2, 7)
    centres = rng.uniform(-2, 2, (n_classes, n_clusters, 2))
    shapes = 0.3 * rng.standard_normal((n_classes, n_clusters, 2, 2))
    y, j = rng.integers(n_classes, size=n), rng.integers(n_clusters, size=n)
    return centres[y, j] + np.einsum("nab,nb->na", shapes[y, j], rng.standard_normal((n, 2))), y


def random_costs(rng, n_classes):
    C = np.abs(rng.standard_normal((n_classes, n_classes)))
    np.fill_diagonal(C, 0)
    return C / C.mean()


def readings(H):
    """Yield the ways to read probabilities from the neutral committee's scores."""
    sharp = np.exp(H - H.max(axis=1, keepdims=True))
    for name, p in (
        ("not applied", np.eye(H.shape[1])[H.argmax(axis=1)]),
        ("after training, p ~ sigmoid(H)", 1 / (1 + np.exp(-H))),
        ("after training, p ~ exp(H)", sharp),
        ("after training, p ~ sigmoid(2H)", 1 / (1 + np.exp(-2 * H))),
    ):
        yield name, p / p.sum(axis=1, keepdims=True)


def trial(seed, rounds, depth):
    """Return the test costs of the neutral committee's readings, and of REBEL with costs."""
    rng = np.random.default_rng([4, 5, seed])
    n_classes = int(rng.integers(3, 7))
    X, y = mixture(rng, n_classes, TRAIN + TEST)
    C = random_costs(rng, n_classes)
    y_test = y[TRAIN:]

    def fit(**costs):
        model = RebelClassifier(n_estimators=rounds, max_depth=depth, max_bins=200, **costs)
        model.fit(X[:TRAIN], y[:TRAIN])
        return model.predict(X[TRAIN:]), model.decision_function(X[TRAIN:])

    def cost(answers):
        return C[y_test, answers].mean()

    after = {name: cost((p @ C).argmin(axis=1)) for name, p in readings(fit()[1])}
    decoded, scores = fit(cost_matrix=C)
    linear, _ = fit(cost_matrix=C, subcosts="linear")
    during = {
        "paper's subcosts, predict": cost(decoded),
        "paper's subcosts, largest score": cost(scores.argmax(axis=1)),
        "linear subcosts, predict": cost(linear),
    }
    return after, during


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--depth", type=int, default=1)
    arguments = parser.parse_args()
    results = [trial(t, arguments.rounds, arguments.depth) for t in range(arguments.trials)]
    after = {name: np.array([a[name] for a, _ in results]) for name in results[0][0]}
    during = {name: np.array([d[name] for _, d in results]) for name in results[0][1]}

    title = (
        f"Trials of {arguments.trials} in which REBEL trained with costs costs less, in percent "
        f"({arguments.rounds} trees of depth {arguments.depth})"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("costs of the neutral committee")
    table.add_column("mean cost", justify="right")
    for name, costs in during.items():
        table.add_column(f"{name} ({costs.mean():.3f})", justify="right")
    for name, costs in after.items():
        shares = [f"{100 * (other < costs).mean():.0f}" for other in during.values()]
        table.add_row(name, f"{costs.mean():.3f}", *shares)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
