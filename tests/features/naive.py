"""A naive text model for comparison, with words in dictionaries.

The naive and the fast model share the hash of words, and nothing else. The naive model folds no
tables.
"""

from collections import defaultdict
from math import exp, log, sqrt

from streamboost.features.words import hash_words


def normalized(scores):
    highest = max(scores)
    total = sum(exp(score - highest) for score in scores)
    return [score - highest - log(total) for score in scores]


class NaiveTexts:
    """Complement naive Bayes and a softmax trained by AdaGrad, mixed by learned weights."""

    def __init__(self, places=2**18):
        self.places = places
        self.classes = []
        self.seen = 0
        self.frequency = defaultdict(int)
        self.words = defaultdict(lambda: defaultdict(float))  # by class and word
        self.records = defaultdict(float)
        self.weights = defaultdict(float)
        self.squares = defaultdict(float)
        self.bias = defaultdict(float)
        self.bias_squares = defaultdict(lambda: 1.0)
        self.mix = [0.4, 0.6]
        self.mix_squares = [1.0, 1.0]

    def counted(self, texts):
        hashes, counts = hash_words(texts, self.places)
        pairs = zip(hashes.tolist(), counts.tolist(), strict=True)
        return {word: 1.0 + log(n) for word, n in pairs}

    def weighed(self, counts):
        seldom = {w: 1 + log((self.seen + 1) / (self.frequency[w] + 1)) for w in counts}
        weighed = {w: n * seldom[w] for w, n in counts.items()}
        length = max(sqrt(sum(x * x for x in weighed.values())), 1e-6)
        return {w: x / length for w, x in weighed.items()}

    def said(self, counts):
        distinct = len({w for words in self.words.values() for w in words})
        bayes = []
        for k in self.classes:
            others = [c for c in self.classes if c != k]
            total = sum(sum(self.words[c].values()) for c in others) + 0.5 * (distinct + 1)
            score = log(self.records[k] + 1)
            for word, n in counts.items():
                count = sum(self.words[c].get(word, 0.0) for c in others) + 0.5
                score -= n * (log(count) - log(total))
            bayes.append(score / sqrt(max(len(counts), 1)))
        vector = self.weighed(counts).items()
        softmax = [
            sum(x * self.weights[word, k] for word, x in vector) + self.bias[k]
            for k in self.classes
        ]
        return [normalized(bayes), normalized(softmax)]

    def mixed(self, said):
        a, b = self.mix
        return normalized([a * x + b * y for x, y in zip(*said, strict=True)])

    def row(self, texts):
        return self.mixed(self.said(self.counted(texts)))

    def note(self, texts):
        self.seen += 1
        for word in self.counted(texts):
            self.frequency[word] += 1

    def learn(self, texts, label):
        if label not in self.classes:
            self.classes.append(label)
        counts = self.counted(texts)
        said = self.said(counts)

        def off(scores):
            pairs = zip(self.classes, scores, strict=True)
            return [exp(score) - (k == label) for k, score in pairs]

        wrong = off(self.mixed(said))
        for i in range(2):
            slope = sum(x * d for x, d in zip(said[i], wrong, strict=True))
            self.mix_squares[i] += slope * slope
            self.mix[i] = max(self.mix[i] - 0.2 * slope / sqrt(self.mix_squares[i]), 0.0)
        for word, x in self.weighed(counts).items():
            for k, d in zip(self.classes, off(said[1]), strict=True):
                self.squares[word, k] += (x * d) ** 2
                self.weights[word, k] -= 0.5 * x * d / sqrt(self.squares[word, k] + 1e-6)
        for k, d in zip(self.classes, off(said[1]), strict=True):
            self.bias_squares[k] += d * d
            self.bias[k] -= 0.5 * d / sqrt(self.bias_squares[k])
        for word, n in counts.items():
            self.words[label][word] += n
        self.records[label] += 1
