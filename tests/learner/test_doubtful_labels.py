"""Doubtful labels: those that committees trained on other labels contradict."""

import numpy as np
import pytest

from streamboost.learner.doubtful_labels import find_doubtful_labels
from streamboost.learner.estimators import default_estimator


def labelled(n=120, seed=0):
    """Return two features, and the label of n records: which of these is larger."""
    X = np.random.default_rng(seed).random((n, 2)).astype(np.float32)
    return X, ["left" if a > b else "right" for a, b in X.tolist()]


@pytest.fixture
def find():
    estimator = default_estimator().set_params(n_estimators=20)

    def find_doubtful(X, labels):
        return find_doubtful_labels(estimator, [str(i) for i in range(len(X))], labels, X)

    return find_doubtful


def test_wrong_labels_are_the_most_doubtful(find):
    X, labels = labelled(300)
    wrong = set(np.flatnonzero(abs(X[:, 0] - X[:, 1]) > 0.3)[::20].tolist())
    given = [
        {"left": "right", "right": "left"}[y] if i in wrong else y for i, y in enumerate(labels)
    ]
    found = find(X, given)
    assert {int(one.id) for one in found[: len(wrong)]} == wrong
    assert len(found) < 30
    assert [one.probability for one in found] == sorted(one.probability for one in found)
    for one in found[: len(wrong)]:
        assert (one.label, one.predicted) == (given[int(one.id)], labels[int(one.id)])


def test_labels_of_rare_classes_are_not_judged(find):
    X, labels = labelled()
    labels[:4] = ["rare"] * 4
    found = find(X, labels)
    assert "rare" not in {name for one in found for name in (one.label, one.predicted)}


def test_whole_numbers_are_judged_as_texts_are(find):
    X, labels = labelled()
    given = [int(label == "left") for label in labels]
    given[0] = 1 - given[0]
    names = ["right", "left"]
    assert [
        one._replace(label=names[one.label], predicted=names[one.predicted])
        for one in find(X, given)
    ] == (find(X, [names[label] for label in given]))


@pytest.mark.parametrize("labels", [[], ["left"], ["left", "left"], ["left", "right"]])
def test_too_few_labels_are_not_judged(find, labels):
    assert find(np.zeros((len(labels), 2), dtype=np.float32), labels) == []
