"""The filter of class runs, written plainly: it keeps all records and labels, in lists."""

import numpy as np

GRID = [(a, b) for a in (-1.0, 0.0, 1.0, 2.0, 3.5, 5.0) for b in (0.0, 1.0, 2.5, 5.0)]


class NaiveClassRunFilter:
    """Of K classes and D columns, which are all known from the first record on."""

    def __init__(self, n_features, n_classes):
        self.counts = np.zeros(n_classes)
        self.evidence = np.zeros(25)
        self.values = [[] for _ in range(n_features)]
        self.moments = np.zeros((n_features, 2))
        self.distances, self.distance_moments = 0, np.zeros(2)
        self.rows, self.own, self.filtered, self.states = [], [], [], []
        self.deviations, self.labels, self.first = [], {}, np.zeros(n_classes)

    def shares(self):
        return (self.counts + 1) / (self.counts + 1).sum()

    def posterior(self):
        prior = np.array([0.5 / 24] * 24 + [0.5])
        weights = prior * np.exp(self.evidence - self.evidence.max())
        return weights / weights.sum()

    def continues(self, deviation):
        chances = [1 / (1 + np.exp(b * deviation - a)) for a, b in GRID]
        return float(self.posterior()[:24] @ chances)

    def arrive(self, row, probabilities):
        deviation = self.deviation(row)
        own = (probabilities + 1e-4) / (1 + 1e-4 * len(probabilities))
        if not self.rows:
            self.first = self.shares()
        before = self.states[-1] if self.states else self.first
        filtered, state = self.step(own, before, deviation, None)
        for all_of, new in (
            (self.rows, row),
            (self.own, own),
            (self.filtered, filtered),
            (self.states, state),
            (self.deviations, deviation),
        ):
            all_of.append(new)
        return filtered

    def deviation(self, row):
        before = self.rows[-1] if self.rows else np.full(len(row), np.nan)
        squares = []
        for j, value in enumerate(row):
            mean, variance = self.moments[j]
            if variance > 1e-12:
                if np.isnan(value) and np.isnan(before[j]):
                    squares.append(0.0)
                elif np.isnan(value) or np.isnan(before[j]):
                    squares.append(1.0)
                else:
                    squares.append((value - before[j]) ** 2 / variance)
            if not np.isnan(value):
                self.values[j].append(value)
                self.moments[j] = moved(mean, variance, value, max(1 / len(self.values[j]), 1e-3))
        if not squares:
            return 3.0
        log = np.log(np.sqrt(np.mean(squares)) + 1e-6)
        self.distances += 1
        rate = max(1 / self.distances, 1 / 500)
        self.distance_moments = np.array(moved(*self.distance_moments, log, rate))
        mean, variance = self.distance_moments
        return float(np.clip((log - mean) / np.sqrt(variance + 1e-12), -3, 3))

    def step(self, own, before, deviation, label):
        shares, continues = self.shares(), self.continues(deviation)
        prior = continues * before + (1 - continues) * shares
        filtered, state = own / shares * prior, (own / shares) ** 0.7 * prior
        if label is not None:
            state = np.full(len(own), 0.02 / (len(own) - 1))
            state[label] = 0.98
        return filtered / filtered.sum(), state / state.sum()

    def learn(self, position, label):
        self.counts *= 0.998
        self.counts[label] += 1
        self.labels[position] = label
        shares = self.shares()
        for side in (-1, 1):
            near = [position + side * steps for steps in range(1, 31)]
            other = next((one for one in near if one in self.labels), None)
            if other is None:
                continue
            between = self.deviations[min(position, other) + 1 : max(position, other) + 1]
            joined = [np.prod([1 / (1 + np.exp(b * u - a)) for u in between]) for a, b in GRID]
            joined = np.array([*joined, 0.0])
            likely = (1 - joined) * (1 - shares[label])
            if self.labels[other] == label:
                likely = joined + (1 - joined) * shares[label]
            self.evidence = 0.995 * self.evidence + np.log(np.maximum(likely, 1e-12))
        n = len(self.rows)
        for t in range(max(position, n - 60, 0), n):
            before = self.states[t - 1] if t else self.first
            _, self.states[t] = self.step(
                self.own[t], before, self.deviations[t], self.labels.get(t)
            )


def moved(mean, variance, value, rate):
    off = value - mean
    return mean + rate * off, (1 - rate) * (variance + rate * off * off)
